package hiveacid.write;

import hiveacid.versions.Sessions;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A data source to write ACID files with: {@code df.write.format("hiveacid.write.Sink")}.
 *
 * <p>Rows stay in the task and in the order they come in. Files go to one directory under names that no other attempt
 * has; {@link Written#take} says afterwards which ones count, those of the attempts that Spark has let commit.
 *
 * <p>Options: {@code path}; {@code id}, a name for the result; {@code row}, the data columns as Spark's JSON;
 * {@code mode} with those of {@link InsertWriter} ({@code insert}), {@link ChangeWriter} ({@code change}),
 * {@link MoveWriter} ({@code move}) or {@link EventWriter} ({@code events});
 * {@code compression} and {@code orc.*} as for Spark's ORC source.
 */
public final class Sink implements TableProvider {
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new Target();
  }

  private static final class Target implements Table, SupportsWrite {
    @Override
    public String name() {
      return "hive-acid staging";
    }

    @Override
    public Column[] columns() {
      return new Column[0];
    }

    /** What Spark 4.0 and older ask for in place of the columns. */
    @Deprecated
    @Override
    public StructType schema() {
      return new StructType();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return EnumSet.of(TableCapability.BATCH_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new WriteBuilder() {
        @Override
        public Write build() {
          return new ToFiles(info);
        }
      };
    }
  }

  private record ToFiles(LogicalWriteInfo info) implements Write, BatchWrite {
    @Override
    public BatchWrite toBatch() {
      return this;
    }

    @Override
    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
      CaseInsensitiveStringMap options = info.options();
      StructType row = (StructType) DataType.fromJson(options.get("row"));
      Fill.of(row); // an unknown type fails here, before any task
      Layout layout = new Layout(options.get("path"), row, hadoopConf(), options);
      return switch (options.get("mode")) {
        case "insert" -> InsertWriter.factory(layout, options);
        case "change" -> ChangeWriter.factory(layout, options);
        case "move" -> MoveWriter.factory(layout, options);
        case "events" -> EventWriter.factory(layout, options);
        default -> throw new IllegalArgumentException("mode " + options.get("mode"));
      };
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
      Written.finished(info.options().get("id"), messages);
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {
      // The whole directory is removed by whoever has asked for the write.
    }

    @Override
    public String description() {
      return "ACID files";
    }
  }

  private static Configuration hadoopConf() {
    return Sessions.hadoopConf(Sessions.active());
  }
}
