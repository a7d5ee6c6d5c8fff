package hiveacid.read;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of a batch as orc-core decoded it, as Spark's column vector.
 *
 * <p>With a selection, row {@code i} of Spark is row {@code selection[i]} of the file: deleted rows are passed over
 * without moving any value. The same object serves all batches of a file; {@link #bind} shows it the next one.
 */
abstract class StoredVector extends ColumnVector {
  private boolean[] isNull;
  private boolean anyNull;
  private boolean repeating;
  private int[] selection;
  private int rows;

  StoredVector(DataType type) {
    super(type);
  }

  /** Look at the batch now in {@code vector}. */
  void bind(org.apache.hadoop.hive.ql.exec.vector.ColumnVector vector, int[] selected, int count) {
    isNull = vector.isNull;
    anyNull = !vector.noNulls;
    repeating = vector.isRepeating;
    selection = selected;
    rows = count;
  }

  /** Where the value of a row lies in the vector. */
  final int at(int row) {
    if (repeating) {
      return 0;
    }
    return selection == null ? row : selection[row];
  }

  @Override
  public final boolean isNullAt(int row) {
    return anyNull && isNull[at(row)];
  }

  @Override
  public final boolean hasNull() {
    return anyNull;
  }

  @Override
  public final int numNulls() {
    int found = 0;
    for (int i = 0; anyNull && i < rows; i++) {
      found += isNull[at(i)] ? 1 : 0;
    }
    return found;
  }

  @Override
  public void close() {}

  private UnsupportedOperationException wrong() {
    return new UnsupportedOperationException(getClass().getSimpleName() + " of type " + type);
  }

  @Override
  public boolean getBoolean(int row) {
    throw wrong();
  }

  @Override
  public byte getByte(int row) {
    throw wrong();
  }

  @Override
  public short getShort(int row) {
    throw wrong();
  }

  @Override
  public int getInt(int row) {
    throw wrong();
  }

  @Override
  public long getLong(int row) {
    throw wrong();
  }

  @Override
  public float getFloat(int row) {
    throw wrong();
  }

  @Override
  public double getDouble(int row) {
    throw wrong();
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw wrong();
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw wrong();
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw wrong();
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw wrong();
  }

  @Override
  public byte[] getBinary(int row) {
    throw wrong();
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw wrong();
  }
}
