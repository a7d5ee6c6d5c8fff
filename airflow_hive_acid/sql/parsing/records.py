"""Rows given as Python values become a query: one JSON text, taken apart by Spark and cast to the table's columns.

Every value is checked here against the type of its column, so that the first one that does not fit is named by row
and column before anything runs, and nothing is rounded, cut or made NULL. However many rows there are, the parser
sees one string literal.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError
from airflow_hive_acid.python_versions import datetime_of
from airflow_hive_acid.sql.parsing.builders import literal, quoted_column, shown, timestamp_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.model.plans import ColumnFacts, TableFacts

MOST_BYTES = 16 * 1024 * 1024
"""Rows of more JSON than this belong into a file: they would travel through the statement's plan."""

_RANGES = {"tinyint": 8, "smallint": 16, "int": 32, "integer": 32, "bigint": 64}
_PARTS = re.compile(r"([a-z]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DIGITS = 38
_LARGEST_FLOAT = 3.4028234663852886e38
_FLOATS = {"NaN", "Infinity", "-Infinity"}
_LENGTH_TYPES = re.compile(r"\b(?:var)?char\s*\(\s*\d+\s*\)", re.IGNORECASE)


class Kind(NamedTuple):
    """How a column's values travel.

    :param encode: the JSON value for a value; raises ValueError with what is wrong.
    :param carrier: type of the JSON field.
    :param sql: what becomes of the field, with ``{}`` in its place.
    """

    encode: Callable[[Any], Any]
    carrier: str
    sql: str


def rows_query(rows: Sequence[Any], facts: TableFacts, columns: Sequence[str], given: Sequence[str]) -> str:
    """The query whose rows are these.

    :param rows: a mapping of columns to values each (columns left out are NULL), or a sequence of values.
    :param columns: the columns of the sequences, empty for all.
    :param given: partition columns whose value the statement fixes.
    :return: a query of the columns that :func:`filled` names.
    :raises BadRecordError: naming row (from 1) and column of the first value that does not fit.
    """
    wanted = filled(facts, columns, given)
    kinds = [kind_of(column.type) for column in wanted]
    names = {column.name: index for index, column in enumerate(wanted)}
    text = json.dumps(
        [_record(row, number, wanted, names, kinds) for number, row in enumerate(rows, 1)],
        ensure_ascii=True,
        separators=(",", ":"),
    )
    if len(text) > MOST_BYTES:
        raise InvalidArgumentsError(
            f"rows are {len(text):,} bytes of JSON, and at most {MOST_BYTES:,} fit into a statement; write them to a "
            "file and give files="
        )
    schema = ",".join(f"c{i}:{kind.carrier}" for i, kind in enumerate(kinds))
    # A record that Spark could not read would be an error of its own; NULL is never made of a value.
    options = "map('mode', 'FAILFAST')"
    values = ", ".join(
        f"{kind.sql.format(f'c{i}')} AS {_name(c)}" for i, (kind, c) in enumerate(zip(kinds, wanted, strict=True))
    )
    source = f"inline(from_json({literal(text, 'rows')}, {literal(f'array<struct<{schema}>>', 'rows')}, {options}))"
    return f"SELECT {values} FROM (SELECT {source}) r"  # noqa: S608 - names are quoted, values are literals


def filled(facts: TableFacts, columns: Sequence[str], given: Sequence[str]) -> list[ColumnFacts]:
    """The columns that rows fill, in their order: those named, or all that have no fixed value."""
    known = {c.name: c for c in (*facts.columns, *facts.partition_columns) if c.name not in set(given)}
    if not columns:
        return list(known.values())
    found = []
    for name in (str(c).lower() for c in columns):
        if name not in known:
            raise InvalidArgumentsError(f"columns: {facts.qualified_name} has no column {name} to fill: {[*known]}")
        found.append(known[name])
    # Hive takes partition columns after the listed ones.
    return found + [known[c.name] for c in facts.partition_columns if c.name in known and known[c.name] not in found]


def _record(
    row: Any, number: int, wanted: Sequence[ColumnFacts], names: Mapping[str, int], kinds: Sequence[Kind]
) -> dict[str, Any]:
    values: dict[int, Any]
    if isinstance(row, Mapping):
        values = {}
        for name, value in row.items():
            index = names.get(str(name).lower())
            if index is None:
                raise BadRecordError(f"row {number}: there is no column {shown(name)}; the columns are {[*names]}")
            values[index] = value
    elif isinstance(row, Sequence) and not isinstance(row, str | bytes):
        if len(row) != len(wanted):
            raise BadRecordError(f"row {number} has {len(row)} values for the {len(wanted)} columns {[*names]}")
        values = dict(enumerate(row))
    else:
        raise BadRecordError(f"row {number} must be a mapping or a list of values, not {shown(row)}")
    record = {}
    for index, value in values.items():
        if value is None:
            continue
        column = wanted[index]
        try:
            record[f"c{index}"] = kinds[index].encode(value)
        except ValueError as problem:
            raise BadRecordError(
                f"row {number}, column {column.name}: {shown(value)} is no {column.type}: {problem}"
            ) from None
    return record


def kind_of(hive_type: str) -> Kind:
    """How values of a Hive type travel.

    :raises InvalidArgumentsError: for a type that rows cannot fill.
    """
    kind = hive_type.strip().lower()
    match = _PARTS.fullmatch(kind)
    if match is None:
        # Nested: Spark checks what is inside; lengths are checked by the assignment to the column.
        return Kind(_nested, _LENGTH_TYPES.sub("string", kind), "{}")
    name, first, second = match.groups()
    if name in _RANGES:
        return Kind(lambda value: _integer(value, _RANGES[name]), "bigint", f"CAST({{}} AS {name})")
    if name in ("decimal", "numeric", "dec"):
        precision, scale = int(first or 10), int(second or 0)
        cast = f"CAST({{}} AS DECIMAL({precision},{scale}))"
        return Kind(lambda value: _decimal(value, precision, scale), "string", cast)
    if name in ("char", "varchar"):
        return Kind(lambda value: _string(value, int(first or 1)), "string", "{}")
    plain = {
        "boolean": Kind(_boolean, "boolean", "{}"),
        "float": Kind(lambda value: _float(value, _LARGEST_FLOAT), "string", "CAST({} AS FLOAT)"),
        "double": Kind(_float, "string", "CAST({} AS DOUBLE)"),
        "string": Kind(_string, "string", "{}"),
        "binary": Kind(_binary, "string", "UNBASE64({})"),
        "date": Kind(_date, "string", "CAST({} AS DATE)"),
        "timestamp": Kind(_timestamp, "string", "CAST({} AS TIMESTAMP)"),
    }
    if name not in plain:
        raise InvalidArgumentsError(f"rows cannot fill a column of type {hive_type}; leave it out, or use query=")
    return plain[name]


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise ValueError("give an int")
    if isinstance(value, Decimal) and (not value.is_finite() or value.adjusted() > _DIGITS):
        raise ValueError(f"it does not fit into {bits} bits")
    try:
        number = int(value)
    except (ValueError, ArithmeticError):
        raise ValueError("give an int") from None
    if isinstance(value, Decimal) and number != value:
        raise ValueError("it has digits behind the point")
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"it does not fit into {bits} bits")
    return number


