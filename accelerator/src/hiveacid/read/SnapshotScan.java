package hiveacid.read;

import hiveacid.read.ScanSpec.Output;
import hiveacid.versions.Broadcasts;
import hiveacid.versions.Sessions;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;

/** A scan as planned: splits of files, packed into tasks the way Spark packs those of its own file sources. */
final class SnapshotScan implements SupportsReportStatistics, Batch {
  private final SnapshotTable table;
  private final StructType schema;
  private final List<Output> columns;
  private final List<DataFile> files;
  private final List<Filter> filters;
  private final int counts;

  SnapshotScan(
      SnapshotTable table,
      StructType schema,
      List<Output> columns,
      List<DataFile> files,
      List<Filter> filters,
      int counts) {
    this.table = table;
    this.schema = schema;
    this.columns = columns;
    this.files = files;
    this.filters = filters;
    this.counts = counts;
  }

  /** Equal scans of one query are run once; of one snapshot only, so that files are compared by their list alone. */
  @Override
  public boolean equals(Object other) {
    return other instanceof SnapshotScan scan
        && scan.table == table
        && scan.schema.equals(schema)
        && scan.files.equals(files)
        && scan.filters.equals(filters)
        && scan.counts == counts;
  }

  @Override
  public int hashCode() {
    return Objects.hash(table, schema, filters, counts);
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    return "hive-acid " + table.name() + ", " + files.size() + " files"
        + (counts > 0 ? ", counted by their footers" : "") + ", row groups skipped by " + filters;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  /** All readers give columns, so Spark need not plan the tasks to find out. */
  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return Metrics.supported();
  }

  /** As Spark estimates its own file sources: bytes of the files, by the share of the columns read. */
  @Override
  public Statistics estimateStatistics() {
    double bytes = Sessions.conf(table.spark).fileCompressionFactor();
    double all = table.spec.row.defaultSize();
    long total = 0;
    for (DataFile file : files) {
      total += file.size();
    }
    long estimate = (long) (bytes * total * Math.min(1, (schema.defaultSize() + 1) / (all + 1)));
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(Math.max(1, estimate));
      }

      @Override
      public OptionalLong numRows() {
        return OptionalLong.empty();
      }
    };
  }

  @Override
  public InputPartition[] planInputPartitions() {
    SQLConf conf = Sessions.conf(table.spark);
    int parallelism =
        conf.filesMinPartitionNum().isDefined()
            ? (Integer) conf.filesMinPartitionNum().get()
            : Sessions.parallelism(table.spark);
    return counts > 0
        ? whole(Math.max(1, parallelism))
        : packed(conf.filesMaxPartitionBytes(), conf.filesOpenCostInBytes(), Math.max(1, parallelism));
  }

  /** For counting: whole files, dealt out. Even without files one task says 0. */
  private InputPartition[] whole(int parallelism) {
    int tasks = Math.max(1, Math.min(parallelism, files.size()));
    List<Splits> dealt = new ArrayList<>();
    for (int i = 0; i < tasks; i++) {
      dealt.add(new Splits(new ArrayList<>()));
    }
    for (int i = 0; i < files.size(); i++) {
      dealt.get(i % tasks).splits().add(split(files.get(i), 0, Long.MAX_VALUE));
    }
    return dealt.toArray(new InputPartition[0]);
  }

  private InputPartition[] packed(long largest, long openCost, int parallelism) {
    long total = 0;
    for (DataFile file : files) {
      total += file.size() + openCost;
    }
    long limit = Math.min(largest, Math.max(openCost, total / parallelism));
    List<Split> splits = new ArrayList<>();
    for (DataFile file : files) {
      for (long start = 0; start < file.size(); start += limit) {
        splits.add(split(file, start, Math.min(limit, file.size() - start)));
      }
    }
    // Largest first, and those that share delete events side by side.
    splits.sort(
        Comparator.comparingLong((Split s) -> -s.length())
            .thenComparingInt(s -> s.file().partition())
            .thenComparingInt(s -> s.file().bucket()));
    List<Splits> packed = new ArrayList<>();
    List<Split> current = new ArrayList<>();
    long size = 0;
    for (Split split : splits) {
      if (size + split.length() > limit && !current.isEmpty()) {
        packed.add(new Splits(current));
        current = new ArrayList<>();
        size = 0;
      }
      current.add(split);
      size += split.length() + openCost;
    }
    if (!current.isEmpty()) {
      packed.add(new Splits(current));
    }
    return packed.toArray(new InputPartition[0]);
  }

  private Split split(DataFile file, long start, long length) {
    return new Split(file, start, length, table.values(file), table.deletes(file));
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    Configuration conf = Sessions.hadoopConf(table.spark);
    int batchSize = Sessions.conf(table.spark).orcVectorizedReaderBatchSize();
    return new ReaderFactory(
        table.spec,
        columns,
        filters,
        counts,
        batchSize,
        Broadcasts.of(table.spark.sparkContext(), conf));
  }
}
