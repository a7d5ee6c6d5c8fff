package hiveacid.read;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What the SQL tab shows of a scan besides its output rows. */
public final class Metrics {
  static final String DECODED = "rowsDecoded";
  static final String DELETED = "rowsPassedOver";

  private Metrics() {}

  static CustomMetric[] supported() {
    return new CustomMetric[] {new RowsDecoded(), new RowsPassedOver()};
  }

  static CustomTaskMetric[] values(long decoded, long deleted) {
    return new CustomTaskMetric[] {new Value(DECODED, decoded), new Value(DELETED, deleted)};
  }

  /** Rows decoded; what predicates skipped is not among them. */
  public static final class RowsDecoded extends CustomSumMetric {
    @Override
    public String name() {
      return DECODED;
    }

    @Override
    public String description() {
      return "rows decoded";
    }
  }

  /** Rows decoded that are deleted, or of write ids the snapshot does not see. */
  public static final class RowsPassedOver extends CustomSumMetric {
    @Override
    public String name() {
      return DELETED;
    }

    @Override
    public String description() {
      return "rows decoded and passed over";
    }
  }

  private record Value(String name, long value) implements CustomTaskMetric {}
}
