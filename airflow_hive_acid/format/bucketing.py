"""Hive's bucket hash: which bucket of a ``CLUSTERED BY`` table a row belongs to.

``ObjectInspectorUtils.getBucketNumber`` and ``getBucketNumberOld`` of Hive 4.1 are the definition, and
``tests/fixtures/bucket_hashes.jsonl`` holds their answers. Version 2 (the ``bucketing_version`` of every table that
Hive 3 or later makes) is Murmur3 over each value's bytes, version 1 a hash in the manner of Java's ``hashCode``; a
table without the property has version 1. The hashes of several columns are combined as ``31 * h + hash``, NULL is 0.

Two of Hive's habits are kept because the data lie by them: the last bytes of Murmur3 are taken as signed, and the bits
of floating-point numbers are converted to a floating-point number once more before they are hashed.
"""

from __future__ import annotations

import re
import struct
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

BUCKETING_VERSION = "bucketing_version"
"""The table property that says which hash its buckets go by."""
SEED = 104729
VERSIONS = (1, 2)

_MASK = 0xFFFFFFFF
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1)
_FIRST_GREGORIAN_DAY = (date(1582, 10, 15) - _EPOCH_DAY).days
_EXACT = Context(prec=100)
_NAME = re.compile(r"[a-z]+(?: [a-z]+)*")


class Instant(NamedTuple):
    """A timestamp with all of Hive's digits: seconds since 1970-01-01 00:00:00 of its own clock, and nanoseconds."""

    seconds: int
    nanos: int


def stored_version(properties: Mapping[str, str]) -> str:
    """The version that a table names; 1 when it does not say, as in Hive."""
    return next((v for k, v in properties.items() if k.lower() == BUCKETING_VERSION), "1").strip()


def known_version(value: str, table: str) -> int:
    """The version by which a table's buckets are filled.

    :param value: its :func:`stored_version`.
    :raises InvalidArgumentsError: for a version that is none.
    """
    if value not in map(str, VERSIONS):
        raise InvalidArgumentsError(
            f"{table} has {BUCKETING_VERSION}={value!r}, and Hive has 1 and 2: its rows cannot be placed in buckets; "
            "set the property to the one its files were written with"
        )
    return int(value)


def bucket_of(values: Sequence[Any], types: Sequence[str], buckets: int, version: int = 2) -> int:
    """The bucket of a row, 0 to ``buckets - 1``.

    :param values: of the bucketing columns in the order of CLUSTERED BY: bool, int, float, Decimal, str, bytes, date,
        datetime or :class:`Instant`; lists, dicts, and for structs a sequence of the fields' values.
    :param types: Hive's types of these columns.
    """
    if buckets < 1:
        raise InvalidArgumentsError(f"a bucketed table has at least one bucket, not {buckets}")
    return (bucket_hash(values, types, version) & 0x7FFFFFFF) % buckets


def bucket_hash(values: Sequence[Any], types: Sequence[str], version: int = 2) -> int:
    """The hash of a row's bucketing columns as Hive's signed int."""
    if version not in VERSIONS:
        raise InvalidArgumentsError(f"bucketing version {version}: Hive has 1 and 2")
    one = _hash_v1 if version == 1 else _hash_v2
    result = 0
    for value, kind in zip(values, types, strict=True):
        result = 31 * result + one(value, HiveType.parse(kind))
    return _signed(result)


def murmur3(data: bytes) -> int:
    """Hive's Murmur3 over bytes, as a signed int: the bytes after the last whole word count as signed."""
    result = SEED
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        result ^= _scrambled(word)
        result = (_rotated(result, 13) * 5 + 0xE6546B64) & _MASK
    tail = data[whole:]
    if tail:
        last = 0
        for position, byte in enumerate(tail):
            last ^= (byte - ((byte & 0x80) << 1)) << (8 * position)
        result ^= _scrambled(last & _MASK)
    result ^= len(data)
    result = ((result ^ result >> 16) * 0x85EBCA6B) & _MASK
    result = ((result ^ result >> 13) * 0xC2B2AE35) & _MASK
    return _signed(result ^ result >> 16)


