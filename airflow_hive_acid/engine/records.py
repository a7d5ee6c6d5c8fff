"""Records of a program, dicts of plain Python values, checked against a table's columns one by one.

Nothing is guessed: a field that is missing, that the table does not have, or whose value is of another type or out of
range is an error with the number of the record and the name of the column, before Spark or the metastore hears of it.
What passes becomes a line of JSON that Spark reads in exactly the declared types.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, NamedTuple

from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.jobs import RECORDS, Column, Source
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION

_INTEGERS = {"tinyint": 7, "smallint": 15, "int": 31, "integer": 31, "bigint": 63}
_LARGEST_FLOAT = 3.4028234663852886e38
_DEFAULT_PRECISION = 10
_EXACT = Context(prec=1000)
_SHOWN = 60
_HEAD = re.compile(r"\s*([a-z][a-z0-9 ]*)")
_NUMBERS = re.compile(r"\s*\(\s*([0-9]+)\s*(?:,\s*([0-9]+)\s*)?\)\s*")
_INSTANT = "timestamp with local time zone"
_SYNONYMS = {"numeric": "decimal", "dec": "decimal", "double precision": "double", "integer": "int"}


class ValueType(NamedTuple):
    """A Hive type, taken apart.

    :param sizes: of a decimal precision and scale, of a char or varchar its length.
    :param children: of an array its element, of a map key and value, of a struct its fields.
    :param names: of a struct's fields.
    """

    name: str
    text: str
    sizes: tuple[int, ...] = ()
    children: tuple[ValueType, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> ValueType:
        """Read a type as the catalog has it.

        :raises UnsupportedStatementError: for one whose values have no form in a record.
        """
        text = text.strip().lower()
        match = _HEAD.match(text)
        name = match[1].strip() if match else ""
        name = _SYNONYMS.get(name, name)
        rest = text[match.end() :] if match else text
        if name in ("array", "map", "struct") and rest.startswith("<") and rest.endswith(">"):
            parts = _divided(rest[1:-1])
            names: tuple[str, ...] = ()
            if name == "struct":
                fields = [part.partition(":") for part in parts]
                names, parts = tuple(f.strip().strip("`") for f, _, _ in fields), [kind for _, _, kind in fields]
            return cls(name, text, (), tuple(cls.parse(part) for part in parts), names)
        numbers = _NUMBERS.fullmatch(rest)
        sizes = tuple(int(n) for n in numbers.groups() if n is not None) if numbers else ()
        if name not in _CHECKS or (rest.strip() and numbers is None):
            raise UnsupportedStatementError(
                f"records cannot hold values of type {text}; write them with INSERT … SELECT"
            )
        return cls(name, text, sizes)


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


class MisfitError(Exception):
    """A value that is no value of its column; says why."""


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The columns that records fill.

    :param table: ``db.table``, for messages.
    :param columns: data columns, and partition columns whose values come from the records.
    """

    table: str
    columns: tuple[Column, ...]
    _types: dict[str, ValueType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for column in self.columns:
            self._types[column.name.lower()] = ValueType.parse(column.type)

    def line(self, record: object, number: int) -> str:
        """A record as a line of JSON.

        :param number: counts from 1, for messages.
        :raises BadRecordError: names number and column.
        """
        if not isinstance(record, Mapping):
            raise BadRecordError(
                f"record {number} for {self.table} is {_shown(record)}, not a dict of values by column"
            )
        given = {str(name).lower(): value for name, value in record.items()}
        if len(given) != len(record):
            raise BadRecordError(f"record {number} for {self.table} names a column twice, in upper and lower case")
        unknown = [name for name in record if str(name).lower() not in self._types]
        if unknown:
            known = ", ".join(self._types)
            raise BadRecordError(
                f"record {number}, field {unknown[0]!r}: {self.table} has no such column; it has {known}"
            )
        values = {}
        for column in self.columns:
            name = column.name.lower()
            if name not in given:
                raise BadRecordError(
                    f"record {number}, column {name}: the field is missing; give every column of {self.table}, "
                    "None for NULL"
                )
            try:
                values[name] = self._value(given[name], column)
            except MisfitError as why:
                raise BadRecordError(
                    f"record {number}, column {name}: {why}; nothing of its transaction is written"
                ) from None
        return json.dumps(values, ensure_ascii=True, separators=(",", ":"))

    def _value(self, value: object, column: Column) -> Any:
        kind = self._types[column.name.lower()]
        if value is None:
            if column.required:
                raise MisfitError("None, and the column is NOT NULL")
            return None
        found = _CHECKS[kind.name](value, kind)
        if kind.children:
            return found
        # Spark reads plain columns as text and converts them itself: no digit is lost on the way.
        return str(found).lower() if isinstance(found, bool) else str(found)

    def source(self, name: str, text: str) -> Source:
        """Lines as a source of a job, in the declared types."""
        return Source(name, RECORDS, {"lines": text}, self.columns)

    def query(self, view: str) -> str:
        """Spark SQL for the columns in their order, in one task: one file for each bucket."""
        return f"SELECT /*+ COALESCE(1) */ {self.select_list()} FROM `{view}`"  # noqa: S608 - names of our own

    def select_list(self) -> str:
        """The columns as expressions over a source."""
        return ", ".join(self._expression(column) for column in self.columns)

    def _expression(self, column: Column) -> str:
        name = "`" + column.name.lower().replace("`", "``") + "`"
        binary = self._types[column.name.lower()].name == "binary"
        return f"unbase64(cast({name} AS string)) AS {name}" if binary else name


def lines(columns: RecordColumns, records: Iterable[object], first: int = 1) -> Iterable[str]:
    """Records as lines of JSON, one after the other.

    :param first: number of the first of them.
    :raises BadRecordError: at the first that does not fit.
    """
    if isinstance(records, Mapping | str | bytes):
        raise InvalidArgumentsError("records are a list of dicts, or anything that gives one dict after the other")
    return (columns.line(record, number) for number, record in enumerate(records, first))


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
            f"the value of partition column {name} is {_shown(value)}; give text, number or date"
        )
    return str(value)


