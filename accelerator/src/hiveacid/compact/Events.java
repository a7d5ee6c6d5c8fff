package hiveacid.compact;

import hiveacid.Footer;
import hiveacid.write.AcidFile;
import hiveacid.write.Failures;
import hiveacid.write.Layout;
import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.orc.StripeInformation;
import org.apache.orc.TypeDescription;

/**
 * The events of one file in their order, batch by batch, without those of write ids that a compaction does not see.
 *
 * <p>Not opened before somebody looks at it: until then its first key is the least that its directory can hold. What it
 * takes to read it, which is a megabyte and more, goes as soon as it ends.
 */
final class Events implements Closeable {
  private static final int OPERATION = 0;
  private static final int WRITE_ID = 1;
  private static final int BUCKET = 2;
  private static final int ROW_NUMBER = 3;
  private static final int CURRENT = 4;
  private static final int ROW = 5;

  private final CompactionFile file;
  private final int bucket;
  private final int operation;
  private final TypeDescription schema;
  private final Configuration conf;
  private final Seen seen;
  private RecordReader records;
  private VectorizedRowBatch batch;
  private final LongColumnVector[] header = new LongColumnVector[ROW];
  private int[] rows;
  private int count;
  private long left;
  private int position;
  private boolean ended;

  /**
   * @param schema the six columns under the names they have in the file
   * @param seen which write ids count; null when all do
   */
  Events(CompactionFile file, int bucket, int operation, TypeDescription schema, Configuration conf, Seen seen) {
    this.file = file;
    this.bucket = bucket;
    this.operation = operation;
    this.schema = schema;
    this.conf = conf;
    this.seen = seen;
  }

  boolean isOpen() {
    return records != null || ended;
  }

  boolean hasEnded() {
    return ended;
  }

