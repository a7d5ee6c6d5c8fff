package hiveacid.read;

import java.util.Arrays;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.Decimal64ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.spark.sql.catalyst.util.RebaseDateTime;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Stored vectors per type. Values come out as Spark's own ORC source gives them, its calendar rules included. */
final class StoredVectors {
  private StoredVectors() {}

  /**
   * A vector for values of a type.
   *
   * @param longDecimals whether decimals of up to 18 digits were decoded as longs
   */
  static StoredVector of(DataType type, boolean longDecimals) {
    if (type instanceof TimestampType) {
      return new Timestamps(type);
    } else if (type instanceof DateType) {
      return new Dates(type);
    } else if (type instanceof DoubleType || type instanceof FloatType) {
      return new Doubles(type);
    } else if (type instanceof StringType || type instanceof BinaryType) {
      return new Bytes(type);
    } else if (type instanceof DecimalType decimal) {
      return longDecimals && decimal.precision() <= 18 ? new LongDecimals(decimal) : new Decimals(decimal);
    } else if (type instanceof ArrayType array) {
      return new Lists(array, longDecimals);
    } else if (type instanceof MapType map) {
      return new Maps(map, longDecimals);
    } else if (type instanceof StructType struct) {
      return new Structs(struct, longDecimals);
    }
    return new Longs(type);
  }

  /** Booleans and integers of all widths. */
  static class Longs extends StoredVector {
    long[] values;

    Longs(DataType type) {
      super(type);
    }

    @Override
    void bind(org.apache.hadoop.hive.ql.exec.vector.ColumnVector vector, int[] selected, int count) {
      super.bind(vector, selected, count);
      values = ((LongColumnVector) vector).vector;
    }

    @Override
    public boolean getBoolean(int row) {
      return values[at(row)] == 1;
    }

    @Override
    public byte getByte(int row) {
      return (byte) values[at(row)];
    }

    @Override
    public short getShort(int row) {
      return (short) values[at(row)];
    }

    @Override
    public int getInt(int row) {
      return (int) values[at(row)];
    }

    @Override
    public long getLong(int row) {
      return values[at(row)];
    }
  }

  /** Days; orc-core counts them in the hybrid calendar, Spark in the proleptic one. */
  static final class Dates extends Longs {
    Dates(DataType type) {
      super(type);
    }

    @Override
    public int getInt(int row) {
      return RebaseDateTime.rebaseJulianToGregorianDays((int) values[at(row)]);
    }
  }

  /** Microseconds, from milliseconds and nanoseconds of the second. */
  static final class Timestamps extends StoredVector {
    private long[] millis;
    private int[] nanos;

    Timestamps(DataType type) {
      super(type);
    }

    @Override
    void bind(org.apache.hadoop.hive.ql.exec.vector.ColumnVector vector, int[] selected, int count) {
      super.bind(vector, selected, count);
      millis = ((TimestampColumnVector) vector).time;
      nanos = ((TimestampColumnVector) vector).nanos;
    }

    @Override
    public long getLong(int row) {
      int i = at(row);
      long micros = Math.floorDiv(millis[i], 1000L) * 1_000_000L + nanos[i] / 1000;
      return RebaseDateTime.rebaseJulianToGregorianMicros(micros);
    }
  }

  /** Doubles and floats. */
  static final class Doubles extends StoredVector {
    private double[] values;

    Doubles(DataType type) {
      super(type);
    }

    @Override
    void bind(org.apache.hadoop.hive.ql.exec.vector.ColumnVector vector, int[] selected, int count) {
      super.bind(vector, selected, count);
      values = ((DoubleColumnVector) vector).vector;
    }

    @Override
    public float getFloat(int row) {
      return (float) values[at(row)];
    }

    @Override
    public double getDouble(int row) {
      return values[at(row)];
    }
  }

  /** Strings and binary. */
  static final class Bytes extends StoredVector {
    private BytesColumnVector stored;

    Bytes(DataType type) {
      super(type);
    }

    @Override
    void bind(org.apache.hadoop.hive.ql.exec.vector.ColumnVector vector, int[] selected, int count) {
      super.bind(vector, selected, count);
      stored = (BytesColumnVector) vector;
    }

    @Override
    public UTF8String getUTF8String(int row) {
      if (isNullAt(row)) {
        return null;
      }
      int i = at(row);
      return UTF8String.fromBytes(stored.vector[i], stored.start[i], stored.length[i]);
    }

