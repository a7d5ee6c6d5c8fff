"""Records of a program, dicts of plain Python values, checked against a table's columns one by one.

A field that is missing, that the table does not have, or whose value does not fit is an error with the number of the
record and the name of the column, before Spark or the metastore hears of it. What fits is said in ``sql.records``, as
for rows that are given to a statement; here nested values are checked down to their leaves as well. What passes becomes
a line of JSON that Spark reads in exactly the declared types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError
from airflow_hive_acid.format.identifiers import quoted_name
from airflow_hive_acid.format.jobs import RECORDS, Column, Source
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.python_versions import datetime_of
from airflow_hive_acid.sql.parsing.builders import shown
from airflow_hive_acid.sql.parsing.records import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore.catalog import Table

    Encode = Callable[[Any], Any]

_PLAIN = re.compile(r"[a-z]+\s*(?:\([0-9,\s]+\))?")
_NO_NUMBERS = ("nan", "infinity", "-infinity")


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The columns that records fill.

    :param table: ``db.table``, for messages.
    :param columns: data columns, and partition columns whose values come from the records.
    """

    table: str
    columns: tuple[Column, ...]
    _encode: dict[str, Encode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for column in self.columns:
            self._encode[column.name.lower()] = encoder(column.type)

    @property
    def names(self) -> tuple[str, ...]:
        """What records call them."""
        return tuple(column.name.lower() for column in self.columns)

    def line(self, record: object, number: int) -> str:
        """A record as a line of JSON.

        :param number: counts from 1, for messages.
        :raises BadRecordError: names number and column.
        """
        if not isinstance(record, Mapping):
            raise BadRecordError(f"record {number} for {self.table} must be a dict of values, not {shown(record)}")
        given = {str(name).lower(): value for name, value in record.items()}
        if len(given) != len(record):
            raise BadRecordError(f"record {number} for {self.table} names a column twice, in upper and lower case")
        unknown = [name for name in given if name not in self._encode]
        if unknown:
            raise BadRecordError(
                f"record {number}, field {unknown[0]}: {self.table} has no such column to fill; it has "
                + ", ".join(self._encode)
            )
        return json.dumps(
            {column.name.lower(): self._value(given, column, number) for column in self.columns},
            ensure_ascii=True,
            separators=(",", ":"),
        )

    def _value(self, given: Mapping[str, object], column: Column, number: int) -> Any:
        name = column.name.lower()
        where = f"record {number}, column {name}"
        if name not in given:
            raise BadRecordError(f"{where}: the field is missing; give every column of {self.table}, None for NULL")
        value = given[name]
        if value is None:
            if column.required:
                raise BadRecordError(f"{where}: it is None, and the column is NOT NULL")
            return None
        try:
            return self._encode[name](value)
        except ValueError as problem:
            raise BadRecordError(f"{where}: {shown(value)} is no {column.type}: {problem}") from None

    def source(self, name: str, text: str) -> Source:
        """Lines as a source of a job, in the declared types."""
        return Source(name, RECORDS, {"lines": text}, self.columns)

    def query(self, view: str) -> str:
        """Spark SQL for the columns in their order, in one task: one file for each bucket."""
        columns = ", ".join(_expression(column) for column in self.columns)
        return f"SELECT /*+ COALESCE(1) */ {columns} FROM `{view}`"  # noqa: S608 - names of our own, quoted


def _expression(column: Column) -> str:
    name = quoted_name(column.name.lower())
    # Binary values are base64 in JSON, and plain columns are read as text.
    return f"unbase64(cast({name} AS string)) AS {name}" if column.type.strip().lower() == "binary" else name


def lines(columns: RecordColumns, records: Iterable[object], first: int = 1) -> Iterable[str]:
    """Records as lines of JSON, one after the other.

    :param first: number of the first of them.
    :raises BadRecordError: at the first that does not fit.
    """
    if isinstance(records, Mapping | str | bytes):
        raise InvalidArgumentsError("records are a list of dicts, or anything that gives one dict after the other")
    return (columns.line(record, number) for number, record in enumerate(records, first))


def encoder(hive_type: str) -> Encode:
    """What makes the JSON value of a value, and raises ValueError for one that does not fit.

    :raises InvalidArgumentsError: for a type that records cannot fill.
    """
    kind = hive_type.strip().lower()
    for name, make in (("array<", _array), ("map<", _map), ("struct<", _struct)):
        if kind.startswith(name) and kind.endswith(">"):
            return make(kind, _divided(kind[len(name) : -1]))
    if kind == "timestamp with local time zone":
        return _instant
    if _PLAIN.fullmatch(kind) is None:
        raise InvalidArgumentsError(f"records cannot fill a column of type {hive_type}; use INSERT … SELECT")
    return kind_of(kind).encode


def _instant(value: Any) -> str:
    found = datetime_of(value) if isinstance(value, str) else value
    if not isinstance(found, datetime) or found.tzinfo is None:
        raise ValueError("give a datetime with a time zone, or text like 2026-01-31T12:30:00+01:00")
    return found.isoformat(sep=" ")


def _leaf(hive_type: str) -> Encode:
    """Inside of arrays, maps and structs Spark reads JSON by its own types: floats are numbers there."""
    encode = encoder(hive_type)
    if hive_type.strip().lower() not in ("float", "double"):
        return lambda value: None if value is None else encode(value)

    def number(value: Any) -> Any:
        if value is None:
            return None
        text = encode(value)
        return text if text.lower() in _NO_NUMBERS else float(text)

    return number


def _array(kind: str, parts: Sequence[str]) -> Encode:
    element = _leaf(parts[0])

    def encode(value: Any) -> list[Any]:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise ValueError(f"give a list for {kind}")
        return [element(item) for item in value]

    return encode


def _map(kind: str, parts: Sequence[str]) -> Encode:
    if not parts[0].strip().startswith(("string", "varchar", "char")):
        raise InvalidArgumentsError(f"records cannot fill a {kind}: keys of JSON are text; use INSERT … SELECT")
    key, item = encoder(parts[0]), _leaf(parts[1])

    def encode(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"give a dict for {kind}")
        return {key(k): item(v) for k, v in value.items()}

    return encode


def _struct(kind: str, parts: Sequence[str]) -> Encode:
    fields = [part.partition(":") for part in parts]
    encoders = {name.strip().strip("`"): _leaf(text) for name, _, text in fields}

    def encode(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"give a dict for {kind}")
        given = {str(name).lower(): item for name, item in value.items()}
        for name in sorted(given.keys() ^ encoders.keys()):
            raise ValueError(f"its field {name} is {'missing' if name in encoders else 'unknown'}")
        return {name: one(given[name]) for name, one in encoders.items()}

    return encode


def _divided(text: str) -> list[str]:
    """Parts between commas that stand in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def record_columns(table: Table, static: Iterable[tuple[str, str]]) -> RecordColumns:
    """The columns of a table that its records fill.

    :param static: values of partition columns that are the same for all records.
    """
    given = {name for name, _ in static}
    data = (Column(c.name, c.type, c.required, c.default) for c in table.columns)
    own = (Column(c.name, c.type) for c in table.partition_columns if c.name not in given)
    return RecordColumns(table.qualified_name, (*data, *own))


def static_partition(
    names: Sequence[str], given: Mapping[str, object] | None, table: str
) -> tuple[tuple[str, str], ...]:
    """Partition values that are the same for all records, in the order of the columns.

    :raises InvalidArgumentsError: for a name that is no partition column, or a value that is none.
    """
    wanted = {str(name).lower(): value for name, value in (given or {}).items()}
    unknown = [name for name in wanted if name not in names]
    if unknown:
        has = f"is partitioned by {', '.join(names)}" if names else "has no partitions"
        raise InvalidArgumentsError(f"partition names {unknown[0]}, and {table} {has}")
    return tuple((name, _partition_value(name, wanted[name])) for name in names if name in wanted)


def _partition_value(name: str, value: object) -> str:
    if value is None or value == "":
        return DEFAULT_PARTITION
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime) or not isinstance(value, str | int | date | Decimal):
        raise InvalidArgumentsError(
            f"the value of partition column {name} must be text, a number or a date, not {shown(value)}"
        )
    return str(value)
