"""The Hive Concurrency Model: every row of its table, and its rules about parents, order and partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.locks.legacy_locks import legacy_ctas_locks, legacy_data_locks, legacy_ddl_locks
from airflow_hive_acid.sql.model.origins import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.locks.legacy_locks import LegacyLock
    from airflow_hive_acid.sql.model.plans import Plan, TableFacts

P1 = {"demo.plainp": ["ds=a/h=1"]}


def shown(locks: tuple[LegacyLock, ...]) -> list[str]:
    return [f"{'.'.join(lock.path[1:])} {lock.mode.name[0]}" for lock in locks]


QUERIES = [
    # select .. T1 partition P1: S on T1, T1.P1
    ("SELECT * FROM demo.plainp WHERE ds='a' AND h=1", ["plainp S", "plainp.ds=a S", "plainp.ds=a.h=1 S"]),
    # insert into T2(partition P2) select .. T1 partition P1: S on T2, T1, T1.P1 and X on T2.P2
    (
        "INSERT INTO demo.flights PARTITION (month=2) SELECT 'c', id, 1, NULL FROM demo.plainp WHERE ds='a'",
        ["flights S", "flights.month=2 E", "plainp S", "plainp.ds=a S", "plainp.ds=a.h=1 S"],
    ),
    # insert into T2(partition P.Q) select .. T1 partition P1: S on T2, T2.P, T1, T1.P1 and X on T2.P.Q
    (
        "INSERT INTO demo.days PARTITION (ds='b', h=2) SELECT id, 'v' FROM demo.plainp WHERE ds='a'",
        ["days S", "days.ds=b S", "days.ds=b.h=2 E", "plainp S", "plainp.ds=a S", "plainp.ds=a.h=1 S"],
    ),
    # An unpartitioned table: S to read, X for everything else.
    ("SELECT * FROM demo.plain", ["plain S"]),
    ("INSERT INTO demo.plain VALUES (1)", ["plain E"]),
    ("INSERT INTO demo.plain SELECT id + 1 FROM demo.plain", ["plain E"]),
    # Dynamic partitions: the prefix that is known, or the table.
    ("INSERT INTO demo.days PARTITION (ds='b', h) VALUES (1, 'v', 5)", ["days S", "days.ds=b E"]),
    ("INSERT INTO demo.days PARTITION (ds, h) VALUES (1, 'v', 'b', 5)", ["days E"]),
]


@pytest.mark.parametrize(("sql", "expected"), QUERIES)
def test_queries_and_inserts(plan_of: Callable[[str], Plan], sql: str, expected: list[str]) -> None:
    assert shown(legacy_data_locks([plan_of(sql)], P1)) == expected


COMMANDS = [
    ("ALTER TABLE demo.plain RENAME TO demo.other", ["plain E"]),
    ("ALTER TABLE demo.plain ADD COLUMNS (x INT)", ["plain E"]),
    ("ALTER TABLE demo.plain REPLACE COLUMNS (x INT)", ["plain E"]),
    ("ALTER TABLE demo.plain CHANGE id x INT", ["plain E"]),
    ("ALTER TABLE demo.plain CONCATENATE", ["plain E"]),
    ("ALTER TABLE demo.flights ADD PARTITION (month=1)", ["flights S", "flights.month=1 E"]),
    ("ALTER TABLE demo.flights DROP PARTITION (month=1)", ["flights S", "flights.month=1 E"]),
    ("ALTER TABLE demo.flights TOUCH PARTITION (month=1)", ["flights S", "flights.month=1 E"]),
    ("ALTER TABLE demo.plain SET SERDEPROPERTIES ('a'='b')", ["plain S"]),
    ("ALTER TABLE demo.plain SET SERDE 'x'", ["plain S"]),
    ("ALTER TABLE demo.plain SET FILEFORMAT ORC", ["plain S"]),
    ("ALTER TABLE demo.plain SET TBLPROPERTIES ('a'='b')", ["plain E"]),
    ("ALTER TABLE demo.flights PARTITION (month=1) CONCATENATE", ["flights S", "flights.month=1 E"]),
    ("DROP TABLE demo.plain", ["plain E"]),
    # What the table does not name: X for all other operations.
    ("TRUNCATE TABLE demo.plain", ["plain E"]),
    ("TRUNCATE TABLE demo.days PARTITION (ds='a')", ["days S", "days.ds=a E"]),
    ("ALTER TABLE demo.days DROP PARTITION (ds='a', h > 3)", ["days S", "days.ds=a E"]),
    ("ALTER TABLE demo.days DROP PARTITION (ds > 'a')", ["days E"]),
    ("TRUNCATE TABLE demo.days PARTITION (ds='a', h='01')", ["days S", "days.ds=a E"]),
    ("ALTER TABLE demo.flights DROP PARTITION (month='01')", ["flights E"]),
    (
        "ALTER TABLE demo.flights PARTITION (month=2) RENAME TO PARTITION (month=1)",
        ["flights S", "flights.month=1 E", "flights.month=2 E"],
    ),
    ("CREATE TABLE demo.n (a INT)", []),
    ("CREATE DATABASE n", []),
    ("ALTER TABLE t COMPACT 'major'", []),
]


@pytest.mark.parametrize(("sql", "expected"), COMMANDS)
def test_every_row_of_the_table(table_of: Callable[[str], TableFacts], sql: str, expected: list[str]) -> None:
    (statement,) = parse_script(sql)
    assert shown(legacy_ddl_locks(statement, table_of)) == expected  # type: ignore[arg-type]


def test_create_table_as_shares_the_database_and_has_the_table(plan_of: Callable[[str], Plan]) -> None:
    plan = plan_of("SELECT * FROM demo.plainp WHERE ds='a' AND h=1")
    locks = legacy_ctas_locks(TableName("demo", "n"), plan, P1)
    assert [(str(lock), lock.rule) for lock in locks if not lock.is_parent] == [
        ("demo -> SHARED", "create table as: the database it comes into"),
        ("demo.n -> EXCLUSIVE", "create table as"),
        ("demo.plainp/ds=a/h=1 -> SHARED", "select"),
    ]
    assert legacy_ctas_locks(TableName("demo", "n"), plan, P1, concurrency=False) == ()


def test_dropping_a_database_has_it_exclusively(table_of: Callable[[str], TableFacts]) -> None:
    (statement,) = parse_script("DROP DATABASE demo CASCADE")
    (lock,) = legacy_ddl_locks(statement, table_of)  # type: ignore[arg-type]
    assert str(lock) == "demo -> EXCLUSIVE"


def test_without_concurrency_nothing_is_locked(
    plan_of: Callable[[str], Plan], table_of: Callable[[str], TableFacts]
) -> None:
    (statement,) = parse_script("DROP TABLE demo.plain")
    assert legacy_ddl_locks(statement, table_of, concurrency=False) == ()  # type: ignore[arg-type]
    assert legacy_data_locks([plan_of("INSERT INTO demo.plain VALUES (1)")], concurrency=False) == ()


def test_objects_are_in_lexicographic_order_and_say_why(plan_of: Callable[[str], Plan]) -> None:
    plan = plan_of("INSERT INTO demo.days PARTITION (ds='b', h=2) SELECT id, name FROM t")
    locks = legacy_data_locks([plan])
    assert [str(lock) for lock in locks] == [
        "default.t -> SHARED",
        "demo.days -> SHARED",
        "demo.days/ds=b -> SHARED",
        "demo.days/ds=b/h=2 -> EXCLUSIVE",
    ]
    assert [lock.rule for lock in locks] == ["select", *["parents are locked in S"] * 2, "insert"]
    assert [lock.path for lock in locks] == sorted(lock.path for lock in locks)


def test_a_table_that_is_read_and_is_a_parent_says_that_it_is_read(plan_of: Callable[[str], Plan]) -> None:
    plan = plan_of("INSERT INTO demo.days PARTITION (ds='b', h=2) SELECT id, v FROM demo.days")
    assert [(lock.path[2:], lock.rule) for lock in legacy_data_locks([plan]) if not lock.is_parent] == [
        ((), "select"),
        (("ds=b", "h=2"), "insert"),
    ]
