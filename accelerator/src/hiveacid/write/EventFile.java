package hiveacid.write;

import java.io.IOException;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.spark.sql.catalyst.InternalRow;

/** A file of events that have their identities already, and come sorted by them: insert or delete events of one bucket. */
final class EventFile {
  private static final int FIRST_COLUMN = 4;

  private final AcidFile file;
  private final RowBatch batch;
  private final int operation;
  private final long[] writeIds;
  private final long[] buckets;
  private final long[] numbers;
  private final long[] current;
  private long lastWriteId = Long.MIN_VALUE;
  private int lastBucket;
  private long lastNumber;

  /** @param columns of the rows; none for delete events, whose rows are null */
  EventFile(Layout layout, Fill[] columns, Output output, int bucket, int operation) throws IOException {
    this.operation = operation;
    file = new AcidFile(layout, output, bucket, operation);
    batch = new RowBatch(layout, columns, file);
    writeIds = batch.longs(1);
    buckets = batch.longs(2);
    numbers = batch.longs(3);
    current = batch.longs(4);
  }

  /** Add an event: write id, bucket value and number of its row, the write id that made it, the data columns. */
  void add(InternalRow event) throws IOException {
    long writeId = event.getLong(0);
    int bucketValue = event.getInt(1);
    long number = event.getLong(2);
    if (Layout.decode(bucketValue) != file.bucket()) {
      throw Failures.of(
          "JobFailedError",
          "an event about a row of bucket " + Layout.decode(bucketValue) + " came to the file of bucket " + file.bucket()
              + "; a file must hold one bucket, so nothing is published");
    }
    // Delete events of two transactions may be about one row.
    if (AcidFile.compare(lastWriteId, lastBucket, lastNumber, writeId, bucketValue, number) > 0) {
      throw Failures.of(
          "JobFailedError",
          "the event of row (" + writeId + ", " + bucketValue + ", " + number + ") came after that of (" + lastWriteId
              + ", " + lastBucket + ", " + lastNumber + "); nothing is published");
    }
    lastWriteId = writeId;
    lastBucket = bucketValue;
    lastNumber = number;
    int at = batch.size();
    writeIds[at] = writeId;
    buckets[at] = bucketValue;
    numbers[at] = number;
    current[at] = event.getLong(3);
    batch.add(event, FIRST_COLUMN);
    if (batch.isFull()) {
      flush();
    }
  }

  private void flush() throws IOException {
    int last = batch.size() - 1;
    if (last < 0) {
      return;
    }
    batch.constant(0, operation);
    if (operation == AcidFile.DELETE) {
      // The row is a null struct, not a struct of nulls.
      ColumnVector row = batch.vectors.cols[5];
      row.isRepeating = true;
      row.noNulls = false;
      row.isNull[0] = true;
    }
    file.write(
        batch.vectors, writeIds[0], (int) buckets[0], numbers[0], writeIds[last], (int) buckets[last], numbers[last]);
    batch.reset();
  }

  Written.Part finish() throws IOException {
    flush();
    return file.finish(new String[0]);
  }

  void discard() throws IOException {
    file.discard();
  }

  void close() throws IOException {
    file.close();
  }
}