def _decimal(value: Any, precision: int, scale: int) -> str:
    if isinstance(value, bool | float) or not isinstance(value, int | str | Decimal):
        raise ValueError("give a Decimal, an int, or text; a float has lost digits already")
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise ValueError("give a Decimal") from None
    if not number.is_finite():
        raise ValueError("it is not finite")
    # Not normalize(), which rounds to the context's precision.
    _, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    lowest = int(exponent) + len(digits) - len(text)
    behind, before = (max(0, -lowest), max(0, len(text.lstrip("0")) + lowest)) if text else (0, 0)
    if behind > scale:
        raise ValueError(f"it has more than {scale} digits behind the point")
    if before > precision - scale:
        raise ValueError(f"it has more than {precision - scale} digits before the point")
    return f"{number:f}" if text else "0"


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("give True or False")
    return value


def _float(value: Any, largest: float = sys.float_info.max) -> str:
    if isinstance(value, str) and value in _FLOATS:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError("give a float")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise ValueError("give a float") from None
    if math.isfinite(number):
        if abs(number) > largest:
            raise ValueError("it is too large")
        return repr(number)
    if not isinstance(value, float):
        raise ValueError("it is too large; give infinity as a float")
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _string(value: Any, longest: int | None = None) -> str:
    if not isinstance(value, str):
        raise ValueError("give text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("it is no valid Unicode text") from None
    if longest is not None and len(value.rstrip(" ")) > longest:
        raise ValueError(f"it is longer than {longest} characters")
    return value


def _binary(value: Any) -> str:
    if not isinstance(value, bytes | bytearray):
        raise ValueError("give bytes")
    return base64.b64encode(bytes(value)).decode("ascii")


def _date(value: Any) -> str:
    if isinstance(value, datetime):
        raise ValueError("give a date, without a time of day")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and _DATE.fullmatch(value):
        return date.fromisoformat(value).isoformat()
    raise ValueError("give a date, or text like 2026-01-31")


def _timestamp(value: Any) -> str:
    if isinstance(value, str):
        value = datetime_of(value)
    if isinstance(value, datetime):
        return timestamp_text(value)
    if isinstance(value, date):
        return f"{value.isoformat()} 00:00:00"
    raise ValueError("give a datetime, or text like 2026-01-31 12:30:00")


def _nested(value: Any) -> Any:
    """Lists, mappings and what is in them; decimals and times as text, which Spark reads in the declared type."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Decimal():
            return f"{value:f}"
        case bytes() | bytearray():
            return _binary(value)
        case datetime():
            return value.isoformat()
        case date():
            return value.isoformat()
        case Mapping():
            return {str(k): _nested(v) for k, v in value.items()}
        case list() | tuple():
            return [_nested(v) for v in value]
    raise ValueError(f"give lists, mappings and plain values, not {type(value).__name__}")


def _name(column: ColumnFacts) -> str:
    return quoted_column(column.name, "rows")
