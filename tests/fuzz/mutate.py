"""Hostile input: small changes of good input, by a random generator of a known seed.

A mutator takes a generator and a good input and returns one that may be bad. Bytes are flipped, cut, spliced and
repeated; JSON is changed as a value (numbers out of range, other types, deep nesting, texts that no database takes) and
now and then as text; fields of a form are changed one or two at a time.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

NUMBERS = (
    0, -1, 1, 127, 128, 255, 256, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53, 2**63 - 1, 2**63, -(2**63),
    -(2**63) - 1,
    2**64, 10**30, 10**400, 0.5, -0.0, 1e308, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
TEXTS = (
    "", " ", ".", "..", "/", "//", "../../etc", "a/b", "a\\b", "%2F", "%252F", "%", "%zz", "%00", "\0", "a\0b", "\n",
    "\r\n",
    "\x7f", "\ud800", "a\udfff", "\U0001f600", "\u202e", "\u00e9", "e\u0301", "\u0130", "\u00df", "'", '"', "`", ";--",
    "' OR 1=1 --", "${jndi:x}", "{{ 1 }}", "null", "true", "__HIVE_DEFAULT_PARTITION__", "day=1", "day=1/day=2", "=",
    "==",
    "a.b", "a.b.c", ".a", "a.", "*", "?", "file:///etc/passwd", "http://h:99999/", "x" * 129, "x" * 800, "x" * 70_000,
    "9" * 5_000, "-1", "1e9999", "0x10", "1_000", "\u0661", "NaN", "Infinity", "[" * 100_000, "{" * 5_000, "(" * 5_000,
)  # fmt: skip
_BYTES = (b"", b"\0", b"\xff" * 8, b"\x80" * 12, b"\x80" * 4_000, b"\x7f" + b"\xff" * 7, b"\0" * 4_096, b"[" * 20_000)
_DEPTHS = (3, 200, 3_000, 200_000)


def mutate_bytes(rng: Random, good: bytes) -> bytes:
    """One to four changes of bytes."""
    data = bytearray(good)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.choice((1, 1, 2, 8, 64, len(data))))
        match rng.randrange(6):
            case 0 if data:
                data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[min(at, len(data) - 1)] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
            case 2:
                del data[at:to]
            case 3:
                data[at:at] = data[at:to] * rng.choice((1, 2, 50))
            case 4:
                source = rng.randrange(len(data) + 1)
                data[at:to] = data[source : source + (to - at)]
            case _:
                data[at:to] = rng.choice(_BYTES)
    return bytes(data[: 1 << 20])


def mutate_text(rng: Random, good: str) -> str:
    """One to three changes of characters."""
    text = good
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.choice((0, 1, 1, 4, 32, len(text))))
        match rng.randrange(4):
            case 0:
                text = text[:at] + text[to:]
            case 1:
                source = rng.randrange(len(text) + 1)
                text = text[:at] + text[source : source + (to - at)] + text[to:]
            case 2:
                text = text[:at] + text[at:to] * rng.choice((2, 3, 200)) + text[to:]
            case _:
                text = text[:at] + _hostile_text(rng) + text[to:]
    return text[: 1 << 20]


def mutate_json(rng: Random, good: str) -> str:
    """A JSON text changed as a value, one time in five as text; texts that are JSON themselves are changed inside."""
    if rng.randrange(5) == 0:
        return mutate_text(rng, good)
    value = copy.deepcopy(json.loads(good))
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = _change(rng, value)
    return _dumps(rng, value)


def mutate_fields(rng: Random, good: tuple[str, ...]) -> tuple[str, ...]:
    """The fields of a form, one or two of them changed."""
    fields = list(good)
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(fields))
        fields[at] = _hostile_text(rng) if rng.randrange(2) else mutate_text(rng, fields[at])
    return tuple(fields)


def _hostile_text(rng: Random) -> str:
    if rng.randrange(8) == 0:
        return "".join(chr(rng.choice((rng.randrange(32, 127), rng.randrange(0xD7FF), rng.randrange(0x110000))))
                       for _ in range(rng.randrange(1, 12)))  # fmt: skip
    return rng.choice(TEXTS)


def _hostile_value(rng: Random) -> Any:
    match rng.randrange(5):
        case 0:
            return rng.choice((None, True, False, [], {}, [[]], {"": None}))
        case 1:
            return rng.choice(NUMBERS)
        case _:
            return _hostile_text(rng)


def _change(rng: Random, value: Any) -> Any:
    """Change one place of a value, anywhere below it."""
    if isinstance(value, dict) and value and rng.randrange(8):
        key = rng.choice(list(value))
        match rng.randrange(10):
            case 0:
                del value[key]
            case 1:
                value[_hostile_text(rng)[:1_000]] = value.pop(key)
            case 2:
                value[_hostile_text(rng)[:1_000]] = _hostile_value(rng)
            case _:
                value[key] = _change(rng, value[key])
        return value
    if isinstance(value, list) and value and rng.randrange(8):
        at = rng.randrange(len(value))
        match rng.randrange(10):
            case 0:
                del value[at]
            case 1:
                value[at:at] = [copy.deepcopy(value[at])] * rng.choice((1, 2, 100))
            case _:
                value[at] = _change(rng, value[at])
        return value
    if isinstance(value, str) and value[:1] in ("{", "[") and rng.randrange(4):
        try:
            return _dumps(rng, _change(rng, json.loads(value)))
        except (ValueError, RecursionError):
            return mutate_text(rng, value)
    if isinstance(value, str) and rng.randrange(3) == 0:
        return mutate_text(rng, value)
    return _hostile_value(rng)


def _dumps(rng: Random, value: Any) -> str:
    text = json.dumps(value, ensure_ascii=rng.randrange(2) == 0)
    if rng.randrange(30) == 0:
        depth = rng.choice(_DEPTHS)
        opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
        text = opening * depth + text + closing * (depth if rng.randrange(2) else 0)
    return text
