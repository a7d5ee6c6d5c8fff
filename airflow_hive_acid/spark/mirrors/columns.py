"""The columns of a mirror: those of the source, in types that the target has; without a key also the row's id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.mirrors import HIDDEN, TargetFormat
from airflow_hive_acid.spark import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from airflow_hive_acid.format.jobs import TableSnapshot

_PREFIX = "_hive_acid_"
_IDS = (("writeid", T.LongType()), ("bucketid", T.IntegerType()), ("rowid", T.LongType()))


@dataclass(frozen=True, slots=True)
class MirrorColumns:
    """The columns of a target.

    :param fields: name and type of all, those of the row's id last.
    :param partition: names of the partition columns.
    :param key: what tells rows apart: the key, or partition columns and row id; nothing when rows cannot be told apart.
    :param hidden: whether the row's id is kept.
    """

    fields: tuple[tuple[str, T.DataType], ...]
    partition: tuple[str, ...]
    key: tuple[str, ...]
    hidden: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(name for name, _ in self.fields)

    @property
    def user_fields(self) -> tuple[tuple[str, T.DataType], ...]:
        """The columns that the source has, too."""
        return tuple(field for field in self.fields if field[0] not in HIDDEN or not self.hidden)

    def type_of(self, name: str) -> T.DataType:
        """The type of a column."""
        return dict(self.fields)[name]

    def of(self, rows: DataFrame, *more: str) -> DataFrame:
        """Rows of the source, with ``row__id`` where it is kept, as the target has them.

        :param more: expressions of further columns.
        """
        # Also where nothing changes: a declared char or varchar must not travel on with the column.
        texts = [f"cast({schema.quoted(n)} as {schema.sql_type(t)}) as {schema.quoted(n)}" for n, t in self.user_fields]
        if self.hidden:
            texts += [
                f"cast({schema.PSEUDO_COLUMN}.{part} as {kind.simpleString()}) as {schema.quoted(name)}"
                for name, (part, kind) in zip(HIDDEN, _IDS, strict=True)
            ]
        return rows.selectExpr(*texts, *more)


def mirror_columns(snapshot: TableSnapshot, key: Sequence[str], format: TargetFormat) -> MirrorColumns:
    """The columns of a target of this snapshot.

    :param key: the key columns; none: the row's id is kept, where rows have one.
    :raises InvalidArgumentsError: for a key column that is not there, and a name that the row's id needs.
    """
    parsed = schema.table_columns((*snapshot.columns, *snapshot.partition_columns), snapshot.table)
    fields = [(c.name, _kind(c.type, format, instants=c.has_instants)) for c in parsed]
    partition = tuple(c.name.lower() for c in snapshot.partition_columns)
    names = [name for name, _ in fields]
    for name in key:
        if name not in names:
            raise InvalidArgumentsError(f"key names {name}, which is no column of {snapshot.table}: {', '.join(names)}")
        if isinstance(dict(fields)[name], T.MapType):
            raise InvalidArgumentsError(f"key names {name}, a map: maps cannot be compared")
    taken = [name for name in names if name.startswith(_PREFIX)]
    if taken:
        raise InvalidArgumentsError(
            f"{snapshot.table} has a column {taken[0]}: names that begin with {_PREFIX} are those of a mirror itself"
        )
    if key:
        return MirrorColumns(tuple(fields), partition, tuple(key), hidden=False)
    if not snapshot.has_row_ids:
        return MirrorColumns(tuple(fields), partition, (), hidden=False)
    hidden = [(name, kind) for name, (_, kind) in zip(HIDDEN, _IDS, strict=True)]
    return MirrorColumns((*fields, *hidden), partition, (*partition, *HIDDEN), hidden=True)


def _kind(kind: T.DataType, format: TargetFormat, *, instants: bool) -> T.DataType:
    """A type of the source as the target has it.

    Iceberg has no integers below 32 bits, and a type for timestamps that are wall clocks, as Hive's are. Delta has the
    latter only as a feature that old readers lack, so there they are instants, shown in UTC.

    :param instants: it is, or has inside, a timestamp with local time zone.
    """
    if format is not TargetFormat.ICEBERG:
        return kind
    if isinstance(kind, T.ByteType | T.ShortType):
        return T.IntegerType()
    if isinstance(kind, T.TimestampType):
        return kind if instants else T.TimestampNTZType()
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_kind(kind.elementType, format, instants=instants))
    if isinstance(kind, T.MapType):
        key, value = (_kind(part, format, instants=instants) for part in (kind.keyType, kind.valueType))
        return T.MapType(key, value)
    if isinstance(kind, T.StructType):
        inner = [T.StructField(f.name, _kind(f.dataType, format, instants=instants)) for f in kind.fields]
        return T.StructType(inner)
    return kind
