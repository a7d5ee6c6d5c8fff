package hiveacid.versions;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;

/** Hadoop's configuration for all tasks; since 4.1 it is sent without its defaults. */
public final class Broadcasts {
  private Broadcasts() {}

  public static Broadcast<SerializableConfiguration> of(SparkContext context, Configuration conf) {
    return SerializableConfiguration.broadcast(context, conf);
  }
}
