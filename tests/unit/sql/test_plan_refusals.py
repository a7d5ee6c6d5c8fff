"""What a plan refuses before any transaction is open: the catalog knows better."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError, NoSuchObjectError, UnsupportedStatementError
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.model.plans import Plan

    PlanOf = Callable[[str], Plan]

INVALID = [
    ("SELECT nme FROM t", 8, "default.t has no column 'nme'; did you mean name?"),
    ("SELECT x.nme FROM t x", 8, "default.t has no column 'nme'; did you mean name?"),
    ("SELECT default.t.nme FROM t", 18, "default.t has no column 'nme'; did you mean name?"),
    ("SELECT y.name FROM t x", 8, "there is no table, alias or column 'y' here"),
    ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM demo.users u WHERE u.emial = t.name)", 65, "did you mean email?"),
    ("SELECT zzz FROM t, demo.users", 8, "none of default.t, demo.users has a column 'zzz'"),
    ("WITH q AS (SELECT id AS k FROM t) SELECT q.id FROM q", 42, "q has no column 'id'; its columns are k"),
    ("SELECT carier FROM src", 8, "src has no column 'carier'; did you mean carrier?"),
    ("INSERT INTO t (id, nam) VALUES (1, 'x')", 1, "default.t has no column 'nam'; did you mean name?"),
    ("INSERT INTO t VALUES (1, 'x')", 15, "the query gives 2 columns, but default.t takes 3: id, name, amount"),
    ("INSERT INTO t SELECT * FROM demo.users", 15, "the query gives 2 columns, but default.t takes 3"),
    ("INSERT INTO demo.days SELECT 1, 'v'", 23, "the query gives 2 columns, but demo.days takes 4: id, v, ds, h"),
    ("INSERT INTO demo.days PARTITION (ds='x') VALUES (1, 'v')", 1, "the PARTITION clause lacks h; the partition"),
    ("INSERT INTO demo.days PARTITION (ds, h, k) VALUES (1)", 1, "the PARTITION clause names k"),
    ("INSERT INTO t PARTITION (ds='x') VALUES (1)", 1, "default.t is not partitioned; leave PARTITION out"),
    ("INSERT INTO demo.days PARTITION (ds='x', h='y') VALUES (1, 'v')", 1, "'y' is no whole number"),
    ("INSERT INTO demo.days PARTITION (ds='x', h=1) (id, h) VALUES (1, 2)", 1, "h has a value in the PARTITION clause"),
    ("UPDATE t SET nam = 'x'", 20, "default.t has no column 'nam'; did you mean name?"),
    ("UPDATE t SET name = nam", 21, "default.t has no column 'nam'; did you mean name?"),
    ("DELETE FROM t WHERE amont > 1", 21, "default.t has no column 'amont'; did you mean amount?"),
    (
        "MERGE INTO t USING src s ON t.id = s.flight WHEN NOT MATCHED THEN INSERT VALUES (s.flight, t.name, 1)",
        92,
        "there is no table, alias or column 't' here",
    ),
    (
        "MERGE INTO t USING src s ON t.id = s.flight WHEN NOT MATCHED THEN INSERT VALUES (1, 2)",
        82,
        "INSERT gives 2 values, but default.t has 3 columns: id, name, amount",
    ),
    (
        "MERGE INTO demo.days d USING src s ON d.id = s.flight WHEN NOT MATCHED THEN INSERT (id, h) VALUES (1, 2)",
        100,
        "INSERT gives no value for the partition column ds",
    ),
    ("INSERT INTO demo.keyed (name) VALUES ('a')", 1, "NOT NULL constraint violated! id of demo.keyed would be NULL"),
    (
        "MERGE INTO demo.keyed k USING src s ON k.id = s.flight WHEN NOT MATCHED THEN INSERT (name) VALUES (s.carrier)",
        100,
        "NOT NULL constraint violated! id of demo.keyed would be NULL",
    ),
]

UNSUPPORTED = [
    (
        "UPDATE demo.plain SET id = 1",
        "Attempt to do update or delete on table demo.plain that is not transactional",
    ),
    ("DELETE FROM demo.plain", "Attempt to do update or delete on table demo.plain that is not transactional"),
    (
        "MERGE INTO demo.logs l USING src s ON l.id = s.flight WHEN MATCHED THEN DELETE",
        "Attempt to do update or delete on table demo.logs that is insert-only transactional",
    ),
    ("DELETE FROM demo.logs", "Attempt to do update or delete on table demo.logs that is insert-only transactional"),
    ("UPDATE demo.users SET id = 2", "Updating values of bucketing columns is not supported. Column id of demo.users"),
    ("SELECT row__id FROM demo.plain", "demo.plain has no ROW__ID: it is not a full ACID table"),
]

ACCEPTED = [
    "SELECT id + 1 AS n FROM t GROUP BY id + 1 HAVING n > 1 ORDER BY n",
    "SELECT s.a FROM demo.flights",
    "SELECT anything, x.y FROM raw x",
    "SELECT part FROM t LATERAL VIEW explode(split(name, ',')) e AS part",
    "SELECT id, current_date, timestampdiff(DAY, now(), now()) FROM t WHERE current_user = name",
    "SELECT transform(array(id), e -> e + amount) FROM t",
    "SELECT id FROM t WHERE id IN (SELECT id FROM demo.users WHERE email = name)",
    "SELECT q.k FROM (SELECT id AS k FROM t) q JOIN LATERAL (SELECT q.k + 1 AS l) r",
    "SELECT k FROM t PIVOT (sum(amount) FOR name IN ('a' AS k))",
    "SELECT id, count(*) FROM t GROUP BY ALL ORDER BY ALL LIMIT ALL",
    "SELECT to_json(struct(*)), grouping__id, extract(DOW FROM now()) FROM t GROUP BY id WITH CUBE",
    "SELECT x.col1, y.a FROM (VALUES (1)) x, VALUES (1) AS y(a)",
    "WITH q(k, v) AS (SELECT id, name FROM t) SELECT q.k, v FROM q",
    "SELECT id FROM t WHERE exists(array(1), e -> e = id) AND interval 1 day > interval '1' hour",
    "SELECT id, sum(amount) OVER w FROM t WINDOW w AS (PARTITION BY name)",
    "INSERT INTO t SELECT stack(1, 1, 'a', 2)",
    "INSERT INTO t SELECT * FROM raw",
    "INSERT INTO t SELECT u.*, 1 FROM demo.users u",
    "UPDATE t SET name = name WHERE t.row__id.writeid = 1",
    "UPDATE demo.days SET ds = 'x'",
    "SELECT * FROM t TABLESAMPLE (1 ROWS)",
]


@pytest.mark.parametrize(("sql", "column", "problem"), INVALID)
def test_what_does_not_fit_the_catalog_is_underlined(plan_of: PlanOf, sql: str, column: int, problem: str) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        plan_of(sql)
    assert str(caught.value).startswith(f"line 1, column {column}: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(("sql", "problem"), UNSUPPORTED)
def test_what_acid_tables_do_not_allow_is_refused_in_hives_words(plan_of: PlanOf, sql: str, problem: str) -> None:
    with pytest.raises(UnsupportedStatementError) as caught:
        plan_of(sql)
    assert problem in str(caught.value)


@pytest.mark.parametrize("sql", ACCEPTED)
def test_what_only_spark_can_judge_is_left_to_spark(plan_of: PlanOf, sql: str) -> None:
    assert plan_of(sql).kind in ("select", "insert", "update")


def test_a_table_that_is_not_there_is_the_catalogs_error(plan_of: PlanOf) -> None:
    with pytest.raises(NoSuchObjectError, match=r"table demo\.nothing does not exist"):
        plan_of("SELECT * FROM demo.nothing")


def test_a_place_in_a_longer_script_is_counted_from_its_beginning(plan_of: PlanOf) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        plan_of("\n\n  DELETE FROM t\n  WHERE amont > 1")
    assert str(caught.value).splitlines() == [
        "line 4, column 9: default.t has no column 'amont'; did you mean amount?",
        "    WHERE amont > 1",
        "          ^^^^^",
    ]


_CORPUS = [sql for sql, *_ in (*INVALID, *UNSUPPORTED)] + ACCEPTED
_PIECES = sorted({word for sql in _CORPUS for word in sql.split()})


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(_CORPUS), st.lists(st.tuples(st.integers(0, 30), st.sampled_from(_PIECES)), max_size=4))
def test_changed_statements_are_planned_or_refused(plan_of: PlanOf, sql: str, changes: list[tuple[int, str]]) -> None:
    """Words are replaced or put in; whatever comes out, only errors of ours come back."""
    words = sql.split()
    for place, word in changes:
        if place % 2:
            words.insert(place % (len(words) + 1), word)
        else:
            words[place % len(words)] = word
    with suppress(HiveAcidError):
        plan_of(" ".join(words))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM IDENTIFIER('text.`file:/etc/passwd`')",
        "SELECT (SELECT max(value) FROM identifier('demo.flights'))",
        "INSERT INTO demo.flights SELECT * FROM IDENTIFIER('demo.flights')",
    ],
)
def test_a_table_is_named_by_its_name_and_not_by_a_text(plan_of, sql):
    with pytest.raises(UnsupportedStatementError, match="write the name itself"):
        plan_of(sql)
