package hiveacid.write;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;
import org.apache.spark.sql.execution.datasources.orc.OrcUtils;

/**
 * One ACID file: ORC's writer, and in the footer what Hive's own writer (OrcRecordUpdater) leaves there: the last key of
 * each stripe, how many events of each kind, and the version of the layout.
 *
 * <p>Rows come in ascending order of (original write id, bucket, row number); {@link #write} refuses anything else.
 */
public final class AcidFile implements Closeable {
  public static final int INSERT = 0;
  public static final int DELETE = 2;
  private static final String KEY_INDEX = "hive.acid.key.index";

  private final Output output;
  private final Path path;
  private final int operation;
  private final int bucket;
  private final Layout layout;
  private final Writer writer;
  private final StringBuilder keyIndex = new StringBuilder();
  private Key first;
  private long lastWriteId = Long.MIN_VALUE;
  private int lastBucket;
  private long lastRowNumber;
  private long rows;
  private long rowsIndexed;
  private boolean closed;

  /**
   * @param name in staging
   * @param upload final name, under which it is uploaded instead; null where it goes to staging
   * @param bucket number of the file's bucket; every row must carry it
   * @param operation of all rows: {@link #INSERT} or {@link #DELETE}
   */
  public AcidFile(Layout layout, String name, String upload, int bucket, int operation) throws IOException {
    this(layout, layout.output(name, upload), bucket, operation);
  }

  AcidFile(Layout layout, Output output, int bucket, int operation) throws IOException {
    this.layout = layout;
    this.output = output;
    this.path = output.path();
    this.bucket = bucket;
    this.operation = operation;
    writer = OrcFile.createWriter(path, layout.options().fileSystem(output.files()).callback(new Footer()));
    OrcUtils.addSparkVersionMetadata(writer);
  }

  /** A batch for rows of this file; decimals that fit into a long are longs. */
  public VectorizedRowBatch newBatch() {
    return layout.schema().createRowBatch(TypeDescription.RowBatchVersion.USE_DECIMAL64, VectorizedRowBatch.DEFAULT_SIZE);
  }

  /**
   * Write a batch (of which {@code selected} may name a part) whose first and last key are these. Equal keys may follow
   * each other: delete events of two transactions about one row.
   */
  public void write(
      VectorizedRowBatch batch,
      long firstWriteId, int firstBucket, long firstRowNumber,
      long writeId, int bucketValue, long rowNumber) throws IOException {
    if (batch.size == 0) {
      return;
    }
    if (compare(lastWriteId, lastBucket, lastRowNumber, firstWriteId, firstBucket, firstRowNumber) > 0) {
      throw Failures.of(
          "JobFailedError",
          path.getName() + ": row (" + firstWriteId + ", " + firstBucket + ", " + firstRowNumber + ") comes after row ("
              + lastWriteId + ", " + lastBucket + ", " + lastRowNumber + "); nothing is published");
    }
    if (first == null) {
      first = new Key(firstWriteId, firstBucket, firstRowNumber);
    }
    // Set first: the writer may end a stripe as soon as it has the batch.
    lastWriteId = writeId;
    lastBucket = bucketValue;
    lastRowNumber = rowNumber;
    rows += batch.size;
    writer.addRowBatch(batch);
  }

  /** Order of two keys: write id, value of the {@code bucket} column, row number. */
  public static int compare(long w, int b, long r, long otherW, int otherB, long otherR) {
    int order = Long.compare(w, otherW);
    if (order == 0) {
      order = Integer.compare(b, otherB);
    }
    return order == 0 ? Long.compare(r, otherR) : order;
  }

  public long rows() {
    return rows;
  }

  int bucket() {
    return bucket;
  }

  /** Finish the file, which has rows. */
  public Written.Part finish(String[] keys) throws IOException {
    close();
    if (writer.getNumberOfRows() != rows) {
      throw Failures.of(
          "JobFailedError", path + " has " + writer.getNumberOfRows() + " rows instead of " + rows);
    }
    Key last = new Key(lastWriteId, lastBucket, lastRowNumber);
    return new Written.Part(
        path.toString(), bucket, operation, rows, output.size(), keys, first, last, output.upload());
  }

  /** Remove what was written. */
  public void discard() throws IOException {
    try {
      close();
    } finally {
      output.discard();
    }
  }

  @Override
  public void close() throws IOException {
    if (!closed) {
      closed = true;
      writer.close();
    }
  }

  private final class Footer implements OrcFile.WriterCallback {
    @Override
    public void preStripeWrite(OrcFile.WriterContext context) {
      if (rows > rowsIndexed) {
        rowsIndexed = rows;
        keyIndex.append(lastWriteId).append(',').append(lastBucket).append(',').append(lastRowNumber).append(';');
      }
    }

    @Override
    public void preFooterWrite(OrcFile.WriterContext context) {
      // Comes before the last stripe is written.
      preStripeWrite(context);
      describe(context.getWriter(), operation, rows, keyIndex.toString());
    }
  }

  /**
   * Add to a footer what Hive's writer leaves there.
   *
   * @param keyIndex the last key of each stripe
   */
  static void describe(Writer target, int operation, long rows, String keyIndex) {
    String counts = operation == INSERT ? rows + ",0,0" : "0,0," + rows;
    target.addUserMetadata(KEY_INDEX, bytes(keyIndex));
    target.addUserMetadata("hive.acid.stats", bytes(counts));
    target.addUserMetadata("hive.acid.version", bytes("2"));
  }

  /** The last key of each stripe, from the footer of a file that this class has written. */
  static String keyIndexOf(Reader reader) {
    String index = StandardCharsets.UTF_8.decode(reader.getMetadataValue(KEY_INDEX)).toString();
    long keys = index.chars().filter(letter -> letter == ';').count();
    if (keys != reader.getStripes().size()) {
      // A wrong index loses deletes in Hive (R18).
      throw Failures.of(
          "JobFailedError",
          "a file of a task has " + keys + " last keys of " + reader.getStripes().size() + " stripes; nothing is published");
    }
    return index;
  }

  private static ByteBuffer bytes(String text) {
    return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
  }
}
