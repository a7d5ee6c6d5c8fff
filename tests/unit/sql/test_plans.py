"""Statements → plans: what they touch, their texts for Spark, their locks. Expected plans are written out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format import jobs
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.sql.locks.statement_locks import data_locks
from airflow_hive_acid.sql.model.plans import (
    DeleteTemplate,
    InsertTemplate,
    MergeTemplate,
    SelectTemplate,
    UpdateTemplate,
    combine_operations,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore.locks.interface import LockComponent
    from airflow_hive_acid.sql.model.plans import Plan

    PlanOf = Callable[[str], Plan]


def components(plan: Plan) -> list[LockComponent]:
    """What the plan locks, with the settings as they are by default."""
    return [lock.component for lock in data_locks([plan])]


SELECTS = [
    ("SELECT * FROM t", "SELECT * FROM ha1_t AS `t`", {"ha1_t": "default.t"}),
    ("select X.id, t.id From Default.T x, t", "select X.id, t.id From ha1_t x, ha1_t AS `t`", {"ha1_t": "default.t"}),
    (
        "SELECT demo.flights.carrier, s.a, demo.flights.s.b, flights.delay FROM demo.flights",
        "SELECT `flights`.carrier, s.a, `flights`.s.b, flights.delay FROM ha1_flights AS `flights`",
        {"ha1_flights": "demo.flights"},
    ),
    (
        "SELECT demo.airlines.*, other.airlines.country FROM demo.airlines JOIN other.airlines "
        "ON demo.airlines.carrier = other.airlines.carrier",
        "SELECT `demo__airlines`.*, `other__airlines`.country FROM ha1_airlines AS `demo__airlines` JOIN ha2_airlines "
        "AS `other__airlines` ON `demo__airlines`.carrier = `other__airlines`.carrier",
        {"ha1_airlines": "demo.airlines", "ha2_airlines": "other.airlines"},
    ),
    (
        "WITH t AS (SELECT id FROM t), u AS (SELECT * FROM t) SELECT u.id FROM u",
        "WITH t AS (SELECT id FROM ha1_t AS `t`), u AS (SELECT * FROM t) SELECT u.id FROM u",
        {"ha1_t": "default.t"},
    ),
    (
        "SELECT * FROM (SELECT id FROM t) q WHERE EXISTS (SELECT 1 FROM demo.users u WHERE u.id = q.id)",
        "SELECT * FROM (SELECT id FROM ha1_t AS `t`) q WHERE EXISTS (SELECT 1 FROM ha2_users u WHERE u.id = q.id)",
        {"ha1_t": "default.t", "ha2_users": "demo.users"},
    ),
    (
        "SELECT s.carrier, count(*) FROM src s LEFT SEMI JOIN raw ON s.carrier = raw.x GROUP BY 1",
        "SELECT s.carrier, count(*) FROM src s LEFT SEMI JOIN raw ON s.carrier = raw.x GROUP BY 1",
        {},
    ),
    (
        "SELECT * FROM (t JOIN demo.users u ON t.id = u.id)",
        "SELECT * FROM (ha1_t AS `t` JOIN ha2_users u ON t.id = u.id)",
        {"ha1_t": "default.t", "ha2_users": "demo.users"},
    ),
    (
        "SELECT /*+ BROADCAST(t) */ `t`.`id` -- the key\nFROM `default`.`t` LATERAL VIEW explode(split(name, ';')) e",
        "SELECT /*+ BROADCAST(t) */ `t`.`id` -- the key\nFROM ha1_t AS `t` LATERAL VIEW explode(split(name, ';')) e",
        {"ha1_t": "default.t"},
    ),
    (
        "SELECT id FROM t UNION ALL SELECT id FROM demo.users ORDER BY id",
        "SELECT id FROM ha1_t AS `t` UNION ALL SELECT id FROM ha2_users AS `users` ORDER BY id NULLS LAST",
        {"ha1_t": "default.t", "ha2_users": "demo.users"},
    ),
    ("SELECT id FROM t TABLESAMPLE (1 ROWS) x", "SELECT id FROM ha1_t TABLESAMPLE (1 ROWS) x", {"ha1_t": "default.t"}),
    (
        "SELECT * FROM (t JOIN demo.users ON t.id = demo.users.id)",
        "SELECT * FROM (ha1_t AS `t` JOIN ha2_users AS `users` ON t.id = `users`.id)",
        {"ha1_t": "default.t", "ha2_users": "demo.users"},
    ),
    ("VALUES (1, 'a'), (2, 'b')", "VALUES (1, 'a'), (2, 'b')", {}),
    # Nothing but names is exchanged: sqlglot would change what these functions do, or break them.
    (
        "SELECT trunc(d, 'MM'), date_trunc('month', d), timestampdiff(DAY, d, d), transform(a, x -> x + y) FROM raw",
        "SELECT trunc(d, 'MM'), date_trunc('month', d), timestampdiff(DAY, d, d), transform(a, x -> x + y) FROM raw",
        {},
    ),
]


@pytest.mark.parametrize(("sql", "query", "views"), SELECTS)
def test_select_texts(plan_of: PlanOf, sql: str, query: str, views: dict[str, str]) -> None:
    plan = plan_of(sql)
    assert plan.template == SelectTemplate(query)
    assert (plan.kind, plan.write, plan.statement_id_count) == ("select", None, 0)
    assert {read.view: read.table for read in plan.reads} == views
    assert plan.operations == dict.fromkeys(views.values(), "select")


def test_only_the_temporary_views_that_are_read_go_along(plan_of: PlanOf) -> None:
    assert [source.name for source in plan_of("SELECT * FROM src").sources] == ["src"]
    assert plan_of("WITH src AS (SELECT 1 AS one) SELECT * FROM src").sources == ()


def test_a_view_name_of_ours_never_meets_one_of_the_script(plan_of: PlanOf) -> None:
    plan = plan_of("WITH ha1_t AS (SELECT 1 AS id) SELECT * FROM ha1_t JOIN t ON ha1_t.id = t.id")
    assert [read.view for read in plan.reads] == ["haa1_t"]


def test_row_id_is_asked_for_and_stays_out_of_the_star(plan_of: PlanOf) -> None:
    plan = plan_of(
        "SELECT t.ROW__ID, *, t.*, u.*, u.row__id.writeid FROM t JOIN demo.users u ON t.id = u.id ORDER BY t.row__id"
    )
    assert plan.template == SelectTemplate(
        "SELECT t.ROW__ID, * EXCEPT (`t`.row__id, `t`.row__is__deleted, `u`.row__id, `u`.row__is__deleted), "
        "t.* EXCEPT (row__id, row__is__deleted), u.* EXCEPT (row__id, row__is__deleted), "
        "u.row__id.writeid FROM ha1_t AS `t` JOIN ha2_users u ON t.id = u.id ORDER BY t.row__id NULLS LAST"
    )
    assert [read.pseudo_columns for read in plan.reads] == [True, True]
    alone = plan_of("SELECT ROW__ID, *, row__id.writeid FROM t")
    assert alone.template == SelectTemplate(
        "SELECT ROW__ID, * EXCEPT (`t`.row__id, `t`.row__is__deleted), row__id.writeid FROM ha1_t AS `t`"
    )


def test_a_table_read_with_and_without_row_id_is_two_views(plan_of: PlanOf) -> None:
    plan = plan_of("SELECT * FROM t WHERE id IN (SELECT x.row__id.rowid FROM t x)")
    assert [(read.view, read.pseudo_columns) for read in plan.reads] == [("ha1_t", False), ("ha2_t", True)]


INSERTS = [
    (
        "INSERT INTO t SELECT carrier, flight, delay FROM src",
        InsertTemplate("SELECT carrier, flight, delay FROM src"),
        ("insert", (), ()),
        [("t", None, "w", "insert", False)],
    ),
    (
        "INSERT INTO t (name, id) VALUES ('a', 1)",
        InsertTemplate("VALUES ('a', 1)", ("name", "id")),
        ("insert", (), ()),
        [("t", None, "w", "insert", False)],
    ),
    (
        "INSERT OVERWRITE TABLE t SELECT * FROM t WHERE id > 1",
        InsertTemplate("SELECT * FROM ha1_t AS `t` WHERE id > 1", overwrite=True),
        ("overwrite", (), ()),
        [("t", None, "x", "update", False)],
    ),
    (
        "INSERT INTO demo.days PARTITION (ds='a/b', h='01') SELECT id, email FROM demo.users",
        InsertTemplate("SELECT id, email FROM ha1_users AS `users`", (), (("ds", "a/b"), ("h", "1"))),
        ("insert", (("ds", "a/b"), ("h", "1")), ()),
        [("days", "ds=a%2Fb/h=1", "w", "insert", False), ("users", None, "r", "select", False)],
    ),
    (
        "INSERT INTO demo.days PARTITION (ds='x', h) (v) SELECT 'v', 5",
        InsertTemplate("SELECT 'v', 5", ("v", "h"), (("ds", "x"),)),
        ("insert", (("ds", "x"),), ("h",)),
        [("days", None, "w", "insert", True)],
    ),
    (
        "INSERT INTO demo.days PARTITION (h, ds) VALUES (1, 'v', 5, 'x')",
        InsertTemplate("VALUES (1, 'v', 5, 'x')", ("id", "v", "h", "ds")),
        ("insert", (), ("h", "ds")),
        [("days", None, "w", "insert", True)],
    ),
    (
        "INSERT INTO demo.days SELECT 1, 'v', 'x', 5",
        InsertTemplate("SELECT 1, 'v', 'x', 5"),
        ("insert", (), ("ds", "h")),
        [("days", None, "w", "insert", True)],
    ),
    (
        "WITH q AS (SELECT id, 'n' AS n FROM t) INSERT INTO t SELECT id, n, 1 FROM q",
        InsertTemplate("WITH q AS (SELECT id, 'n' AS n FROM ha1_t AS `t`) SELECT id, n, 1 FROM q"),
        ("insert", (), ()),
        [("t", None, "w", "insert", False)],
    ),
]


@pytest.mark.parametrize(("sql", "template", "write", "locks"), INSERTS)
def test_insert_plans(
    plan_of: PlanOf, sql: str, template: InsertTemplate, write: tuple[object, ...], locks: list[tuple[object, ...]]
) -> None:
    plan = plan_of(sql)
    assert plan.template == template
    assert plan.write is not None
    assert (plan.write.operation, plan.write.static_partition, plan.write.dynamic_partition) == write
    assert [
        (c.table, c.partition, c.type.value, c.operation.value, c.dynamic_partitions) for c in components(plan)
    ] == locks
    assert plan.statement_id_count == 1


def test_update_plan(plan_of: PlanOf) -> None:
    plan = plan_of(
        "UPDATE demo.flights SET delay = delay + (SELECT max(id) FROM t), carrier = 'x' "
        "WHERE demo.flights.month = 3 AND carrier IN (SELECT carrier FROM demo.airlines WHERE name LIKE 'A%')"
    )
    assert plan.template == UpdateTemplate(
        "flights",
        (
            jobs.Assignment("delay", "delay + (SELECT max(id) FROM ha1_t AS `t`)"),
            jobs.Assignment("carrier", "'x'"),
        ),
        "`flights`.month = 3 AND carrier IN (SELECT carrier FROM ha2_airlines AS `airlines` WHERE name LIKE 'A%')",
    )
    assert plan.operations == {"default.t": "select", "demo.airlines": "select", "demo.flights": "update"}
    assert plan.write is not None
    assert plan.write.partitioned
    assert [month for month in ("1", "2", "3") if plan.write.partitions.keeps((month,))] == ["3"]
    assert [(c.table, c.type.value, c.operation.value, c.dynamic_partitions) for c in components(plan)] == [
        ("flights", "w", "update", True),
        ("t", "r", "select", False),
        ("airlines", "r", "select", False),
    ]


def test_delete_plan_that_reads_its_own_table(plan_of: PlanOf) -> None:
    plan = plan_of("DELETE FROM t x WHERE x.id = (SELECT max(id) FROM t) OR row__id.writeid = 3")
    assert plan.template == DeleteTemplate("x", "x.id = (SELECT max(id) FROM ha1_t AS `t`) OR row__id.writeid = 3")
    assert plan.operations == {"default.t": "delete"}
    assert [read.table for read in plan.reads] == ["default.t"]
    assert [(c.table, c.type.value, c.operation.value) for c in components(plan)] == [("t", "w", "delete")]


def test_merge_plan(plan_of: PlanOf) -> None:
    plan = plan_of(
        "MERGE INTO demo.flights AS f USING src AS s ON f.carrier = s.carrier AND f.month = s.month AND f.month = 1 "
        "WHEN MATCHED AND s.delay IS NULL THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET delay = s.delay + f.delay "
        "WHEN NOT MATCHED AND s.delay > 0 THEN INSERT (carrier, delay, month) VALUES (s.carrier, s.delay, s.month)"
    )
    assert plan.template == MergeTemplate(
        "f",
        "TABLE `src`",
        "s",
        "f.carrier = s.carrier AND f.month = s.month AND f.month = 1",
        (
            jobs.MergeClause("delete", True, "s.delay IS NULL"),
            jobs.MergeClause("update", True, None, (jobs.Assignment("delay", "s.delay + f.delay"),)),
            jobs.MergeClause(
                "insert",
                False,
                "s.delay > 0",
                (
                    jobs.Assignment("carrier", "s.carrier"),
                    jobs.Assignment("delay", "s.delay"),
                    jobs.Assignment("month", "s.month"),
                ),
            ),
        ),
        partition_pairs=(("month", "month"),),
    )
    assert plan.operations == {"demo.flights": "update"}
    assert plan.write is not None
    assert [month for month in ("1", "2") if plan.write.partitions.keeps((month,))] == ["1"]


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("f.month = s.month", (("month", "month"),)),
        (
            "(s.delay = f.month AND f.carrier = s.carrier) AND s.month = f.month",
            (("month", "delay"), ("month", "month")),
        ),
        ("f.month = s.month OR f.carrier = s.carrier", ()),
        ("NOT f.month = s.month", ()),
        ("f.month <=> s.month", ()),
        ("f.month = s.month + 1", ()),
        ("f.month = f.delay", ()),
        ("f.carrier = s.carrier", ()),
    ],
)
def test_equal_partition_columns_of_a_merge_are_told_to_the_job(plan_of: PlanOf, on: str, pairs: object) -> None:
    plan = plan_of(f"MERGE INTO demo.flights AS f USING src AS s ON {on} WHEN MATCHED THEN DELETE")
    assert isinstance(plan.template, MergeTemplate)
    assert plan.template.partition_pairs == pairs


@pytest.mark.parametrize(
    ("clauses", "operation"),
    [
        ("WHEN MATCHED THEN DELETE", "delete"),
        ("WHEN MATCHED THEN UPDATE SET name = 'x' WHEN NOT MATCHED THEN INSERT VALUES (1, 'a', 2)", "update"),
        ("WHEN NOT MATCHED THEN INSERT VALUES (u.id, u.email, 0)", "update"),
        ("WHEN MATCHED AND u.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET name = u.email", "update"),
    ],
)
def test_a_merge_counts_as_its_strongest_clause(plan_of: PlanOf, clauses: str, operation: str) -> None:
    plan = plan_of(f"MERGE INTO t USING demo.users u ON t.id = u.id {clauses}")
    assert plan.operations == {"default.t": operation, "demo.users": "select"}
    assert isinstance(plan.template, MergeTemplate)
    assert plan.template.source == "TABLE ha1_users"


def test_the_source_of_a_merge_may_be_a_query(plan_of: PlanOf) -> None:
    plan = plan_of(
        "MERGE INTO t USING (SELECT u.id, max(email) AS email FROM demo.users u GROUP BY u.id) q ON t.id = q.id "
        "WHEN MATCHED THEN UPDATE SET name = q.email"
    )
    assert isinstance(plan.template, MergeTemplate)
    assert plan.template.source == "SELECT u.id, max(email) AS email FROM ha1_users u GROUP BY u.id"


def test_a_plain_table_is_locked_without_a_place_in_the_transaction(plan_of: PlanOf) -> None:
    plan = plan_of("SELECT * FROM demo.plain")
    assert plan.operations == {"demo.plain": "select"}
    assert [(read.table, read.transactional) for read in plan.reads] == [("demo.plain", False)]
    assert [component.transactional for component in components(plan)] == [False]


@pytest.mark.parametrize(
    ("sql", "operation"),
    [
        ("INSERT INTO demo.plain VALUES (1)", Operation.INSERT),
        ("INSERT OVERWRITE demo.plain VALUES (1)", Operation.NO_TXN),
    ],
)
def test_whoever_writes_a_plain_table_has_it_to_himself(plan_of: PlanOf, sql: str, operation: Operation) -> None:
    (component,) = components(plan_of(sql))
    assert (component.type, component.operation, component.transactional) == (LockType.EXCLUSIVE, operation, False)


SNAPSHOT = jobs.TableSnapshot("default.t", "file:/w/t", (), (), (), "", "")


def test_plans_build_steps_once_ids_are_known(plan_of: PlanOf) -> None:
    update = plan_of("UPDATE t SET name = 'x'").step(target=SNAPSHOT, write_id=7, statement_ids=[3, 4])
    assert update == jobs.Update(SNAPSHOT, "t", (jobs.Assignment("name", "'x'"),), None, 7, 3, 4)
    delete = plan_of("DELETE FROM t").step(target=SNAPSHOT, write_id=7, statement_ids=[3])
    assert delete == jobs.Delete(SNAPSHOT, "t", None, 7, 3)
    insert = plan_of("INSERT OVERWRITE t (id) VALUES (1)").step(target=SNAPSHOT, write_id=7, statement_ids=[0])
    assert insert == jobs.Insert(SNAPSHOT, "VALUES (1)", 7, 0, ("id",), (), True)
    select = plan_of("SELECT 1").step(rows_uri="file:/rows", limit=5)
    assert select == jobs.Select("SELECT 1", "file:/rows", 5)
    merge = plan_of("MERGE INTO t USING src s ON t.id = s.flight WHEN MATCHED THEN DELETE")
    assert merge.step(target=SNAPSHOT, write_id=7, statement_ids=[1, 2]) == jobs.Merge(
        SNAPSHOT, "t", "TABLE `src`", "s", "t.id = s.flight", (jobs.MergeClause("delete", True),), 7, 1, 2
    )


def test_steps_need_the_right_ids(plan_of: PlanOf) -> None:
    plan = plan_of("UPDATE t SET name = 'x'")
    for ids in ([3], [4, 3], [3, 3], []):
        with pytest.raises(InvalidArgumentsError, match="update needs 2 ascending statement ids"):
            plan.step(target=SNAPSHOT, write_id=7, statement_ids=ids)
    with pytest.raises(InvalidArgumentsError, match="needs the snapshot of its target and a write id"):
        plan.step(statement_ids=[1, 2])


def test_views_pair_reads_with_snapshots(plan_of: PlanOf) -> None:
    plan = plan_of("SELECT row__id FROM t")
    assert plan.views({"ha1_t": SNAPSHOT}) == (jobs.View("ha1_t", SNAPSHOT, True),)


def test_a_transaction_of_several_statements_takes_the_strongest_operation(plan_of: PlanOf) -> None:
    plans = [
        plan_of("INSERT INTO t SELECT id, email, 0 FROM demo.users"),
        plan_of("DELETE FROM t WHERE id = 1"),
        plan_of("UPDATE demo.users SET email = NULL WHERE id = 1"),
        plan_of("SELECT * FROM t"),
    ]
    assert combine_operations(plans) == {"default.t": "delete", "demo.users": "update"}
