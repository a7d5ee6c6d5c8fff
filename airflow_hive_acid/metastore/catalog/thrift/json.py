"""Thrift's JSON protocol (TJSONProtocol), as far as Hive's catalog objects need it: values to text.

Hive's notification messages carry tables, partitions and databases in it. A struct is an object whose keys are field
ids and whose values name their type: ``{"1":{"str":"t"},"4":{"i32":7}}``; fields that are not set are left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Value:
    """A typed value, as text.

    :param type: Thrift's name of its type.
    """

    type: str
    text: str


Fields: TypeAlias = "Mapping[int, Value | None]"
"""A struct's fields by id; None is not set."""


def string(value: str | None) -> Value | None:
    """A string; None stays unset."""
    return None if value is None else Value("str", _quote(value))


def i32(value: int | None) -> Value | None:
    """A 32-bit number; None stays unset."""
    return None if value is None else Value("i32", str(value))


def i64(value: int | None) -> Value | None:
    """A 64-bit number; None stays unset."""
    return None if value is None else Value("i64", str(value))


def flag(value: bool) -> Value:
    """A bool."""
    return Value("tf", "1" if value else "0")


def struct(fields: Fields) -> Value:
    """A struct inside another one."""
    return Value("rec", dump(fields))


def structs(items: Iterable[Fields]) -> Value:
    """A list of structs."""
    return _list("rec", [dump(item) for item in items])


def strings(values: Iterable[str]) -> Value:
    """A list of strings."""
    return _list("str", [_quote(value) for value in values])


def string_lists(values: Iterable[Sequence[str]]) -> Value:
    """A list of lists of strings."""
    return _list("lst", [strings(value).text for value in values])


def string_map(values: Mapping[str, str]) -> Value:
    """A map of strings."""
    return _map("str", [(_quote(key), _quote(value)) for key, value in values.items()])


def list_map(values: Mapping[tuple[str, ...], str]) -> Value:
    """A map from lists of strings to strings. Thrift writes the lists as keys, though JSON knows no such keys."""
    return _map("lst", [(strings(key).text, _quote(value)) for key, value in values.items()])


def dump(fields: Fields) -> str:
    """A struct as text."""
    return "{" + ",".join(
        f'"{number}":{{"{value.type}":{value.text}}}' for number, value in fields.items() if value is not None
    ) + "}"  # fmt: skip


def _list(kind: str, items: Sequence[str]) -> Value:
    return Value("lst", "[" + ",".join([f'"{kind}"', str(len(items)), *items]) + "]")


def _map(kind: str, items: Sequence[tuple[str, str]]) -> Value:
    entries = ",".join(f"{key}:{value}" for key, value in items)
    return Value("map", f'["{kind}","str",{len(items)},{{{entries}}}]')


def _quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
