package hiveacid.versions;

import java.util.List;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgument;
import org.apache.spark.sql.execution.datasources.orc.OrcFilters;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** Predicates as orc-core takes them. */
public final class SearchArguments {
  private SearchArguments() {}

  public static Option<SearchArgument> of(StructType schema, List<Filter> filters) {
    return OrcFilters.createFilter(schema, Sequences.of(filters));
  }
}
