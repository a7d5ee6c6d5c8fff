package hiveacid.versions;

import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.immutable.Map$;

/**
 * A scan that is shown the predicates of its query as Spark has them.
 *
 * <p>Up to 4.0 Spark does that for its own file sources alone, so this is one of those, without files.
 */
public abstract class CatalystScanBuilder extends FileScanBuilder {
  protected CatalystScanBuilder(SparkSession session, StructType schema) {
    super(
        session,
        new InMemoryFileIndex(
            session,
            Sequences.of(List.of()),
            Map$.MODULE$.empty(),
            Option.empty(),
            NoopCache$.MODULE$,
            Option.empty(),
            Option.empty()),
        schema);
  }

  /** Takes over what it can; returns what Spark has to judge. */
  protected abstract List<Expression> push(List<Expression> predicates);

  @Override
  public final Seq<Expression> pushFilters(Seq<Expression> predicates) {
    return Sequences.of(push(Sequences.list(predicates)));
  }
}