    @Override
    public byte[] getBinary(int row) {
      if (isNullAt(row)) {
        return null;
      }
      int i = at(row);
      return Arrays.copyOfRange(stored.vector[i], stored.start[i], stored.start[i] + stored.length[i]);
    }
  }

  /** Decimals of more than 18 digits, or whose type has changed since the file was written. */
  static final class Decimals extends StoredVector {
    private DecimalColumnVector stored;

    Decimals(DataType type) {
      super(type);
    }

    @Override
    void bind(org.apache.hadoop.hive.ql.exec.vector.ColumnVector vector, int[] selected, int count) {
      super.bind(vector, selected, count);
      stored = (DecimalColumnVector) vector;
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
      if (isNullAt(row)) {
        return null;
      }
      return Decimal.apply(stored.vector[at(row)].getHiveDecimal().bigDecimalValue(), precision, scale);
    }
  }

  /** Decimals that fit into a long: no object but Spark's own is made per value. */
  static final class LongDecimals extends StoredVector {
    private long[] values;

    LongDecimals(DataType type) {
      super(type);
    }

    @Override
    void bind(org.apache.hadoop.hive.ql.exec.vector.ColumnVector vector, int[] selected, int count) {
      super.bind(vector, selected, count);
      values = ((Decimal64ColumnVector) vector).vector;
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
      return isNullAt(row) ? null : Decimal.apply(values[at(row)], precision, scale);
    }
  }

  /** Arrays: the elements are another vector, read without a selection. */
  static final class Lists extends StoredVector {
    private final StoredVector elements;
    private ListColumnVector stored;

    Lists(ArrayType type, boolean longDecimals) {
      super(type);
      elements = of(type.elementType(), longDecimals);
    }

    @Override
    void bind(org.apache.hadoop.hive.ql.exec.vector.ColumnVector vector, int[] selected, int count) {
      super.bind(vector, selected, count);
      stored = (ListColumnVector) vector;
      elements.bind(stored.child, null, stored.childCount);
    }

    @Override
    public ColumnarArray getArray(int row) {
      int i = at(row);
      return new ColumnarArray(elements, (int) stored.offsets[i], (int) stored.lengths[i]);
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return elements;
    }
  }

  /** Maps. */
  static final class Maps extends StoredVector {
    private final StoredVector keys;
    private final StoredVector values;
    private MapColumnVector stored;

    Maps(MapType type, boolean longDecimals) {
      super(type);
      keys = of(type.keyType(), longDecimals);
      values = of(type.valueType(), longDecimals);
    }

    @Override
    void bind(org.apache.hadoop.hive.ql.exec.vector.ColumnVector vector, int[] selected, int count) {
      super.bind(vector, selected, count);
      stored = (MapColumnVector) vector;
      keys.bind(stored.keys, null, stored.childCount);
      values.bind(stored.values, null, stored.childCount);
    }

    @Override
    public ColumnarMap getMap(int row) {
      int i = at(row);
      return new ColumnarMap(keys, values, (int) stored.offsets[i], (int) stored.lengths[i]);
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return ordinal == 0 ? keys : values;
    }
  }

  /** Structs: their fields follow the selection. */
  static final class Structs extends StoredVector {
    private final ColumnVector[] fields;

    Structs(StructType type, boolean longDecimals) {
      this(type, longDecimals, new boolean[type.size()]);
    }

    /**
     * A struct of which some fields are not in the file.
     *
     * @param missing fields that are NULL in every row
     */
    Structs(StructType type, boolean longDecimals, boolean[] missing) {
      super(type);
      StructField[] described = type.fields();
      fields = new ColumnVector[described.length];
      for (int i = 0; i < fields.length; i++) {
        if (missing[i]) {
          ConstantColumnVector nothing = new ConstantColumnVector(1, described[i].dataType());
          nothing.setNull();
          fields[i] = nothing;
        } else {
          fields[i] = of(described[i].dataType(), longDecimals);
        }
      }
    }

    @Override
    void bind(org.apache.hadoop.hive.ql.exec.vector.ColumnVector vector, int[] selected, int count) {
      super.bind(vector, selected, count);
      StructColumnVector struct = (StructColumnVector) vector;
      int stored = 0;
      for (ColumnVector field : fields) {
        if (field instanceof StoredVector found) {
          found.bind(struct.fields[stored++], selected, count);
        }
      }
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return fields[ordinal];
    }
  }
}
