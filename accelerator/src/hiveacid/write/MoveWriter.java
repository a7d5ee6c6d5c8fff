package hiveacid.write;

import com.esotericsoftware.kryo.DefaultSerializer;
import com.esotericsoftware.kryo.serializers.JavaSerializer;
import hiveacid.versions.Sessions;
import java.io.IOException;
import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Rows that get into other partitions: where a row was it is deleted, and where it belongs now it is new. Both come from
 * the same row in the same task, as two rows: the group number, {@code keys} columns of text, the identity of the old row
 * (write id, bucket value, row number), the data columns. They are sorted by group, keys and identity.
 *
 * <p>The group of a row to be deleted is that of {@link ChangeWriter}; its keys and data are of no interest, and the key
 * of its file is the ordinal of its partition. A new row has the group -1, and its keys are the values of the partition
 * columns; those of a task are the bucket of its number in each partition, numbered from zero.
 *
 * <p>Options: {@code buckets}, {@code keys}, {@code writeId}, {@code statementId} of the new rows; {@code names}, the
 * {@link ChangeNames} of delete events, and {@code newNames}, the {@link FinalNames} of new rows, where files are uploaded
 * under their final names.
 */
final class MoveWriter implements DataWriter<InternalRow> {
  private static final int NEW = -1;
  private static final int FIRST_KEY = 1;

  private final Layout layout;
  private final Names names;
  private final Fill[] columns;
  private final int[] buckets;
  private final int keys;
  private final long writeId;
  private final int statementId;
  private final int task;
  private final String prefix;
  private final TaskFiles files;
  private int group = NEW;
  private UTF8String[] current;

  /** Names of both kinds of files; there may be a name for each partition, so executors get them once. */
  @DefaultSerializer(JavaSerializer.class)
  private record Names(ChangeNames deletes, FinalNames inserts) implements Serializable {}

  private MoveWriter(
      Layout layout, Names names, int[] buckets, int keys, long writeId, int statementId, int task, String prefix) {
    this.layout = layout;
    this.files = new TaskFiles(layout);
    this.names = names;
    this.columns = Fill.of(layout.row);
    this.buckets = buckets;
    this.keys = keys;
    this.writeId = writeId;
    this.statementId = statementId;
    this.task = task;
    this.prefix = prefix;
  }

  static DataWriterFactory factory(Layout layout, CaseInsensitiveStringMap options) {
    int[] buckets = Arrays.stream(options.get("buckets").split(",")).mapToInt(Integer::parseInt).toArray();
    int keys = options.getInt("keys", 0);
    long writeId = options.getLong("writeId", 0);
    int statementId = options.getInt("statementId", 0);
    Names names = new Names(ChangeNames.of(options.get("names")), FinalNames.of(options.get("newNames")));
    Broadcast<Names> sent = JavaSparkContext.fromSparkContext(Sessions.active().sparkContext()).broadcast(names);
    return (task, attempt) ->
        new MoveWriter(
            layout, sent.value(), buckets, keys, writeId, statementId, task, "part-" + task + "-" + attempt);
  }

  @Override
  public void write(InternalRow row) throws IOException {
    int next = row.getInt(0);
    if (next == NEW) {
      if (files.inserts == null || !sameKeys(row)) {
        startInserts(row);
      }
      files.inserts.add(row, FIRST_KEY + keys + 3);
      return;
    }
    if (files.deletes == null || next != group) {
      startDeletes(next);
    }
    files.deletes.add(row.getLong(FIRST_KEY + keys), row.getInt(FIRST_KEY + keys + 1), row.getLong(FIRST_KEY + keys + 2));
  }

  private boolean sameKeys(InternalRow row) {
    for (int i = 0; i < keys; i++) {
      if (!current[i].equals(row.getUTF8String(FIRST_KEY + i))) {
        return false;
      }
    }
    return true;
  }

  private void startInserts(InternalRow row) throws IOException {
    finish();
    current = new UTF8String[keys];
    for (int i = 0; i < keys; i++) {
      current[i] = row.getUTF8String(FIRST_KEY + i).clone();
    }
    String known = names.inserts() == null ? null : names.inserts().of(texts(), task);
    Output output = layout.output(prefix + "-new-" + files.finished() + ".orc", known);
    files.inserts = new InsertFile(layout, columns, output, task, statementId, writeId);
  }

  private void startDeletes(int next) throws IOException {
    finish();
    group = next;
    int bucket = buckets[group % buckets.length];
    Output output = layout.output(prefix + "-" + group + ".orc", names.deletes().ofDeletes(partition(), group, bucket));
    files.deletes = new DeleteFile(layout, output, bucket, writeId);
  }

  private int partition() {
    return group / buckets.length;
  }

  private String[] texts() {
    return Arrays.stream(current).map(UTF8String::toString).toArray(String[]::new);
  }

  private void finish() throws IOException {
    if (files.inserts != null) {
      files.finishInserts(texts());
    }
    files.finishDeletes(Integer.toString(partition()));
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    finish();
    return files.written(null);
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