class HiveType(NamedTuple):
    """A Hive type, taken apart.

    :param name: without arguments, for example ``decimal``.
    :param children: of an array its element, of a map key and value, of a struct its fields.
    :param fields: names of a struct's fields.
    """

    name: str
    children: tuple[HiveType, ...] = ()
    fields: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> HiveType:
        """Read a type text.

        :raises UnsupportedStatementError: for a type by which Hive cannot bucket.
        """
        text = text.strip().lower()
        match = _NAME.match(text)
        name = match[0] if match else text
        if name == "timestamp" and text.startswith("timestamp(") and "local" in text:
            name = _LOCAL
        if name in ("array", "map", "struct"):
            parts = _split(text[text.index("<") + 1 : text.rindex(">")])
            if name == "struct":
                fields = [part.partition(":") for part in parts]
                children = tuple(cls.parse(kind) for _, _, kind in fields)
                return cls(name, children, tuple(field.strip().strip("`") for field, _, _ in fields))
            return cls(name, tuple(cls.parse(part) for part in parts))
        name = _SYNONYMS.get(name, name)
        if name not in _BYTES:
            raise UnsupportedStatementError(f"rows cannot be placed in buckets by a value of type {text}")
        return cls(name)


def _hash_v2(value: Any, kind: HiveType) -> int:
    if value is None:
        return 0
    match kind.name:
        case "boolean" | "tinyint":
            return int(value)
        case "array":
            return _sequence(_hash_v2(item, kind.children[0]) for item in value)
        case "struct":
            return _sequence(_hash_v2(item, child) for item, child in zip(value, kind.children, strict=True))
        case "map":
            # Hive hashes the values of maps the old way.
            key_type, item_type = kind.children
            return _signed(sum(_hash_v2(k, key_type) ^ _hash_v1(v, item_type) for k, v in value.items()))
    return murmur3(_BYTES[kind.name](value))


def _hash_v1(value: Any, kind: HiveType) -> int:
    if value is None:
        return 0
    match kind.name:
        case "array":
            return _sequence(_hash_v1(item, kind.children[0]) for item in value)
        case "struct":
            return _sequence(_hash_v1(item, child) for item, child in zip(value, kind.children, strict=True))
        case "map":
            key_type, item_type = kind.children
            return _signed(sum(_hash_v1(k, key_type) ^ _hash_v1(v, item_type) for k, v in value.items()))
    return _OLD[kind.name](value)


def _decimal_v1(value: Decimal) -> int:
    unscaled, scale = _unscaled(value)
    return _signed(31 * _java_big_integer(unscaled) + scale)


def _timestamp_v1(value: datetime | Instant) -> int:
    seconds, nanos = _instant(value)
    return _folded(_julian(seconds) << 30 | nanos)


def _local_timestamp_v1(value: datetime | Instant) -> int:
    """The hash of java.time's Instant."""
    seconds, nanos = _instant(value)
    return _signed(_folded(seconds) + 51 * nanos)


def _signed_bytes(data: bytes) -> list[int]:
    return [byte - ((byte & 0x80) << 1) for byte in data]


def _sequence(hashes: Iterable[int], start: int = 0) -> int:
    result = start
    for one in hashes:
        result = (31 * result + one) & _MASK
    return _signed(result)


def _signed(value: int) -> int:
    value &= _MASK
    return value - (1 << 32) if value >> 31 else value


def _folded(value: int) -> int:
    """A long as Java folds it into an int."""
    value &= (1 << 64) - 1
    return _signed(value >> 32 ^ value)


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _scrambled(word: int) -> int:
    return _rotated(word * _C1 & _MASK, 15) * _C2 & _MASK


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _float_bits(value: float) -> int:
    """``Float.floatToIntBits``: one pattern for all that is not a number."""
    if value != value:
        return 0x7FC00000
    return int.from_bytes(struct.pack(">f", value), "big", signed=True)


def _double_bits(value: float) -> int:
    if value != value:
        return 0x7FF8 << 48
    return int.from_bytes(struct.pack(">d", value), "big", signed=True)


def _unscaled(value: Decimal) -> tuple[int, int]:
    """A decimal without zeros at the end of its fraction: unscaled value and scale."""
    number = _EXACT.plus(value)
    if number == 0:
        return 0, 0
    scale = 0
    while number != number.to_integral_value():
        number, scale = number.scaleb(1, _EXACT), scale + 1
    return int(number), scale


