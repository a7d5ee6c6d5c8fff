package hiveacid.write;

import java.io.Serializable;
import java.util.List;

/**
 * A bucket to be compacted: the work of one task.
 *
 * @param files with its events
 * @param deletes with the events to be applied to them
 */
public record CompactionBucket(int bucket, List<CompactionFile> files, List<CompactionFile> deletes)
    implements Serializable {}
