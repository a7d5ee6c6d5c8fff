package hiveacid.write;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;

/** A file of new rows, numbered from zero. */
final class InsertFile {
  private final AcidFile file;
  private final RowBatch batch;
  private final long writeId;
  private final int bucketValue;
  private long number;

  InsertFile(Layout layout, Fill[] columns, Output output, int bucket, int statementId, long writeId) throws IOException {
    this.writeId = writeId;
    this.bucketValue = Layout.encode(bucket, statementId);
    file = new AcidFile(layout, output, bucket, AcidFile.INSERT);
    batch = new RowBatch(layout, columns, file);
  }

  /** Add the row whose data columns start at {@code first}. */
  void add(InternalRow row, int first) throws IOException {
    batch.add(row, first);
    if (batch.isFull()) {
      flush();
    }
  }

  private void flush() throws IOException {
    if (batch.size() == 0) {
      return;
    }
    batch.constant(0, AcidFile.INSERT);
    batch.constant(1, writeId);
    batch.constant(2, bucketValue);
    batch.constant(4, writeId);
    long[] numbers = batch.longs(3);
    for (int i = 0; i < batch.size(); i++) {
      numbers[i] = number + i;
    }
    long last = number + batch.size() - 1;
    file.write(batch.vectors, writeId, bucketValue, number, writeId, bucketValue, last);
    number = last + 1;
    batch.reset();
  }

  Written.Part finish(String... keys) throws IOException {
    flush();
    return file.finish(keys);
  }

  void discard() throws IOException {
    file.discard();
  }

  void close() throws IOException {
    file.close();
  }
}
