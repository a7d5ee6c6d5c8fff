package hiveacid.write;

import com.esotericsoftware.kryo.DefaultSerializer;
import com.esotericsoftware.kryo.serializers.JavaSerializer;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import hiveacid.versions.Sessions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.roaringbitmap.longlong.Roaring64Bitmap;

/**
 * What the committed tasks of a write wrote, kept on the driver until it is asked for.
 *
 * <p>Where Spark serialises with Kryo, records go through Java all the same: Kryo does not know how to fill one.
 */
public final class Written {
  private static final Map<String, List<Part>> FINISHED = new ConcurrentHashMap<>();
  private static final Map<String, Roaring64Bitmap> MATCHED = new ConcurrentHashMap<>();
  private static final ObjectMapper JSON = new ObjectMapper();

  private Written() {}

  /**
   * A finished file.
   *
   * @param keys values of the key columns, or what else says where it belongs
   * @param first key of its rows, {@code last} the last one
   * @param upload id of the upload that publishing ends, empty for a file of staging
   */
  @DefaultSerializer(JavaSerializer.class)
  public record Part(
      String file, int bucket, int operation, long rows, long size, String[] keys, Key first, Key last, String upload)
      implements java.io.Serializable {}

  /**
   * The files of one task.
   *
   * @param matched numbers of the source rows that its rows matched, or null
   */
  @DefaultSerializer(JavaSerializer.class)
  record OfTask(List<Part> parts, Roaring64Bitmap matched) implements WriterCommitMessage {}

  /** Numbers of source rows, for executors. */
  @DefaultSerializer(JavaSerializer.class)
  private record Numbers(Roaring64Bitmap bitmap) implements java.io.Serializable {}

  static void finished(String id, WriterCommitMessage[] messages) {
    List<Part> parts = new ArrayList<>();
    Roaring64Bitmap matched = new Roaring64Bitmap();
    boolean isMerge = false;
    for (WriterCommitMessage message : messages) {
      OfTask task = (OfTask) message;
      parts.addAll(task.parts());
      if (task.matched() != null) {
        isMerge = true;
        matched.or(task.matched());
      }
    }
    if (isMerge) {
      MATCHED.put(id, matched);
    }
    FINISHED.put(id, parts);
  }

  /** The files of a write as a JSON array, once. */
  public static String take(String id) throws JsonProcessingException {
    return json(FINISHED.remove(id));
  }

  /**
   * The rows whose number no row of a write matched; asked once. The numbers stay a bitmap, which each executor gets.
   *
   * @param column of the number
   */
  public static Dataset<Row> unmatched(Dataset<Row> rows, String column, String id) {
    Roaring64Bitmap numbers = MATCHED.remove(id);
    if (numbers == null || numbers.isEmpty()) {
      return rows;
    }
    Broadcast<Numbers> sent =
        JavaSparkContext.fromSparkContext(Sessions.active().sparkContext()).broadcast(new Numbers(numbers));
    UDF1<Long, Boolean> isNew = number -> !sent.value().bitmap().contains(number);
    return rows.filter(functions.udf(isNew, DataTypes.BooleanType).apply(rows.col(column)));
  }

  /** Files as a JSON array. */
  public static String json(List<Part> parts) throws JsonProcessingException {
    return JSON.writeValueAsString(parts);
  }
}
