package oracle;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.GetAllWriteEventInfoRequest;
import org.apache.hadoop.hive.metastore.api.NotificationEvent;
import org.apache.hadoop.hive.metastore.api.WriteEventInfo;
import org.apache.hadoop.hive.metastore.messaging.CommitTxnMessage;
import org.apache.hadoop.hive.metastore.messaging.EventMessage;
import org.apache.hadoop.hive.metastore.messaging.MessageDeserializer;
import org.apache.hadoop.hive.metastore.messaging.MessageFactory;

/** The notification log as Hive reads it: fetched by its metastore, decoded by its deserializer. */
final class HiveEvents {
  private final HiveConf conf;

  HiveEvents(HiveConf conf) {
    this.conf = conf;
  }

  /** Events with larger ids; of each what the message's own getters answer, by their names. */
  JsonObject after(long eventId) throws Exception {
    HiveMetaStoreClient client = new HiveMetaStoreClient(conf);
    try {
      JsonArray events = new JsonArray();
      for (NotificationEvent event : client.getNextNotification(eventId, -1, null).getEvents()) {
        JsonObject answer = new JsonObject();
        answer.addProperty("id", event.getEventId());
        answer.addProperty("type", event.getEventType());
        answer.addProperty("database", event.getDbName());
        answer.addProperty("table", event.getTableName());
        EventMessage message = decode(event);
        answer.add("message", getters(message));
        if (message instanceof CommitTxnMessage) {
          CommitTxnMessage commit = (CommitTxnMessage) message;
          List<WriteEventInfo> writes =
              client.getAllWriteEventInfo(new GetAllWriteEventInfoRequest(commit.getTxnId()));
          if (writes != null && !writes.isEmpty()) {
            commit.addWriteEventInfo(writes);   // as Hive does before it copies what a transaction wrote
            answer.add("writes", writes(commit, writes.size()));
          }
        }
        events.add(answer);
      }
      JsonObject answer = new JsonObject();
      answer.add("events", events);
      return answer;
    } finally {
      client.close();
    }
  }

  private static JsonArray writes(CommitTxnMessage commit, int count) throws Exception {
    JsonArray answer = new JsonArray();
    for (int i = 0; i < count; i++) {
      JsonObject write = new JsonObject();
      write.add("table", value(commit.getTableObj(i)));
      write.add("partition", value(commit.getPartitionObj(i)));
      write.addProperty("files", commit.getFiles(i));
      answer.add(write);
    }
    return answer;
  }

  /** CREATE_TABLE is read by getCreateTableMessage. */
  private static EventMessage decode(NotificationEvent event) throws Exception {
    MessageDeserializer deserializer = MessageFactory.getInstance(event.getMessageFormat()).getDeserializer();
    for (EventMessage.EventType type : EventMessage.EventType.values()) {
      if (type.toString().equals(event.getEventType())) {
        StringBuilder name = new StringBuilder("get");
        for (String word : type.name().split("_")) {
          name.append(word.charAt(0)).append(word.substring(1).toLowerCase());
        }
        Method read = MessageDeserializer.class.getMethod(name + "Message", String.class);
        EventMessage message = (EventMessage) read.invoke(deserializer, event.getMessage());
        return message.getDB() == null ? message : message.checkValid();   // messages of transactions name no database
      }
    }
    throw new IllegalArgumentException("Hive has no event type " + event.getEventType());
  }

  private static JsonObject getters(EventMessage message) throws Exception {
    JsonObject answer = new JsonObject();
    for (Method method : message.getClass().getMethods()) {
      if (method.getName().startsWith("get") && method.getParameterCount() == 0 && method.getDeclaringClass() != Object.class) {
        method.setAccessible(true);
        answer.add(method.getName().substring(3), value(method.invoke(message)));
      }
    }
    return answer;
  }

  private static JsonElement value(Object value) {
    if (value == null) {
      return JsonNull.INSTANCE;
    }
    if (value instanceof Iterable) {
      JsonArray answer = new JsonArray();
      ((Iterable<?>) value).forEach(item -> answer.add(value(item)));
      return answer;
    }
    if (value instanceof Map) {
      JsonObject answer = new JsonObject();
      ((Map<?, ?>) value).forEach((key, item) -> answer.add(String.valueOf(key), value(item)));
      return answer;
    }
    if (value instanceof Number) {
      return new JsonPrimitive((Number) value);
    }
    if (value instanceof Boolean) {
      return new JsonPrimitive((Boolean) value);
    }
    return new JsonPrimitive(value.toString());   // objects of the metastore: Table(tableName:t, dbName:d, ...)
  }
}
