"""Hive's bucket hash as Spark expressions.

No function of Spark SQL is Hive's hash, but its parts are at hand in every Spark: Murmur3 and decimals as Hive has them
in ``hive-storage-api``, which Spark's ORC source needs, and the hashes of bytes of Hadoop and of Spark's own
``HiveHash``. They are called as expressions and compiled into the stage: no Python worker, no jar of ours.
:mod:`airflow_hive_acid.format.bucketing` is the same in Python; a test compares both with Hive's own answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.format.bucketing import HiveType
from airflow_hive_acid.spark.java_names import java_names
from airflow_hive_acid.spark.versions import Expressions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, SparkSession

_MURMUR3 = "org.apache.hive.common.util.Murmur3"
_TO_BYTES = "org.apache.spark.sql.catalyst.util.NumberConverter"
_DECIMAL = "org.apache.hadoop.hive.common.type.HiveDecimal"
_DECIMAL_WRITABLE = "org.apache.hadoop.hive.serde2.io.HiveDecimalWritable"
_HASH_BYTES = "org.apache.hadoop.io.WritableComparator"
_CALENDARS = "org.apache.spark.sql.catalyst.util.RebaseDateTime"
_MICROS = 1_000_000


def hive_hash(spark: SparkSession, values: Sequence[tuple[str, str]], version: int) -> Column:
    """Hive's hash of a row's bucketing columns: a bigint in the range of an int.

    :param values: expression and Hive type of each column.
    :raises UnsupportedStatementError: for a type by which rows cannot be placed.
    """
    hashes = _HashesV1(spark) if version == 1 else _HashesV2(spark)
    return hashes.in_turn([hashes.one(F.expr(value), HiveType.parse(kind)) for value, kind in values])


def _int(value: Column) -> Column:
    """The low 32 bits as a signed number, as Java's ints overflow; a cast would fail instead."""
    return F.shiftright(F.shiftleft(value, 32), 32)


def _folded(value: Column) -> Column:
    """A bigint as Java folds it into an int."""
    return _int(F.shiftrightunsigned(value, 32).bitwiseXOR(value))


class _Calls:
    """Java methods as columns."""

    def __init__(self, spark: SparkSession) -> None:
        jvm = java_names(spark)
        # Each is a call: look classes up once.
        self._expressions = Expressions(jvm)
        self._catalyst = jvm.org.apache.spark.sql.catalyst.expressions
        self._objects = self._catalyst.objects
        self._type = jvm.org.apache.spark.sql.types.DataType.fromDDL
        self._object_type = jvm.org.apache.spark.sql.types.ObjectType
        self._list = jvm.java.util.ArrayList
        self._to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self._class = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass
        self._none = jvm.scala.Option.apply(None)

    def static(self, class_name: str, method: str, kind: str, *arguments: Column) -> Column:
        """``Class.method(arguments)``, NULL when an argument is."""
        expressions = map(self._expressions.expression, arguments)
        return self._expressions.column(self._static(class_name, method, self._type(kind), expressions))

    def hive_hash(self, value: Column) -> Column:
        """Spark's own expression for version 1; right for strings."""
        return self._expressions.column(self._catalyst.HiveHash(self._seq([self._expressions.expression(value)])))

    def of_decimal(self, value: Column, method: str, kind: str) -> Column:
        """``new HiveDecimalWritable(value).method()``."""
        number = self._invoke(
            self._expressions.expression(value), "toJavaBigDecimal", self._object("java.math.BigDecimal")
        )
        decimal = self._static(_DECIMAL, "create", self._object(_DECIMAL), [number])
        writable = self._objects.NewInstance(
            self._class(_DECIMAL_WRITABLE),
            self._seq([decimal]),
            self._seq([]),
            True,
            self._object(_DECIMAL_WRITABLE),
            self._none,
        )
        return self._expressions.column(self._invoke(writable, method, self._type(kind)))

    def _static(self, class_name: str, method: str, kind: Any, arguments: Any) -> Any:
        return self._expressions.static(self._class(class_name), kind, method, self._seq(arguments), self._seq([]))

    def _invoke(self, target: Any, method: str, kind: Any) -> Any:
        return self._objects.Invoke(target, method, kind, self._seq([]), self._seq([]), True, True, True)

    def _object(self, class_name: str) -> Any:
        return self._object_type(self._class(class_name))

    def _seq(self, items: Any) -> Any:
        found = self._list()
        for item in items:
            found.add(item)
        return self._to_seq(found)


class _Hashes:
    """What both versions have in common: NULL is 0, and hashes follow each other as ``31 * h + hash``."""

    def __init__(self, spark: SparkSession) -> None:
        self._calls = _Calls(spark)

    def one(self, value: Column, kind: HiveType) -> Column:
        """The hash of one value, a bigint."""
        if kind.name in ("array", "map", "struct"):
            hashed = self._of_several(value, kind)
        else:
            hashed = self._of_one(value, kind.name).cast("bigint")
        return F.when(value.isNull(), F.lit(0).cast("bigint")).otherwise(hashed)

    def in_turn(self, hashes: Sequence[Column]) -> Column:
        """Hashes of columns or fields, one after the other."""
        result = hashes[0]
        for one in hashes[1:]:
            result = _int(result * 31 + one)
        return result

    def _of_one(self, value: Column, name: str) -> Column:
        raise NotImplementedError

    def _of_map_value(self, value: Column, kind: HiveType) -> Column:
        return self.one(value, kind)

    def _of_several(self, value: Column, kind: HiveType) -> Column:
        zero = F.lit(0).cast("bigint")
        if kind.name == "array":
            (element,) = kind.children
            return F.aggregate(value, zero, lambda h, item: _int(h * 31 + self.one(item, element)))
        if kind.name == "map":
            of_key, of_value = kind.children

            def entry(item: Column) -> Column:
                return self.one(item["key"], of_key).bitwiseXOR(self._of_map_value(item["value"], of_value))

            return F.aggregate(F.map_entries(value), zero, lambda h, item: _int(h + entry(item)))
        names = kind.fields
        return self.in_turn([self.one(value[n], child) for n, child in zip(names, kind.children, strict=True)])


