package hiveacid.read;

import java.io.IOException;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** One row: how many rows the splits of a task have, from the footers. */
final class CountReader implements PartitionReader<ColumnarBatch> {
  private final ReaderFactory scan;
  private final Splits splits;
  private boolean done;

  CountReader(ReaderFactory scan, Splits splits) {
    this.scan = scan;
    this.splits = splits;
  }

  @Override
  public boolean next() {
    boolean first = !done;
    done = true;
    return first;
  }

  @Override
  public ColumnarBatch get() {
    long rows = 0;
    for (Split split : splits.splits()) {
      try (EventFile file = EventFile.open(split.file(), scan.conf().value().value(), scan.spec().operation)) {
        rows += file.rows(split.start(), split.length());
      } catch (IOException failure) {
        throw Failures.whileReading(split.file().uri(), failure);
      }
    }
    ColumnVector[] columns = new ColumnVector[scan.counts()];
    for (int i = 0; i < columns.length; i++) {
      ConstantColumnVector count = new ConstantColumnVector(1, DataTypes.LongType);
      count.setLong(rows);
      columns[i] = count;
    }
    return new ColumnarBatch(columns, 1);
  }

  @Override
  public void close() {}
}
