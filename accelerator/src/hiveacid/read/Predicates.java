package hiveacid.read;

import hiveacid.read.ScanSpec.Source;
import hiveacid.versions.SearchArguments;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.util.List;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgument;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * Predicates that may skip row groups.
 *
 * <p>Spark filters again what is read, so leaving one out costs time and pushing a wrong one costs rows: only what means
 * the same to orc-core's statistics and to Spark is let through.
 */
final class Predicates {
  /** Both calendars agree since 1582; long before this date nobody looks for speed. */
  private static final LocalDate CALENDARS_AGREE = LocalDate.of(1900, 1, 1);

  private static final char FIRST_SURROGATE = '\uD800';

  private Predicates() {}

  /** Whether a predicate on columns of the table can be judged by statistics. */
  static boolean isSafe(Filter filter, ScanSpec spec) {
    if (filter instanceof And and) {
      return isSafe(and.left(), spec) && isSafe(and.right(), spec);
    } else if (filter instanceof Or or) {
      return isSafe(or.left(), spec) && isSafe(or.right(), spec);
    } else if (filter instanceof Not not) {
      return isSafe(not.child(), spec);
    } else if (filter instanceof EqualTo equal) {
      return isSafe(equal.attribute(), equal.value(), spec);
    } else if (filter instanceof LessThan less) {
      return isSafe(less.attribute(), less.value(), spec);
    } else if (filter instanceof LessThanOrEqual less) {
      return isSafe(less.attribute(), less.value(), spec);
    } else if (filter instanceof GreaterThan greater) {
      return isSafe(greater.attribute(), greater.value(), spec);
    } else if (filter instanceof GreaterThanOrEqual greater) {
      return isSafe(greater.attribute(), greater.value(), spec);
    } else if (filter instanceof In in) {
      for (Object value : in.values()) {
        if (!isSafe(in.attribute(), value, spec)) {
          return false;
        }
      }
      return in.values().length > 0;
    } else if (filter instanceof IsNotNull notNull) {
      return isColumn(notNull.attribute(), spec);
    }
    return false;
  }

  private static boolean isSafe(String column, Object value, ScanSpec spec) {
    return isColumn(column, spec) && isComparable(value);
  }

  /** A column of the table itself: orc-core resolves names inside {@code row}. */
  private static boolean isColumn(String name, ScanSpec spec) {
    if (!name.matches("[A-Za-z_][A-Za-z0-9_]*")) {
      return false;
    }
    for (ScanSpec.Output output : spec.outputs) {
      if (output.name().equals(name)) {
        return output.source() == Source.COLUMN;
      }
    }
    return false;
  }

  private static boolean isComparable(Object value) {
    if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
      return true;
    } else if (value instanceof Boolean || value instanceof BigDecimal) {
      return true;
    } else if (value instanceof Float || value instanceof Double) {
      // 0.0 = -0.0 to Spark, not to statistics; NaN is not in them.
      double number = ((Number) value).doubleValue();
      return number != 0 && !Double.isNaN(number);
    } else if (value instanceof String text) {
      // Statistics are ordered by UTF-8 bytes, orc-core compares UTF-16: the same up to the surrogates.
      return text.chars().allMatch(c -> c < FIRST_SURROGATE);
    } else if (value instanceof java.sql.Date date) {
      return !date.toLocalDate().isBefore(CALENDARS_AGREE);
    } else if (value instanceof LocalDate date) {
      return !date.isBefore(CALENDARS_AGREE);
    } else if (value instanceof java.sql.Timestamp time) {
      return !time.toLocalDateTime().toLocalDate().isBefore(CALENDARS_AGREE);
    } else if (value instanceof Instant time) {
      return time.getEpochSecond() >= CALENDARS_AGREE.toEpochDay() * 86_400;
    }
    return false;
  }

  /**
   * The same predicate for statistics that know nanoseconds: Spark cuts timestamps to microseconds, so what equals one to
   * Spark lies in a range.
   */
  static Filter exact(Filter filter) {
    if (filter instanceof And and) {
      return new And(exact(and.left()), exact(and.right()));
    } else if (filter instanceof Or or) {
      return new Or(exact(or.left()), exact(or.right()));
    } else if (filter instanceof Not not) {
      return new Not(exact(not.child()));
    } else if (filter instanceof EqualTo equal && isTime(equal.value())) {
      return within(equal.attribute(), equal.value());
    } else if (filter instanceof LessThanOrEqual less && isTime(less.value())) {
      return new LessThan(less.attribute(), next(less.value()));
    } else if (filter instanceof GreaterThan greater && isTime(greater.value())) {
      return new GreaterThanOrEqual(greater.attribute(), next(greater.value()));
    } else if (filter instanceof In in && isTime(in.values()[0])) {
      Filter found = within(in.attribute(), in.values()[0]);
      for (int i = 1; i < in.values().length; i++) {
        found = new Or(found, within(in.attribute(), in.values()[i]));
      }
      return found;
    }
    return filter;
  }

  private static boolean isTime(Object value) {
    return value instanceof java.sql.Timestamp || value instanceof Instant;
  }

  private static Filter within(String column, Object time) {
    return new And(new GreaterThanOrEqual(column, time), new LessThan(column, next(time)));
  }

  /** The next microsecond. */
  private static Object next(Object time) {
    if (time instanceof Instant instant) {
      return instant.plusNanos(1000);
    }
    return java.sql.Timestamp.from(((java.sql.Timestamp) time).toInstant().plusNanos(1000));
  }

  /** For orc-core; names are relative to {@code row}. Null when there is nothing to judge by. */
  static SearchArgument of(List<Filter> filters, StructType row) {
    if (filters.isEmpty()) {
      return null;
    }
    Option<SearchArgument> found = SearchArguments.of(row, filters);
    return found.isEmpty() ? null : found.get();
  }
}
