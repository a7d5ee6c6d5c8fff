"""Whatever the text: the front either reads it or refuses it with an error of ours that names a place."""

# ruff: noqa: S608 - making SQL from pieces is the point here
from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from airflow_hive_acid.errors import HiveAcidError, SqlSyntaxError, UnsupportedStatementError
from airflow_hive_acid.sql import parse_script, plan
from airflow_hive_acid.sql.locks.ddl_locks import ddl_locks
from airflow_hive_acid.sql.locks.legacy_locks import legacy_ddl_locks
from airflow_hive_acid.sql.locks.statement_locks import data_locks
from airflow_hive_acid.sql.model.session import SessionStatement
from airflow_hive_acid.sql.model.statements import (
    Abort,
    Begin,
    Commit,
    CreateTemporaryView,
    Delete,
    DropForceLease,
    Explain,
    Insert,
    Load,
    Merge,
    MultiInsert,
    Rollback,
    Select,
    Show,
    ShowLease,
    Statement,
    Update,
)
from airflow_hive_acid.sql.model.views import CreateTemporaryQuery, ViewStatement
from airflow_hive_acid.sql.parsing.multi_insert import in_order
from tests.examples import examples
from tests.unit.sql.catalog import VIEWS, table_of
from tests.unit.sql.test_corpus import STATEMENTS

PLACE = re.compile(r"line \d+, column \d+: .+\n  .*\n  \s*\^+", re.DOTALL)
TEXTS = [statement.text for statement in parse_script(STATEMENTS)]
TOKENS = sorted(set(re.findall(r"'[^']*'|[A-Za-z_]+|\d+|[^\sA-Za-z_0-9]", STATEMENTS)))
RUNS = settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read(text: str) -> None:
    """Parse and plan, as the engine would before anything runs."""
    try:
        statements = parse_script(text)
    except (SqlSyntaxError, UnsupportedStatementError) as error:
        told = str(error)
        assert PLACE.search(told) or told.startswith("the script cannot be divided"), told
        return
    for statement in statements:
        with contextlib.suppress(HiveAcidError):
            understand(statement)


