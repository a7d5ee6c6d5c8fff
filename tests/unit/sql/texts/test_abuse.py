"""Statements made to exhaust whoever reads them (S7): what is too deep is refused clearly, what is long is planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import HiveAcidError, SqlSyntaxError
from airflow_hive_acid.sql import parse_script

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.model.plans import Plan

# ruff: noqa: S608 - texts of the tests' own
DEEP = {
    "parentheses": f"INSERT INTO t SELECT {'(' * 3000}1{')' * 3000}",
    "cases": f"SELECT {'CASE WHEN true THEN ' * 500}1{' END' * 500} FROM t",
    "sub-queries": f"SELECT * FROM {'(SELECT * FROM ' * 1500}t{') x' * 1500}",
    "negations": f"SELECT {'NOT ' * 5000}true",
    "merge": f"MERGE INTO t USING t AS s ON {'(' * 3000}t.id = s.id{')' * 3000} WHEN MATCHED THEN DELETE",
}

DEEP |= {
    f"{what} {times}": text
    for times in (250, 20_000)
    for what, text in {
        "parentheses": f"SELECT {'(' * times}1{')' * times}",
        "sub-queries": f"SELECT a FROM {'(SELECT a FROM ' * times}t{') x' * times}",
        "arrays": f"SELECT CAST(a AS {'array<' * times}int{'>' * times})",
        "maps": f"SELECT CAST(a AS {'map<int,' * times}int{'>' * times})",
        "subscripts": f"SELECT a{'[a' * times}{']' * times}",
        "calls": f"SELECT {'f(' * times}1{')' * times}",
    }.items()
}


def marks_of(what: str) -> tuple[pytest.MarkDecorator, ...]:
    """Of what is nested very deeply, two kinds are enough: brackets of an expression, and queries."""
    again = what.endswith(" 20000") and what.split()[0] not in ("parentheses", "sub-queries")
    return (pytest.mark.repeats("nested very deeply"),) if again else ()


@pytest.mark.parametrize("what", [pytest.param(what, marks=marks_of(what)) for what in DEEP])
def test_s7_a_statement_that_is_nested_too_deeply_is_refused_with_its_place(what: str) -> None:
    with pytest.raises(SqlSyntaxError, match=r"line 1, column \d+: the statement is nested too deeply"):
        parse_script(DEEP[what])


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t WHERE " + " OR ".join(f"id = {i}" for i in range(1500)),
        "SELECT id FROM demo.days WHERE " + " OR ".join(f"ds = '{i}'" for i in range(1500)),
        "DELETE FROM demo.days WHERE ds = 'x' AND " + " AND ".join("id > 1" for _ in range(1500)),
        "SELECT " + " + ".join("id" for _ in range(1500)) + " FROM t",
        "MERGE INTO t USING demo.users u ON t.id = u.id "
        + " ".join(f"WHEN MATCHED AND t.id = {i} THEN UPDATE SET name = 'x'" for i in range(300)),
        "INSERT INTO t (id) VALUES " + ", ".join("(1)" for _ in range(3000)),
    ],
    ids=["or", "partitions", "and", "plus", "merge", "values"],
)
def test_s7_a_long_statement_is_planned_or_refused_by_name(plan_of: Callable[[str], Plan], sql: str) -> None:
    try:
        made = plan_of(sql)
    except HiveAcidError as refused:
        if "nested too deeply" not in str(refused):
            raise
    else:
        for read in made.reads:
            assert not read.partitions.alternatives or read.partitions.keeps(["7", "1"])
            assert not read.partitions.alternatives or not read.partitions.keeps(["9999", "1"])


@pytest.mark.parametrize("more", ["", " WHERE t1.a = t2.a", " CROSS JOIN t"])
def test_s7_joins_without_a_condition_are_bounded(plan_of: Callable[[str], Plan], more: str) -> None:
    """Each is read twice with all that follows: twenty took 13 s."""
    joins = "".join(f" JOIN demo.users u{i}" for i in range(40))
    with pytest.raises(SqlSyntaxError, match="12 JOINs have no ON or USING; write CROSS JOIN"):
        parse_script(f"SELECT 1 FROM t{joins}{more}")
    assert plan_of(f"SELECT 1 FROM t{joins.replace('JOIN', 'CROSS JOIN')}").reads
    conditions = "".join(f" JOIN demo.users u{i} ON t.id = u{i}.id" for i in range(40))
    assert plan_of(f"SELECT 1 FROM t{conditions}").reads
