package hiveacid.write;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MultiValuedColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OrcConf;
import org.apache.spark.sql.catalyst.InternalRow;

/** A file of new rows, numbered from zero. */
final class InsertFile {
  private static final int MAX_BYTES_IN_BATCH = 16 << 20;

  private final AcidFile file;
  private final Fill[] columns;
  private final VectorizedRowBatch batch;
  private final ColumnVector[] fields;
  private final List<MultiValuedColumnVector> lists = new ArrayList<>();
  private final int maxElements;
  private final long writeId;
  private final int bucketValue;
  private long number;
  private long bytes;

  InsertFile(Layout layout, Fill[] columns, Output output, int bucket, int statementId, long writeId) throws IOException {
    this.columns = columns;
    this.writeId = writeId;
    this.bucketValue = Layout.encode(bucket, statementId);
    this.maxElements = OrcConf.ROW_BATCH_CHILD_LIMIT.getInt(layout.conf());
    file = new AcidFile(layout, output, bucket, AcidFile.INSERT);
    batch = file.newBatch();
    batch.reset();
    fields = ((StructColumnVector) batch.cols[5]).fields;
    for (ColumnVector field : fields) {
      collect(field);
    }
  }

  private void collect(ColumnVector vector) {
    if (vector instanceof ListColumnVector list) {
      lists.add(list);
      collect(list.child);
    } else if (vector instanceof MapColumnVector map) {
      lists.add(map);
      collect(map.keys);
      collect(map.values);
    } else if (vector instanceof StructColumnVector struct) {
      for (ColumnVector field : struct.fields) {
        collect(field);
      }
    }
  }

  /** Add the row whose data columns start at {@code first}. */
  void add(InternalRow row, int first) throws IOException {
    int at = batch.size;
    for (int i = 0; i < columns.length; i++) {
      columns[i].put(row, first + i, fields[i], at);
    }
    batch.size = at + 1;
    if (batch.size == VectorizedRowBatch.DEFAULT_SIZE || isLarge()) {
      flush();
    }
  }

  private boolean isLarge() {
    for (MultiValuedColumnVector list : lists) {
      if (list.childCount > maxElements) {
        return true;
      }
    }
    // Looked at now and then: what counts is not to gather a thousand documents.
    if ((batch.size & 15) == 15) {
      bytes += Fill.takeBytes(columns);
      return bytes > MAX_BYTES_IN_BATCH;
    }
    return false;
  }

  private void flush() throws IOException {
    if (batch.size == 0) {
      return;
    }
    constant(0, AcidFile.INSERT);
    constant(1, writeId);
    constant(2, bucketValue);
    constant(4, writeId);
    long[] numbers = ((LongColumnVector) batch.cols[3]).vector;
    for (int i = 0; i < batch.size; i++) {
      numbers[i] = number + i;
    }
    long last = number + batch.size - 1;
    file.write(batch, writeId, bucketValue, number, writeId, bucketValue, last);
    number = last + 1;
    bytes = 0;
    batch.reset();
  }

  private void constant(int column, long value) {
    LongColumnVector vector = (LongColumnVector) batch.cols[column];
    vector.isRepeating = true;
    vector.vector[0] = value;
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
