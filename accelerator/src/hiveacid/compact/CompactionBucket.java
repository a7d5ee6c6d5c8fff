package hiveacid.compact;

import com.esotericsoftware.kryo.DefaultSerializer;
import com.esotericsoftware.kryo.serializers.JavaSerializer;
import java.io.Serializable;
import java.util.List;

/**
 * A bucket to be compacted, or a range of its rows: the work of one task, or of several that divide it among them.
 *
 * @param files with its events
 * @param deletes with the events to be applied to them
 * @param tasks how many may work on it, each on a range of rows; up to 1 for one
 * @param upload final name of its file, under which it is uploaded; null: it goes to staging
 */
@DefaultSerializer(JavaSerializer.class)
public record CompactionBucket(
    int bucket, List<CompactionFile> files, List<CompactionFile> deletes, int tasks, String upload)
    implements Serializable {}
