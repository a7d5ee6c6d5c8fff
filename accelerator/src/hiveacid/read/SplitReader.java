package hiveacid.read;

import hiveacid.read.ScanSpec.Output;
import hiveacid.read.ScanSpec.Source;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgument;
import org.apache.orc.TypeDescription;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.vectorized.ColumnVectorUtils;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads the splits of a task one after the other, in batches. */
final class SplitReader implements PartitionReader<ColumnarBatch> {
  private static final int LARGEST_EMPTY_BATCH = 1 << 20;

  private final ReaderFactory scan;
  private final ScanSpec spec;
  private final Configuration conf;
  private final List<Split> splits;
  private int position;
  private EventFile file;
  private ColumnVector[] columns;
  private Bound[] bound;
  private ColumnarBatch batch;
  private DeletedRows.Cursor deleted;
  private boolean check;
  private boolean checkMade;
  private int[] selection;
  private long counted;
  private long decodedRows;
  private long passedOver;

  /** A vector of the output and the decoded column it shows: of the header, or a field of row. */
  private record Bound(StoredVector vector, boolean inRow, int column) {}

  SplitReader(ReaderFactory scan, Splits splits) {
    this.scan = scan;
    this.spec = scan.spec();
    this.conf = scan.conf().value().value();
    this.splits = splits.splits();
  }

  @Override
  public boolean next() throws IOException {
    while (true) {
      if (counted > 0) {
        int rows = (int) Math.min(counted, LARGEST_EMPTY_BATCH);
        counted -= rows;
        batch.setNumRows(rows);
        return true;
      }
      if (file != null) {
        int size = file.next();
        if (size > 0) {
          decodedRows += size;
          int left = show(size);
          if (left > 0) {
            return true;
          }
          continue;
        }
        close();
      }
      if (position == splits.size()) {
        return false;
      }
      open(splits.get(position++));
    }
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return Metrics.values(decodedRows, passedOver);
  }

  @Override
  public void close() throws IOException {
    EventFile open = file;
    file = null;
    if (open != null) {
      open.close();
    }
  }

  private void open(Split split) throws IOException {
    file = EventFile.open(split.file(), conf, spec.operation);
    long rows = file.rows(split.start(), split.length());
    if (rows == 0) {
      close();
      return;
    }
    DeletedRows found = split.deletes() == null ? null : DeleteCache.get(split.deletes(), spec, conf);
    deleted = found == null || found.isEmpty() ? null : found.cursor();
    if (spec.deletedOnly && (deleted == null || liveRows(found, split, rows) == rows)) {
      passedOver += rows;
      close();
      return;
    }
    check = split.file().check();
    if (check && file.isConstant(OrcTypes.CURRENT)) {
      if (!spec.sees(file.constantOf(OrcTypes.CURRENT))) {
        close();
        return;
      }
      check = false;
    }
    checkMade = spec.madeUpTo < Long.MAX_VALUE;
    if (checkMade && file.isConstant(OrcTypes.ORIGINAL)) {
      if (file.constantOf(OrcTypes.ORIGINAL) > spec.madeUpTo) {
        close();
        return;
      }
      checkMade = false;
    }
    boolean[] header = new boolean[OrcTypes.ROW];
    header[OrcTypes.CURRENT] = check;
    header[OrcTypes.ORIGINAL] = checkMade;
    for (Output output : scan.columns()) {
      if (output.source() == Source.HEADER && !file.isConstant(output.index())) {
        header[output.index()] = true;
      }
    }
    TypeDescription row = rowInFile(split.file());
    boolean anything = row != null;
    for (boolean wanted : header) {
      anything |= wanted;
    }
    if (deleted != null && !anything && !spec.deletedOnly) {
      long live = liveRows(found, split, rows);
      if (live >= 0) {
        passedOver += rows - live;
        rows = live;
        deleted = null;
      }
    }
    if (deleted != null) {
      anything = true;
      for (int i : new int[] {OrcTypes.ORIGINAL, OrcTypes.BUCKET, OrcTypes.ROW_NUMBER}) {
        header[i] |= !file.isConstant(i);
      }
    }
    if (anything) {
      SearchArgument filter = split.file().names() == null ? Predicates.of(scan.filters(), spec.row) : null;
      file.start(header, row, filter, split.start(), split.length(), scan.batchSize());
    }
    columns = new ColumnVector[scan.columns().size()];
    bound = bind(split);
    batch = new ColumnarBatch(columns);
    selection = check || checkMade || deleted != null ? new int[scan.batchSize()] : null;
    if (!anything) {
      counted = rows;
      close();
    }
  }

  /**
   * How many rows of a split are not deleted, where that can be told without reading them: rows of one write id and bucket value whose
   * numbers have no gap are counted in the bitmaps. -1 where they must be looked at.
   */
  private long liveRows(DeletedRows found, Split split, long rows) {
    if (!file.isConstant(OrcTypes.ORIGINAL) || !file.isConstant(OrcTypes.BUCKET)) {
      return -1;
    }
    long[] numbers = file.rowNumbers(split.start(), split.length());
    if (numbers == null) {
      return -1;
    }
    long live = rows;
    for (int i = 0; i < numbers.length; i += 2) {
      live -=
          found.count(
              file.constantOf(OrcTypes.ORIGINAL), file.constantOf(OrcTypes.BUCKET), numbers[i], numbers[i + 1]);
    }
    return live;
  }

