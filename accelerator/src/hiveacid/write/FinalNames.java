package hiveacid.write;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;

/**
 * The names under which files of a write are to be read later.
 *
 * @param location of the table
 * @param columns of its partitions, in order; {@code values} of those that are the same for all rows, else null
 * @param directory name of the directory, below the table's or the partition's
 * @param elsewhere by the names of partitions that do not lie where their names say, their directories; empty for one
 *     whose files go to staging
 */
record FinalNames(String location, String[] columns, String[] values, String directory, Map<String, String> elsewhere)
    implements Serializable {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** @param text as {@code sink.py} writes it, null for a write whose files have no final names yet */
  static FinalNames of(String text) {
    try {
      return text == null ? null : JSON.readValue(text, FinalNames.class);
    } catch (JsonProcessingException failure) {
      throw new IllegalArgumentException("final names: " + text, failure);
    }
  }

  /** The final name of a bucket's file in a directory. */
  static String of(String directory, int bucket) {
    return String.format("%s/bucket_%05d", directory, bucket);
  }

  /**
   * The final name of a file, or null where it is not known here.
   *
   * @param keys values of the other partition columns
   */
  String of(String[] keys, int bucket) {
    StringBuilder partition = new StringBuilder();
    int next = 0;
    for (int i = 0; i < columns.length; i++) {
      String value = values[i] == null ? keys[next++] : values[i];
      partition.append(i == 0 ? "" : "/").append(ExternalCatalogUtils.getPartitionPathString(columns[i], value));
    }
    String place = elsewhere.get(partition.toString());
    if (place == null) {
      place = columns.length == 0 ? location : location + "/" + partition;
    }
    return place.isEmpty() ? null : of(place + "/" + directory, bucket);
  }
}
