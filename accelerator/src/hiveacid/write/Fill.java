package hiveacid.write;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.Decimal64ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.catalyst.util.RebaseDateTime;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Puts values of Spark's rows into ORC's column vectors, one object per column of a type, made once per file.
 *
 * <p>Values are what Spark's own ORC source stores: dates and timestamps in the hybrid calendar that Hive's files have.
 */
abstract class Fill {
  private static final int MAX_LONG_DIGITS = 18;

  /** Sets a value that is not null. */
  abstract void set(SpecializedGetters from, int ordinal, ColumnVector to, int at);

  /** Sets a value or null; vectors are expected to be reset. */
  final void put(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
    if (from.isNullAt(ordinal)) {
      to.noNulls = false;
      to.isNull[at] = true;
    } else {
      set(from, ordinal, to, at);
    }
  }

  /** Bytes of text put into vectors since the last call. */
  long takeBytes() {
    return 0;
  }

  static long takeBytes(Fill[] columns) {
    long bytes = 0;
    for (Fill column : columns) {
      bytes += column.takeBytes();
    }
    return bytes;
  }

  /** How the columns of a row are set. */
  static Fill[] of(StructType row) {
    List<Fill> found = new ArrayList<>();
    for (StructField field : row.fields()) {
      found.add(of(field.dataType()));
    }
    return found.toArray(new Fill[0]);
  }

  private static Fill of(DataType type) {
    if (type instanceof BooleanType) {
      return new Booleans();
    } else if (type instanceof ByteType) {
      return new Bytes();
    } else if (type instanceof ShortType) {
      return new Shorts();
    } else if (type instanceof IntegerType) {
      return new Ints();
    } else if (type instanceof LongType) {
      return new Longs();
    } else if (type instanceof FloatType) {
      return new Floats();
    } else if (type instanceof DoubleType) {
      return new Doubles();
    } else if (type instanceof StringType) {
      return new Strings();
    } else if (type instanceof BinaryType) {
      return new Binaries();
    } else if (type instanceof DateType) {
      return new Dates();
    } else if (type instanceof TimestampType) {
      return new Timestamps();
    } else if (type instanceof DecimalType decimal) {
      return decimal.precision() <= MAX_LONG_DIGITS ? new ShortDecimals(decimal) : new Decimals(decimal);
    } else if (type instanceof ArrayType array) {
      return new Arrays(of(array.elementType()));
    } else if (type instanceof MapType map) {
      return new Maps(of(map.keyType()), of(map.valueType()));
    } else if (type instanceof StructType struct) {
      return new Structs(of(struct));
    }
    throw new IllegalArgumentException("no column vector for values of type " + type.simpleString());
  }

