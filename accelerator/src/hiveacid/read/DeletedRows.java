package hiveacid.read;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;
import org.roaringbitmap.RoaringBitmapWriter;

/**
 * The rows of one bucket that delete events name, as compressed bitmaps: about two bytes per row when few of many rows
 * are deleted, a bit when many are.
 */
final class DeletedRows {
  private static final int BATCH = 4096;
  private static final boolean[] WITHOUT_CURRENT = {true, true, true, true, false};
  private static final boolean[] ALL = {true, true, true, true, true};

  /** Row numbers of one write id and bucket value, by their upper 32 bits. */
  private record Key(long writeId, long bucket, long upper) {}

  private final Map<Key, RoaringBitmap> rows = new HashMap<>();

  /** Read all events of the group that the snapshot sees. */
  static DeletedRows load(DeleteGroup group, ScanSpec spec, Configuration conf) {
    DeletedRows found = new DeletedRows();
    Map<Key, RoaringBitmapWriter<RoaringBitmap>> writers = new HashMap<>();
    for (DataFile file : group.files()) {
      found.load(file, spec, conf, writers);
    }
    writers.forEach((key, writer) -> found.rows.put(key, writer.get()));
    return found;
  }

  private void load(
      DataFile file, ScanSpec spec, Configuration conf, Map<Key, RoaringBitmapWriter<RoaringBitmap>> writers) {
    try (EventFile events = EventFile.open(file, conf, 2)) {
      if (events.rows(0, Long.MAX_VALUE) == 0) {
        return;
      }
      events.start(file.check() ? ALL : WITHOUT_CURRENT, null, null, 0, Long.MAX_VALUE, BATCH);
      Key key = null;
      RoaringBitmapWriter<RoaringBitmap> writer = null;
      for (int size = events.next(); size > 0; size = events.next()) {
        HeaderColumn writeIds = events.header(OrcTypes.ORIGINAL);
        HeaderColumn buckets = events.header(OrcTypes.BUCKET);
        HeaderColumn numbers = events.header(OrcTypes.ROW_NUMBER);
        HeaderColumn current = events.header(OrcTypes.CURRENT);
        for (int i = 0; i < size; i++) {
          if (file.check() && !spec.sees(current.at(i))) {
            continue;
          }
          long writeId = writeIds.at(i);
          long bucket = buckets.at(i);
          long number = numbers.at(i);
          if (key == null || key.writeId != writeId || key.bucket != bucket || key.upper != number >>> 32) {
            key = new Key(writeId, bucket, number >>> 32);
            writer = writers.computeIfAbsent(key, k -> RoaringBitmapWriter.writer().get());
          }
          writer.add((int) number);
        }
      }
    } catch (IOException failure) {
      throw Failures.whileReading(file.uri(), failure);
    }
  }

  boolean isEmpty() {
    return rows.isEmpty();
  }

  /** How many rows of a write id and bucket value are deleted, of those with the numbers from first to last. */
  long count(long writeId, long bucket, long first, long last) {
    long found = 0;
    for (long upper = first >>> 32; upper <= last >>> 32; upper++) {
      RoaringBitmap bitmap = rows.get(new Key(writeId, bucket, upper));
      if (bitmap != null) {
        long from = Math.max(first, upper << 32) - (upper << 32);
        long to = Math.min(last, (upper << 32) + 0xFFFFFFFFL) - (upper << 32);
        found += bitmap.rangeCardinality(from, to + 1);
      }
    }
    return found;
  }

  /** A reader of one file asks for its rows in file order, which is ascending: it walks along the bitmaps. */
  Cursor cursor() {
    return new Cursor();
  }

  /** Where a reader is. No row number in [low, next) of the current key is deleted. */
  final class Cursor {
    private long writeId;
    private long bucket;
    private long upper = -1;
    private long low;
    private long next;
    private RoaringBitmap bitmap;
    private PeekableIntIterator ahead;

    /**
     * Which rows of a batch are left: those that no delete event names, or the others.
     *
     * @param candidates rows to look at, or null for the first {@code count}
     * @param left gets them; may be {@code candidates}
     * @param wanted whether those that are deleted are left
     * @return how many those are
     */
    int retain(
        HeaderColumn writeIds,
        HeaderColumn buckets,
        HeaderColumn numbers,
        int[] candidates,
        int count,
        int[] left,
        boolean wanted) {
      int found = 0;
      for (int k = 0; k < count; k++) {
        int i = candidates == null ? k : candidates[k];
        if (isDeleted(writeIds.at(i), buckets.at(i), numbers.at(i)) == wanted) {
          left[found++] = i;
        }
      }
      return found;
    }

    private boolean isDeleted(long ofWriteId, long ofBucket, long number) {
      if (number >= low && number < next && ofWriteId == writeId && ofBucket == bucket) {
        return false;
      }
      if (number >>> 32 != upper || ofWriteId != writeId || ofBucket != bucket) {
        writeId = ofWriteId;
        bucket = ofBucket;
        upper = number >>> 32;
        bitmap = rows.get(new Key(writeId, bucket, upper));
        seek(number);
      } else if (number < low) {
        seek(number);
      } else if (number > next) {
        advance(number);
      }
      return number == next;
    }

    private void seek(long number) {
      ahead = bitmap == null ? null : bitmap.getIntIterator();
      next = -1;
      advance(number);
    }

    /** Move {@code next} to the first deleted row that is not before {@code number}. */
    private void advance(long number) {
      low = number;
      if (ahead != null && ahead.hasNext()) {
        step();
        if (next < number) {
          ahead.advanceIfNeeded((int) number);
          step();
        }
      } else {
        next = (upper + 1) << 32;
      }
    }

    private void step() {
      next = ahead.hasNext() ? (upper << 32) | Integer.toUnsignedLong(ahead.next()) : (upper + 1) << 32;
    }
  }
}
