"""Hive's column types as Spark sees them, and the six columns of an ACID file around them.

Hive keeps types as text (``decimal(12,2)``, ``struct<a:int>``). Spark scans char and varchar as strings, so their
length travels beside the type: readers pad, writers check. A Hive timestamp is Spark's timestamp under UTC, never
TIMESTAMP_NTZ, which Spark's ORC writer stores as a bigint. One with local time zone is an instant: Spark's timestamp as
well, shown in UTC. Types without a faithful counterpart are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.identifiers import quoted_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.format.jobs import Column

OPERATION = "operation"
ORIGINAL_WRITE_ID = "originalTransaction"
BUCKET = "bucket"
ROW_NUMBER = "rowId"
CURRENT_WRITE_ID = "currentTransaction"
ROW = "row"
HEADER = (OPERATION, ORIGINAL_WRITE_ID, BUCKET, ROW_NUMBER, CURRENT_WRITE_ID)
"""Columns before ``row`` in every ACID file, in the file's order."""
IDENTITY = (ORIGINAL_WRITE_ID, BUCKET, ROW_NUMBER)
"""What identifies a row within its partition (ROW__ID)."""
INSERTED, UPDATED, DELETED = 0, 1, 2
"""Values of ``operation``; updates in place occur in files from before Hive 3."""

PARTITION = "__acid_partition"
"""Ordinal of the row's partition in the snapshot; ROW__IDs repeat from partition to partition."""
INTERNAL_PREFIX = "__acid_"
PSEUDO_COLUMN = "row__id"

_HEADER_TYPES: dict[str, T.DataType] = {
    OPERATION: T.IntegerType(),
    ORIGINAL_WRITE_ID: T.LongType(),
    BUCKET: T.IntegerType(),
    ROW_NUMBER: T.LongType(),
    CURRENT_WRITE_ID: T.LongType(),
}
_INSTANT = "timestamp with local time zone"
_SIMPLE: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "integer": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "double precision": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    _INSTANT: T.TimestampType(),
}
_DECIMALS = ("decimal", "numeric", "dec")
_CHARACTERS = ("char", "varchar")
# Cheapest to decode first; the scan keeps one leaf of ``row`` alive.
_BY_COST = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.DateType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.TimestampType,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
)
_TOKEN = re.compile(r"[a-z_0-9]+(?: [a-z_0-9]+)*")
_ARGUMENTS = re.compile(r"\(\s*([0-9]+)\s*(?:,\s*([0-9]+)\s*)?\)")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table inside Spark.

    :param hive_type: the type as the catalog has it, lower case.
    :param type: the type Spark scans and computes with.
    :param length: declared length of a char or varchar column, else None.
    :param required: declared NOT NULL.
    :param default: Spark SQL of what it is without a value, None for NULL.
    """

    name: str
    hive_type: str
    type: T.DataType
    length: int | None = None
    required: bool = False
    default: str | None = None

    @property
    def is_char(self) -> bool:
        """Whether values are padded with blanks to the declared length when read."""
        return self.length is not None and self.hive_type.startswith("char")

    @property
    def is_instant(self) -> bool:
        """Whether it is a timestamp with local time zone."""
        return self.hive_type == _INSTANT

    @property
    def has_instants(self) -> bool:
        """Whether it is, or has inside, a timestamp with local time zone."""
        return _INSTANT in self.hive_type


def table_columns(columns: Iterable[Column], table: str) -> tuple[TableColumn, ...]:
    """The columns of ``table`` with their Spark types.

    :raises UnsupportedStatementError: for a type that Spark cannot read or write the way Hive does.
    :raises InvalidArgumentsError: for a type that cannot be read at all, or a name reserved for this package.
    """
    parsed = []
    for column in columns:
        name = column.name.lower()
        if name.startswith(INTERNAL_PREFIX):
            raise InvalidArgumentsError(
                f"column {name} of {table}: names that start with {INTERNAL_PREFIX} are used internally; rename it"
            )
        text = column.type.strip().lower()
        parser = _TypeParser(text, f"column {name} of {table}")
        parsed.append(TableColumn(name, text, parser.whole(), parser.length, column.required, column.default))
    return tuple(parsed)


def row_type(columns: Iterable[TableColumn]) -> T.StructType:
    """The type of the ``row`` field: all data columns, by name."""
    return T.StructType([T.StructField(c.name, c.type) for c in columns])


def event_schema(row: T.StructType) -> T.StructType:
    """The schema of an ACID file; exactly these six columns in exactly this order."""
    header = [T.StructField(name, _HEADER_TYPES[name]) for name in HEADER]
    return T.StructType([*header, T.StructField(ROW, row)])


def header_type(name: str) -> T.DataType:
    """Type of one of the header columns."""
    return _HEADER_TYPES[name]


def cheapest_column(row: T.StructType) -> str | None:
    """The primitive column that is cheapest to decode; None when all columns are complex."""

    def cost(field: T.StructField) -> int:
        return next((i for i, kind in enumerate(_BY_COST) if isinstance(field.dataType, kind)), len(_BY_COST))

    best = min(row.fields, key=cost)
    return best.name if cost(best) < len(_BY_COST) else None


def quoted(*names: str) -> str:
    """A (qualified) name in Spark SQL, whatever characters it has."""
    return quoted_name(*names)


def sql_type(kind: T.DataType) -> str:
    """A type in Spark SQL; ``simpleString`` does not quote field names."""
    if isinstance(kind, T.ArrayType):
        return f"array<{sql_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"map<{sql_type(kind.keyType)},{sql_type(kind.valueType)}>"
    if isinstance(kind, T.StructType):
        return f"struct<{','.join(f'{quoted(f.name)}:{sql_type(f.dataType)}' for f in kind.fields)}>"
    return kind.simpleString()


def sql_text(text: str) -> str:
    """A string constant in Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def internal(name: str) -> str:
    """Name of a header column among user columns."""
    return f"{INTERNAL_PREFIX}{name}"


