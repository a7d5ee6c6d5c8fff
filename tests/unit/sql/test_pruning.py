"""Partition pruning: drops what cannot matter, keeps everything else; compared with SQLite's judgement."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.pruning import KEEP_ALL, PartitionFilter, partition_filter
from airflow_hive_acid.sql.model.statements import Delete
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.sql.model.plans import Plan

    PlanOf = Callable[[str], Plan]

DAYS = ("2023-12-31", "2024-01-01", "2024-01-02", DEFAULT_PARTITION)
DATED = DAYS[:3]
_DELETE = "DELETE FROM t"
HOURS = ("0", "1", "10", DEFAULT_PARTITION)


def condition(where: str, **kinds: str) -> PartitionFilter:
    """The filter of ``DELETE … WHERE where`` on a table with these partition columns."""
    (statement,) = parse_script(f"{_DELETE} WHERE {where}")
    assert isinstance(statement, Delete)
    assert statement.where is not None
    return partition_filter(tuple(kinds.items()), statement.where.tree, lambda column: True)


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("ds = '2024-01-01'", ["2024-01-01"]),
        ("'2024-01-01' <= ds", ["2024-01-01", "2024-01-02"]),
        ("ds < '2024-01-01'", ["2023-12-31"]),
        ("ds <> '2024-01-01'", ["2023-12-31", "2024-01-02"]),
        ("ds IN ('2024-01-02', '2030-01-01')", ["2024-01-02"]),
        ("ds NOT IN ('2024-01-02')", ["2023-12-31", "2024-01-01"]),
        ("ds NOT IN ('2024-01-02', NULL)", []),
        ("ds BETWEEN '2024-01-01' AND '2024-12-31'", ["2024-01-01", "2024-01-02"]),
        ("ds IS NULL", [DEFAULT_PARTITION]),
        ("ds IS NOT NULL", ["2023-12-31", "2024-01-01", "2024-01-02"]),
        ("ds LIKE '2024-%'", ["2024-01-01", "2024-01-02"]),
        ("ds LIKE '____-01-01'", ["2024-01-01"]),
        ("ds NOT LIKE '2024-%'", ["2023-12-31"]),
        ("NOT (ds = '2024-01-01' OR ds > '2024-01-01')", ["2023-12-31"]),
        ("ds = '2024-01-01' AND amount > 5", ["2024-01-01"]),
        ("(amount > 5 AND (ds = '2024-01-01'))", ["2024-01-01"]),
        ("false", list(DAYS)),
        ("ds = NULL", []),
        # Not decided by partition values alone: everything is kept.
        ("ds = '2024-01-01' OR amount > 5", list(DAYS)),
        ("substr(ds, 1, 4) = '2024'", list(DAYS)),
        ("ds = 5", list(DATED)),
        ("ds = DATE '2024-01-01'", list(DATED)),
        ("ds = name", list(DAYS)),
        ("ds IN (SELECT max(ds) FROM u)", list(DAYS)),
        ("ds LIKE '2024\\\\_%'", list(DATED)),
        ("ds LIKE ANY ('2024%')", list(DATED)),
        ("ds LIKE '2024%' ESCAPE '!'", list(DAYS)),
        ("ds BETWEEN SYMMETRIC 'b' AND 'a'", list(DAYS)),
        ("ds <=> '2024-01-01'", list(DAYS)),
        ("ds = '2024-' '01-01'", list(DATED)),
        ("ds = '2024''01-01'", list(DATED)),
    ],
)
def test_conditions_on_a_string_column(where: str, kept: list[str]) -> None:
    found = condition(where, ds="string")
    assert [day for day in DAYS if found.keeps((day,))] == kept


@pytest.mark.parametrize(
    ("kind", "where", "values", "kept"),
    [
        ("int", "p = 1", HOURS, ["1"]),
        ("int", "p = '1'", HOURS, ["1"]),
        ("int", "p > 1.5", HOURS, ["10"]),
        ("bigint", "p < -5", ("-10", "-5", "0"), ["-10"]),
        ("int", "p = 'x'", HOURS, ["0", "1", "10"]),
        ("int", "p = 1", ("1", "broken"), ["1", "broken"]),
        ("decimal(10,2)", "p = 1.5", ("1.5", "1.50", "2"), ["1.5", "1.50"]),
        # Texts of decimals are doubles to Spark, where these two are the same.
        ("decimal(16,0)", "p = '9007199254740992'", ("9007199254740993", "1"), ["9007199254740993", "1"]),
        ("decimal(16,0)", "p = 9007199254740992", ("9007199254740993", "9007199254740992"), ["9007199254740992"]),
        ("bigint", "p = '9007199254740992'", ("9007199254740993", "9007199254740992"), ["9007199254740992"]),
        ("string", r"p = '\U0001F600'", ("\U0001f600", "U0001F600"), ["\U0001f600"]),
        ("string", r"p IN ('\065', '\ud83d\ude00')", ("5", "065", "\U0001f600"), ["5", "\U0001f600"]),
        ("string", r"p <> '\u00e4'", ("ä", "u00e4"), ["u00e4"]),
        ("double", "p = 0.1", ("0.1", "0.2"), ["0.1", "0.2"]),
        ("date", "p >= '2024-01-01'", DAYS, ["2024-01-01", "2024-01-02"]),
        ("date", "p = DATE '2024-01-02'", DAYS, ["2024-01-02"]),
        ("date", "p = CAST('2024-01-02' AS DATE)", DAYS, ["2024-01-02"]),
        ("date", "p = '2024-1-2'", DAYS, list(DATED)),
        ("boolean", "p = true", ("true", "false"), ["true"]),
        ("varchar(5)", "p > 'b'", ("a", "c"), ["c"]),
        ("char(5)", "p = 'a'", ("a    ", "a", "c    "), ["a    ", "a"]),
        ("char(5)", "p = 'a  '", ("a    ", "a", "c    "), ["a    ", "a"]),
        ("char(5)", "p IN ('a', 'b          ')", ("a    ", "b    ", "c    "), ["a    ", "b    "]),
        ("char(5)", "p > 'a'", ("a    ", "c    "), ["a    ", "c    "]),
        ("timestamp", "p = '2024-01-01 00:00:00'", ("2024-01-01 00:00:00", "x"), ["2024-01-01 00:00:00", "x"]),
    ],
)
def test_values_are_compared_as_their_type_or_not_at_all(
    kind: str, where: str, values: tuple[str, ...], kept: list[str]
) -> None:
    found = condition(where, p=kind)
    assert [value for value in values if found.keeps((value,))] == kept


def test_a_filter_says_what_it_tests() -> None:
    assert str(condition("ds = 'x' AND h IN (1, 2) AND a = 1", ds="string", h="int")) == "ds = 'x' AND h IN (1, 2)"
    assert str(KEEP_ALL) == "true"


def test_either_keeps_what_one_of_two_keeps() -> None:
    one, two = condition("h = 1", h="int"), condition("h = 10", h="int")
    assert [h for h in HOURS if one.either(two).keeps((h,))] == ["1", "10"]
    assert one.either(KEEP_ALL).keeps(("0",))
    assert one.either(one) == one


def test_an_unpartitioned_table_is_always_kept() -> None:
    assert condition("a = 1").keeps(())
    assert KEEP_ALL.keeps(())


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("SELECT * FROM demo.days WHERE h = 1", {"ha1_days": ["1"]}),
        ("SELECT * FROM demo.days WHERE demo.days.h = 1", {"ha1_days": ["1"]}),
        ("SELECT * FROM demo.days d JOIN t ON d.id = t.id WHERE h = 1", {"ha1_days": ["1"], "ha2_t": list(HOURS)}),
        ("SELECT * FROM demo.days a, demo.days b WHERE a.h = 1 AND b.h = 10", {"ha1_days": ["1", "10"]}),
        ("SELECT * FROM demo.days a, demo.days b WHERE a.h = 1", {"ha1_days": list(HOURS)}),
        # The name h could be one of raw's.
        ("SELECT * FROM demo.days JOIN raw ON id = k WHERE h = 1", {"ha1_days": list(HOURS)}),
        # A row of t without a match has NULL in d.h: what is pruned would change which rows match.
        (
            "SELECT * FROM t LEFT JOIN demo.days d ON d.id = t.id WHERE d.h IS NULL",
            {"ha1_t": list(HOURS), "ha2_days": list(HOURS)},
        ),
        (
            "SELECT * FROM demo.days d LEFT JOIN t ON d.id = t.id WHERE d.h = 1",
            {"ha1_days": ["1"], "ha2_t": list(HOURS)},
        ),
        (
            "SELECT * FROM demo.days d FULL JOIN t ON d.id = t.id WHERE d.h = 1",
            {"ha1_days": list(HOURS), "ha2_t": list(HOURS)},
        ),
        ("SELECT * FROM (SELECT * FROM demo.days) q WHERE h = 1", {"ha1_days": ["1"]}),
        ("SELECT * FROM (SELECT * FROM demo.days WHERE h = 1) q", {"ha1_days": ["1"]}),
        ("SELECT 1 FROM demo.days WHERE h = 1 UNION SELECT 2 FROM demo.days WHERE h = 10", {"ha1_days": ["1", "10"]}),
    ],
)
def test_what_a_query_reads_of_a_table(plan_of: PlanOf, sql: str, kept: dict[str, list[str]]) -> None:
    reads = plan_of(sql).reads
    assert {read.view: [h for h in HOURS if read.partitions.keeps(("2024-01-01", h))] for read in reads} == kept


def test_an_insert_touches_its_static_partition_only(plan_of: PlanOf) -> None:
    plan = plan_of("INSERT OVERWRITE demo.days PARTITION (ds='', h=1) VALUES (1, 'x')")
    assert plan.write is not None
    assert plan.write.static_partition == (("ds", DEFAULT_PARTITION), ("h", "1"))
    assert plan.write.partitions.keeps((DEFAULT_PARTITION, "1"))
    assert not plan.write.partitions.keeps(("2024-01-01", "1"))
    assert not plan.write.partitions.keeps((DEFAULT_PARTITION, "0"))


_COMPARE = ["=", "<>", "<", "<=", ">", ">="]


def _test(column: str, operators: list[str], operands: list[str]) -> st.SearchStrategy[str]:
    return st.tuples(st.just(column), st.sampled_from(operators), st.sampled_from(operands)).map(" ".join)


_tests = st.one_of(
    _test("s", _COMPARE, ["'a'", "'b'", "NULL"]),
    _test("i", _COMPARE, ["-1", "1", "2", "1.5", "NULL"]),
    _test("s", ["IN", "NOT IN"], ["('a')", "('a', 'c')", "('b', NULL)"]),
    _test("i", ["BETWEEN", "NOT BETWEEN"], ["1 AND 2", "-5 AND 0"]),
    _test("s", ["IS", "IS NOT"], ["NULL"]),
    _test("s", ["LIKE", "NOT LIKE"], ["'a%'", "'_'", "'%b'"]),
    _test("x", ["="], ["1"]),
)
_conditions = st.recursive(
    _tests,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda t: f"NOT ({t})"),
    ),
    max_leaves=8,
)
_rows = st.tuples(st.sampled_from(["a", "b", "ab", None]), st.sampled_from([-1, 1, 2, 10, None]))


@pytest.fixture(scope="module")
def sqlite() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA case_sensitive_like = ON")
    connection.execute("CREATE TABLE p (s TEXT, i INTEGER, x INTEGER)")
    yield connection
    connection.close()


@settings(max_examples=examples(500), deadline=None)
@given(where=_conditions, row=_rows)
def test_nothing_is_dropped_that_a_database_would_find(
    sqlite: sqlite3.Connection, where: str, row: tuple[str | None, int | None]
) -> None:
    """x is a data column with any value: a partition is kept if some value of it, or NULL, makes the condition true."""
    text, number = row
    sqlite.execute("DELETE FROM p")
    sqlite.executemany("INSERT INTO p VALUES (?, ?, ?)", [(text, number, x) for x in (1, 2, None)])
    found = sqlite.execute(f"SELECT count(*) FROM p WHERE {where}").fetchone()[0]  # noqa: S608 - made above
    values = (DEFAULT_PARTITION if text is None else text, DEFAULT_PARTITION if number is None else str(number))
    kept = condition(where, s="string", i="int").keeps(values)
    assert kept or not found
    if "x" not in where:
        assert kept == bool(found)
