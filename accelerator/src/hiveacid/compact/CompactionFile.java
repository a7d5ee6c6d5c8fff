package hiveacid.compact;

import java.io.Serializable;

/**
 * A file to be compacted.
 *
 * @param least write id: no row of it was created by a smaller one
 * @param check whether it may hold events that the compaction does not see
 * @param names of the columns in it, null where they are the table's
 * @param rows those to look at, null for all
 */
public record CompactionFile(String uri, long least, boolean check, String[] names, RowRange rows)
    implements Serializable {
  /** The same file, rows of it alone. */
  CompactionFile only(RowRange range) {
    return new CompactionFile(uri, least, check, names, range);
  }
}
