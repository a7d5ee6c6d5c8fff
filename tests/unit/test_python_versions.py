"""What Python 3.10 lacks works there as in newer versions; the tests say the same on all of them."""

from __future__ import annotations

import ast
import sqlite3
from datetime import datetime
from pathlib import Path

import pytest

import airflow_hive_acid
from airflow_hive_acid.metastore.database import sqlite_codes
from airflow_hive_acid.python_versions import StrEnum, add_note, as_python_writes, assert_never, datetime_of

_ROOT = Path(airflow_hive_acid.__file__).parent


class Colour(StrEnum):
    RED = "red"


def test_a_text_constant_is_printed_as_its_text():
    assert f"{Colour.RED} {Colour.RED:>5} {Colour.RED!s}" == "red   red red"
    assert Colour("red") is Colour.RED
    assert Colour.RED == "red"


def test_notes_of_an_exception_are_kept_in_order():
    error = ValueError("first")
    add_note(error, "second")
    add_note(error, "third")
    assert error.__notes__ == ["second", "third"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T12:30:00Z", "2026-01-31T12:30:00+00:00"),
        ("2026-01-31 12:30:00.5", "2026-01-31 12:30:00.500000"),
        ("2026-01-31 12:30:00,1234567+01", "2026-01-31 12:30:00.123456+01:00"),
        ("2026-01-31 12:30-0130", "2026-01-31 12:30-01:30"),
        ("2026-01-31 12+01:00:30", "2026-01-31 12+01:00:30"),
        ("yesterday", "yesterday"),
    ],
)
def test_a_time_is_read_by_the_oldest_python_as_by_newer_ones(text, plain):
    assert as_python_writes(text) == plain
    if text == "yesterday":
        with pytest.raises(ValueError, match="isoformat"):
            datetime_of(text)
    else:
        assert datetime_of(text) == datetime.fromisoformat(plain)


def test_a_case_that_nobody_has_thought_of_is_an_error():
    with pytest.raises(AssertionError, match="nothing is done for 7"):
        assert_never(7)


def _error(statement: str, prepare: str = "CREATE TABLE t (i INTEGER PRIMARY KEY, u UNIQUE)") -> sqlite3.Error:
    with sqlite3.connect(":memory:") as connection:
        connection.executescript(prepare)
        with pytest.raises(sqlite3.Error) as caught:
            connection.executescript(statement)
    connection.close()
    return caught.value


class TextOnly(sqlite3.OperationalError):
    """As a driver's error is in Python 3.10: no code, only SQLite's text."""


@pytest.mark.parametrize(
    ("statement", "primary"),
    [
        ("INSERT INTO t VALUES (1, 1), (1, 2)", 19),
        ("INSERT INTO t VALUES (1, 1), (2, 1)", 19),
        ("INSERT INTO t VALUES ('x', 1)", 20),
        ("PRAGMA query_only = 1; INSERT INTO t VALUES (1, 1)", 8),
        ("ATTACH 'file:///no/such/directory/x.db' AS x", 14),
    ],
)
def test_an_error_of_sqlite_is_told_by_its_text_as_by_its_code(statement, primary):
    error = _error(statement)
    by_text = sqlite_codes.code_of(TextOnly(str(error)))
    assert by_text is not None
    assert by_text & 0xFF == primary
    if hasattr(error, "sqlite_errorcode"):
        assert error.sqlite_errorcode & 0xFF == primary


def test_a_locked_database_is_busy_and_an_unknown_table_has_no_code(tmp_path):
    first = sqlite3.connect(tmp_path / "x.db")
    first.execute("BEGIN EXCLUSIVE")
    second = sqlite3.connect(tmp_path / "x.db", timeout=0)
    with pytest.raises(sqlite3.OperationalError) as caught:
        second.execute("BEGIN EXCLUSIVE")
    first.close()
    second.close()
    assert sqlite_codes.code_of(TextOnly(str(caught.value))) == sqlite_codes.BUSY
    assert sqlite_codes.code_of(TextOnly("no such table: t")) is None


def test_codes_are_those_of_python():
    for name in ("BUSY", "LOCKED", "READONLY", "IOERR", "CANTOPEN", "PERM", "AUTH", "NOTADB", "TOOBIG", "RANGE",
                 "MISMATCH", "CONSTRAINT_UNIQUE", "CONSTRAINT_PRIMARYKEY"):  # fmt: skip
        assert getattr(sqlite_codes, name) == getattr(sqlite3, f"SQLITE_{name}", getattr(sqlite_codes, name))


def test_every_file_is_read_by_the_oldest_python():
    for path in _ROOT.rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))
