package hiveacid.versions;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/** What a session has beside its public interface: since 4.0 that of the application, not of Spark Connect. */
public final class Sessions {
  private Sessions() {}

  private static org.apache.spark.sql.classic.SparkSession classic(SparkSession session) {
    return (org.apache.spark.sql.classic.SparkSession) session;
  }

  /** The session of this thread. */
  public static SparkSession active() {
    return org.apache.spark.sql.classic.SparkSession.active();
  }

  public static SQLConf conf(SparkSession session) {
    return classic(session).sessionState().conf();
  }

  /** Hadoop's configuration with what the session has set. */
  public static Configuration hadoopConf(SparkSession session) {
    return classic(session).sessionState().newHadoopConf();
  }

  /** How many tasks a scan should have at least. */
  public static int parallelism(SparkSession session) {
    return classic(session).leafNodeDefaultParallelism();
  }

  /** The rows of a table that no catalog has. */
  public static Dataset<Row> rows(SparkSession session, Table table) {
    return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(
        classic(session), DataSourceV2Relation$.MODULE$.create(table, Option.empty(), Option.empty()));
  }
}
