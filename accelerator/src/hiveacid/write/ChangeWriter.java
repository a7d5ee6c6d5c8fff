package hiveacid.write;

import hiveacid.versions.Sessions;
import java.io.IOException;
import java.util.Arrays;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.roaringbitmap.longlong.Roaring64Bitmap;

/**
 * Rows that are deleted or changed, sorted by group and identity: the group number, the row's identity (write id, bucket
 * value, row number), what becomes of it, where rows change the data columns after the change, and for a MERGE the number
 * of the source row that it matched.
 *
 * <p>A group is a bucket of a partition: partition times the number of {@code buckets}, plus the position of the bucket
 * among them. It gets a file of delete events; the new versions of all rows of a partition get one file per task, as the
 * bucket of the task's number. The key of a file is the ordinal of its partition.
 *
 * <p>Options: {@code buckets}, the bucket numbers; {@code writeId}; {@code statementId} of the new rows, absent when rows
 * are only deleted; {@code matched}, whether there are source rows: what they did not match, {@link Written#unmatched}
 * tells; {@code names}, the {@link ChangeNames}, where files are uploaded under their final names.
 */
final class ChangeWriter implements DataWriter<InternalRow> {
  /** What becomes of a row: nothing (it only counts as a match), or one of these. */
  private static final int DELETED = 1;

  private static final int CHANGED = 2;
  private static final int ACTION = 4;
  private static final int FIRST_COLUMN = 5;

  private final Layout layout;
  private final ChangeNames names;
  private final Fill[] columns;
  private final int[] buckets;
  private final long writeId;
  private final int statementId;
  private final int task;
  private final String prefix;
  private final Roaring64Bitmap matched;
  private final TaskFiles files;
  private int group = -1;
  private int partition = -1;
  private long rowWriteId;
  private int rowBucket;
  private long rowNumber;
  private int times;

  private ChangeWriter(
      Layout layout, ChangeNames names, int[] buckets, long writeId, int statementId, boolean matched, int task,
      String prefix) {
    this.layout = layout;
    this.files = new TaskFiles(layout);
    this.names = names;
    this.columns = Fill.of(layout.row);
    this.buckets = buckets;
    this.writeId = writeId;
    this.statementId = statementId;
    this.task = task;
    this.prefix = prefix;
    this.matched = matched ? new Roaring64Bitmap() : null;
  }

  static DataWriterFactory factory(Layout layout, CaseInsensitiveStringMap options) {
    int[] buckets = Arrays.stream(options.get("buckets").split(",")).mapToInt(Integer::parseInt).toArray();
    long writeId = options.getLong("writeId", 0);
    int statementId = options.getInt("statementId", -1);
    boolean matched = options.getBoolean("matched", false);
    // Executors get them once: there is a name for each partition.
    Broadcast<ChangeNames> names =
        JavaSparkContext.fromSparkContext(Sessions.active().sparkContext())
            .broadcast(ChangeNames.of(options.get("names")));
    return (task, attempt) ->
        new ChangeWriter(
            layout, names.value(), buckets, writeId, statementId, matched, task, "part-" + task + "-" + attempt);
  }

  @Override
  public void write(InternalRow row) throws IOException {
    if (matched != null) {
      matched.addLong(row.getLong(FIRST_COLUMN + (statementId >= 0 ? columns.length : 0)));
    }
    if (isSameRow(row)) {
      times++;
      return;
    }
    checkOnce();
    if (row.getInt(0) != group) {
      startGroup(row.getInt(0));
    }
    rowWriteId = row.getLong(1);
    rowBucket = row.getInt(2);
    rowNumber = row.getLong(3);
    times = 1;
    int action = row.getInt(ACTION);
    if (action == DELETED || action == CHANGED) {
      if (files.deletes == null) {
        int bucket = buckets[group % buckets.length];
        Output output = layout.output(prefix + "-" + group + ".orc", names.ofDeletes(partition, group, bucket));
        files.deletes = new DeleteFile(layout, output, bucket, writeId);
      }
      files.deletes.add(rowWriteId, rowBucket, rowNumber);
    }
    if (action == CHANGED) {
      if (files.inserts == null) {
        Output output = layout.output(prefix + "-new-" + partition + ".orc", names.ofInserts(partition, task));
        files.inserts = new InsertFile(layout, columns, output, task, statementId, writeId);
      }
      files.inserts.add(row, FIRST_COLUMN);
    }
  }

  private boolean isSameRow(InternalRow row) {
    return times > 0
        && row.getInt(0) == group
        && row.getLong(3) == rowNumber
        && row.getInt(2) == rowBucket
        && row.getLong(1) == rowWriteId;
  }

  /** Two delete events for one row can make Hive lose other deletes (R18): the row must have come once. */
  private void checkOnce() {
    if (times > 1) {
      // Read by merge.py, which knows the names of table and partition.
      throw new IllegalStateException(
          "[hive-acid cardinality] " + partition + " " + rowWriteId + " " + rowBucket + " " + rowNumber + " " + times);
    }
  }

  private void startGroup(int next) throws IOException {
    files.finishDeletes(Integer.toString(partition));
    if (next / buckets.length != partition) {
      files.finishInserts(Integer.toString(partition));
      partition = next / buckets.length;
    }
    group = next;
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    checkOnce();
    files.finishDeletes(Integer.toString(partition));
    files.finishInserts(Integer.toString(partition));
    return files.written(matched);
  }

  @Override
  public void abort() throws IOException {
    files.abort();
  }

  @Override
  public void close() throws IOException {
    files.close();
  }
}
