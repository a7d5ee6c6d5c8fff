package hiveacid.write;

import com.esotericsoftware.kryo.DefaultSerializer;
import com.esotericsoftware.kryo.serializers.JavaSerializer;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.util.Set;

/**
 * The names under which files of changed rows are to be read later.
 *
 * @param deletes name of the directory of delete events
 * @param inserts name of the directory of the new rows, null where there are none
 * @param places directory of each partition, null for one whose files go to staging
 * @param shared groups that several tasks write: their files of delete events go to staging, to be made one
 */
@DefaultSerializer(JavaSerializer.class)
record ChangeNames(String deletes, String inserts, String[] places, Set<Integer> shared) implements Serializable {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** @param text as {@code sink.py} writes it, null where all files go to staging */
  static ChangeNames of(String text) {
    try {
      return text == null ? new ChangeNames(null, null, null, null) : JSON.readValue(text, ChangeNames.class);
    } catch (JsonProcessingException failure) {
      throw new IllegalArgumentException("names of changes: " + text, failure);
    }
  }

  /** The final name of a file of delete events, or null where it goes to staging. */
  String ofDeletes(int partition, int group, int bucket) {
    return place(partition) == null || shared.contains(group)
        ? null
        : FinalNames.of(places[partition] + "/" + deletes, bucket);
  }

  /** The final name of a file of new rows, or null where it goes to staging. */
  String ofInserts(int partition, int bucket) {
    return place(partition) == null ? null : FinalNames.of(places[partition] + "/" + inserts, bucket);
  }

  private String place(int partition) {
    return places == null ? null : places[partition];
  }
}
