package hiveacid.read;

import hiveacid.Footer;
import java.io.Closeable;
import java.io.IOException;
import java.util.List;
import java.util.stream.LongStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgument;
import org.apache.orc.ColumnStatistics;
import org.apache.orc.IntegerColumnStatistics;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.orc.StripeInformation;
import org.apache.orc.StripeStatistics;
import org.apache.orc.TypeDescription;

/**
 * An open ACID file.
 *
 * <p>Columns before {@code row} usually have one value throughout, which the footer tells: those are not decoded.
 */
final class EventFile implements Closeable {
  private static final int HEADER = 5;

  private final DataFile file;
  private final Reader reader;
  private final TypeDescription schema;
  private final boolean[] constant = new boolean[HEADER];
  private final long[] constants = new long[HEADER];
  private RecordReader records;
  private VectorizedRowBatch batch;
  private boolean longDecimals;

  private EventFile(DataFile file, Reader reader, TypeDescription schema) {
    this.file = file;
    this.reader = reader;
    this.schema = schema;
  }

  /** Open a file; its events are all of the given kind, or it is refused. */
  static EventFile open(DataFile file, Configuration conf, int operation) {
    try {
      Reader reader = OrcFile.createReader(new Path(file.uri()), OrcFile.readerOptions(conf));
      EventFile opened = new EventFile(file, reader, reader.getSchema());
      Footer.requireConsistent(file.uri(), reader);
      if (reader.getNumberOfRows() > 0) {
        opened.readStatistics(operation);
      }
      return opened;
    } catch (IOException | RuntimeException failure) {
      throw Failures.whileReading(file.uri(), failure);
    }
  }

  private void readStatistics(int operation) {
    if (!OrcTypes.isEvent(schema)) {
      throw Failures.corrupt(file.uri() + " is called like an ACID file, but does not have its six columns", null);
    }
    if (Footer.saysNothing(reader)) {
      return;   // its directory tells which events it holds
    }
    ColumnStatistics[] statistics = reader.getStatistics();
    for (int i = 0; i < HEADER; i++) {
      // Column 0 is the file itself.
      ColumnStatistics found = statistics[schema.getChildren().get(i).getId()];
      if (found instanceof IntegerColumnStatistics integers
          && found.getNumberOfValues() == reader.getNumberOfRows()
          && integers.getMinimum() == integers.getMaximum()) {
        constant[i] = true;
        constants[i] = integers.getMinimum();
      } else if (i == OrcTypes.OPERATION) {
        boolean numbers = found instanceof IntegerColumnStatistics && found.getNumberOfValues() > 0;
        throw Failures.wrongKind(file.uri(), numbers ? "several kinds" : "no kind", operation);
      }
    }
    if (constant[OrcTypes.OPERATION] && constants[OrcTypes.OPERATION] != operation) {
      throw Failures.wrongKind(file.uri(), "kind " + constants[OrcTypes.OPERATION], operation);
    }
  }

  /** Whether a column before {@code row} has one value in the whole file. */
  boolean isConstant(int column) {
    return constant[column];
  }

  long constantOf(int column) {
    return constants[column];
  }

  /** Rows of the stripes that begin in a range of bytes. */
  long rows(long start, long length) {
    long rows = 0;
    for (StripeInformation stripe : reader.getStripes()) {
      if (stripe.getOffset() >= start && stripe.getOffset() < start + length) {
        rows += stripe.getNumberOfRows();
      }
    }
    return rows;
  }

