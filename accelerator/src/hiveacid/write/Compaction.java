package hiveacid.write;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import hiveacid.versions.Sessions;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * Compacts the buckets of one directory, each in a task of its own, from ORC's vectors to ORC's vectors: files are
 * ascending and hardly ever overlap, so they are copied one after the other, and deletes are merged in beside.
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
  public static String run(SparkSession session, String text) throws JsonProcessingException {
    Spec spec = JSON.readValue(text, Spec.class);
    StructType row = (StructType) DataType.fromJson(spec.row());
    Layout layout = new Layout(spec.directory(), row, Sessions.hadoopConf(session), spec.options());
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    Compaction compaction = new Compaction(layout, spec.kind(), new Seen(spec.highWatermark(), spec.hidden()));
    List<Written.Part> parts = new ArrayList<>();
    for (Written.Part part : context.parallelize(spec.buckets(), spec.buckets().size()).map(compaction::task).collect()) {
      if (part != null) {
        parts.add(part);
      }
    }
    return Written.json(parts);
  }

  private Written.Part task(CompactionBucket bucket) throws java.io.IOException {
    try (BucketCompaction task = new BucketCompaction(layout, kind, seen, bucket)) {
      return task.run();
    }
  }
}
