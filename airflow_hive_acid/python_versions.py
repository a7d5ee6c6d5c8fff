"""What newer versions of Python have and the oldest that is supported, 3.10, has not. Standard library only."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from typing import NoReturn

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """Constants that are their texts, wherever they are printed, as in Python 3.11."""

        __str__ = str.__str__

        def __format__(self, format_spec: str) -> str:
            return str.__format__(self, format_spec)


__all__ = ["StrEnum", "add_note", "assert_never", "datetime_of"]

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d.\d\d(?::\d\d(?::\d\d)?)?)(?:[.,](\d+))?(?:(Z)|([+-]\d\d)(?::?(\d\d)(?::?(\d\d))?)?)?", re.ASCII
)


def add_note(error: BaseException, note: str) -> None:
    """Say more about an exception, as its method ``add_note`` of Python 3.11 does.

    Python 3.10 keeps the note, and the command line prints it; its own tracebacks do not show it.
    """
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        vars(error).setdefault("__notes__", []).append(note)


def datetime_of(text: str) -> datetime:
    """The time that a text in ISO 8601 says, as ``datetime.fromisoformat`` reads it in Python 3.11.

    Python 3.10 by itself reads no ``Z``, no zone without a colon, and fractions of three or six digits only.

    :raises ValueError: for what is none.
    """
    return datetime.fromisoformat(text if sys.version_info >= (3, 11) else as_python_writes(text))


def as_python_writes(text: str) -> str:
    """A time in the one form that Python 3.10 reads; what has a date without dashes stays as it is."""
    found = _TIME.fullmatch(text)
    if found is None:
        return text
    clock, fraction, utc, *zone = found.groups()
    if utc:
        zone = ["+00", "00"]
    elif zone[0] and not zone[1]:
        zone[1] = "00"
    return clock + (f".{fraction[:6]:0<6}" if fraction else "") + ":".join(filter(None, zone))


def assert_never(value: NoReturn) -> NoReturn:
    """What a type checker finds unreachable; see ``typing.assert_never`` of Python 3.11.

    :raises AssertionError: always.
    """
    raise AssertionError(f"nothing is done for {value!r}")
