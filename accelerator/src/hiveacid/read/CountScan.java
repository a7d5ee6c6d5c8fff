package hiveacid.read;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/** count(*) of a few files: the driver reads their footers itself, without a job. */
final class CountScan implements LocalScan {
  /** A footer costs the driver about a millisecond; many are better read by tasks. */
  static final int MOST_FILES = 256;

  private static final int THREADS = 8;

  private final SnapshotTable table;
  private final StructType schema;
  private final List<DataFile> files;

  CountScan(SnapshotTable table, StructType schema, List<DataFile> files) {
    this.table = table;
    this.schema = schema;
    this.files = files;
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    return "hive-acid " + table.name() + ", " + files.size() + " files, counted by their footers";
  }

  @Override
  public InternalRow[] rows() {
    Object[] counts = new Object[schema.size()];
    Arrays.fill(counts, count());
    return new InternalRow[] {new GenericInternalRow(counts)};
  }

  private long count() {
    Configuration conf = table.spark.sessionState().newHadoopConf();
    ExecutorService pool = Executors.newFixedThreadPool(Math.max(1, Math.min(THREADS, files.size())));
    try {
      List<Callable<Long>> tasks = new ArrayList<>();
      for (DataFile file : files) {
        tasks.add(() -> rows(file, conf));
      }
      long total = 0;
      for (Future<Long> found : pool.invokeAll(tasks)) {
        total += found.get();
      }
      return total;
    } catch (ExecutionException failure) {
      throw failure.getCause() instanceof RuntimeException known ? known : new IllegalStateException(failure);
    } catch (InterruptedException cancelled) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(cancelled);
    } finally {
      pool.shutdownNow();
    }
  }

  private long rows(DataFile file, Configuration conf) throws Exception {
    try (EventFile open = EventFile.open(file, conf, table.spec.operation)) {
      return open.rows(0, Long.MAX_VALUE);
    }
  }
}