  /**
   * The row numbers of the stripes that begin in a range of bytes, where the statistics say that each of them has all
   * numbers from its first to its last: pairs of these. Null where they do not say so.
   */
  long[] rowNumbers(long start, long length) {
    try {
      List<StripeInformation> stripes = reader.getStripes();
      List<StripeStatistics> statistics = reader.getStripeStatistics();
      if (Footer.saysNothing(reader) || statistics.size() != stripes.size()) {
        return null;
      }
      int column = schema.getChildren().get(OrcTypes.ROW_NUMBER).getId();
      LongStream.Builder found = LongStream.builder();
      for (int i = 0; i < stripes.size(); i++) {
        StripeInformation stripe = stripes.get(i);
        if (stripe.getOffset() < start || stripe.getOffset() >= start + length) {
          continue;
        }
        long rows = stripe.getNumberOfRows();
        ColumnStatistics[] columns = statistics.get(i).getColumnStatistics();
        if (!(columns[column] instanceof IntegerColumnStatistics numbers) || numbers.getNumberOfValues() != rows) {
          return null;
        }
        long first = numbers.getMinimum();
        long last = numbers.getMaximum();
        // The sum as well: as many numbers as there is room for are not yet all of them.
        if (last - first + 1 != rows
            || !numbers.isSumDefined()
            || 2 * numbers.getSum() != (first + last) * rows) {
          return null;
        }
        found.add(first).add(last);
      }
      return found.build().toArray();
    } catch (IOException | RuntimeException failure) {
      throw Failures.whileReading(file.uri(), failure);
    }
  }

  /**
   * Start reading.
   *
   * @param header which of the columns before {@code row} to decode
   * @param row the columns of {@code row} to decode, under their names in the file; null for none
   * @param filter predicates over them, or null
   */
  void start(
      boolean[] header, TypeDescription row, SearchArgument filter, long start, long length, int batchSize) {
    try {
      TypeDescription wanted = OrcTypes.event(row == null ? TypeDescription.createStruct() : row);
      boolean[] include = new boolean[wanted.getMaximumId() + 1];
      include[0] = true;
      for (int i = 0; i < HEADER; i++) {
        include[wanted.getChildren().get(i).getId()] = header[i];
      }
      TypeDescription wantedRow = wanted.getChildren().get(OrcTypes.ROW);
      for (int id = wantedRow.getId(); row != null && id <= wantedRow.getMaximumId(); id++) {
        include[id] = true;
      }
      Reader.Options options =
          reader.options().schema(wanted).include(include).range(start, length).isSchemaEvolutionCaseAware(false);
      if (filter != null) {
        options.searchArgument(filter, new String[0]);
      }
      longDecimals = row != null && OrcTypes.sameDecimals(wantedRow, schema.getChildren().get(OrcTypes.ROW));
      int size = (int) Math.max(1, Math.min(batchSize, reader.getNumberOfRows()));
      batch =
          wanted.createRowBatch(
              longDecimals ? TypeDescription.RowBatchVersion.USE_DECIMAL64 : TypeDescription.RowBatchVersion.ORIGINAL,
              size);
      records = reader.rows(options);
    } catch (IOException | RuntimeException failure) {
      throw Failures.whileReading(file.uri(), failure);
    }
  }

  /** Whether decimals of up to 18 digits are decoded as longs. */
  boolean longDecimals() {
    return longDecimals;
  }

  /** Decode the next batch; its size, 0 at the end. */
  int next() {
    try {
      return records.nextBatch(batch) ? batch.size : 0;
    } catch (IOException | RuntimeException failure) {
      throw Failures.whileReading(file.uri(), failure);
    }
  }

  /** A column before {@code row} of the current batch. */
  HeaderColumn header(int column) {
    return new HeaderColumn(constant[column], constants[column], batch.cols[column]);
  }

  org.apache.hadoop.hive.ql.exec.vector.ColumnVector column(int column) {
    return batch.cols[column];
  }

  StructColumnVector row() {
    return (StructColumnVector) batch.cols[OrcTypes.ROW];
  }

  /** Names of the columns of {@code row} in the file. */
  List<String> rowNames() {
    return schema.getChildren().get(OrcTypes.ROW).getFieldNames();
  }

  @Override
  public void close() throws IOException {
    try {
      if (records != null) {
        records.close();
      }
    } finally {
      reader.close();
    }
  }
}
