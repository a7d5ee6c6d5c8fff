package hiveacid.write;

import java.io.IOException;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * New rows: the data columns of {@code row}, then {@code keys} columns of text by which the rows are sorted. A task
 * writes one file per key, all of them as the bucket of its own number plus {@code offset}; row numbers start at zero.
 *
 * <p>Options: {@code keys}, {@code offset}, {@code writeId}, {@code statementId}; {@code names}, the {@link FinalNames},
 * where files are uploaded under them.
 */
final class InsertWriter implements DataWriter<InternalRow> {
  private final Layout layout;
  private final FinalNames names;
  private final Fill[] columns;
  private final int keys;
  private final long writeId;
  private final int statementId;
  private final int bucket;
  private final String prefix;
  private final TaskFiles files;
  private UTF8String[] current;

  private InsertWriter(
      Layout layout, FinalNames names, int keys, long writeId, int statementId, int bucket, String prefix) {
    this.layout = layout;
    this.files = new TaskFiles(layout);
    this.names = names;
    this.columns = Fill.of(layout.row);
    this.keys = keys;
    this.writeId = writeId;
    this.statementId = statementId;
    this.bucket = bucket;
    this.prefix = prefix;
  }

  static DataWriterFactory factory(Layout layout, CaseInsensitiveStringMap options) {
    int keys = options.getInt("keys", 0);
    int offset = options.getInt("offset", 0);
    long writeId = options.getLong("writeId", 0);
    int statementId = options.getInt("statementId", 0);
    FinalNames names = FinalNames.of(options.get("names"));
    return (task, attempt) ->
        new InsertWriter(layout, names, keys, writeId, statementId, task + offset, "part-" + task + "-" + attempt);
  }

  @Override
  public void write(InternalRow row) throws IOException {
    if (files.inserts == null || keys > 0 && !sameKeys(row)) {
      next(row);
    }
    files.inserts.add(row, 0);
  }

  private boolean sameKeys(InternalRow row) {
    for (int i = 0; i < keys; i++) {
      if (!current[i].equals(row.getUTF8String(columns.length + i))) {
        return false;
      }
    }
    return true;
  }

  private void next(InternalRow row) throws IOException {
    finish();
    current = new UTF8String[keys];
    for (int i = 0; i < keys; i++) {
      current[i] = row.getUTF8String(columns.length + i).clone();
    }
    String known = names == null ? null : names.of(texts(), bucket);
    Output output = layout.output(prefix + "-" + files.finished() + ".orc", known);
    files.inserts = new InsertFile(layout, columns, output, bucket, statementId, writeId);
  }

  private String[] texts() {
    return Arrays.stream(current).map(UTF8String::toString).toArray(String[]::new);
  }

  private void finish() throws IOException {
    if (files.inserts != null) {
      files.finishInserts(texts());
    }
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
