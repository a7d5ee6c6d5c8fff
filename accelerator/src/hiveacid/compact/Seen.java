package hiveacid.compact;

import java.io.Serializable;
import java.util.Arrays;

/** The write ids that a compaction sees: all up to a high watermark but some. */
final class Seen implements Serializable {
  private static final long serialVersionUID = 1L;
  private final long highWatermark;
  private final long[] hidden;

  Seen(long highWatermark, long[] hidden) {
    this.highWatermark = highWatermark;
    this.hidden = hidden.clone();
    Arrays.sort(this.hidden);
  }

  boolean isSeen(long writeId) {
    return writeId <= highWatermark && Arrays.binarySearch(hidden, writeId) < 0;
  }
}
