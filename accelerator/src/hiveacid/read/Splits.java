package hiveacid.read;

import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/** What one task reads. */
record Splits(List<Split> splits) implements InputPartition {}
