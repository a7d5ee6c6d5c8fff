"""Hive's column types: from what people write to the text the catalog stores.

``DECIMAL(10, 2)`` becomes ``decimal(10,2)``, ``INTEGER`` becomes ``int``, as Hive's TypeInfo spells them. Only types
that an ACID table can hold and Spark can write are accepted; tables made by Hive are read whatever their types are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_hive_acid.errors import InvalidArgumentsError

_SIMPLE = frozenset(
    ["tinyint", "smallint", "int", "bigint", "boolean", "float", "double", "string", "binary", "date", "timestamp"]
)
_ALIASES = {"integer": "int", "numeric": "decimal", "dec": "decimal", "real": "double"}
_LENGTHS = {"char": 255, "varchar": 65535}
_REFUSED = {
    "uniontype": "Spark has no union type",
    "interval": "intervals cannot be stored in ORC",
    "timestamp with local time zone": "Hive itself cannot read back what it writes for it; use timestamp",
    "timestampltz": "Hive itself cannot read back what it writes for it; use timestamp",
}
_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|`[^`]+`|[0-9]+|[<>(),:])")
_MAX_DEPTH = 20


@dataclass
class _Tokens:
    text: str
    tokens: list[str]
    position: int = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def expect(self, wanted: str) -> None:
        found = self.next()
        if found != wanted:
            raise self.error(f"expected {wanted!r}, found {found or 'the end'!r}")

    def error(self, problem: str) -> InvalidArgumentsError:
        shown = self.text if len(self.text) <= 100 else self.text[:100] + "…"
        return InvalidArgumentsError(f"column type {shown!r}: {problem}")


def normalise_type(text: str) -> str:
    """The type as Hive's catalog spells it.

    :raises InvalidArgumentsError: for anything that is no type, or a type no ACID table of ours can hold.
    """
    lowered = " ".join(text.lower().split())
    if lowered in _REFUSED:
        raise InvalidArgumentsError(f"column type {lowered!r} is not supported: {_REFUSED[lowered]}")
    if lowered == "double precision":
        return "double"
    tokens = _Tokens(text, _tokenise(text))
    normalised = _type(tokens, 0)
    if tokens.peek():
        raise tokens.error(f"unexpected {tokens.peek()!r}")
    return normalised


def is_primitive(type_text: str) -> bool:
    """Whether values of the type fit a partition column."""
    return "<" not in type_text


def check_partition_value(column: str, type_text: str, value: str) -> None:
    """Refuse a value that Hive would store under another name, or not at all.

    :raises InvalidArgumentsError: naming the column, the value and how to write it.
    """
    if "\0" in value or len(value) > 256:
        raise InvalidArgumentsError(
            f"partition column {column}: a value of {len(value)} characters starting with {value[:40]!r} cannot be "
            "stored; at most 256 characters without NUL"
        )
    if type_text in ("tinyint", "smallint", "int", "bigint"):
        if not re.fullmatch(r"-?[0-9]+", value):
            raise InvalidArgumentsError(f"partition column {column} is {type_text}; {value!r} is no whole number")
        if str(int(value)) != value:
            raise InvalidArgumentsError(f"partition column {column} is {type_text}: write {value!r} as '{int(value)}'")
    elif type_text == "date" and not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        raise InvalidArgumentsError(f"partition column {column} is a date; write {value!r} as yyyy-mm-dd")


def _tokenise(text: str) -> list[str]:
    tokens, position = [], 0
    if len(text) > 4000:
        raise InvalidArgumentsError(f"a column type of {len(text)} characters; the longest is 4000")
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidArgumentsError(f"column type {text[:100]!r}: unexpected {text[position:].strip()[0]!r}")
        tokens.append(match[1])
        position = match.end()
    return tokens


def _type(tokens: _Tokens, depth: int) -> str:
    name = tokens.next().lower()
    name = _ALIASES.get(name, name)
    if depth > _MAX_DEPTH:
        raise tokens.error(f"nested more than {_MAX_DEPTH} levels deep")
    if name in _REFUSED:
        raise tokens.error(f"{name} is not supported: {_REFUSED[name]}")
    if name in _SIMPLE:
        return name
    if name in _LENGTHS:
        return _with_length(tokens, name)
    if name == "decimal":
        return _decimal(tokens)
    if name in ("array", "map", "struct"):
        return _nested(tokens, name, depth)
    raise tokens.error(f"unknown type {name!r}" if name else "there is none")


def _with_length(tokens: _Tokens, name: str) -> str:
    tokens.expect("(")
    length = _number(tokens)
    tokens.expect(")")
    if not 1 <= length <= _LENGTHS[name]:
        raise tokens.error(f"the length of {name} must be 1 to {_LENGTHS[name]}, not {length}")
    return f"{name}({length})"


def _decimal(tokens: _Tokens) -> str:
    precision, scale = 10, 0
    if tokens.peek() == "(":
        tokens.next()
        precision = _number(tokens)
        if tokens.peek() == ",":
            tokens.next()
            scale = _number(tokens)
        tokens.expect(")")
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise tokens.error(f"decimal({precision},{scale}): the precision is 1 to 38, the scale 0 to the precision")
    return f"decimal({precision},{scale})"


def _nested(tokens: _Tokens, name: str, depth: int) -> str:
    tokens.expect("<")
    if name == "array":
        inner = _type(tokens, depth + 1)
    elif name == "map":
        key = _type(tokens, depth + 1)
        if not is_primitive(key):
            raise tokens.error(f"the key of a map must be a simple type, not {key}")
        tokens.expect(",")
        inner = f"{key},{_type(tokens, depth + 1)}"
    else:
        inner = _fields(tokens, depth)
    tokens.expect(">")
    return f"{name}<{inner}>"


def _fields(tokens: _Tokens, depth: int) -> str:
    fields: dict[str, str] = {}
    while True:
        field = tokens.next().strip("`").lower()
        if not re.fullmatch(r"[a-z0-9_]+", field) or field in fields:
            raise tokens.error(f"a struct needs different field names of letters, digits and '_', not {field!r}")
        tokens.expect(":")
        fields[field] = _type(tokens, depth + 1)
        if tokens.peek() != ",":
            return ",".join(f"{name}:{kind}" for name, kind in fields.items())
        tokens.next()


def _number(tokens: _Tokens) -> int:
    token = tokens.next()
    if not token.isdigit():
        raise tokens.error(f"expected a number, found {token or 'the end'!r}")
    return int(token)