def understand(statement: Statement) -> None:
    if isinstance(statement, Explain):
        understand(statement.statement)
    elif isinstance(statement, MultiInsert):
        plans = [plan(insert, table_of, VIEWS) for insert in statement.inserts]
        data_locks([plans[i] for i in in_order(statement, plans)])
    elif isinstance(statement, Select | Insert | Update | Delete | Merge):
        planned = plan(statement, table_of, VIEWS)
        data_locks([planned])
        for read_ in planned.reads:
            read_.partitions.keeps(["2024-01-01", "3"][: len(read_.partitions.columns)])
    elif not isinstance(
        statement,
        Abort
        | Begin
        | Commit
        | CreateTemporaryQuery
        | CreateTemporaryView
        | DropForceLease
        | Load
        | Rollback
        | SessionStatement
        | Show
        | ShowLease
        | ViewStatement,
    ):
        ddl_locks(statement, table_of)
        legacy_ddl_locks(statement, table_of)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A statement of the corpus in which a few words were dropped, doubled, exchanged or put in."""
    words = re.findall(r"\s+|'[^']*'|\w+|.", draw(st.sampled_from(TEXTS)), re.DOTALL)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(words) - 1)))
        match draw(st.sampled_from(["drop", "double", "swap", "insert", "replace", "cut"])):
            case "drop":
                words[at : at + 1] = []
            case "double":
                words[at:at] = words[at : at + draw(st.integers(1, 4))]
            case "swap":
                other = draw(st.integers(0, max(0, len(words) - 1)))
                if words:
                    words[at], words[other] = words[other], words[at]
            case "insert":
                words.insert(at, f" {draw(st.sampled_from(TOKENS))} ")
            case "replace":
                words[at : at + 1] = [draw(st.sampled_from(TOKENS))]
            case _:
                words = words[:at]
    return "".join(words)


NAMES = st.sampled_from(["t", "demo.days", "demo.flights", "demo.plain", "demo.nothing", "`t`", "t.x.y", "1", "select"])
COLUMNS = st.sampled_from(["id", "name", "ds", "h", "month", "nope", "`a b`", "t.id", "ROW__ID", "*"])
VALUES = st.sampled_from(["1", "-2.5", "'x'", "NULL", "DATE '2024-01-01'", "TRUE", "''", "'2024-01-01'"])
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", "IS", "LIKE", "IN", "BETWEEN", "AND"])
CONDITIONS = st.recursive(
    st.tuples(COLUMNS, OPERATORS, VALUES).map(" ".join),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map("".join),
        inner.map("NOT ({})".format),
        st.tuples(COLUMNS, inner).map(lambda pair: f"{pair[0]} IN (SELECT id FROM t WHERE {pair[1]})"),
    ),
    max_leaves=6,
)
QUERIES = st.recursive(
    st.tuples(COLUMNS, NAMES, CONDITIONS).map(lambda p: "SELECT {} FROM {} WHERE {}".format(*p)),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(" UNION ALL ".join),
        inner.map("SELECT * FROM ({}) q".format),
        inner.map("WITH q AS ({}) SELECT * FROM q".format),
    ),
    max_leaves=3,
)
PARTITIONS = st.lists(st.tuples(COLUMNS, VALUES).map(" = ".join), min_size=1, max_size=3).map(
    lambda parts: f"PARTITION ({', '.join(parts)})"
)
GRAMMAR = st.one_of(
    QUERIES,
    st.tuples(NAMES, QUERIES).map(lambda p: "INSERT INTO {} {}".format(*p)),
    st.tuples(NAMES, PARTITIONS, QUERIES).map(lambda p: "INSERT OVERWRITE TABLE {} {} {}".format(*p)),
    st.tuples(NAMES, COLUMNS, VALUES, CONDITIONS).map(lambda p: "UPDATE {} SET {} = {} WHERE {}".format(*p)),
    st.tuples(NAMES, CONDITIONS).map(lambda p: "DELETE FROM {} WHERE {}".format(*p)),
    st.tuples(NAMES, NAMES, CONDITIONS, CONDITIONS).map(
        lambda p: "MERGE INTO {} a USING {} b ON {} WHEN MATCHED AND {} THEN DELETE".format(*p)
    ),
    st.tuples(NAMES, PARTITIONS).map(lambda p: "TRUNCATE TABLE {} {}".format(*p)),
    st.tuples(NAMES, PARTITIONS, st.sampled_from(["ADD", "DROP", "TOUCH", "DROP IF EXISTS"])).map(
        lambda p: f"ALTER TABLE {p[0]} {p[2]} {p[1]}"
    ),
    st.tuples(NAMES, PARTITIONS, PARTITIONS).map(lambda p: "ALTER TABLE {} {} RENAME TO {}".format(*p)),
    st.tuples(st.sampled_from(["EXPLAIN", "EXPLAIN LOCKS"]), QUERIES).map(" ".join),
)


@RUNS
@given(mutated())
@example("ALTER TABLE t PARTITION")
@example("SHOW COMPACTIONS ORDER BY")
@example("EXPLAIN LOCKS")
@example("DROP TABLE t PURGE PURGE")
def test_mutated_statements(text: str) -> None:
    read(text)


@RUNS
@given(GRAMMAR)
def test_statements_of_a_grammar(text: str) -> None:
    read(text)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=12).map(" ".join))
def test_words_in_any_order(text: str) -> None:
    read(text)


@settings(max_examples=examples(300), deadline=None)
@given(st.text(max_size=60))
@example("SELECT '\x00'")
@example("\ufeffSELECT 1")
@example("SELECT 1;\u2028SELECT 2")
@example("((((((((")
def test_any_text(text: str) -> None:
    read(text)


@pytest.mark.parametrize("depth", [50, 2000])
def test_deep_nesting(depth: int) -> None:
    read("SELECT " + "(" * depth + "1" + ")" * depth)
    read("SELECT * FROM t WHERE " + "NOT " * depth + "id = 1")
