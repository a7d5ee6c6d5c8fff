package hiveacid.read;

import hiveacid.read.ScanSpec.Output;
import hiveacid.read.ScanSpec.Source;
import hiveacid.versions.CatalystScanBuilder;
import hiveacid.versions.Sequences;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.InterpretedMutableProjection;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** What of a query the scan takes over: columns, predicates, and counting where no row has to be looked at. */
final class SnapshotScanBuilder extends CatalystScanBuilder implements SupportsPushDownAggregates {
  private final SnapshotTable table;
  private StructType required;
  private List<DataFile> files;
  private final List<Filter> filters = new ArrayList<>();
  private boolean filtered;
  private int counts;

  SnapshotScanBuilder(SnapshotTable table) {
    super(table.spark, table.spec.schema());
    this.table = table;
    required = table.spec.schema();
    files = table.files;
  }

  @Override
  protected List<Expression> push(List<Expression> predicates) {
    List<Expression> left = new ArrayList<>();
    for (Expression predicate : predicates) {
      if (isOfPartitions(predicate)) {
        prune(predicate);
        continue;
      }
      left.add(predicate);
      if (predicate.deterministic()) {
        Option<Filter> translated = DataSourceStrategy$.MODULE$.translateFilter(predicate, false);
        if (translated.isDefined() && Predicates.isSafe(translated.get(), table.spec)) {
          filters.add(Predicates.exact(translated.get()));
        }
      }
    }
    filtered = !left.isEmpty();
    return left;
  }

  /** Nothing that Spark would leave out: what was taken over completely is no longer in the plan. */
  @Override
  public Predicate[] pushedFilters() {
    return new Predicate[0];
  }

  private boolean isOfPartitions(Expression predicate) {
    List<Attribute> references = references(predicate);
    for (Attribute reference : references) {
      Source source = table.spec.output(reference.name()).source();
      if (source != Source.VALUE && source != Source.ORDINAL) {
        return false;
      }
    }
    return predicate.deterministic() && !references.isEmpty();
  }

  /** Keep the files of the partitions for which a predicate holds. */
  private void prune(Expression predicate) {
    List<Attribute> references = references(predicate);
    InterpretedMutableProjection judge =
        new InterpretedMutableProjection(
            Sequences.of(List.of(predicate)),
            Sequences.of(references));
    List<DataFile> kept = new ArrayList<>();
    for (DataFile file : files) {
      InternalRow values = table.values(file);
      Object[] row = new Object[references.size()];
      for (int i = 0; i < row.length; i++) {
        Output output = table.spec.output(references.get(i).name());
        row[i] = output.source() == Source.ORDINAL
            ? (Object) file.partition()
            : values.isNullAt(output.index()) ? null : values.get(output.index(), output.type());
      }
      InternalRow judged = judge.apply(new GenericInternalRow(row));
      if (!judged.isNullAt(0) && judged.getBoolean(0)) {
        kept.add(file);
      }
    }
    files = kept;
  }

  private static List<Attribute> references(Expression predicate) {
    return Sequences.list(predicate.references().toSeq());
  }

  @Override
  public void pruneColumns(StructType schema) {
    required = schema;
  }

  /** The driver has all of the answer when it reads the footers itself. */
  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return footersKnow(aggregation) && files.size() <= CountScan.MOST_FILES;
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    counts = footersKnow(aggregation) ? aggregation.aggregateExpressions().length : 0;
    return counts > 0;
  }

  /** count(*) of files in which every row is live. */
  private boolean footersKnow(Aggregation aggregation) {
    if (aggregation.groupByExpressions().length > 0 || filtered || !table.spec.isWhole()) {
      return false;
    }
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      if (!(function instanceof CountStar)) {
        return false;
      }
    }
    for (DataFile file : files) {
      if (file.check() || table.deletes(file) != null) {
        return false;
      }
    }
    return aggregation.aggregateExpressions().length > 0;
  }

  @Override
  public Scan build() {
    StructType schema = required;
    List<Output> columns = new ArrayList<>();
    if (counts > 0) {
      schema = new StructType();
      for (int i = 0; i < counts; i++) {
        schema = schema.add("count" + i, DataTypes.LongType, false);
      }
      if (files.size() <= CountScan.MOST_FILES) {
        return new CountScan(table, schema, files);
      }
    } else {
      columns = table.spec.required(required);
    }
    return new SnapshotScan(table, schema, columns, files, filters, counts);
  }
}
