package org.apache.hadoop.hive.ql.exec;

import java.util.ArrayList;
import java.util.List;
import org.apache.hive.com.esotericsoftware.kryo.Kryo;
import org.apache.hive.com.esotericsoftware.kryo.Serializer;
import org.apache.hive.com.esotericsoftware.kryo.io.Input;
import org.apache.hive.com.esotericsoftware.kryo.io.Output;

/**
 * In place of Hive 3's class of this name, which asks a sublist for a field that Java 9 and later do not have. A plan is
 * written and read in one JVM, so that a sublist may come back as a list of its own.
 */
class SerializationUtilities$ArrayListSubListSerializer extends Serializer<List<?>> {
  @Override
  public void write(Kryo kryo, Output output, List<?> list) {
    kryo.writeObject(output, new ArrayList<>(list));
  }

  @Override
  @SuppressWarnings("unchecked")
  public List<?> read(Kryo kryo, Input input, Class<List<?>> type) {
    return kryo.readObject(input, ArrayList.class);
  }
}
