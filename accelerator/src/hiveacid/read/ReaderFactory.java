package hiveacid.read;

import java.util.List;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Makes the readers of the tasks.
 *
 * @param columns what to read; ignored when {@code counts}
 * @param counts whether to answer with row counts from footers, one column per count(*) asked for; 0 for no
 */
record ReaderFactory(
    ScanSpec spec,
    List<ScanSpec.Output> columns,
    List<Filter> filters,
    int counts,
    int batchSize,
    Broadcast<SerializableConfiguration> conf)
    implements PartitionReaderFactory {
  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("rows come in batches");
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    Splits splits = (Splits) partition;
    return counts > 0 ? new CountReader(this, splits) : new SplitReader(this, splits);
  }
}
