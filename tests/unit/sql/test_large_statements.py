"""Statements that programs write: thousands of branches, terms and values work; what is nested too deeply is refused,
with the limit and the remedy. No RecursionError reaches a user."""

# ruff: noqa: S608 - statements put together from names of the tests

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import pytest

from airflow_hive_acid.engine.tables.partitions import condition_of
from airflow_hive_acid.errors import InvalidArgumentsError, SqlSyntaxError
from airflow_hive_acid.sql import parse_script, plan
from airflow_hive_acid.sql.lineage.statements import lineage_of
from airflow_hive_acid.sql.lineage.values import How
from airflow_hive_acid.sql.locks.statement_locks import data_locks
from airflow_hive_acid.sql.planning.references import References
from airflow_hive_acid.sql.planning.view_texts import MAX_NESTED_VIEWS
from airflow_hive_acid.sql.text.bounds import DEPTH, SURE_DEPTH
from tests.unit.sql import catalog
from tests.unit.sql.test_views import known, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.lineage.values import Lineage
    from airflow_hive_acid.sql.model.plans import Plan
    from tests.unit.sql.catalog import Facts

T = TypeVar("T")


def through_all(text: str, table_of: Callable[[str], Facts] = known) -> tuple[Plan, Lineage]:
    """All that is done with a statement before Spark sees it."""
    (statement,) = parse_script(text)
    made = plan(statement, table_of, catalog.VIEWS, parse=parse_script)  # type: ignore[arg-type]
    assert data_locks([made])
    for read in made.reads:
        condition_of(read.partitions)
        read.partitions.keeps(["2024-01-01"] * len(read.partitions.columns))
        assert str(read.partitions)
    return made, lineage_of(statement, table_of, catalog.VIEWS, parse=parse_script)  # type: ignore[arg-type]


def branches(count: int, select: str, word: str = "UNION ALL") -> str:
    return f" {word} ".join([select] * count)


def terms(count: int, term: str, word: str) -> str:
    return f" {word} ".join(term.format(n) for n in range(count))


BRANCHES = 1020
"""More than the calls that Python lets stand in each other."""

MANY = {
    "branches over a view": branches(BRANCHES, "SELECT id FROM demo.v"),
    "branches over a table": branches(BRANCHES, "SELECT id FROM default.t", "UNION"),
    "branches of INTERSECT": branches(BRANCHES, "SELECT id FROM default.t", "INTERSECT"),
    "branches in FROM": f"SELECT * FROM ({branches(BRANCHES, 'SELECT id, ds FROM demo.days')}) x "
    "WHERE ds = '2024-01-01'",
    "branches that are inserted": f"INSERT INTO demo.plain {branches(BRANCHES, 'SELECT id FROM demo.v')}",
    "branches that are merged": f"MERGE INTO default.t USING ({branches(BRANCHES, 'SELECT id FROM demo.v')}) s "
    "ON t.id = s.id WHEN MATCHED THEN DELETE",
    "AND": f"SELECT id FROM default.t WHERE {terms(2000, 'id <> {}', 'AND')}",
    "OR": f"SELECT id FROM default.t WHERE {terms(2000, 'id = {}', 'OR')}",
    "AND on a partition column": f"SELECT id FROM demo.days WHERE {terms(2000, 'h <> {}', 'AND')}",
    "OR on a partition column": f"SELECT id FROM demo.days WHERE {terms(2000, 'ds = {}', 'OR')}",
    "AND and OR": f"DELETE FROM demo.days WHERE {terms(1500, 'h = {0} AND ds = {0}', 'OR')}",
    "AND around a view": f"SELECT id FROM demo.v WHERE {terms(2000, 'id <> {}', 'AND')}",
    "IN": f"SELECT id FROM default.t WHERE id IN ({terms(10_000, '{}', ',')})",
    "IN of a partition column": f"SELECT id FROM demo.days WHERE h IN ({terms(10_000, '{}', ',')})",
    "NOT IN": f"DELETE FROM default.t WHERE id NOT IN ({terms(10_000, '{}', ',')})",
    "terms of a sum": f"SELECT {terms(2000, 'id', '+')} AS x FROM default.t",
    "WHEN": f"SELECT CASE {terms(2000, 'WHEN id = {0} THEN {0}', '')} END AS x FROM default.t",
    "queries of a WITH clause": "WITH c0 AS (SELECT id FROM default.t), "
    + ", ".join(f"c{n} AS (SELECT id FROM c{n - 1})" for n in range(1, 1000)) + " SELECT id FROM c999",
    "queries of a WITH clause with stars": "WITH c0 AS (SELECT * FROM default.t), "
    + ", ".join(f"c{n} AS (SELECT * FROM c{n - 1})" for n in range(1, 1000)) + " SELECT id FROM c999",
    "joins": "SELECT a0.id FROM default.t a0 "
    + " ".join(f"JOIN default.t a{n} ON a{n}.id = a{n - 1}.id" for n in range(1, 300)),
    "rows": f"INSERT INTO default.t VALUES {terms(2000, '({}, NULL, 1.0)', ',')}",
}  # fmt: skip


