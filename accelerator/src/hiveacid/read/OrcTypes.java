package hiveacid.read;

import java.util.List;
import org.apache.orc.TypeDescription;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
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

/** ORC types for Spark's, and the layout of an ACID file. */
final class OrcTypes {
  /** The columns of an ACID file; a reader schema of exactly these names is taken by orc-core as it is. */
  static final List<String> EVENT =
      List.of("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row");

  static final int OPERATION = 0;
  static final int ORIGINAL = 1;
  static final int BUCKET = 2;
  static final int ROW_NUMBER = 3;
  static final int CURRENT = 4;
  static final int ROW = 5;

  private OrcTypes() {}

  /** An ACID event around the given row. */
  static TypeDescription event(TypeDescription row) {
    return TypeDescription.createStruct()
        .addField(EVENT.get(OPERATION), TypeDescription.createInt())
        .addField(EVENT.get(ORIGINAL), TypeDescription.createLong())
        .addField(EVENT.get(BUCKET), TypeDescription.createInt())
        .addField(EVENT.get(ROW_NUMBER), TypeDescription.createLong())
        .addField(EVENT.get(CURRENT), TypeDescription.createLong())
        .addField(EVENT.get(ROW), row);
  }

  /** Whether a file has the columns of an ACID file, in their order. */
  static boolean isEvent(TypeDescription file) {
    if (file.getCategory() != TypeDescription.Category.STRUCT || file.getFieldNames().size() != EVENT.size()) {
      return false;
    }
    for (int i = 0; i < EVENT.size(); i++) {
      if (!file.getFieldNames().get(i).equalsIgnoreCase(EVENT.get(i))) {
        return false;
      }
    }
    return file.getChildren().get(ROW).getCategory() == TypeDescription.Category.STRUCT;
  }

  /** The ORC type that values of a Spark type are read as. */
  static TypeDescription of(DataType type) {
    if (type instanceof BooleanType) {
      return TypeDescription.createBoolean();
    } else if (type instanceof ByteType) {
      return TypeDescription.createByte();
    } else if (type instanceof ShortType) {
      return TypeDescription.createShort();
    } else if (type instanceof IntegerType) {
      return TypeDescription.createInt();
    } else if (type instanceof LongType) {
      return TypeDescription.createLong();
    } else if (type instanceof FloatType) {
      return TypeDescription.createFloat();
    } else if (type instanceof DoubleType) {
      return TypeDescription.createDouble();
    } else if (type instanceof StringType) {
      return TypeDescription.createString();
    } else if (type instanceof BinaryType) {
      return TypeDescription.createBinary();
    } else if (type instanceof DateType) {
      return TypeDescription.createDate();
    } else if (type instanceof TimestampType) {
      return TypeDescription.createTimestamp();
    } else if (type instanceof DecimalType decimal) {
      return TypeDescription.createDecimal().withScale(decimal.scale()).withPrecision(decimal.precision());
    } else if (type instanceof ArrayType array) {
      return TypeDescription.createList(of(array.elementType()));
    } else if (type instanceof MapType map) {
      return TypeDescription.createMap(of(map.keyType()), of(map.valueType()));
    } else if (type instanceof StructType struct) {
      TypeDescription found = TypeDescription.createStruct();
      for (StructField field : struct.fields()) {
        found.addField(field.name(), of(field.dataType()));
      }
      return found;
    }
    throw new IllegalArgumentException("no ORC type for " + type);
  }

  /**
   * Whether all decimals of up to 18 digits have the same type in the file, so that they can be read as long values:
   * orc-core does not convert those.
   */
  static boolean sameDecimals(TypeDescription wanted, TypeDescription file) {
    switch (wanted.getCategory()) {
      case DECIMAL:
        return file.getCategory() == TypeDescription.Category.DECIMAL
            && file.getPrecision() == wanted.getPrecision()
            && file.getScale() == wanted.getScale();
      case STRUCT:
        if (file.getCategory() != TypeDescription.Category.STRUCT) {
          return false;
        }
        for (int i = 0; i < wanted.getChildren().size(); i++) {
          String name = wanted.getFieldNames().get(i);
          int at = position(file, name);
          if (at >= 0 && !sameDecimals(wanted.getChildren().get(i), file.getChildren().get(at))) {
            return false;
          }
        }
        return true;
      case LIST:
      case MAP:
        if (file.getCategory() != wanted.getCategory()) {
          return false;
        }
        for (int i = 0; i < wanted.getChildren().size(); i++) {
          if (!sameDecimals(wanted.getChildren().get(i), file.getChildren().get(i))) {
            return false;
          }
        }
        return true;
      default:
        return true;
    }
  }

  private static int position(TypeDescription struct, String name) {
    for (int i = 0; i < struct.getFieldNames().size(); i++) {
      if (struct.getFieldNames().get(i).equalsIgnoreCase(name)) {
        return i;
      }
    }
    return -1;
  }
}