  /** Open the file and go to its first event. */
  void open() throws IOException {
    Path path = new Path(file.uri());
    try {
      Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(conf));
      Footer.requireConsistent(file.uri(), reader);
      boolean[] include = Layout.headerOf(schema);
      if (operation != AcidFile.DELETE) {
        Arrays.fill(include, true);
      }
      // Decimals as longs only where the file has them with the same scale.
      boolean asLongs = reader.getSchema().toString().equalsIgnoreCase(schema.toString());
      batch =
          schema.createRowBatch(
              asLongs ? TypeDescription.RowBatchVersion.USE_DECIMAL64 : TypeDescription.RowBatchVersion.ORIGINAL,
              VectorizedRowBatch.DEFAULT_SIZE);
      for (int i = 0; i < ROW; i++) {
        header[i] = (LongColumnVector) batch.cols[i];
      }
      Reader.Options options = reader.options().schema(schema).include(include).isSchemaEvolutionCaseAware(false);
      left = reader.getNumberOfRows();
      if (file.rows() == null) {
        records = reader.rows(options);
      } else {
        restrict(options, reader.getStripes());
        records = reader.rows(options);
        records.seekToRow(file.rows().from());
        left = file.rows().to() - file.rows().from();
      }
      rows = new int[VectorizedRowBatch.DEFAULT_SIZE];
      nextBatch();
    } catch (IOException failure) {
      throw unreadable(failure);
    }
  }

  /** Let the reader touch only the stripes that the rows are in: it fetches each of them as a whole. */
  private void restrict(Reader.Options options, List<StripeInformation> stripes) {
    long begin = 0;
    long start = -1;
    long end = 0;
    for (StripeInformation stripe : stripes) {
      if (begin < file.rows().to() && begin + stripe.getNumberOfRows() > file.rows().from()) {
        start = start < 0 ? stripe.getOffset() : start;
        end = stripe.getOffset() + stripe.getLength();
      }
      begin += stripe.getNumberOfRows();
    }
    options.range(start, end - start);
  }

  private RuntimeException unreadable(IOException failure) {
    return unreadable(file, failure);
  }

  static RuntimeException unreadable(CompactionFile file, IOException failure) {
    String cause = failure instanceof FileNotFoundException ? "it does not exist" : failure.toString();
    return Failures.of(
        "CorruptTableError", file.uri() + " is missing or cannot be read, and rows would be lost without it: " + cause);
  }

  private void nextBatch() throws IOException {
    try {
      do {
        if (left == 0 || !records.nextBatch(batch)) {
          ended = true;
          close();
          batch = null;
          rows = null;
          Arrays.fill(header, null);
          return;
        }
        batch.size = (int) Math.min(batch.size, left);
        left -= batch.size;
        check();
        select();
      } while (count == 0);
      position = 0;
    } catch (IOException failure) {
      throw unreadable(failure);
    }
  }

  private void check() {
    LongColumnVector operations = header[OPERATION];
    int last = operations.isRepeating ? Math.min(1, batch.size) : batch.size;
    for (int i = 0; i < last; i++) {
      if (operations.vector[i] != operation) {
        throw Failures.of(
            "CorruptTableError",
            "a data file holds events of kind " + operations.vector[i] + " instead of " + operation
                + ": it was written before Hive 3, or does not belong here; run a major compaction with the Hive that "
                + "wrote it (" + file.uri() + ")");
      }
    }
    LongColumnVector buckets = header[BUCKET];
    last = buckets.isRepeating ? Math.min(1, batch.size) : batch.size;
    for (int i = 0; i < last; i++) {
      if (Layout.decode((int) buckets.vector[i]) != bucket) {
        throw Failures.of(
            "JobFailedError",
            file.uri() + " holds a row of bucket " + Layout.decode((int) buckets.vector[i])
                + "; a file must hold one bucket, so nothing is published");
      }
    }
  }

  private void select() {
    count = 0;
    if (seen == null) {
      for (int i = 0; i < batch.size; i++) {
        rows[count++] = i;
      }
      return;
    }
    for (int i = 0; i < batch.size; i++) {
      if (seen.isSeen(value(CURRENT, i))) {
        rows[count++] = i;
      }
    }
  }

  private long value(int column, int row) {
    LongColumnVector vector = header[column];
    return vector.vector[vector.isRepeating ? 0 : row];
  }

  long writeId() {
    return writeId(position);
  }

  int bucketValue() {
    return bucketValue(position);
  }

  long rowNumber() {
    return rowNumber(position);
  }

  long current() {
    return current(position);
  }

  long current(int at) {
    return value(CURRENT, rows[at]);
  }

  /** Keys by position among the events of the batch that count. */
  long writeId(int at) {
    return value(WRITE_ID, rows[at]);
  }

  int bucketValue(int at) {
    return (int) value(BUCKET, rows[at]);
  }

  long rowNumber(int at) {
    return value(ROW_NUMBER, rows[at]);
  }

  /** Where we are in the batch, how many events it has that count, and their places in its vectors. */
  int position() {
    return position;
  }

  int count() {
    return count;
  }

  int row(int at) {
    return rows[at];
  }

  VectorizedRowBatch batch() {
    return batch;
  }

  /** Go on to a position of this batch, or to the next batch if it is the end of this one. */
  void advanceTo(int next) throws IOException {
    position = next;
    if (next == count) {
      nextBatch();
    }
  }

  /** Order of the first events; a file that is not open yet comes first among equals, so that it will be opened. */
  static int byFirstKey(Events one, Events other) {
    int order =
        AcidFile.compare(
            one.leastWriteId(), one.isOpen() ? one.bucketValue() : Integer.MIN_VALUE,
            one.isOpen() ? one.rowNumber() : Long.MIN_VALUE,
            other.leastWriteId(), other.isOpen() ? other.bucketValue() : Integer.MIN_VALUE,
            other.isOpen() ? other.rowNumber() : Long.MIN_VALUE);
    if (order != 0 || !one.isOpen() || !other.isOpen()) {
      return order;
    }
    // Of two events about one row the later comes first.
    return Long.compare(other.current(), one.current());
  }

  private long leastWriteId() {
    return isOpen() ? writeId() : file.least();
  }

  @Override
  public void close() throws IOException {
    if (records != null) {
      records.close();
      records = null;
    }
  }
}