AGAIN = {"branches over a view", "branches that are merged", "AND around a view", "OR on a partition column"}
"""What the others hold, once more: each of a thousand branches is read, and a view behind it too."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.repeats("large") if kind in AGAIN else ()) for kind in MANY]
)
def test_thousands_of_them_are_planned_locked_pruned_and_followed(kind: str) -> None:
    through_all(MANY[kind])


def test_what_they_are_made_of_is_told_as_of_a_few() -> None:
    made, lineage = through_all(MANY["branches in FROM"])
    (read,) = made.reads
    assert read.partitions.keeps(["2024-01-01", "1"])
    assert not read.partitions.keeps(["2024-01-02", "1"])
    ((_, uses), _) = lineage.columns
    assert {(use.relation, use.column, use.how) for use in uses} == {("demo.days", "id", How.IDENTITY)}
    _, chained = through_all(MANY["queries of a WITH clause with stars"])
    assert {(use.relation, use.column) for use in chained.columns[0][1]} == {("default.t", "id")}


def test_a_query_of_a_with_clause_that_nobody_reads_is_no_input() -> None:
    text = "WITH a AS (SELECT id FROM default.t), b AS (SELECT id FROM a), c AS (SELECT carrier FROM demo.flights) "
    assert lineage_of(parse_script(text + "SELECT * FROM b")[0], known, {}).inputs == ("default.t",)  # type: ignore[arg-type]


def test_a_view_of_thousands_of_branches_is_kept() -> None:
    (statement,) = parse_script(f"CREATE VIEW demo.n AS {branches(BRANCHES, 'SELECT * FROM demo.v')}")
    kept = References(statement, known, {}, for_catalog=True, parse=parse_script).rewrite(statement.query)  # type: ignore[union-attr, arg-type]
    assert kept.count("UNION ALL") == BRANCHES - 1


NESTED: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: f"SELECT {'(' * n}id{')' * n} FROM default.t",
    "conditions": lambda n: f"SELECT id FROM default.t WHERE {'(id = 1 OR id = 2 AND ' * n}id = 3{')' * n}",
    "CASE": lambda n: f"SELECT {'CASE WHEN id = 1 THEN ' * n}0{' END' * n} AS x FROM default.t",
    "CASE in ELSE": lambda n: f"SELECT {'CASE WHEN id = 1 THEN 2 ELSE ' * n}0{' END' * n} AS x FROM default.t",
    "functions": lambda n: f"SELECT {'coalesce(id + ' * n}id{', 1)' * n} AS x FROM default.t",
    "CAST": lambda n: f"SELECT {'CAST(' * n}id{' AS INT)' * n} AS x FROM default.t",
    "NOT": lambda n: f"SELECT id FROM default.t WHERE {'NOT ' * n}id = 1",
    "queries in FROM": lambda n: f"SELECT id FROM {'(SELECT id FROM ' * n}default.t{') x' * n}",
    "EXISTS": lambda n: f"SELECT id FROM default.t{' WHERE EXISTS (SELECT id FROM default.t' * n}{')' * n}",
    "UNION": lambda n: f"{'(' * n}SELECT id FROM default.t{' UNION ALL SELECT 1)' * n}",
    "a change": lambda n: f"UPDATE default.t SET amount = {'(1 + ' * n}amount{')' * n}",
}


@pytest.mark.parametrize("levels", [500, 2000])
@pytest.mark.parametrize("kind", NESTED)
def test_what_is_nested_too_deeply_is_refused_with_the_limit_and_the_remedy(kind: str, levels: int) -> None:
    with pytest.raises(SqlSyntaxError, match=rf"nested too deeply: {SURE_DEPTH} .* {DEPTH} never.*WITH name AS"):
        through_all(NESTED[kind](levels))


@pytest.mark.parametrize("kind", NESTED)
def test_the_depth_that_is_promised_is_read_in_a_task_that_is_deep_itself(kind: str) -> None:
    deep = sys.getrecursionlimit() // 5
    assert called_deep(deep, lambda: through_all(NESTED[kind](SURE_DEPTH)))


def called_deep(frames: int, call: Callable[[], T]) -> T:
    return call() if frames == 0 else called_deep(frames - 1, call)


def test_views_that_read_each_other_are_read_to_a_limit() -> None:
    chain = {
        facts.qualified_name: facts
        for n in range(MAX_NESTED_VIEWS + 1)
        for below in ([f"`demo`.`c{n - 1}`"] if n else ["`default`.`t`"])
        for facts in [view(f"demo.c{n}", f"select `id` from {below}", "id:int")]
    }

    def table_of(name: str) -> Facts:
        return chain.get(name) or known(name)

    deepest = f"SELECT id FROM demo.c{MAX_NESTED_VIEWS - 1}"
    made, lineage = called_deep(sys.getrecursionlimit() // 5, lambda: through_all(deepest, table_of))
    assert len(made.views_read) == MAX_NESTED_VIEWS
    assert {use.relation for use in lineage.columns[0][1]} == {"default.t"}
    with pytest.raises(
        InvalidArgumentsError, match=rf"demo\.c0 is read by .* more than {MAX_NESTED_VIEWS} deep; make a"
    ):
        through_all(f"SELECT id FROM demo.c{MAX_NESTED_VIEWS}", table_of)
