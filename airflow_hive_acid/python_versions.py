"""What newer versions of Python have and the oldest that is supported, 3.10, has not. Standard library only."""

from __future__ import annotations

import sys
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


__all__ = ["StrEnum", "add_note", "assert_never"]


def add_note(error: BaseException, note: str) -> None:
    """Say more about an exception, as its method ``add_note`` of Python 3.11 does.

    Python 3.10 keeps the note, and the command line prints it; its own tracebacks do not show it.
    """
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        vars(error).setdefault("__notes__", []).append(note)


def assert_never(value: NoReturn) -> NoReturn:
    """What a type checker finds unreachable; see ``typing.assert_never`` of Python 3.11.

    :raises AssertionError: always.
    """
    raise AssertionError(f"nothing is done for {value!r}")
