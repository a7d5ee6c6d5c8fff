package hiveacid.write;

import java.io.Serializable;

/**
 * A file to be compacted.
 *
 * @param least write id: no row of it was created by a smaller one
 * @param check whether it may hold events that the compaction does not see
 * @param names of the columns in it, null where they are the table's
 */
public record CompactionFile(String uri, long least, boolean check, String[] names) implements Serializable {}