def _shown(value: object) -> str:
    text = repr(value)
    short = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return f"{short} ({type(value).__name__})"


def _boolean(value: object, kind: ValueType) -> bool:
    if not isinstance(value, bool):
        raise MisfitError(f"{_shown(value)} is no {kind.text}; give True or False")
    return value


def _integer(value: object, kind: ValueType) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise MisfitError(f"{_shown(value)} is no {kind.text}; give an int")
    bits = _INTEGERS[kind.name]
    if not -(1 << bits) <= value < 1 << bits:
        raise MisfitError(f"{value} does not fit into a {kind.text}")
    return value


def _float(value: object, kind: ValueType) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise MisfitError(f"{_shown(value)} is no {kind.text}; give a number")
    try:
        found = float(value)
    except OverflowError:
        raise MisfitError(f"{_shown(value)} does not fit into a {kind.text}") from None
    if kind.name == "float" and _LARGEST_FLOAT < abs(found) < float("inf"):
        raise MisfitError(f"{value} does not fit into a {kind.text}")
    return found


def _decimal(value: object, kind: ValueType) -> str:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise MisfitError(f"{_shown(value)} is no {kind.text}; give a Decimal, an int or its digits as text")
    precision, scale = (*kind.sizes, *(_DEFAULT_PRECISION, 0)[len(kind.sizes) :])[:2]
    try:
        found = Decimal(value)
    except InvalidOperation:
        raise MisfitError(f"{_shown(value)} is no {kind.text}") from None
    if not found.is_finite():
        raise MisfitError(f"{value} is no {kind.text}")
    _, digits, exponent = found.normalize(_EXACT).as_tuple()
    places = -int(exponent)
    if found and (places > scale or len(digits) - places > precision - scale):
        raise MisfitError(f"{value} does not fit into {kind.text}")
    return format(found, "f") if found else "0"


def _text(value: object, kind: ValueType) -> str:
    if not isinstance(value, str):
        raise MisfitError(f"{_shown(value)} is no {kind.text}; give a str")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise MisfitError(f"{_shown(value)} holds half a character (a surrogate), which no {kind.text} can") from None
    if kind.sizes and len(value.rstrip(" ")) > kind.sizes[0]:
        raise MisfitError(f"{_shown(value)} has {len(value)} characters, and the column is {kind.text}")
    return value


def _binary(value: object, kind: ValueType) -> str:
    if not isinstance(value, bytes | bytearray):
        raise MisfitError(f"{_shown(value)} is no {kind.text}; give bytes")
    return base64.b64encode(bytes(value)).decode()


def _date(value: object, kind: ValueType) -> str:
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise MisfitError(f"{_shown(value)} is no {kind.text}; write 2026-11-22") from None
    if isinstance(value, datetime) or not isinstance(value, date):
        raise MisfitError(f"{_shown(value)} is no {kind.text}; give a date")
    return value.isoformat()


def _timestamp(value: object, kind: ValueType) -> str:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise MisfitError(f"{_shown(value)} is no {kind.text}; write 2026-11-22 14:05:00.123456") from None
    if not isinstance(value, datetime):
        raise MisfitError(f"{_shown(value)} is no {kind.text}; give a datetime")
    instant = kind.name == _INSTANT
    if instant and value.tzinfo is None:
        raise MisfitError(f"{value} says nothing of its time zone, and the column is {kind.text}")
    if not instant and value.tzinfo is not None:
        raise MisfitError(
            f"{value} is of a time zone, and the column holds what a clock shows; take that: "
            "value.astimezone(zone).replace(tzinfo=None)"
        )
    return value.isoformat(sep=" ")


def _array(value: object, kind: ValueType) -> list[Any]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise MisfitError(f"{_shown(value)} is no {kind.text}; give a list")
    return [_nested(item, kind.children[0]) for item in value]


def _map(value: object, kind: ValueType) -> dict[str, Any]:
    key, item = kind.children
    if key.name not in ("string", "varchar", "char"):
        raise MisfitError(f"records cannot hold a {kind.text}, only maps whose keys are text")
    if not isinstance(value, Mapping):
        raise MisfitError(f"{_shown(value)} is no {kind.text}; give a dict")
    return {_text(k, key): _nested(v, item) for k, v in value.items()}


def _struct(value: object, kind: ValueType) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise MisfitError(f"{_shown(value)} is no {kind.text}; give a dict of its fields")
    given = {str(name).lower(): item for name, item in value.items()}
    wrong = sorted(given.keys() ^ set(kind.names))
    if wrong:
        raise MisfitError(f"field {wrong[0]} of {kind.text} is {'missing' if wrong[0] in kind.names else 'unknown'}")
    return {name: _nested(given[name], child) for name, child in zip(kind.names, kind.children, strict=True)}


def _nested(value: object, kind: ValueType) -> Any:
    return None if value is None else _CHECKS[kind.name](value, kind)


_CHECKS: dict[str, Any] = {
    "boolean": _boolean,
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "string": _text,
    "varchar": _text,
    "char": _text,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
    _INSTANT: _timestamp,
    "array": _array,
    "map": _map,
    "struct": _struct,
    **dict.fromkeys(_INTEGERS, _integer),
}