  /** The part of {@code row} to decode, under the file's names; null when there is none. */
  private TypeDescription rowInFile(DataFile described) {
    TypeDescription row = TypeDescription.createStruct();
    for (StructField field : wanted()) {
      String name = nameInFile(described, field.name());
      if (name != null) {
        row.addField(name, OrcTypes.of(field.dataType()));
      }
    }
    return row.getChildren().isEmpty() ? null : row;
  }

  /** The columns of the table that are read, with their possibly narrowed types. */
  private List<StructField> wanted() {
    List<StructField> fields = new ArrayList<>();
    for (Output output : scan.columns()) {
      if (output.source() == Source.COLUMN) {
        fields.add(new StructField(spec.row.fields()[output.index()].name(), output.type(), true, null));
      } else if (output.source() == Source.ROW) {
        fields.addAll(List.of(((StructType) output.type()).fields()));
      }
    }
    return fields;
  }

  private String nameInFile(DataFile described, String column) {
    if (described.names() == null) {
      return column;
    }
    int at = spec.row.fieldIndex(column);
    return at < described.names().length ? described.names()[at] : null;
  }

  private Bound[] bind(Split split) {
    List<Bound> found = new ArrayList<>();
    int stored = 0;
    for (int i = 0; i < columns.length; i++) {
      Output output = scan.columns().get(i);
      switch (output.source()) {
        case ORDINAL -> columns[i] = constant(output.type(), split.file().partition());
        case VALUE -> {
          ConstantColumnVector value = new ConstantColumnVector(1, output.type());
          InternalRow values = split.values();
          ColumnVectorUtils.populate(value, values, output.index());
          columns[i] = value;
        }
        case HEADER -> {
          if (file.isConstant(output.index())) {
            columns[i] = constant(output.type(), file.constantOf(output.index()));
          } else {
            StoredVector vector = StoredVectors.of(output.type(), false);
            columns[i] = vector;
            found.add(new Bound(vector, false, output.index()));
          }
        }
        case COLUMN -> {
          if (nameInFile(split.file(), spec.row.fields()[output.index()].name()) == null) {
            columns[i] = nothing(output.type());
          } else {
            StoredVector vector = StoredVectors.of(output.type(), file.longDecimals());
            columns[i] = vector;
            found.add(new Bound(vector, true, stored++));
          }
        }
        case ROW -> {
          StructType type = (StructType) output.type();
          boolean[] missing = new boolean[type.size()];
          for (int j = 0; j < missing.length; j++) {
            missing[j] = nameInFile(split.file(), type.fields()[j].name()) == null;
          }
          StoredVectors.Structs vector = new StoredVectors.Structs(type, file.longDecimals(), missing);
          columns[i] = vector;
          found.add(new Bound(vector, false, OrcTypes.ROW));
        }
      }
    }
    return found.toArray(new Bound[0]);
  }

  /** Show the rows of the batch that are left; how many. */
  private int show(int size) {
    int left = size;
    int[] candidates = null;
    if (check) {
      HeaderColumn current = file.header(OrcTypes.CURRENT);
      left = 0;
      for (int i = 0; i < size; i++) {
        if (spec.sees(current.at(i))) {
          selection[left++] = i;
        }
      }
      candidates = selection;
    }
    if (checkMade) {
      HeaderColumn original = file.header(OrcTypes.ORIGINAL);
      int seen = left;
      left = 0;
      for (int k = 0; k < seen; k++) {
        int i = candidates == null ? k : candidates[k];
        if (original.at(i) <= spec.madeUpTo) {
          selection[left++] = i;
        }
      }
      candidates = selection;
    }
    if (deleted != null) {
      left =
          deleted.retain(
              file.header(OrcTypes.ORIGINAL),
              file.header(OrcTypes.BUCKET),
              file.header(OrcTypes.ROW_NUMBER),
              candidates,
              left,
              selection,
              spec.deletedOnly);
    }
    passedOver += size - left;
    int[] selected = left == size ? null : selection;
    for (Bound each : bound) {
      each.vector.bind(each.inRow ? file.row().fields[each.column] : file.column(each.column), selected, left);
    }
    batch.setNumRows(left);
    return left;
  }

  private static ConstantColumnVector constant(DataType type, long value) {
    ConstantColumnVector vector = new ConstantColumnVector(1, type);
    if (type instanceof IntegerType) {
      vector.setInt((int) value);
    } else {
      vector.setLong(value);
    }
    return vector;
  }

  private static ConstantColumnVector nothing(DataType type) {
    ConstantColumnVector vector = new ConstantColumnVector(1, type);
    vector.setNull();
    return vector;
  }
}
