package hiveacid.read;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * The stripes of a file that begin in a range of bytes.
 *
 * @param values values of the partition columns
 * @param deletes delete events that may hit the rows, or null
 */
record Split(DataFile file, long start, long length, InternalRow values, DeleteGroup deletes) implements Serializable {}
