"""What a database error means: try again, a racer was first, wrong set-up, bad data.

The classes are those of Hive's retry loop: deadlocks and lost connections are worth repeating a whole operation,
duplicate keys only where a racer may have inserted first, everything else is told to the caller with the remedy.
The texts name the database without its password.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from enum import Enum

import sqlalchemy as sa

from airflow_hive_acid.errors import (
    HiveAcidError,
    InvalidArgumentsError,
    MetastoreUnavailableError,
    SchemaVersionError,
)
from airflow_hive_acid.metastore.database import sqlite_codes


class Failure(Enum):
    """Classes of database errors."""

    DEADLOCK = "deadlock"
    RETRYABLE = "retryable"
    DISCONNECT = "disconnect"
    DUPLICATE = "duplicate key"
    READ_ONLY = "read only"
    MISSING_TABLE = "missing table"
    REFUSED = "refused"
    DATA = "data"
    OTHER = "other"


class OpenTookTooLongError(Exception):
    """An operation undid itself and wants to be repeated as a whole (Hive's ManualRetry)."""


_SQLSTATES = {
    "40001": Failure.DEADLOCK, "40P01": Failure.DEADLOCK, "55P03": Failure.DEADLOCK,
    "23505": Failure.DUPLICATE, "25006": Failure.READ_ONLY, "42P01": Failure.MISSING_TABLE,
    "42501": Failure.REFUSED, "3D000": Failure.REFUSED,
    "57P01": Failure.DISCONNECT, "57P02": Failure.DISCONNECT, "57P03": Failure.DISCONNECT,
    "57P05": Failure.DISCONNECT, "53300": Failure.DISCONNECT,
}  # fmt: skip
_SQLSTATE_CLASSES = {"08": Failure.DISCONNECT, "22": Failure.DATA, "28": Failure.REFUSED}
_MYSQL_CODES = {
    # 1205: lock wait, on MariaDB NOWAIT as well; 3572: NOWAIT on MySQL.
    # 1412: somebody has changed the table since this transaction's view of the database was made.
    1412: Failure.RETRYABLE,
    1213: Failure.DEADLOCK, 1205: Failure.DEADLOCK, 3572: Failure.DEADLOCK, 1020: Failure.DEADLOCK,
    2003: Failure.DISCONNECT, 2006: Failure.DISCONNECT, 2013: Failure.DISCONNECT, 2055: Failure.DISCONNECT,
    1053: Failure.DISCONNECT, 1040: Failure.DISCONNECT, 1927: Failure.DISCONNECT, 0: Failure.DISCONNECT,
    1158: Failure.DISCONNECT, 1159: Failure.DISCONNECT, 1160: Failure.DISCONNECT, 1161: Failure.DISCONNECT,
    1203: Failure.DISCONNECT, 4031: Failure.DISCONNECT,
    1062: Failure.DUPLICATE, 1022: Failure.DUPLICATE, 1586: Failure.DUPLICATE,
    1290: Failure.READ_ONLY, 1792: Failure.READ_ONLY, 1836: Failure.READ_ONLY,
    1146: Failure.MISSING_TABLE,
    1044: Failure.REFUSED, 1045: Failure.REFUSED, 1049: Failure.REFUSED, 1142: Failure.REFUSED, 1143: Failure.REFUSED,
    1130: Failure.REFUSED, 1227: Failure.REFUSED, 1698: Failure.REFUSED,
    1406: Failure.DATA, 1366: Failure.DATA, 1264: Failure.DATA, 1292: Failure.DATA, 1153: Failure.DATA,
    # Characters that the columns' latin1 lacks, compared with one.
    1267: Failure.DATA, 1270: Failure.DATA, 1271: Failure.DATA, 3988: Failure.DATA,
}  # fmt: skip
#: Hive's own rule: a comma that a space follows belongs to a message.
_BETWEEN_PATTERNS = re.compile(r",(?=\S)")
_NO_SUCH_SAVEPOINT = 1305
_LATIN1_ONLY = re.compile("Incorrect string value|mix of collations|Cannot convert string")
_SQLITE_CODES = {
    sqlite_codes.BUSY: Failure.DEADLOCK,
    sqlite_codes.LOCKED: Failure.DEADLOCK,
    sqlite_codes.READONLY: Failure.READ_ONLY,
    sqlite_codes.CANTOPEN: Failure.REFUSED,
    sqlite_codes.PERM: Failure.REFUSED,
    sqlite_codes.AUTH: Failure.REFUSED,
    sqlite_codes.NOTADB: Failure.REFUSED,
    sqlite_codes.TOOBIG: Failure.DATA,
    sqlite_codes.RANGE: Failure.DATA,
    sqlite_codes.MISMATCH: Failure.DATA,
}
_SQLITE_DUPLICATES = {sqlite_codes.CONSTRAINT_UNIQUE, sqlite_codes.CONSTRAINT_PRIMARYKEY}


@dataclass(frozen=True, slots=True)
class FailureRules:
    """How errors are classified.

    :param pattern: ``hive.txn.retryable.sqlex.regex``: further errors that are worth a retry.
    """

    pattern: re.Pattern[str] | None = None

    @classmethod
    def from_setting(cls, text: str) -> FailureRules:
        """Rules from the setting: patterns separated by commas without a space behind them, as Hive splits it.

        :raises InvalidArgumentsError: when a part is no pattern.
        """
        parts = [part.strip() for part in _BETWEEN_PATTERNS.split(text) if part.strip()]
        try:
            return cls(re.compile("|".join(f"(?:{p})" for p in parts)) if parts else None)
        except re.error as error:
            raise InvalidArgumentsError(f"hive.txn.retryable.sqlex.regex = {text!r} is no pattern: {error}") from None

    def classify(self, error: BaseException) -> Failure:
        """The class of an error raised by SQLAlchemy or by a driver."""
        if isinstance(error, OpenTookTooLongError):
            return Failure.RETRYABLE
        if self.pattern is not None and any(map(self.pattern.search, _texts(error))):
            return Failure.RETRYABLE
        if isinstance(error, sa.exc.DBAPIError):
            if error.connection_invalidated:
                return Failure.DISCONNECT
            return _classify_driver(error.orig) if error.orig is not None else Failure.OTHER
        if isinstance(error, sa.exc.TimeoutError):
            return Failure.REFUSED
        return _classify_driver(error)


def _texts(error: BaseException) -> tuple[str, ...]:
    """What the patterns of ``hive.txn.retryable.sqlex.regex`` are looked for in.

    Hive's text first (DatabaseProduct.getMessage), then its parts, so that ``40001$`` and ``^Deadlock`` of Hive's own
    example match, and what SQLAlchemy says where it says more.
    """
    original = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error
    number = original.args[0] if original.args and isinstance(original.args[0], int) else None
    if isinstance(original, sqlite3.Error):
        number = sqlite_codes.code_of(original)
    state = getattr(original, "sqlstate", None)
    message = str(original.args[1]) if number is not None and len(original.args) > 1 else str(original)
    told = f"{message} (SQLState={state or 'null'}, ErrorCode={number or 0})"
    parts = (state, None if number is None else str(number), message, str(error))
    return (told, *(part for part in parts if isinstance(part, str)))


def is_unsendable(error: BaseException) -> bool:
    """Whether a driver refused a value before it reached the database: an id beyond 64 bits, half a character."""
    return isinstance(error, OverflowError | UnicodeEncodeError)


def _classify_driver(error: BaseException) -> Failure:
    if is_unsendable(error):
        return Failure.DATA
    if isinstance(error, sqlite3.Error):
        return _classify_sqlite(error)
    module = type(error).__module__.split(".")[0]
    name = type(error).__name__
    if module == "pymysql":
        # By number: MySQL's SQLSTATE is the same (HY000) for a lock wait and for a full disk.
        number = error.args[0] if error.args and isinstance(error.args[0], int) else None
        if number == _NO_SUCH_SAVEPOINT and "SAVEPOINT" in str(error):
            # A deadlock ended the whole transaction, so that its savepoint could not be returned to.
            return Failure.DEADLOCK
        if number is not None:
            return _MYSQL_CODES.get(number, Failure.OTHER)
        return Failure.DATA if name == "DataError" else Failure.OTHER
    sqlstate = getattr(error, "sqlstate", None)
    if sqlstate == "55000" and "recovery is in progress" in str(error):
        return Failure.READ_ONLY  # a hot standby refuses LOCK TABLE by this code
    if isinstance(sqlstate, str):
        return _SQLSTATES.get(sqlstate) or _SQLSTATE_CLASSES.get(sqlstate[:2], Failure.OTHER)
    if module == "psycopg":
        # Errors without SQLSTATE come from the client: a lost connection, or a value it cannot send (NUL).
        if name in ("OperationalError", "PipelineAborted") or "connection" in str(error):
            return Failure.DISCONNECT
        return Failure.DATA if name == "DataError" else Failure.OTHER
    return Failure.OTHER


def _classify_sqlite(error: sqlite3.Error) -> Failure:
    number = sqlite_codes.code_of(error)
    if number in _SQLITE_DUPLICATES:
        return Failure.DUPLICATE
    if number is not None and number & 0xFF in _SQLITE_CODES:
        return _SQLITE_CODES[number & 0xFF]
    return Failure.MISSING_TABLE if "no such table" in str(error) else Failure.OTHER


def _what_to_check(error: BaseException) -> str:
    """What to look at when a connection was refused: a file has a path, a server has users."""
    original = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    if isinstance(original, sqlite3.Error):
        return "check path and rights of the file; where there is none yet, 'hive-acid schema create' makes it"
    return "check database, user, password and rights"


def explain(error: BaseException, failure: Failure, where: str) -> HiveAcidError:
    """The error to tell the caller, with the remedy.

    :param where: the database for messages, without password.
    """
    reason = _reason(error)
    match failure:
        case Failure.READ_ONLY:
            return MetastoreUnavailableError(
                f"the metastore {where} is read-only ({reason}); give the user write access, or connect to the primary"
            )
        case Failure.MISSING_TABLE:
            return SchemaVersionError(
                f"the metastore {where} lacks a table ({reason}); run 'hive-acid schema create' on an empty database, "
                "'hive-acid schema check' on a Hive metastore"
            )
        case Failure.REFUSED:
            return MetastoreUnavailableError(
                f"the metastore {where} refuses the connection ({reason}); {_what_to_check(error)}"
            )
        case Failure.DISCONNECT:
            return MetastoreUnavailableError(
                f"the metastore {where} cannot be reached ({reason}); check that the server runs and the URL is right"
            )
        case Failure.DATA if _LATIN1_ONLY.search(reason):
            return InvalidArgumentsError(
                f"the metastore {where} cannot store these characters ({reason}); Hive's schema for MySQL keeps text "
                "as latin1: leave them out, or convert the column (ALTER TABLE … CHARACTER SET); nothing changed"
            )
        case Failure.DATA:
            return InvalidArgumentsError(f"the metastore {where} does not accept a value ({reason}); nothing changed")
        case Failure.DEADLOCK | Failure.RETRYABLE:
            return MetastoreUnavailableError(
                f"the metastore {where} stays busy ({reason}); try again, or look for a long database transaction that "
                "holds it"
            )
        case _:
            return MetastoreUnavailableError(f"the metastore {where} failed: {reason}")


def _reason(error: BaseException) -> str:
    """The driver's own first line: SQLAlchemy's text repeats the statement and its parameters."""
    original = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error
    lines = str(original).strip().splitlines()
    return lines[0] if lines else type(original).__name__
