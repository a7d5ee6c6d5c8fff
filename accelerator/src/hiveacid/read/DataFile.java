package hiveacid.read;

import java.io.Serializable;

/**
 * A file of a base, delta or delete delta.
 *
 * @param check whether some of its events may belong to write ids the snapshot does not see
 * @param deletes whether delete events of its bucket may hit its rows
 * @param names names of the columns in this file if they are not the table's, by position; else null
 */
record DataFile(String uri, long size, int partition, int bucket, boolean check, boolean deletes, String[] names)
    implements Serializable {}
