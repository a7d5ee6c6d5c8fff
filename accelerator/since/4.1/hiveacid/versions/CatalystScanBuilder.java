package hiveacid.versions;

import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** A scan that is shown the predicates of its query as Spark has them. */
public abstract class CatalystScanBuilder implements SupportsPushDownCatalystFilters, SupportsPushDownRequiredColumns {
  /** The arguments are what older versions of Spark need. */
  protected CatalystScanBuilder(SparkSession session, StructType schema) {}

  /** Takes over what it can; returns what Spark has to judge. */
  protected abstract List<Expression> push(List<Expression> predicates);

  @Override
  public final Seq<Expression> pushFilters(Seq<Expression> predicates) {
    return Sequences.of(push(Sequences.list(predicates)));
  }
}
