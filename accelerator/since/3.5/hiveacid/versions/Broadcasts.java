package hiveacid.versions;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;
import scala.reflect.ClassTag;

/** Hadoop's configuration for all tasks. */
public final class Broadcasts {
  private static final ClassTag<SerializableConfiguration> TYPE = ClassTag.apply(SerializableConfiguration.class);

  private Broadcasts() {}

  public static Broadcast<SerializableConfiguration> of(SparkContext context, Configuration conf) {
    return context.broadcast(new SerializableConfiguration(conf), TYPE);
  }
}
