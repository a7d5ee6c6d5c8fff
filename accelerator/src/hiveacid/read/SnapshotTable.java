package hiveacid.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import hiveacid.versions.Sessions;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** The listed files of a snapshot as a table of Spark's. */
public final class SnapshotTable implements SupportsRead {
  final SparkSession spark;
  final ScanSpec spec;
  final List<DataFile> files = new ArrayList<>();
  private final List<InternalRow> partitionValues = new ArrayList<>();
  private final Map<Long, DeleteGroup> groups = new HashMap<>();

  private SnapshotTable(SparkSession spark, JsonNode document) {
    this.spark = spark;
    spec = new ScanSpec(UUID.randomUUID().toString(), document);
    List<String[]> names = new ArrayList<>();
    for (JsonNode list : document.get("names")) {
      String[] found = new String[list.size()];
      for (int i = 0; i < found.length; i++) {
        found[i] = list.get(i).asText();
      }
      names.add(found);
    }
    for (JsonNode entry : document.get("files")) {
      files.add(file(entry, names));
    }
    for (JsonNode entry : document.get("deletes")) {
      DataFile file = file(entry, names);
      groups
          .computeIfAbsent(
              key(file), k -> new DeleteGroup(spec.id, file.partition(), file.bucket(), new ArrayList<>()))
          .files()
          .add(file);
    }
    readPartitions(document);
  }

  /**
   * A snapshot as a DataFrame.
   *
   * @param document what {@code spark/read/fast_reader.py} writes
   */
  public static Dataset<Row> frame(SparkSession spark, String document) throws IOException {
    SnapshotTable table = new SnapshotTable(spark, new ObjectMapper().readTree(document));
    return Sessions.rows(spark, table);
  }

  private static DataFile file(JsonNode entry, List<String[]> names) {
    int renamed = entry.get(6).asInt();
    return new DataFile(
        entry.get(0).asText(),
        entry.get(1).asLong(),
        entry.get(2).asInt(),
        entry.get(3).asInt(),
        entry.get(4).asBoolean(),
        entry.get(5).asBoolean(),
        renamed < 0 ? null : names.get(renamed));
  }

  /** Catalog texts as typed values; what does not fit a column's type is NULL, as in Hive. */
  private void readPartitions(JsonNode document) {
    List<DataType> types = new ArrayList<>();
    for (JsonNode type : document.get("partition_types")) {
      types.add(DataType.fromJson(type.toString()));
    }
    for (JsonNode texts : document.get("partitions")) {
      Object[] values = new Object[types.size()];
      for (int i = 0; i < values.length; i++) {
        if (!texts.get(i).isNull()) {
          Literal text = new Literal(UTF8String.fromString(texts.get(i).asText()), DataTypes.StringType);
          values[i] = new Cast(text, types.get(i), Option.apply("UTC"), EvalMode$.MODULE$.TRY()).eval(null);
        }
      }
      partitionValues.add(new GenericInternalRow(values));
    }
  }

  private static long key(DataFile file) {
    return ((long) file.partition() << 32) | file.bucket();
  }

  InternalRow values(DataFile file) {
    return partitionValues.get(file.partition());
  }

  /** Delete events that may hit rows of a file, or null. */
  DeleteGroup deletes(DataFile file) {
    return file.deletes() ? groups.get(key(file)) : null;
  }

  @Override
  public String name() {
    return spec.table;
  }

  @Override
  public Column[] columns() {
    return spec.outputs.stream().map(o -> Column.create(o.name(), o.type(), true)).toArray(Column[]::new);
  }

  /** What Spark 4.0 and older ask for in place of the columns. */
  @Deprecated
  @Override
  public StructType schema() {
    return spec.schema();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new SnapshotScanBuilder(this);
  }
}
