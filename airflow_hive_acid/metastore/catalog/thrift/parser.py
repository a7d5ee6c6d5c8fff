"""Reading Thrift's JSON text of databases, tables and partitions back into values: what ``text`` writes.

Field numbers are those of Hive's ``hive_metastore.thrift``; fields that we do not know are skipped, as Thrift does. A
map whose keys are lists (skewed locations) is written by Thrift with lists as keys, which no JSON reader takes; such
texts are read by a parser of their own.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.metastore.catalog.values.model import Database, FieldSchema, Skew, Storage, Table, WholePartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_hive_acid.format.jobs import Column

_PRINCIPALS = {1: "USER", 2: "ROLE", 3: "GROUP"}
_DATABASE_TYPES = {1: "NATIVE", 2: "REMOTE"}
_DECODER = json.JSONDecoder()
_LONG = 1 << 63


def parse_database(text: str) -> Database:
    """A database from its Thrift text.

    :raises InvalidArgumentsError: when the text is none.
    """
    with _readable("database"):
        fields = _Struct(_load(text, "database"), "database")
        location, own = fields.string(3) or "", fields.string(10)
        return Database(
            name=fields.required(1), id=0, description=fields.string(2), location=location,
            managed_location=own or location, own_managed_location=own,
            properties=fields.map(4), owner=fields.string(6), owner_type=_PRINCIPALS.get(fields.number(7) or 0),
            created=fields.number(9),
            type=_DATABASE_TYPES.get(fields.number(11) or 0, "NATIVE"), connector=fields.string(12),
            remote_name=fields.string(13),
        )  # fmt: skip


def parse_table(text: str) -> Table:
    """A table from its Thrift text.

    :raises InvalidArgumentsError: when the text is none.
    """
    with _readable("table"):
        fields = _Struct(_load(text, "table"), "table")
        return Table(
            name=fields.required(1), db=fields.required(2), owner=fields.string(3), created=fields.number(4) or 0,
            last_access=fields.number(5) or 0, retention=fields.number(6) or 0, storage=_storage(fields.struct(7)),
            partition_keys=_columns(fields.list(8)), properties=fields.map(9), view_original=fields.string(10),
            view_expanded=fields.string(11), type=fields.string(12) or "", rewrite_enabled=bool(fields.get(15)),
            owner_type=_PRINCIPALS.get(fields.number(18) or 0, "USER"), write_id=fields.number(19) or 0,
            id=fields.number(25) or 0,
        )  # fmt: skip


def parse_partition(text: str, columns: Sequence[Column]) -> WholePartition:
    """A partition from its Thrift text.

    :param columns: the partition columns of its table: Thrift's partitions have values, and no names.
    :raises InvalidArgumentsError: when the text is none, or of another table.
    """
    with _readable("partition"):
        fields = _Struct(_load(text, "partition"), "partition")
        values = fields.texts(1)
        if len(values) != len(columns):
            raise InvalidArgumentsError(
                f"a partition has the values {values!r:.100}, its table the partition columns "
                f"{[c.name for c in columns]!r:.100}"
            )
        return WholePartition(
            db=fields.required(2), table=fields.required(3), values=values,
            name=partition_name([(c.name, v) for c, v in zip(columns, values, strict=True)]),
            created=fields.number(4) or 0, last_access=fields.number(5) or 0, storage=_storage(fields.struct(6)),
            properties=fields.map(7), write_id=fields.number(10) or 0,
        )  # fmt: skip


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Whatever is no such object is one error of ours: messages and dumps are written by others."""
    try:
        yield
    except InvalidArgumentsError:
        raise
    except (
        KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError
    ) as error:  # fmt: skip
        raise InvalidArgumentsError(f"the Thrift text of a {what} cannot be read: {error!r:.100}") from None