class _HashesV1(_Hashes):
    def _of_one(self, value: Column, name: str) -> Column:
        calls = self._calls
        match name:
            case "boolean" | "tinyint" | "smallint" | "int":
                return value.cast("int")
            case "date":
                return F.unix_date(value)
            case "bigint":
                return _folded(value)
            case "float":
                return calls.static("java.lang.Float", "floatToIntBits", "int", value)
            case "double":
                return _folded(calls.static("java.lang.Double", "doubleToLongBits", "bigint", value))
            case "string":
                return calls.hive_hash(value)
            case "char":
                return self._of_bytes(F.rtrim(value).cast("binary"))
            case "varchar" | "binary":
                return self._of_bytes(value.cast("binary"))
            case "decimal":
                return calls.of_decimal(value, "hashCode", "int")
            case "timestamp":
                # Hive goes through java.sql.Timestamp here, whose calendar is the Julian one before 1582.
                micros = calls.static(_CALENDARS, "rebaseGregorianToJulianMicros", "bigint", F.unix_micros(value))
                seconds, rest = _seconds_and_micros(micros)
                return _folded(F.shiftleft(seconds, 30).bitwiseOR(rest * 1000))
        raise _no_values(name)

    def _of_bytes(self, data: Column) -> Column:
        return self._calls.static(_HASH_BYTES, "hashBytes", "int", data, F.length(data))


class _HashesV2(_Hashes):
    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self._of_map_values = _HashesV1(spark)

    def _of_map_value(self, value: Column, kind: HiveType) -> Column:
        # Hive hashes the values of maps the old way.
        return self._of_map_values.one(value, kind)

    def _of_one(self, value: Column, name: str) -> Column:
        if name in ("boolean", "tinyint"):
            return value.cast("int")
        return self._calls.static(_MURMUR3, "hash32", "int", self._bytes(value, name))

    def _bytes(self, value: Column, name: str) -> Column:
        calls = self._calls
        match name:
            case "smallint" | "int" | "bigint":
                return calls.static(_TO_BYTES, "toBinary", "binary", value)
            case "date":
                return calls.static(_TO_BYTES, "toBinary", "binary", F.unix_date(value))
            case "float":
                # The bits as a number, and that number's bits.
                number = calls.static("java.lang.Float", "floatToIntBits", "int", value).cast("float")
                bits = calls.static("java.lang.Float", "floatToIntBits", "int", number)
                return calls.static(_TO_BYTES, "toBinary", "binary", bits)
            case "double":
                number = calls.static("java.lang.Double", "doubleToLongBits", "bigint", value).cast("double")
                bits = calls.static("java.lang.Double", "doubleToLongBits", "bigint", number)
                return calls.static(_TO_BYTES, "toBinary", "binary", bits)
            case "string" | "varchar" | "binary":
                return value.cast("binary")
            case "char":
                return F.rtrim(value).cast("binary")
            case "decimal":
                return calls.of_decimal(value, "getInternalStorage", "binary")
            case "timestamp":
                return _timestamp_bytes(F.unix_micros(value))
        raise _no_values(name)


def _seconds_and_micros(micros: Column) -> tuple[Column, Column]:
    rest = F.pmod(micros, F.lit(_MICROS))
    return F.call_function("div", micros - rest, F.lit(_MICROS)), rest


def _timestamp_bytes(micros: Column) -> Column:
    """Hive's serialised timestamp; Spark's have six digits after the point."""
    seconds, rest = _seconds_and_micros(micros)
    further = (seconds < 0) | (seconds > 0x7FFFFFFF)
    digits = F.reverse(F.lpad(rest.cast("string"), 6, "0")).cast("bigint")
    flag = F.when(further | (digits != 0), F.lit(1 << 31)).otherwise(F.lit(0))
    first = seconds.bitwiseAND(F.lit(0xFFFFFFFF)).bitwiseOR(flag.cast("bigint"))
    # Seconds from year 1 to 9999 need no more than one byte beyond the first 31 bits.
    last = F.when(further, _hex(F.shiftright(seconds, 31).bitwiseAND(F.lit(0xFF)), 1)).otherwise(F.lit(""))
    return F.unhex(F.concat(_hex(first, 4), _fraction(digits, further), last))


def _fraction(digits: Column, further: Column) -> Column:
    """The reversed digits as Hadoop's variable-length long; negative when there is more to come."""
    length = F.when(digits <= 0xFF, 1).when(digits <= 0xFFFF, 2).otherwise(3)
    marker = _hex(F.when(further, 256 - 120 - length).otherwise(256 - 112 - length), 1)
    size = F.when(digits <= 0xFF, _hex(digits, 1)).when(digits <= 0xFFFF, _hex(digits, 2)).otherwise(_hex(digits, 3))
    alone = F.when(further, _hex(F.lit(255) - digits, 1)).otherwise(_hex(digits, 1))
    short = digits <= F.when(further, F.lit(111)).otherwise(F.lit(127))
    return F.when(~further & (digits == 0), F.lit("")).when(short, alone).otherwise(F.concat(marker, size))


def _hex(number: Column, size: int) -> Column:
    return F.lpad(F.hex(number), 2 * size, "0")


def _no_values(name: str) -> UnsupportedStatementError:
    return UnsupportedStatementError(f"rows cannot be placed in buckets by values of type {name} in Spark")
