package hiveacid.write;

import java.io.IOException;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;

/** A file of delete events, which come sorted by the identity of their rows. */
final class DeleteFile {
  private final AcidFile file;
  private final VectorizedRowBatch batch;
  private final long[] writeIds;
  private final long[] buckets;
  private final long[] numbers;
  private final long writeId;
  private long lastWriteId = Long.MIN_VALUE;
  private int lastBucket;
  private long lastNumber;

  /** @param writeId of the statement that deletes */
  DeleteFile(Layout layout, Output output, int bucket, long writeId) throws IOException {
    this.writeId = writeId;
    file = new AcidFile(layout, output, bucket, AcidFile.DELETE);
    batch = file.newBatch();
    writeIds = ((LongColumnVector) batch.cols[1]).vector;
    buckets = ((LongColumnVector) batch.cols[2]).vector;
    numbers = ((LongColumnVector) batch.cols[3]).vector;
    constant(0, AcidFile.DELETE);
    constant(4, writeId);
    // The row is a null struct, not a struct of nulls.
    batch.cols[5].isRepeating = true;
    batch.cols[5].noNulls = false;
    batch.cols[5].isNull[0] = true;
  }

  private void constant(int column, long value) {
    LongColumnVector vector = (LongColumnVector) batch.cols[column];
    vector.isRepeating = true;
    vector.vector[0] = value;
  }

  void add(long originalWriteId, int bucketValue, long rowNumber) throws IOException {
    if (Layout.decode(bucketValue) != file.bucket()) {
      throw Failures.of(
          "JobFailedError",
          "a delete event for a row of bucket " + Layout.decode(bucketValue) + " came to the file of bucket "
              + file.bucket() + " (write id " + writeId + "); nothing is published");
    }
    if (AcidFile.compare(originalWriteId, bucketValue, rowNumber, lastWriteId, lastBucket, lastNumber) <= 0) {
      // Two delete events for one row can make Hive lose other deletes (R18).
      throw Failures.of(
          "JobFailedError",
          "the delete event of row (" + originalWriteId + ", " + bucketValue + ", " + rowNumber + ") came after that of ("
              + lastWriteId + ", " + lastBucket + ", " + lastNumber + "); nothing is published");
    }
    lastWriteId = originalWriteId;
    lastBucket = bucketValue;
    lastNumber = rowNumber;
    int at = batch.size++;
    writeIds[at] = originalWriteId;
    buckets[at] = bucketValue;
    numbers[at] = rowNumber;
    if (batch.size == VectorizedRowBatch.DEFAULT_SIZE) {
      flush();
    }
  }

  private void flush() throws IOException {
    int last = batch.size - 1;
    if (last >= 0) {
      file.write(
          batch, writeIds[0], (int) buckets[0], numbers[0], writeIds[last], (int) buckets[last], numbers[last]);
      batch.size = 0;
    }
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
