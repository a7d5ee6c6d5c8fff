package hiveacid.read;

import java.lang.ref.SoftReference;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;

/**
 * Delete events of buckets that tasks of this JVM read lately, so that the splits of a bucket load them once.
 *
 * <p>Soft references: when memory is short they go first, and the next split loads them again.
 */
final class DeleteCache {
  private static final int GROUPS = 64;
  private static final Map<String, Entry> ENTRIES =
      new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Entry> eldest) {
          return size() > GROUPS;
        }
      };

  private DeleteCache() {}

  private static final class Entry {
    private SoftReference<DeletedRows> loaded = new SoftReference<>(null);

    /** One task loads, others that need the same bucket wait for it. */
    synchronized DeletedRows get(DeleteGroup group, ScanSpec spec, Configuration conf) {
      DeletedRows found = loaded.get();
      if (found == null) {
        found = DeletedRows.load(group, spec, conf);
        loaded = new SoftReference<>(found);
      }
      return found;
    }
  }

  static DeletedRows get(DeleteGroup group, ScanSpec spec, Configuration conf) {
    Entry entry;
    synchronized (ENTRIES) {
      String key = group.scan() + "/" + group.partition() + "/" + group.bucket();
      entry = ENTRIES.computeIfAbsent(key, k -> new Entry());
    }
    return entry.get(group, spec, conf);
  }
}
