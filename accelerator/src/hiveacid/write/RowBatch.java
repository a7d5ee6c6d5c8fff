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

/** Rows that are gathered for a file: the data columns are filled in here, the header by whoever writes the batch. */
final class RowBatch {
  private static final int MAX_BYTES = 16 << 20;

  final VectorizedRowBatch vectors;
  private final Fill[] columns;
  private final ColumnVector[] fields;
  private final List<MultiValuedColumnVector> lists = new ArrayList<>();
  private final int maxElements;
  private long bytes;

  RowBatch(Layout layout, Fill[] columns, AcidFile file) {
    this.columns = columns;
    this.maxElements = OrcConf.ROW_BATCH_CHILD_LIMIT.getInt(layout.conf());
    vectors = file.newBatch();
    vectors.reset();
    fields = ((StructColumnVector) vectors.cols[5]).fields;
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
    int at = vectors.size;
    for (int i = 0; i < columns.length; i++) {
      columns[i].put(row, first + i, fields[i], at);
    }
    vectors.size = at + 1;
  }

  int size() {
    return vectors.size;
  }

  /** Whether it is to be written now. */
  boolean isFull() {
    return vectors.size == VectorizedRowBatch.DEFAULT_SIZE || isLarge();
  }

  private boolean isLarge() {
    for (MultiValuedColumnVector list : lists) {
      if (list.childCount > maxElements) {
        return true;
      }
    }
    // Looked at now and then: what counts is not to gather a thousand documents.
    if ((vectors.size & 15) == 15) {
      bytes += Fill.takeBytes(columns);
      return bytes > MAX_BYTES;
    }
    return false;
  }

  /** The same value of a column of the header in all rows. */
  void constant(int column, long value) {
    LongColumnVector vector = (LongColumnVector) vectors.cols[column];
    vector.isRepeating = true;
    vector.vector[0] = value;
  }

  /** Values of a column of the header, to be filled in. */
  long[] longs(int column) {
    return ((LongColumnVector) vectors.cols[column]).vector;
  }

  /** Start anew, when the batch is written. */
  void reset() {
    bytes = 0;
    vectors.reset();
  }
}
