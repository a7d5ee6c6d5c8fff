package hiveacid.write;

import java.io.IOException;
import java.io.Serializable;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.orc.OrcConf;
import org.apache.orc.OrcFile;
import org.apache.orc.TypeDescription;
import org.apache.orc.mapred.OrcOutputFormat;
import org.apache.spark.sql.execution.datasources.orc.OrcUtils;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;

/** The files of one write: where they go, the columns of their rows, and the options of ORC's writer. */
public final class Layout implements Serializable {
  private static final long serialVersionUID = 1L;
  static final int MAX_BUCKET = 4095;

  final String directory;
  public final StructType row;
  private final String schema;
  private final SerializableConfiguration conf;

  /**
   * @param directory where the files of all tasks go, under names no other attempt has
   * @param row the data columns
   * @param conf Hadoop's configuration, a copy
   * @param options {@code orc.*} options and {@code compression}, as for Spark's own ORC source
   */
  public Layout(String directory, StructType row, Configuration conf, Map<String, String> options) {
    this.directory = directory;
    this.row = row;
    this.schema = OrcUtils.getOrcSchemaString(events(row));
    options.forEach(
        (key, value) -> {
          if (key.startsWith("orc.")) {
            conf.set(key, value);
          }
        });
    OrcConf.COMPRESS.setString(conf, codec(options.getOrDefault("compression", "zlib")));
    OrcConf.MAPRED_OUTPUT_SCHEMA.setString(conf, schema);
    this.conf = new SerializableConfiguration(conf);
  }

  /** The six columns of an ACID file. */
  public static StructType events(StructType row) {
    return new StructType()
        .add("operation", DataTypes.IntegerType)
        .add("originalTransaction", DataTypes.LongType)
        .add("bucket", DataTypes.IntegerType)
        .add("rowId", DataTypes.LongType)
        .add("currentTransaction", DataTypes.LongType)
        .add("row", row);
  }

  /** The six columns with nothing in the row, for those who want the identities alone. */
  public static TypeDescription withoutRow() {
    TypeDescription found = TypeDescription.createStruct();
    for (StructField column : events(new StructType()).fields()) {
      TypeDescription type =
          column.dataType() instanceof StructType
              ? TypeDescription.createStruct()
              : TypeDescription.fromString(column.dataType().simpleString());
      found.addField(column.name(), type);
    }
    return found;
  }

  /** Which columns of such a schema to read: those in front of the row. */
  public static boolean[] headerOf(TypeDescription schema) {
    boolean[] include = new boolean[schema.getMaximumId() + 1];
    Arrays.fill(include, 0, schema.getChildren().get(5).getId(), true);
    return include;
  }

  private static String codec(String name) {
    String upper = name.toUpperCase(Locale.ROOT);
    return upper.equals("UNCOMPRESSED") ? "NONE" : upper;
  }

  /** Hadoop's configuration with the options of the write. */
  public Configuration conf() {
    return conf.value();
  }

  /** The options that Spark's own source would give the writer of such a file. */
  OrcFile.WriterOptions options() {
    return OrcOutputFormat.buildOptions(conf());
  }

  /** The six columns as ORC has them. */
  public TypeDescription schema() {
    return TypeDescription.fromString(schema);
  }

  Path file(String name) {
    return new Path(directory, name);
  }

  /**
   * Where a file goes.
   *
   * @param name in staging
   * @param upload final name, under which it is uploaded instead, or null
   */
  Output output(String name, String upload) throws IOException {
    return upload == null ? new StagedOutput(file(name), this) : new UploadOutput(new Path(upload), conf());
  }

  /** Remove a finished file of this write, or its upload. */
  void delete(Written.Part part) throws IOException {
    if (part.upload().isEmpty()) {
      delete(part.file());
    } else {
      UploadOutput.abort(new Path(part.file()), part.upload(), conf());
    }
  }

  /** Remove a file of this write. */
  public void delete(String file) throws IOException {
    new Path(file).getFileSystem(conf()).delete(new Path(file), false);
  }

  long size(Path file) throws IOException {
    return file.getFileSystem(conf()).getFileStatus(file).getLen();
  }

  /** Value of the {@code bucket} column: version 1, bucket number and statement. */
  static int encode(int bucket, int statement) {
    if (bucket < 0 || bucket > MAX_BUCKET) {
      throw Failures.of(
          "InvalidArgumentsError",
          "the statement writes with more than 4096 tasks, and a directory holds no more buckets; add the hint "
              + "/*+ COALESCE(4096) */ to the query");
    }
    return 1 << 29 | bucket << 16 | statement;
  }

  /** Bucket number in a value of the {@code bucket} column, of version 1 or 0. */
  public static int decode(int value) {
    return value >>> 29 == 1 ? value >> 16 & MAX_BUCKET : value;
  }
}
