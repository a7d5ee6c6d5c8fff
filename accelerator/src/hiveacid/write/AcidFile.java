package hiveacid.write;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OrcFile;
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

  private final Path path;
  private final int operation;
  private final int bucket;
  private final Layout layout;
  private final Writer writer;
  private final StringBuilder keyIndex = new StringBuilder();
  private long lastWriteId = Long.MIN_VALUE;
  private int lastBucket;
  private long lastRowNumber;
  private long rows;
  private long rowsIndexed;
  private boolean closed;

  /**
   * @param bucket number of the file's bucket; every row must carry it
   * @param operation of all rows: {@link #INSERT} or {@link #DELETE}
   */
  AcidFile(Layout layout, String name, int bucket, int operation) throws IOException {
    this.layout = layout;
    this.path = layout.file(name);
    this.bucket = bucket;
    this.operation = operation;
    writer = OrcFile.createWriter(path, layout.options().callback(new Footer()));
    OrcUtils.addSparkVersionMetadata(writer);
  }

  /** A batch for rows of this file; decimals that fit into a long are longs. */
  VectorizedRowBatch newBatch() {
    return layout.schema().createRowBatch(TypeDescription.RowBatchVersion.USE_DECIMAL64, VectorizedRowBatch.DEFAULT_SIZE);
  }

  /**
   * Write a batch (of which {@code selected} may name a part) whose first and last key are these. Equal keys may follow
   * each other: delete events of two transactions about one row.
   */
  void write(
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
    // Set first: the writer may end a stripe as soon as it has the batch.
    lastWriteId = writeId;
    lastBucket = bucketValue;
    lastRowNumber = rowNumber;
    rows += batch.size;
    writer.addRowBatch(batch);
  }

  static int compare(long w, int b, long r, long otherW, int otherB, long otherR) {
    int order = Long.compare(w, otherW);
    if (order == 0) {
      order = Integer.compare(b, otherB);
    }
    return order == 0 ? Long.compare(r, otherR) : order;
  }

  long rows() {
    return rows;
  }

  int bucket() {
    return bucket;
  }

  /** Finish the file. */
  Written.Part finish(String[] keys) throws IOException {
    close();
    if (writer.getNumberOfRows() != rows) {
      throw Failures.of(
          "JobFailedError", path + " has " + writer.getNumberOfRows() + " rows instead of " + rows);
    }
    return new Written.Part(path.toString(), bucket, operation, rows, layout.size(path), keys);
  }

  /** Remove what was written. */
  void discard() throws IOException {
    try {
      close();
    } finally {
      path.getFileSystem(layout.conf()).delete(path, false);
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
      Writer target = context.getWriter();
      String counts = operation == INSERT ? rows + ",0,0" : "0,0," + rows;
      target.addUserMetadata("hive.acid.key.index", bytes(keyIndex.toString()));
      target.addUserMetadata("hive.acid.stats", bytes(counts));
      target.addUserMetadata("hive.acid.version", bytes("2"));
    }

    private static ByteBuffer bytes(String text) {
      return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }
  }
}
