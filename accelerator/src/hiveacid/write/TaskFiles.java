package hiveacid.write;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.roaringbitmap.longlong.Roaring64Bitmap;

/**
 * The files of one task: those that are finished, and those that are written to, at most one of delete events and one of
 * new rows. Of a task that is given up none of them stays.
 */
final class TaskFiles {
  private final Layout layout;
  private final List<Written.Part> parts = new ArrayList<>();

  /** Is written to; null when there is none. */
  DeleteFile deletes;

  /** Is written to; null when there is none. */
  InsertFile inserts;

  TaskFiles(Layout layout) {
    this.layout = layout;
  }

  /** How many are finished. */
  int finished() {
    return parts.size();
  }

  /** End the file of delete events, if there is one. */
  void finishDeletes(String... keys) throws IOException {
    if (deletes != null) {
      parts.add(deletes.finish(keys));
      deletes = null;
    }
  }

  /** End the file of new rows, if there is one. */
  void finishInserts(String... keys) throws IOException {
    if (inserts != null) {
      parts.add(inserts.finish(keys));
      inserts = null;
    }
  }

  /**
   * What a task that has ended well says of its files.
   *
   * @param matched as of {@link Written.OfTask}
   */
  WriterCommitMessage written(Roaring64Bitmap matched) {
    return new Written.OfTask(parts, matched);
  }

  void abort() throws IOException {
    for (Written.Part part : parts) {
      layout.delete(part);
    }
    if (deletes != null) {
      deletes.discard();
      deletes = null;
    }
    if (inserts != null) {
      inserts.discard();
      inserts = null;
    }
  }

  void close() throws IOException {
    if (deletes != null) {
      deletes.close();
    }
    if (inserts != null) {
      inserts.close();
    }
  }
}
