import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hive.serde2.objectinspector.ListObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.MapObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorConverters;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorUtils;
import org.apache.hadoop.hive.serde2.objectinspector.PrimitiveObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.StructField;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.primitive.PrimitiveObjectInspectorFactory;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.io.BytesWritable;

/**
 * Hive's bucket hashes of given values, by Hive's own {@code ObjectInspectorUtils}.
 *
 * <p>Reads lines of JSON {@code {"types": ["int", …], "values": ["7", …]}} and writes each back with {@code "v1"} and
 * {@code "v2"}, the hashes of bucketing_version 1 and 2. Values are texts as Hive's casts read them, binary ones in hex;
 * arrays and structs are JSON arrays, maps JSON objects, NULL is null.
 */
public final class BucketHashes {
  public static void main(String[] arguments) throws Exception {
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      JsonObject request = JsonParser.parseString(line).getAsJsonObject();
      JsonArray types = request.getAsJsonArray("types");
      JsonArray values = request.getAsJsonArray("values");
      Object[] fields = new Object[types.size()];
      ObjectInspector[] inspectors = new ObjectInspector[types.size()];
      for (int i = 0; i < fields.length; i++) {
        inspectors[i] = TypeInfoUtils.getStandardWritableObjectInspectorFromTypeInfo(
            TypeInfoUtils.getTypeInfoFromTypeString(types.get(i).getAsString()));
        fields[i] = value(values.get(i), inspectors[i]);
      }
      request.addProperty("v1", ObjectInspectorUtils.getBucketHashCodeOld(fields, inspectors));
      request.addProperty("v2", ObjectInspectorUtils.getBucketHashCode(fields, inspectors));
      answers.println(new GsonBuilder().serializeNulls().disableHtmlEscaping().create().toJson(request));
    }
  }

  private static Object value(JsonElement given, ObjectInspector inspector) {
    if (given.isJsonNull()) {
      return null;
    }
    switch (inspector.getCategory()) {
      case LIST: {
        ObjectInspector element = ((ListObjectInspector) inspector).getListElementObjectInspector();
        List<Object> list = new ArrayList<>();
        given.getAsJsonArray().forEach(item -> list.add(value(item, element)));
        return list;
      }
      case MAP: {
        MapObjectInspector maps = (MapObjectInspector) inspector;
        Map<Object, Object> map = new LinkedHashMap<>();
        for (Map.Entry<String, JsonElement> entry : given.getAsJsonObject().entrySet()) {
          Object key = text(entry.getKey(), (PrimitiveObjectInspector) maps.getMapKeyObjectInspector());
          map.put(key, value(entry.getValue(), maps.getMapValueObjectInspector()));
        }
        return map;
      }
      case STRUCT: {
        List<Object> struct = new ArrayList<>();
        JsonArray items = given.getAsJsonArray();
        for (StructField field : ((StructObjectInspector) inspector).getAllStructFieldRefs()) {
          struct.add(value(items.get(struct.size()), field.getFieldObjectInspector()));
        }
        return struct;
      }
      default:
        return text(given.getAsString(), (PrimitiveObjectInspector) inspector);
    }
  }

  private static Object text(String given, PrimitiveObjectInspector inspector) {
    if (inspector.getPrimitiveCategory() == PrimitiveObjectInspector.PrimitiveCategory.BINARY) {
      byte[] bytes = new byte[given.length() / 2];
      for (int i = 0; i < bytes.length; i++) {
        bytes[i] = (byte) Integer.parseInt(given.substring(2 * i, 2 * i + 2), 16);
      }
      return new BytesWritable(bytes);
    }
    Object value = ObjectInspectorConverters.getConverter(
        PrimitiveObjectInspectorFactory.javaStringObjectInspector, inspector).convert(given);
    if (value == null) {
      throw new IllegalArgumentException(given + " is no " + inspector.getTypeName());
    }
    return value;
  }
}
