package hiveacid.compact;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import hiveacid.versions.Sessions;
import hiveacid.write.Layout;
import hiveacid.write.Stitching;
import hiveacid.write.Written;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * Compacts the buckets of one directory in tasks, from ORC's vectors to ORC's vectors: files are ascending and hardly
 * ever overlap, so they are copied one after the other, and deletes are merged in beside.
 *
 * <p>A large bucket is several tasks, each with a range of its rows and a file of its own; another task puts the stripes
 * of these files into one file, as they are. What is a bucket's file in the end has one writer, so that one may upload it
 * under its final name.
 */
public final class Compaction implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * What to do.
   *
   * @param directory for the files of all tasks
   * @param row data columns of the table, as Spark's JSON
   * @param kind {@code rows}: live rows for a base; {@code inserts} or {@code deletes}: a copy of these events
   * @param hidden write ids up to the high watermark that are not seen
   */
  public record Spec(
      String directory,
      String row,
      String kind,
      long highWatermark,
      long[] hidden,
      Map<String, String> options,
      List<CompactionBucket> buckets) {}

  private final Layout layout;
  private final String kind;
  private final Seen seen;

  private Compaction(Layout layout, String kind, Seen seen) {
    this.layout = layout;
    this.kind = kind;
    this.seen = seen;
  }

  /** Run a compaction, given and answered as JSON: a {@link Spec}, and the files written. */
  public static String run(SparkSession session, String text) throws IOException {
    Spec spec = JSON.readValue(text, Spec.class);
    StructType row = (StructType) DataType.fromJson(spec.row());
    Layout layout = new Layout(spec.directory(), row, Sessions.hadoopConf(session), spec.options());
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    Compaction compaction = new Compaction(layout, spec.kind(), new Seen(spec.highWatermark(), spec.hidden()));
    List<CompactionBucket> work = compaction.divided(context, spec.buckets());
    List<Written.Part> parts = new ArrayList<>();
    for (Written.Part part : context.parallelize(work, work.size()).map(compaction::task).collect()) {
      if (part != null) {
        parts.add(part);
      }
    }
    Map<Integer, String> uploads = new HashMap<>();
    spec.buckets().forEach(bucket -> uploads.put(bucket.bucket(), bucket.upload()));
    return Written.json(Stitching.ofBuckets(context, layout, parts, uploads));
  }

  /**
   * Merge files of delete events that tasks of one statement wrote, each bucket of the {@link Spec} by itself; answered
   * are as many files, in the same order. A row has one event, so they come in any order but their own.
   */
  public static String mergeDeletes(SparkSession session, String text) throws IOException {
    Spec spec = JSON.readValue(text, Spec.class);
    StructType row = (StructType) DataType.fromJson(spec.row());
    Layout layout = new Layout(spec.directory(), row, Sessions.hadoopConf(session), spec.options());
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    Compaction merge = new Compaction(layout, BucketCompaction.MERGED_DELETES, null);
    List<CompactionBucket> work = spec.buckets();
    List<Written.Part> merged = context.parallelize(work, work.size()).map(merge::task).collect();
    for (CompactionBucket bucket : work) {
      for (CompactionFile file : bucket.files()) {
        layout.delete(file.uri());
      }
    }
    return Written.json(merged);
  }

  /** The buckets, large ones as their ranges. */
  private List<CompactionBucket> divided(JavaSparkContext context, List<CompactionBucket> buckets) {
    List<CompactionBucket> large = buckets.stream().filter(bucket -> bucket.tasks() > 1).toList();
    if (large.isEmpty()) {
      return buckets;
    }
    List<List<CompactionBucket>> found = context.parallelize(large, large.size()).map(this::ranges).collect();
    List<CompactionBucket> work = new ArrayList<>();
    int next = 0;
    for (CompactionBucket bucket : buckets) {
      work.addAll(bucket.tasks() > 1 ? found.get(next++) : List.of(bucket));
    }
    return work;
  }

  private List<CompactionBucket> ranges(CompactionBucket bucket) throws IOException {
    return Ranges.divide(bucket, layout.conf());
  }

  private Written.Part task(CompactionBucket bucket) throws IOException {
    try (BucketCompaction task = new BucketCompaction(layout, kind, seen, bucket)) {
      return task.run();
    }
  }
}