def _is_text(value: object) -> TypeGuard[str]:
    """Text that a database or a file takes: without halves of characters."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value))


class _Struct:
    """The fields of a struct by id, as Thrift writes them: ``{"1": {"str": "t"}}``."""

    def __init__(self, fields: Any, what: str) -> None:
        if not isinstance(fields, dict):
            raise InvalidArgumentsError(f"the Thrift text of a {what} holds {fields!r:.100} instead of a struct")
        self._fields = fields
        self._what = what

    def get(self, number: int) -> Any:
        """A field's value without its type; None when it is not set."""
        typed = self._fields.get(str(number))
        if typed is None:
            return None
        if not isinstance(typed, dict) or len(typed) != 1:
            raise InvalidArgumentsError(f"field {number} of a {self._what} is no typed value: {typed!r:.100}")
        return next(iter(typed.values()))

    def required(self, number: int) -> str:
        value = self.string(number)
        if not value:
            raise InvalidArgumentsError(f"the Thrift text of a {self._what} has no field {number}")
        return value

    def string(self, number: int) -> str | None:
        value = self.get(number)
        if value is None or _is_text(value):
            return value
        raise InvalidArgumentsError(f"field {number} of a {self._what} must be text, not {value!r:.100}")

    def number(self, number: int) -> int | None:
        value = self.get(number)
        if value is None or (isinstance(value, int) and -_LONG <= value < _LONG):
            return value
        raise InvalidArgumentsError(f"field {number} of a {self._what} must be a number, not {value!r:.100}")

    def texts(self, number: int) -> tuple[str, ...]:
        return _texts(self.list(number), f"field {number} of a {self._what}")

    def struct(self, number: int) -> _Struct:
        return _Struct(self.get(number) or {}, self._what)

    def list(self, number: int) -> list[Any]:
        """Without the type and the length that stand first."""
        return _items(self.get(number))

    def map(self, number: int) -> dict[Any, Any]:
        """Without the types and the length that stand first."""
        value = self.get(number)
        found = {} if value is None else value[3]
        if not isinstance(found, dict) or not all(_is_text(each) for each in found.values()):
            raise InvalidArgumentsError(f"field {number} of a {self._what} must be a map of texts, not {value!r:.100}")
        for key in found:
            _texts(_key(key), f"a key in field {number} of a {self._what}")
        return dict(found)


def _items(value: Any) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise InvalidArgumentsError(f"{value!r:.100} stands in a Thrift text instead of a list")
    return [] if value is None else value[2:]


def _texts(items: Iterable[Any], where: str) -> tuple[str, ...]:
    found = tuple(items)
    if not all(_is_text(each) for each in found):
        raise InvalidArgumentsError(f"{where} must be text, not {found!r:.100}")
    return found


def _storage(fields: _Struct) -> Storage:
    serde, skew = fields.struct(7), fields.struct(11)
    orders = [_Struct(order, "sort order") for order in fields.list(9)]
    buckets = fields.number(6)
    return Storage(
        columns=_columns(fields.list(1)), location=fields.string(2), input_format=fields.string(3),
        output_format=fields.string(4), compressed=bool(fields.get(5)),
        bucket_count=-1 if buckets is None else buckets, serde=(serde.string(1), serde.string(2)),
        serde_properties=serde.map(3), bucket_columns=fields.texts(8),
        sort_columns=tuple((order.required(1), order.number(2) or 0) for order in orders), properties=fields.map(10),
        skew=Skew(
            skew.texts(1), tuple(_texts(_items(value), "a skewed value") for value in skew.list(2)),
            {_key(key): value for key, value in skew.map(3).items()},
        ),
        subdirectories=bool(fields.get(12)),
    )  # fmt: skip


def _key(key: Any) -> tuple[str, ...]:
    return key if isinstance(key, tuple) else (str(key),)


def _columns(items: list[Any]) -> tuple[FieldSchema, ...]:
    structs = [_Struct(item, "column") for item in items]
    return tuple(FieldSchema(s.required(1), s.string(2) or "", s.string(3)) for s in structs)


def _load(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    try:
        value, end = _value(text, _blank(text, 0))
    except (ValueError, IndexError) as error:
        raise InvalidArgumentsError(f"the Thrift text of a {what} cannot be read: {error}") from None
    if _blank(text, end) != len(text):
        raise InvalidArgumentsError(f"the Thrift text of a {what} goes on after its end, at character {end}")
    return value


def _value(text: str, at: int) -> tuple[Any, int]:
    """A JSON value, whose objects may have lists as keys; these become tuples without type and length."""
    if text[at] not in "{[":
        return _DECODER.raw_decode(text, at)
    closing = "}" if text[at] == "{" else "]"
    pairs: dict[Any, Any] = {}
    items: list[Any] = []
    at = _blank(text, at + 1)
    while text[at] != closing:
        item, at = _value(text, at)
        at = _blank(text, at)
        if closing == "}":
            if text[at] != ":":
                raise ValueError(f"no colon at character {at}")
            key = tuple(item[2:]) if isinstance(item, list) else item
            pairs[key], at = _value(text, _blank(text, at + 1))
            at = _blank(text, at)
        else:
            items.append(item)
        if text[at] == ",":
            at = _blank(text, at + 1)
        elif text[at] != closing:
            raise ValueError(f"no comma at character {at}")
    return (pairs if closing == "}" else items), at + 1


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
