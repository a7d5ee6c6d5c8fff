"""Values of partition columns as a Hive stores them: one text for one value, whatever a user writes.

What a Hive 4.1 makes of each type was tried: ``02`` of an int column is ``2``, ``1.50`` of a decimal(10,2) ``1.5``,
``1`` of a double ``1.0``, ``2026-1-2`` of a date ``2026-01-02``. Texts stay as they are; a varchar is cut to length, a
char cut or filled up with blanks.
"""

from __future__ import annotations

import math
import re
import struct
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable

_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
_DAY = r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
_DATE = re.compile(_DAY + "( [0-9:.]+)?")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[ T]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]+))?)?"
)
_LENGTH = re.compile(r"[a-z]+\(([0-9]+)(?:,([0-9]+))?\)")
_TRUE, _FALSE = ("true", "t", "yes", "y", "on", "1"), ("false", "f", "no", "n", "off", "0")
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_WIDTHS = (2, 3, 4)
"""To which whole numbers are filled up with zeros; more are rare."""
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Between them Java writes a number without exponent."""


def normal_value(column: str, type_text: str, value: str) -> str:
    """A value as a Hive stores it.

    :param column: for messages.
    :param type_text: its type, as the catalog holds it.
    :raises InvalidArgumentsError: for what is no value of this type; names the column.
    """
    read = _READERS.get(type_text.partition("(")[0])
    if read is None or value in ("", DEFAULT_PARTITION):
        return value
    found = read(value, type_text)
    if found is None:
        raise InvalidArgumentsError(
            f"partition column {column} is {type_text}; {value[:100]!r} is no value of that type"
        )
    return found


def is_char(type_text: str) -> bool:
    """Whether a partition column is a char, whose values count without the blanks at their end."""
    return type_text.startswith("char(")


def has_many_texts(type_text: str) -> bool:
    """Whether earlier versions of this package, which wrote values as they were given, may have several of one value.

    They refused whole numbers and dates that were not written as a Hive does.
    """
    return type_text.partition("(")[0] in _MANY_TEXTS


def has_several_texts(type_text: str) -> bool:
    """Whether one value of a type has several texts, of which a Hive stores one: numbers, dates and times."""
    return type_text.partition("(")[0] in _SEVERAL_TEXTS


def may_be_several(type_text: str, value: str) -> bool:
    """Whether partitions of several names may be meant by a value of a clause."""
    return is_char(type_text) or as_stored(type_text, value) != value


def stored_char(type_text: str, value: str) -> str:
    """A value as a Hive stores it in a char column; of any other type, as it is.

    A value that is longer stays so: there is no such value.
    """
    found = _LENGTH.fullmatch(type_text)
    if found is None or not type_text.startswith("char") or value in ("", DEFAULT_PARTITION):
        return value
    return value.rstrip(" ").ljust(int(found[1]))


def as_stored(type_text: str, value: str) -> str:
    """A value as a Hive stores it, where one value of the type has several texts; what is no value stays as it is."""
    if type_text.partition("(")[0] not in _SEVERAL_TEXTS:
        return stored_char(type_text, value)
    try:
        return normal_value("", type_text, value)
    except InvalidArgumentsError:
        return value


def other_texts(type_text: str, stored: str) -> list[str]:
    """Other texts of a value by which programs call directories: ``01`` of an INT, ``1.50`` of a DECIMAL, ``2026-1-2``.

    :param stored: the value as a Hive stores it; of what is no value of the type there are none.
    """
    kind = type_text.partition("(")[0]
    if kind in _BITS and _WHOLE.fullmatch(stored):
        sign, digits = ("-", stored[1:]) if stored.startswith("-") else ("", stored)
        return [f"{sign}{digits.zfill(width)}" for width in _WIDTHS if width > len(digits)]
    if kind == "date" and (day := _DATE.fullmatch(stored)) is not None:
        return [f"{day[1]}-{int(day[2])}-{int(day[3])}"]
    if kind in ("decimal", "double", "float") and _PLAIN_NUMBER.fullmatch(stored):
        return _with_zeros(stored, type_text)
    if kind == "boolean" and stored in ("true", "false"):
        return [stored.upper(), stored.capitalize()]
    if kind == "timestamp" and _TIMESTAMP.fullmatch(stored):
        return [*([] if "." in stored else [f"{stored}.0"]), *([stored[:10]] if stored.endswith(" 00:00:00") else [])]
    return []


def _with_zeros(stored: str, type_text: str) -> list[str]:
    """A number with fewer and with more zeros behind the point; a double has as many as a Hive gives it, or none."""
    length = _LENGTH.fullmatch(type_text)
    whole, _, fraction = stored.partition(".")
    fraction = fraction.rstrip("0")
    most = int(length[2] or 0) if length is not None else 0
    longer = [fraction.ljust(width, "0") for width in range(len(fraction), most + 1)]
    return [f"{whole}.{digits}" if digits else whole for digits in (longer or [fraction])]


def insertable_value(column: str, type_text: str, value: str) -> str:
    """A value as rows with it are stored.

    :param column: for messages.
    :raises InvalidArgumentsError: for what would be NULL or another value when it is read; names the column.
    """
    stored = normal_value(column, type_text, value)
    kind = type_text.partition("(")[0]
    fits = _FITS.get(kind)
    if fits is None or value in ("", DEFAULT_PARTITION) or fits(value if kind in _TEXTS else stored, type_text):
        return stored
    raise InvalidArgumentsError(
        f"partition column {column} is {type_text}; {value[:100]!r} does not fit, and rows with it would be read with "
        "another value or NULL"
    )


def is_text_type(type_text: str) -> bool:
    """Whether values of a type are texts."""
    return type_text.partition("(")[0] in ("string", *_TEXTS)


def comparable(type_text: str, value: str) -> Decimal | str | None:
    """What compares as values of a type do: a number, or a text. None for what is no value of the type.

    A char counts without the blanks at its end. Dates and times are texts that have their order.
    """
    if is_text_type(type_text):
        return value.rstrip(" ") if is_char(type_text) else value
    kind = type_text.partition("(")[0]
    read = _READERS.get(kind)
    stored = value if read is None else read(value, type_text)
    return stored if stored is None or kind not in _NUMBERS else Decimal(value)


def _whole(value: str, _: str) -> str | None:
    return str(int(value)) if _WHOLE.fullmatch(value) else None


def _date(value: str, _: str) -> str | None:
    found = _DATE.fullmatch(value)
    return None if found is None else f"{found[1]}-{int(found[2]):02d}-{int(found[3]):02d}"


def _timestamp(value: str, _: str) -> str | None:
    found = _TIMESTAMP.fullmatch(value)
    if found is None:
        return None
    time = ":".join(f"{int(part or 0):02d}" for part in found.groups()[3:6])
    fraction = (found[7] or "").rstrip("0")
    return f"{found[1]}-{int(found[2]):02d}-{int(found[3]):02d} {time}" + (f".{fraction}" if fraction else "")


def _boolean(value: str, _: str) -> str | None:
    lowered = value.lower()
    return "true" if lowered in _TRUE else "false" if lowered in _FALSE else None


def _decimal(value: str, type_text: str) -> str | None:
    length = _LENGTH.fullmatch(type_text)
    scale = int(length[2] or 0) if length is not None else 0
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    if not number.is_finite() or not -80 < number.adjusted() < 80:
        return None
    with localcontext() as context:
        context.prec = 200
        rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    text = format(rounded, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _double(value: str, _: str) -> str | None:
    return _java(value, lambda number, digits: float(f"{number:.{digits}g}") == number, 17)


def _float(value: str, _: str) -> str | None:
    def same(number: float, digits: int) -> bool:
        return _as_float(float(f"{number:.{digits}g}")) == _as_float(number)

    return _java(value, same, 9)


def _as_float(number: float) -> float:
    (found,) = struct.unpack("f", struct.pack("f", number))
    return float(found)


def _java(value: str, same: Callable[[float, int], bool], most: int) -> str | None:
    """A number as Java writes it: the fewest digits that tell it from others, one of them behind the point."""
    try:
        number = float(value)
        if not math.isfinite(number):
            return None
        digits = next(count for count in range(1, most + 1) if same(number, count) or count == most)
    except (ValueError, OverflowError):
        return None
    shortest = Decimal(f"{number:.{digits}g}")
    if number == 0 or _PLAIN_FROM <= abs(number) < _PLAIN_TO:
        text = format(shortest, "f")
        return text if "." in text else f"{text}.0"
    mantissa = format(shortest.scaleb(-shortest.adjusted()).normalize(), "f")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{shortest.adjusted()}"


def _varchar(value: str, type_text: str) -> str:
    length = _LENGTH.fullmatch(type_text)
    return value if length is None else value[: int(length[1])]


def _char(value: str, type_text: str) -> str:
    return stored_char(type_text, _varchar(value, type_text))


_READERS: dict[str, Callable[[str, str], str | None]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _whole),
    "date": _date, "timestamp": _timestamp, "boolean": _boolean, "decimal": _decimal, "double": _double,
    "float": _float, "varchar": _varchar, "char": _char,
}  # fmt: skip
_TEXTS = ("char", "varchar")
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_NUMBERS = (*_BITS, "decimal", "double", "float")
_MANY_TEXTS = ("boolean", "decimal", "double", "float", "timestamp")
_SEVERAL_TEXTS = (*_BITS, "date", *_MANY_TEXTS)


def _whole_fits(stored: str, type_text: str) -> bool:
    most = 1 << _BITS[type_text]
    return -most <= int(stored) < most


def _decimal_fits(stored: str, type_text: str) -> bool:
    length = _LENGTH.fullmatch(type_text)
    precision, scale = (int(length[1]), int(length[2] or 0)) if length is not None else (10, 0)
    return abs(Decimal(stored)) < Decimal(1).scaleb(precision - scale)


def _day_fits(stored: str, _: str) -> bool:
    """Whether there is such a day, and such a time of it."""
    try:
        datetime.fromisoformat(stored.partition(".")[0])
    except ValueError:
        return False
    return True


def _text_fits(value: str, type_text: str) -> bool:
    length = _LENGTH.fullmatch(type_text)
    return length is None or len(value.rstrip(" ")) <= int(length[1])


_FITS: dict[str, Callable[[str, str], bool]] = {
    **dict.fromkeys(_BITS, _whole_fits), **dict.fromkeys(("date", "timestamp"), _day_fits),
    **dict.fromkeys(_TEXTS, _text_fits), "decimal": _decimal_fits,
}  # fmt: skip
