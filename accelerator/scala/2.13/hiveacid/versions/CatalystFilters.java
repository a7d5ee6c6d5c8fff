package hiveacid.versions;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import scala.collection.immutable.Seq;

/** A scan that is shown the predicates of its query, as Java's lists. */
public interface CatalystFilters extends SupportsPushDownCatalystFilters {
  /** Takes over what it can; returns what Spark has to judge. */
  List<Expression> push(List<Expression> predicates);

  @Override
  default Seq<Expression> pushFilters(Seq<Expression> predicates) {
    return Sequences.of(push(Sequences.list(predicates)));
  }
}
