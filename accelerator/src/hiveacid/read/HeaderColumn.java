package hiveacid.read;

import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;

/** One of the columns before {@code row} in a batch: decoded, or known from the footer. */
final class HeaderColumn {
  private final boolean constant;
  private final long value;
  private final long[] values;

  HeaderColumn(boolean known, long knownValue, ColumnVector vector) {
    LongColumnVector decoded = (LongColumnVector) vector;
    constant = known || decoded.isRepeating;
    value = known ? knownValue : decoded.vector[0];
    values = decoded.vector;
  }

  long at(int row) {
    return constant ? value : values[row];
  }
}