class _TypeParser:
    """Recursive descent over a Hive type text."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._at = 0
        self._where = where
        self.length: int | None = None

    def whole(self) -> T.DataType:
        found = self._type(top=True)
        if self._at != len(self._text):
            raise self._unreadable()
        return found

    def _type(self, top: bool = False) -> T.DataType:
        name = self._name()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in _DECIMALS:
            precision, scale = self._arguments()
            return T.DecimalType(10 if precision is None else precision, scale or 0)
        if name in _CHARACTERS:
            length, _ = self._arguments()
            if top:
                self.length = length
            return T.StringType()
        if name == "array":
            self._take("<")
            element = self._type()
            self._take(">")
            return T.ArrayType(element)
        if name == "map":
            self._take("<")
            key = self._type()
            self._take(",")
            value = self._type()
            self._take(">")
            return T.MapType(key, value)
        if name == "struct":
            return self._struct()
        raise UnsupportedStatementError(
            f"{self._where} has the type {self._text!r}: Spark's ORC files have no {name} that Hive reads back "
            "unchanged; keep such tables to Hive, or change the column's type"
        )

    def _struct(self) -> T.StructType:
        fields = []
        self._take("<")
        while True:
            colon = self._text.find(":", self._at)
            if colon <= self._at:
                raise self._unreadable()
            name = self._text[self._at : colon].strip().strip("`")
            self._at = colon + 1
            fields.append(T.StructField(name, self._type()))
            if not self._skip(","):
                break
        self._take(">")
        return T.StructType(fields)

    def _name(self) -> str:
        while self._skip(" "):
            pass
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise self._unreadable()
        self._at = match.end()
        return match[0]

    def _arguments(self) -> tuple[int | None, int | None]:
        match = _ARGUMENTS.match(self._text, self._at)
        if match is None:
            return None, None
        self._at = match.end()
        return int(match[1]), None if match[2] is None else int(match[2])

    def _skip(self, character: str) -> bool:
        if self._text.startswith(character, self._at):
            self._at += 1
            return True
        return False

    def _take(self, character: str) -> None:
        while self._skip(" "):
            pass
        if not self._skip(character):
            raise self._unreadable()

    def _unreadable(self) -> InvalidArgumentsError:
        return InvalidArgumentsError(
            f"{self._where}: the type {self._text!r} cannot be read at character {self._at + 1}; "
            "expected a Hive type such as int, decimal(12,2) or array<struct<a:int>>"
        )
