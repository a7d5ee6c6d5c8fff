"""SQLite's result codes (sqlite.org/rescode.html), as Python 3.11 has them in ``sqlite3``; Python 3.10 has none.

There a driver's error has no code, only SQLite's text, which is the same in every language.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

PERM, BUSY, LOCKED, READONLY, IOERR, CANTOPEN = 3, 5, 6, 8, 10, 14
TOOBIG, CONSTRAINT, MISMATCH, AUTH, RANGE, NOTADB = 18, 19, 20, 23, 25, 26
CONSTRAINT_PRIMARYKEY, CONSTRAINT_UNIQUE = CONSTRAINT | 6 << 8, CONSTRAINT | 8 << 8

#: By the beginnings of texts, from ``sqlite3ErrStr`` and from where SQLite writes its own.
_TEXTS = (
    ("access permission denied", PERM),
    ("database is locked", BUSY),
    ("database table is locked", LOCKED),
    ("database schema is locked", LOCKED),
    ("attempt to write a readonly database", READONLY),
    ("disk I/O error", IOERR),
    ("unable to open database", CANTOPEN),
    ("string or blob too big", TOOBIG),
    ("UNIQUE constraint failed", CONSTRAINT_UNIQUE),
    ("datatype mismatch", MISMATCH),
    ("authorization denied", AUTH),
    ("not authorized", AUTH),
    ("column index out of range", RANGE),
    ("bind or column index out of range", RANGE),
    ("file is not a database", NOTADB),
)


def code_of(error: sqlite3.Error) -> int | None:
    """The extended result code of an error, or the primary one where only that can be told; None for none."""
    number = getattr(error, "sqlite_errorcode", None)
    if number is not None:
        return int(number)
    text = str(error)
    return next((code for beginning, code in _TEXTS if text.startswith(beginning)), None)