  private static final class Booleans extends Fill {
    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      ((LongColumnVector) to).vector[at] = from.getBoolean(ordinal) ? 1 : 0;
    }
  }

  private static final class Bytes extends Fill {
    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      ((LongColumnVector) to).vector[at] = from.getByte(ordinal);
    }
  }

  private static final class Shorts extends Fill {
    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      ((LongColumnVector) to).vector[at] = from.getShort(ordinal);
    }
  }

  private static final class Ints extends Fill {
    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      ((LongColumnVector) to).vector[at] = from.getInt(ordinal);
    }
  }

  private static final class Longs extends Fill {
    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      ((LongColumnVector) to).vector[at] = from.getLong(ordinal);
    }
  }

  private static final class Dates extends Fill {
    private static final int SAME_SINCE = RebaseDateTime.lastSwitchGregorianDay();

    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      int day = from.getInt(ordinal);
      ((LongColumnVector) to).vector[at] = day >= SAME_SINCE ? day : RebaseDateTime.rebaseGregorianToJulianDays(day);
    }
  }

  private static final class Timestamps extends Fill {
    private static final long SAME_SINCE = RebaseDateTime.lastSwitchGregorianTs();

    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      long micros = from.getLong(ordinal);
      if (micros < SAME_SINCE) {
        micros = RebaseDateTime.rebaseGregorianToJulianMicros(micros);
      }
      TimestampColumnVector vector = (TimestampColumnVector) to;
      // Milliseconds since the epoch, and the fraction of the second once more: see java.sql.Timestamp.
      vector.time[at] = Math.floorDiv(micros, 1000L);
      vector.nanos[at] = (int) Math.floorMod(micros, 1_000_000L) * 1000;
    }
  }

  private static final class Floats extends Fill {
    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      ((DoubleColumnVector) to).vector[at] = from.getFloat(ordinal);
    }
  }

  private static final class Doubles extends Fill {
    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      ((DoubleColumnVector) to).vector[at] = from.getDouble(ordinal);
    }
  }

  /** Values of any length; those that a batch holds are counted, so that it can be written early. */
  private abstract static class Texts extends Fill {
    private long bytes;

    final void copy(ColumnVector to, int at, byte[] from, int start, int length) {
      bytes += length;
      ((BytesColumnVector) to).setVal(at, from, start, length);
    }

    @Override
    final long takeBytes() {
      long taken = bytes;
      bytes = 0;
      return taken;
    }
  }

  private static final class Strings extends Texts {
    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      if (from instanceof UnsafeRow row && row.getBaseObject() instanceof byte[] bytes) {
        long place = row.getLong(ordinal);
        int start = (int) (row.getBaseOffset() + (place >>> 32) - Platform.BYTE_ARRAY_OFFSET);
        copy(to, at, bytes, start, (int) place);
        return;
      }
      UTF8String text = from.getUTF8String(ordinal);
      if (text.getBaseObject() instanceof byte[] bytes) {
        int start = (int) (text.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET);
        copy(to, at, bytes, start, text.numBytes());
      } else {
        byte[] bytes = text.getBytes();
        copy(to, at, bytes, 0, bytes.length);
      }
    }
  }

  private static final class Binaries extends Texts {
    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      byte[] bytes = from.getBinary(ordinal);
      copy(to, at, bytes, 0, bytes.length);
    }
  }

  /** Decimals that fit into a long; Spark's unsafe rows hold them as one. */
  private static final class ShortDecimals extends Fill {
    private final int precision;
    private final int scale;

    ShortDecimals(DecimalType type) {
      precision = type.precision();
      scale = type.scale();
    }

    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      long unscaled =
          from instanceof UnsafeRow || from instanceof UnsafeArrayData
              ? from.getLong(ordinal)
              : from.getDecimal(ordinal, precision, scale).toUnscaledLong();
      ((Decimal64ColumnVector) to).vector[at] = unscaled;
    }
  }

  private static final class Decimals extends Fill {
    private final int precision;
    private final int scale;

    Decimals(DecimalType type) {
      precision = type.precision();
      scale = type.scale();
    }

    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      Decimal value = from.getDecimal(ordinal, precision, scale);
      ((DecimalColumnVector) to).vector[at].set(HiveDecimal.create(value.toJavaBigDecimal()));
    }
  }

  private static final class Arrays extends Fill {
    private final Fill element;

    Arrays(Fill element) {
      this.element = element;
    }

    @Override
    long takeBytes() {
      return element.takeBytes();
    }

    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      ArrayData array = from.getArray(ordinal);
      ListColumnVector list = (ListColumnVector) to;
      int length = array.numElements();
      int first = list.childCount;
      list.offsets[at] = first;
      list.lengths[at] = length;
      list.childCount = first + length;
      grow(list.child, first + length);
      for (int i = 0; i < length; i++) {
        element.put(array, i, list.child, first + i);
      }
    }
  }

  private static final class Maps extends Fill {
    private final Fill key;
    private final Fill value;

    Maps(Fill key, Fill value) {
      this.key = key;
      this.value = value;
    }

    @Override
    long takeBytes() {
      return key.takeBytes() + value.takeBytes();
    }

    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      MapData data = from.getMap(ordinal);
      ArrayData keys = data.keyArray();
      ArrayData values = data.valueArray();
      MapColumnVector map = (MapColumnVector) to;
      int length = data.numElements();
      int first = map.childCount;
      map.offsets[at] = first;
      map.lengths[at] = length;
      map.childCount = first + length;
      grow(map.keys, first + length);
      grow(map.values, first + length);
      for (int i = 0; i < length; i++) {
        key.put(keys, i, map.keys, first + i);
        value.put(values, i, map.values, first + i);
      }
    }
  }

  private static final class Structs extends Fill {
    private final Fill[] fields;

    Structs(Fill[] fields) {
      this.fields = fields;
    }

    @Override
    long takeBytes() {
      return takeBytes(fields);
    }

    @Override
    void set(SpecializedGetters from, int ordinal, ColumnVector to, int at) {
      InternalRow row = from.getStruct(ordinal, fields.length);
      ColumnVector[] vectors = ((StructColumnVector) to).fields;
      for (int i = 0; i < fields.length; i++) {
        fields[i].put(row, i, vectors[i], at);
      }
    }
  }

  private static void grow(ColumnVector vector, int size) {
    if (vector.isNull.length < size) {
      vector.ensureSize(size * 3, true);
    }
  }
}
