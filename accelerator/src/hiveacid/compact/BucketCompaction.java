package hiveacid.compact;

import hiveacid.write.AcidFile;
import hiveacid.write.Layout;
import hiveacid.write.Written;
import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.PriorityQueue;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.TypeDescription;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.datasources.orc.OrcUtils;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The compaction of one bucket, or of a range of its rows. Files of rows are opened when the rows before their first are
 * written, so those of many deltas that follow each other are open one at a time; files of delete events, of which there
 * may be as many, are read one after the other. Those that tasks of one statement wrote are few: they are merged.
 */
final class BucketCompaction implements Closeable {
  /** Delete events of one statement, in files that are open at the same time. */
  static final String MERGED_DELETES = "merged deletes";

  private final Layout layout;
  private final boolean live;
  private final int operation;
  private final CompactionBucket bucket;
  private final PriorityQueue<Events> sources = new PriorityQueue<>(Events::byFirstKey);
  private final List<Events> deleteFiles = new ArrayList<>();
  private final DeleteEvents deletes;
  private final List<Events> all = new ArrayList<>();
  private final int[] kept = new int[VectorizedRowBatch.DEFAULT_SIZE];
  private AcidFile out;
  private ColumnVector noRow;
  private boolean done;

  BucketCompaction(Layout layout, String kind, Seen seen, CompactionBucket bucket) {
    this.layout = layout;
    this.live = kind.equals("rows");
    boolean merged = kind.equals(MERGED_DELETES);
    this.operation = merged || kind.equals("deletes") ? AcidFile.DELETE : AcidFile.INSERT;
    this.bucket = bucket;
    this.deletes = new DeleteEvents(operation == AcidFile.DELETE);
    for (CompactionFile file : bucket.files()) {
      (operation == AcidFile.DELETE && !merged ? deleteFiles : sources).add(eventsOf(file, operation, seen));
    }
    for (CompactionFile file : bucket.deletes()) {
      deleteFiles.add(eventsOf(file, AcidFile.DELETE, seen));
    }
  }

  private Events eventsOf(CompactionFile file, int kind, Seen seen) {
    TypeDescription schema = kind == AcidFile.DELETE ? Layout.withoutRow() : schemaOf(file);
    Events events = new Events(file, bucket.bucket(), kind, schema, layout.conf(), file.check() ? seen : null);
    all.add(events);
    return events;
  }

  /** The six columns under the names they have in a file; columns that came later are not in it. */
  private TypeDescription schemaOf(CompactionFile file) {
    if (file.names() == null) {
      return layout.schema();
    }
    StructType row = new StructType();
    StructField[] fields = layout.row.fields();
    for (int i = 0; i < fields.length; i++) {
      // A name that no file has: the column reads as NULL.
      String name = i < file.names().length ? file.names()[i] : "__acid_later_" + i;
      row = row.add(name, fields[i].dataType());
    }
    return TypeDescription.fromString(OrcUtils.getOrcSchemaString(Layout.events(row)));
  }

  Written.Part run() throws IOException {
    TaskContext context = TaskContext.get();
    for (Events file : deleteFiles) {
      stopIfCancelled(context);
      deletes.add(file);
    }
    if (operation == AcidFile.DELETE && !deletes.isEmpty()) {
      out = file();
      deletes.writeTo(out);
    }
    for (Events next = take(sources); next != null; next = take(sources)) {
      stopIfCancelled(context);
      // Everything before the first event of the others can be copied at once.
      int end = endOfRun(next, open(sources));
      copy(next, end);
      next.advanceTo(end);
      if (!next.hasEnded()) {
        sources.add(next);
      }
    }
    Written.Part part = out == null || out.rows() == 0 ? null : out.finish(new String[0]);
    done = part != null;
    return part;
  }

  /** Made when there is a row for it: of a bucket whose rows are all deleted nothing is written. */
  private AcidFile file() throws IOException {
    TaskContext context = TaskContext.get();
    String name = "part-" + context.partitionId() + "-" + context.taskAttemptId() + ".orc";
    return new AcidFile(layout, name, bucket.upload(), bucket.bucket(), operation);
  }

  private static void stopIfCancelled(TaskContext context) throws IOException {
    if (context.isInterrupted()) {
      throw new IOException("the task was cancelled");
    }
  }

  /** The file with the first event of all, opened, taken out of the queue. */
  private static Events take(PriorityQueue<Events> queue) throws IOException {
    return open(queue) == null ? null : queue.poll();
  }

  /** The same, left in the queue. */
  private static Events open(PriorityQueue<Events> queue) throws IOException {
    for (Events first = queue.peek(); first != null; first = queue.peek()) {
      if (first.isOpen()) {
        return first;
      }
      queue.poll();
      first.open();
      if (!first.hasEnded()) {
        queue.add(first);
      }
    }
    return null;
  }

  /** Up to where the events of a batch come before the first of another file. */
  private static int endOfRun(Events events, Events other) {
    int end = events.count();
    if (other == null || isBefore(events, end - 1, other)) {
      return end;
    }
    int low = events.position() + 1;
    while (low < end) {
      int middle = (low + end) >>> 1;
      if (isBefore(events, middle, other)) {
        low = middle + 1;
      } else {
        end = middle;
      }
    }
    return low;
  }

  private static boolean isBefore(Events events, int at, Events other) {
    return AcidFile.compare(
            events.writeId(at), events.bucketValue(at), events.rowNumber(at),
            other.writeId(), other.bucketValue(), other.rowNumber())
        < 0;
  }

  private void copy(Events events, int end) throws IOException {
    int size = 0;
    int first = -1;
    int last = -1;
    for (int at = events.position(); at < end; at++) {
      if (!live || !deletes.isDeleted(events.writeId(at), events.bucketValue(at), events.rowNumber(at))) {
        kept[size++] = events.row(at);
        first = first < 0 ? at : first;
        last = at;
      }
    }
    if (size == 0) {
      return;
    }
    if (out == null) {
      out = file();
    }
    VectorizedRowBatch from = events.batch();
    VectorizedRowBatch to = new VectorizedRowBatch(from.cols.length, 0);
    System.arraycopy(from.cols, 0, to.cols, 0, from.cols.length);
    if (live) {
      // A row of a base is its insert event; who changed what is over.
      to.cols[4] = from.cols[1];
    } else if (operation == AcidFile.DELETE) {
      noRow = noRow == null ? DeleteEvents.noRow(out) : noRow;
      to.cols[5] = noRow;
    }
    to.size = size;
    if (kept[size - 1] - kept[0] == size - 1 && kept[0] == 0) {
      to.selectedInUse = false;
    } else {
      to.selectedInUse = true;
      to.selected = kept;
    }
    out.write(
        to,
        events.writeId(first), events.bucketValue(first), events.rowNumber(first),
        events.writeId(last), events.bucketValue(last), events.rowNumber(last));
  }

  @Override
  public void close() throws IOException {
    for (Events events : all) {
      events.close();
    }
    if (out != null && !done) {
      out.discard();
    }
  }
}