def _decimal_bytes(value: Decimal) -> bytes:
    """The shortest two's complement that holds the unscaled value, as Java's BigInteger has it."""
    unscaled, _ = _unscaled(value)
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def _java_big_integer(value: int) -> int:
    """``BigInteger.hashCode``."""
    size = abs(value)
    words = [size >> shift & _MASK for shift in range(0, size.bit_length(), 32)]
    result = _sequence(reversed(words))
    return -result if value < 0 else result


def _instant(value: datetime | Instant) -> Instant:
    if isinstance(value, Instant):
        return value
    naive = value if value.tzinfo is None else value.astimezone(timezone.utc).replace(tzinfo=None)
    seconds, rest = divmod(naive - _EPOCH, timedelta(seconds=1))
    return Instant(seconds, rest.microseconds * 1000)


def _julian(seconds: int) -> int:
    """The same date and time by the calendar of java.sql.Timestamp, which is the Julian one before 1582-10-15."""
    day, clock = divmod(seconds, 86400)
    if day >= _FIRST_GREGORIAN_DAY:
        return seconds
    shown = _EPOCH_DAY + timedelta(days=day)
    # Days since 1970 of that date if each fourth year is a leap year, counted from a March.
    year, month = (shown.year, shown.month - 3) if shown.month > 2 else (shown.year - 1, shown.month + 9)
    return (365 * year + year // 4 + (153 * month + 2) // 5 + shown.day - 719471) * 86400 + clock


def _timestamp_bytes(value: datetime | Instant) -> bytes:
    """Hive's serialised timestamp: seconds, then the nanoseconds' digits in reverse, then what did not fit."""
    seconds, nanos = _instant(value)
    decimal = int(f"{nanos:09d}"[::-1])
    further = not 0 <= seconds <= 0x7FFFFFFF
    first = seconds & _MASK
    if decimal or further:
        first |= 1 << 31
    data = first.to_bytes(4, "big")
    if further:
        return data + _variable(-decimal - 1) + _variable(seconds >> 31)
    return data + _variable(decimal) if decimal else data


def _variable(value: int) -> bytes:
    """Hadoop's variable-length long."""
    if -112 <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    size = value if value >= 0 else ~value
    data = size.to_bytes((size.bit_length() + 7) // 8, "big")
    marker = (-112 if value >= 0 else -120) - len(data)
    return marker.to_bytes(1, "big", signed=True) + data


def _number(size: int) -> Callable[[int], bytes]:
    return lambda value: value.to_bytes(size, "big", signed=True)


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


_LOCAL = "timestamp with local time zone"
_SYNONYMS = {"integer": "int", "double precision": "double", "numeric": "decimal", "dec": "decimal"}
_BYTES: dict[str, Callable[[Any], bytes]] = {
    "boolean": lambda value: bytes([value]),
    "tinyint": _number(1),
    "smallint": _number(2),
    "int": _number(4),
    "bigint": _number(8),
    "float": lambda value: struct.pack(">f", _float_bits(value)),
    "double": lambda value: struct.pack(">d", _double_bits(value)),
    "decimal": _decimal_bytes,
    "string": _text,
    "varchar": _text,
    "char": lambda value: _text(value.rstrip(" ")),
    "binary": bytes,
    "date": lambda value: (value - _EPOCH_DAY).days.to_bytes(4, "big", signed=True),
    "timestamp": _timestamp_bytes,
    _LOCAL: _timestamp_bytes,
}
"""What version 2 hashes of a value."""
_OLD: dict[str, Callable[[Any], int]] = {
    "boolean": int,
    "tinyint": int,
    "smallint": int,
    "int": int,
    "bigint": _folded,
    "float": lambda value: _signed(_float_bits(value)),
    "double": lambda value: _folded(_double_bits(value)),
    "decimal": _decimal_v1,
    "string": lambda value: _sequence(_signed_bytes(_text(value))),
    "varchar": lambda value: _sequence(_signed_bytes(_text(value)), start=1),
    "char": lambda value: _sequence(_signed_bytes(_text(value.rstrip(" "))), start=1),
    "binary": lambda value: _sequence(_signed_bytes(value), start=1),
    "date": lambda value: (value - _EPOCH_DAY).days,
    "timestamp": _timestamp_v1,
    _LOCAL: _local_timestamp_v1,
}
"""The hash of a value in version 1."""
