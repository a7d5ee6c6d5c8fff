package hiveacid.compact;

import hiveacid.write.Key;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;

/**
 * Divides a bucket into ranges of rows of about the same size. Files are ascending, so a range is some rows of each file
 * that follow each other, and the results of the ranges, one after the other, are the result of the bucket.
 *
 * <p>Each row of each file is in exactly one range, whatever its key is: ranges are places in files.
 */
final class Ranges {
  /** So many keys are looked at for each range: shares differ by a few hundredths. */
  private static final int SAMPLES = 32;

  /** A key, and for how many rows up to it it stands. */
  private record Sample(Key key, double rows) {}

  /** What is known of a file after the first look; keys are null when it has no rows. */
  private record Extent(CompactionFile file, long rows, Key first, Key last) {}

  private final Configuration conf;
  private final List<Sample> samples = new ArrayList<>();
  private boolean canSeek = true;

  private Ranges(Configuration conf) {
    this.conf = conf;
  }

  /**
   * The ranges of a bucket, in their order; one when it cannot be divided. Files of ranges go to staging, to be put
   * together.
   */
  static List<CompactionBucket> divide(CompactionBucket bucket, Configuration conf) throws IOException {
    return new Ranges(conf).divided(bucket);
  }

  private List<CompactionBucket> divided(CompactionBucket bucket) throws IOException {
    List<Extent> files = look(bucket.files(), bucket.tasks());
    List<Extent> deletes = look(bucket.deletes(), 0);
    List<Key> cuts = cuts(bucket.tasks());
    if (!canSeek || cuts.isEmpty()) {
      // A list that Kryo can fill.
      return new ArrayList<>(List.of(bucket));
    }
    List<List<CompactionFile>> ofFiles = cut(files, cuts);
    List<List<CompactionFile>> ofDeletes = cut(deletes, cuts);
    List<CompactionBucket> ranges = new ArrayList<>();
    for (int i = 0; i <= cuts.size(); i++) {
      ranges.add(new CompactionBucket(bucket.bucket(), ofFiles.get(i), ofDeletes.get(i), 1, null));
    }
    return ranges;
  }

  /** First and last keys, and for the tasks a sample of those between. */
  private List<Extent> look(List<CompactionFile> files, int tasks) throws IOException {
    List<Extent> found = new ArrayList<>();
    for (CompactionFile file : files) {
      try (Keys keys = new Keys(file, conf)) {
        long rows = keys.rows();
        canSeek &= rows == 0 || keys.canSeek();
        if (rows == 0 || !canSeek) {
          found.add(new Extent(file, 0, null, null));
          continue;
        }
        Key first = keys.at(0);
        // So many for each file: which of them are large is not known yet, and their weights tell.
        int points = (int) Math.min(rows, Math.ceil((double) SAMPLES * tasks / files.size()));
        for (int i = 0; i < points; i++) {
          samples.add(new Sample(keys.at(rows * (i + 1L) / points - 1), (double) rows / points));
        }
        found.add(new Extent(file, rows, first, keys.at(rows - 1)));
      }
    }
    return found;
  }

  /** The last keys of all ranges but the last one. */
  private List<Key> cuts(int tasks) {
    samples.sort(Comparator.comparing(Sample::key));
    double total = samples.stream().mapToDouble(Sample::rows).sum();
    List<Key> cuts = new ArrayList<>();
    double before = 0;
    for (Sample sample : samples) {
      before += sample.rows;
      boolean reached = before >= total * (cuts.size() + 1) / tasks;
      if (reached && cuts.size() < tasks - 1 && (cuts.isEmpty() || !cuts.get(cuts.size() - 1).equals(sample.key))) {
        cuts.add(sample.key);
      }
    }
    return cuts;
  }

  /** The rows of the files in each range. */
  private List<List<CompactionFile>> cut(List<Extent> files, List<Key> cuts) throws IOException {
    List<List<CompactionFile>> ranges = new ArrayList<>();
    for (int i = 0; i <= cuts.size(); i++) {
      ranges.add(new ArrayList<>());
    }
    for (Extent file : files) {
      long from = 0;
      long[] ends = ends(file, cuts);
      for (int i = 0; i < ends.length; i++) {
        if (from < ends[i]) {
          ranges.get(i).add(file.file.only(new RowRange(from, ends[i])));
        }
        from = Math.max(from, ends[i]);
      }
    }
    return ranges;
  }

  /** Where each range ends in a file. */
  private long[] ends(Extent file, List<Key> cuts) throws IOException {
    long[] ends = new long[cuts.size() + 1];
    ends[cuts.size()] = file.rows;
    Keys keys = null;
    try {
      for (int i = 0; i < cuts.size() && file.rows > 0; i++) {
        Key cut = cuts.get(i);
        if (cut.compareTo(file.last) >= 0) {
          ends[i] = file.rows;
        } else if (cut.compareTo(file.first) >= 0) {
          keys = keys == null ? new Keys(file.file, conf) : keys;
          ends[i] = keys.countUpTo(cut);
        }
      }
    } finally {
      if (keys != null) {
        keys.close();
      }
    }
    return ends;
  }
}
