package hiveacid.compact;

import hiveacid.write.AcidFile;
import java.io.IOException;
import java.util.Comparator;
import java.util.Map;
import java.util.NavigableMap;
import java.util.PriorityQueue;
import java.util.TreeMap;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;

/**
 * The delete events of one bucket, as compressed bitmaps: about two bytes an event. Their files may all be about the same
 * rows, so they cannot be copied one after the other as those of rows can, and an open file costs a megabyte; here each
 * is read and closed, so it does not matter how many there are.
 */
final class DeleteEvents {
  /** Rows of one write id and bucket value, by the upper half of their numbers. */
  private record Rows(long writeId, int bucket, long upper) implements Comparable<Rows> {
    @Override
    public int compareTo(Rows other) {
      return AcidFile.compare(writeId, bucket, upper, other.writeId, other.bucket, other.upper);
    }
  }

  /** The rows that one txn deleted, as far as they are not written yet. */
  private record Left(long deleter, PeekableIntIterator numbers) {
    static int order(Left one, Left other) {
      int order = Integer.compareUnsigned(one.numbers.peekNext(), other.numbers.peekNext());
      // Of two events about one row the later comes first.
      return order == 0 ? Long.compare(other.deleter, one.deleter) : order;
    }
  }

  private final boolean byDeleter;
  private final NavigableMap<Rows, NavigableMap<Long, RoaringBitmap>> found = new TreeMap<>();
  private Rows current;
  private PeekableIntIterator ahead;

  /** @param byDeleter whether it matters who deleted a row */
  DeleteEvents(boolean byDeleter) {
    this.byDeleter = byDeleter;
  }

  boolean isEmpty() {
    return found.isEmpty();
  }

  /** Take in all events of a file. */
  void add(Events events) throws IOException {
    Rows rows = null;
    long deleter = 0;
    RoaringBitmap bitmap = null;
    for (events.open(); !events.hasEnded(); events.advanceTo(events.count())) {
      for (int at = events.position(); at < events.count(); at++) {
        long writeId = events.writeId(at);
        int bucket = events.bucketValue(at);
        long number = events.rowNumber(at);
        long by = byDeleter ? events.current(at) : 0;
        if (rows == null
            || rows.writeId != writeId
            || rows.bucket != bucket
            || rows.upper != number >>> 32
            || deleter != by) {
          rows = new Rows(writeId, bucket, number >>> 32);
          deleter = by;
          bitmap =
              found
                  .computeIfAbsent(rows, key -> new TreeMap<>(Comparator.reverseOrder()))
                  .computeIfAbsent(by, key -> new RoaringBitmap());
        }
        bitmap.add((int) number);
      }
    }
  }

  /** Whether a row is deleted. Asked in ascending order of rows, and only where deleters do not matter. */
  boolean isDeleted(long writeId, int bucket, long number) {
    if (current == null
        || current.writeId != writeId
        || current.bucket != bucket
        || current.upper != number >>> 32) {
      current = new Rows(writeId, bucket, number >>> 32);
      Map<Long, RoaringBitmap> bitmaps = found.get(current);
      ahead = bitmaps == null ? null : bitmaps.get(0L).getIntIterator();
    }
    if (ahead == null) {
      return false;
    }
    if (ahead.hasNext() && Integer.compareUnsigned(ahead.peekNext(), (int) number) < 0) {
      ahead.advanceIfNeeded((int) number);
    }
    if (!ahead.hasNext()) {
      ahead = null;
      return false;
    }
    return ahead.peekNext() == (int) number;
  }

  /** The row of delete events: a null struct, not a struct of nulls. */
  static ColumnVector noRow(AcidFile file) {
    ColumnVector row = file.newBatch().cols[5];
    row.isRepeating = true;
    row.noNulls = false;
    row.isNull[0] = true;
    return row;
  }

  /** Write the events in their order. */
  void writeTo(AcidFile file) throws IOException {
    Output output = new Output(file);
    for (Map.Entry<Rows, NavigableMap<Long, RoaringBitmap>> entry : found.entrySet()) {
      Rows rows = entry.getKey();
      PriorityQueue<Left> lefts = new PriorityQueue<>(Left::order);
      entry.getValue().forEach((deleter, bitmap) -> lefts.add(new Left(deleter, bitmap.getIntIterator())));
      for (Left left = lefts.poll(); left != null; left = lefts.poll()) {
        long number = rows.upper << 32 | Integer.toUnsignedLong(left.numbers.next());
        output.add(rows.writeId, rows.bucket, number, left.deleter);
        if (left.numbers.hasNext()) {
          lefts.add(left);
        }
      }
    }
    output.flush();
  }

  private static final class Output {
    private final AcidFile file;
    private final VectorizedRowBatch batch;
    private final long[][] columns = new long[5][];

    Output(AcidFile file) {
      this.file = file;
      batch = file.newBatch();
      for (int i = 0; i < columns.length; i++) {
        columns[i] = ((LongColumnVector) batch.cols[i]).vector;
      }
      batch.cols[0].isRepeating = true;
      columns[0][0] = AcidFile.DELETE;
      batch.cols[5] = noRow(file);
    }

    void add(long writeId, int bucket, long number, long deleter) throws IOException {
      int at = batch.size++;
      columns[1][at] = writeId;
      columns[2][at] = bucket;
      columns[3][at] = number;
      columns[4][at] = deleter;
      if (batch.size == batch.getMaxSize()) {
        flush();
      }
    }

    void flush() throws IOException {
      int last = batch.size - 1;
      if (last >= 0) {
        file.write(
            batch,
            columns[1][0], (int) columns[2][0], columns[3][0],
            columns[1][last], (int) columns[2][last], columns[3][last]);
        batch.size = 0;
      }
    }
  }
}
