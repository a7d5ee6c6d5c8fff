"""Drivers' errors sorted into the classes of the retry loop."""

from __future__ import annotations

import sqlite3
import sys

import pymysql.err
import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore.database.failures import Failure, FailureRules, explain

MYSQL = "MySQL's own text"


@pytest.mark.parametrize(
    ("number", "sqlstate", "failure"),
    [
        (1213, "40001", Failure.DEADLOCK),  # deadlock
        (1205, "HY000", Failure.DEADLOCK),  # lock wait, NOWAIT on MariaDB
        (3572, "HY000", Failure.DEADLOCK),  # NOWAIT on MySQL
        (1062, "23000", Failure.DUPLICATE),
        (1022, "23000", Failure.DUPLICATE),
        (1586, "23000", Failure.DUPLICATE),
        (1452, "23000", Failure.OTHER),  # foreign key
        (1048, "23000", Failure.OTHER),  # NOT NULL
        (1021, "HY000", Failure.OTHER),  # disk full
        (2006, None, Failure.DISCONNECT),
        (2013, None, Failure.DISCONNECT),
        (1927, "70100", Failure.DISCONNECT),  # killed
        (4031, "HY000", Failure.DISCONNECT),  # idle too long
        (1290, "HY000", Failure.READ_ONLY),
        (1792, "25006", Failure.READ_ONLY),
        (1146, "42S02", Failure.MISSING_TABLE),
        (1045, "28000", Failure.REFUSED),
        (1142, "42000", Failure.REFUSED),
        (1406, "22001", Failure.DATA),
        (1366, "22007", Failure.DATA),
        (1267, "HY000", Failure.DATA),
        (1271, "HY000", Failure.DATA),
    ],
)
def test_mysqls_errors_are_told_apart_by_number(number: int, sqlstate: str | None, failure: Failure) -> None:
    error = pymysql.err.OperationalError(number, MYSQL, sqlstate=sqlstate)
    assert FailureRules().classify(error) is failure
    assert FailureRules().classify(sa.exc.OperationalError("SELECT 1", {}, error)) is failure


@pytest.mark.parametrize(
    "pattern",
    [
        "HY000$", "^1021$", "^Disk full", "nothing,SQLState=HY000",
        r".*waiting for someone.*\(SQLState=HY000, ErrorCode=1021\)", "Disk full [(]/tmp[)], waiting",
    ],
)  # fmt: skip
def test_further_errors_worth_a_retry_are_told_by_state_code_and_text(pattern: str) -> None:
    error = pymysql.err.OperationalError(1021, "Disk full (/tmp), waiting for someone", sqlstate="HY000")
    wrapped = sa.exc.OperationalError("SELECT 1", {}, error)
    assert FailureRules().classify(wrapped) is Failure.OTHER
    assert FailureRules.from_setting(pattern).classify(wrapped) is Failure.RETRYABLE


@pytest.mark.parametrize("pattern", ["^waiting", "^102$", "HY00$", "^HY$", "SQLState=null"])
def test_a_pattern_that_matches_no_part_is_worth_no_retry(pattern: str) -> None:
    error = pymysql.err.OperationalError(1021, "Disk full (/tmp), waiting for someone", sqlstate="HY000")
    assert FailureRules.from_setting(pattern).classify(error) is Failure.OTHER


def test_sqlites_code_and_text_are_looked_at() -> None:
    error = sqlite3.OperationalError("disk I/O error")
    if sys.version_info >= (3, 11):
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    for pattern in ("^10$", "^disk", "SQLState=null, ErrorCode=10"):
        assert FailureRules.from_setting(pattern).classify(error) is Failure.RETRYABLE


def test_a_deadlock_that_took_the_savepoint_along_is_a_deadlock() -> None:
    lost = pymysql.err.OperationalError(1305, "SAVEPOINT sa_savepoint_1 does not exist", sqlstate="42000")
    assert FailureRules().classify(lost) is Failure.DEADLOCK
    missing = pymysql.err.OperationalError(1305, "FUNCTION m.nope does not exist", sqlstate="42000")
    assert FailureRules().classify(missing) is Failure.OTHER


def test_who_is_refused_is_told_what_that_database_has() -> None:
    """A file has a path and can be made; a server has users."""
    file = str(explain(sqlite3.OperationalError("unable to open database file"), Failure.REFUSED, "sqlite:////m.db"))
    assert "check path and rights of the file; where there is none yet, 'hive-acid schema create' makes it" in file
    assert "password" not in file
    denied = pymysql.err.OperationalError(1045, "Access denied for user 'u'", sqlstate="28000")
    wrapped = sa.exc.OperationalError("SELECT 1", {}, denied)
    server = str(explain(wrapped, Failure.REFUSED, "mysql://db/m"))
    assert "check database, user, password and rights" in server
    assert "schema create" not in server


def test_characters_that_latin1_lacks_are_named_as_such() -> None:
    error = pymysql.err.DataError(1366, "Incorrect string value: '\\xE6' for column `PART_NAME`", sqlstate="22007")
    assert "keeps text as latin1" in str(explain(error, Failure.DATA, "mysql://db/m"))
    number = pymysql.err.DataError(1366, "Incorrect integer value: 'x' for column `TXN_ID`", sqlstate="22007")
    assert "latin1" not in str(explain(number, Failure.DATA, "mysql://db/m"))


@pytest.mark.parametrize(
    ("sqlstate", "text", "failure"),
    [
        ("25006", "cannot execute INSERT in a read-only transaction", Failure.READ_ONLY),
        ("55000", "cannot acquire lock mode ShareLock while recovery is in progress", Failure.READ_ONLY),
        ("55000", "sequence is not yet defined in this session", Failure.OTHER),
    ],
)
def test_a_hot_standby_is_a_read_only_metastore(sqlstate: str, text: str, failure: Failure) -> None:
    error = type("OperationalError", (Exception,), {"sqlstate": sqlstate})(text)
    assert FailureRules().classify(error) is failure
