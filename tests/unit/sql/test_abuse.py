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


@pytest.mark.parametrize("what", DEEP)
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
