"""Hive 4's lock rules: every row of its tables (decision 15), and what statements ask for. Answers are written out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.settings import Settings, Source
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.locks.ddl_locks import Command, command_rule, ddl_locks
from airflow_hive_acid.sql.locks.rules import DEFAULT_LOCKS, LockSettings, WriteType, read_places, read_rule, write_rule
from airflow_hive_acid.sql.locks.statement_locks import ctas_locks, data_locks, declared_locks
from airflow_hive_acid.sql.model.origins import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.locks.rules import PlannedLock
    from airflow_hive_acid.sql.model.plans import Plan, TableFacts

    PlanOf = Callable[[str], Plan]
    TableOf = Callable[[str], TableFacts]

SR, SW, EW, E = LockType
I, U, D, N = Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.NO_TXN  # noqa: E741 - Hive's letters
HIVE = LockSettings(guarded_merge_inserts=False, external=False, lock_external_ddl=False)
"""Hive 4.1's own defaults."""
X = replace(HIVE, exclusive_writes=True)


def shown(locks: tuple[PlannedLock, ...]) -> list[str]:
    """``place -> type operation``."""
    return [f"{lock} {lock.component.operation.value}" for lock in locks]


WRITES = [
    # INSERT
    (WriteType.INSERT, HIVE, True, False, (SW, I)),
    (WriteType.INSERT, HIVE, True, True, (SW, I)),
    (WriteType.INSERT, replace(HIVE, guarded_merge_inserts=True), True, True, (SW, U)),
    (WriteType.INSERT, replace(HIVE, guarded_merge_inserts=True), True, False, (SW, I)),
    (WriteType.INSERT, X, True, False, (SR, I)),
    (WriteType.INSERT, X, True, True, (SR, I)),
    (WriteType.INSERT, replace(X, guarded_merge_inserts=True), True, True, (EW, U)),
    (WriteType.INSERT, replace(X, guarded_merge_inserts=True), True, False, (SR, I)),
    (WriteType.INSERT, replace(X, lockless=True), True, False, (SW, I)),
    (WriteType.INSERT, replace(X, lockless=True, guarded_merge_inserts=True), True, True, (EW, U)),
    (WriteType.INSERT, HIVE, False, False, (E, I)),
    (WriteType.INSERT, replace(HIVE, strict=False), False, False, (SR, I)),
    # INSERT OVERWRITE
    (WriteType.INSERT_OVERWRITE, HIVE, True, False, (EW, U)),
    (WriteType.INSERT_OVERWRITE, X, True, False, (E, U)),
    (WriteType.INSERT_OVERWRITE, replace(X, exclusive_overwrites=False), True, False, (EW, U)),
    (WriteType.INSERT_OVERWRITE, replace(X, lockless=True), True, False, (EW, U)),
    (WriteType.INSERT_OVERWRITE, HIVE, False, False, (E, N)),
    (WriteType.INSERT_OVERWRITE, replace(HIVE, strict=False), False, False, (E, N)),
    # UPDATE, DELETE
    (WriteType.UPDATE, HIVE, True, False, (SW, U)),
    (WriteType.UPDATE, X, True, False, (EW, U)),
    (WriteType.UPDATE, HIVE, False, False, None),
    (WriteType.DELETE, HIVE, True, False, (SW, D)),
    (WriteType.DELETE, X, True, False, (EW, D)),
    (WriteType.DELETE, HIVE, False, False, None),
    # CTAS
    (WriteType.CTAS, HIVE, True, False, (EW, I)),
    (WriteType.CTAS, replace(HIVE, exclusive_ctas=False), True, False, (EW, I)),
    (WriteType.CTAS, HIVE, False, False, (E, N)),
    # DDL
    (WriteType.DDL_EXCLUSIVE, HIVE, True, False, (E, N)),
    (WriteType.DDL_EXCL_WRITE, HIVE, True, False, (EW, N)),
    (WriteType.DDL_SHARED, HIVE, True, False, (SR, N)),
    (WriteType.DDL_NO_LOCK, HIVE, True, False, None),
]


@pytest.mark.parametrize(("write", "settings", "transactional", "merge", "expected"), WRITES)
def test_what_a_write_locks(
    write: WriteType,
    settings: LockSettings,
    transactional: bool,
    merge: bool,
    expected: tuple[LockType, Operation] | None,
) -> None:
    answer = write_rule(write, settings, transactional=transactional, merge=merge)
    assert (None if answer is None else answer[:2]) == expected


LOCKLESS = replace(HIVE, lockless=True)
SOFT = replace(HIVE, soft_delete=True)
IN_PLACE = replace(HIVE, truncate_usebase=False, drop_partition_usebase=False)
EXCLUSIVE_ALTERS = (
    Command.RENAME, Command.ADD_COLUMNS, Command.REPLACE_COLUMNS, Command.CHANGE_COLUMN, Command.CONSTRAINT,
    Command.SET_OWNER, Command.SET_FILEFORMAT, Command.SET_SERDE, Command.BUCKETING, Command.UNSET_PROPERTIES,
    Command.CONVERT, Command.MSCK_DROP,
)  # fmt: skip
COMMANDS = [
    (Command.CREATE_DATABASE, HIVE, []),
    (Command.CREATE_TABLE, HIVE, [("database", SR)]),
    (Command.CREATE_VIEW, HIVE, [("database", SR)]),
    (Command.DROP_TABLE, HIVE, [("database", SR), ("table", E)]),
    (Command.DROP_TABLE, SOFT, [("database", SR), ("table", EW)]),
    (Command.DROP_DATABASE, HIVE, [("database", E)]),
    (Command.DROP_DATABASE, SOFT, [("database", EW)]),
    (Command.DROP_VIEW, HIVE, []),
    (Command.DROP_MATERIALIZED_VIEW, HIVE, [("table", E)]),
    (Command.DROP_MATERIALIZED_VIEW, SOFT, [("table", EW)]),
    (Command.TRUNCATE, HIVE, [("table", EW)]),
    (Command.TRUNCATE, IN_PLACE, [("table", E)]),
    (Command.ADD_PARTITION, HIVE, [("table", SR)]),
    (Command.ADD_PARTITION_IF_NOT_EXISTS, HIVE, [("table", EW)]),
    (Command.DROP_PARTITION, HIVE, [("partition", EW)]),
    (Command.DROP_PARTITION, IN_PLACE, [("partition", E)]),
    (Command.RENAME_PARTITION, HIVE, [("partition", E)]),
    (Command.RENAME_PARTITION, replace(HIVE, make_copy=True), [("partition", EW)]),
    (Command.EXCHANGE_PARTITION, HIVE, [("table", SR), ("source", E)]),
    *((command, HIVE, [("table", E)]) for command in EXCLUSIVE_ALTERS),
    *((command, LOCKLESS, [("table", EW)]) for command in EXCLUSIVE_ALTERS),
    (Command.SET_PROPERTIES, HIVE, [("table", SR)]),
    (Command.SET_SERDE_PROPERTIES, HIVE, [("table", SR)]),
    (Command.UPDATE_STATISTICS, HIVE, [("table", SR)]),
    (Command.COMPACT, HIVE, []),
    (Command.TOUCH, HIVE, []),
    (Command.CONCATENATE, HIVE, [("table", E)]),
    (Command.SET_LOCATION, HIVE, [("table", E)]),
    (Command.SKEWED, HIVE, [("table", E)]),
    (Command.INTO_BUCKETS, HIVE, [("table", E)]),
    (Command.MSCK_ADD, HIVE, [("table", SR)]),
    (Command.LOAD, HIVE, [("table", SW)]),
    (Command.LOAD_OVERWRITE, HIVE, [("table", EW)]),
    (Command.ARCHIVE, HIVE, [("partition", None), ("table", E)]),
    (Command.ANALYZE, HIVE, []),
]


@pytest.mark.parametrize(("command", "settings", "expected"), COMMANDS)
def test_what_a_command_locks(
    command: Command, settings: LockSettings, expected: list[tuple[str, LockType | None]]
) -> None:
    parts, _ = command_rule(command, settings)
    found = []
    for level, write in parts:
        answer = write_rule(write, settings)
        found.append((level, None if answer is None else answer[0]))
    assert found == expected


def test_every_command_has_its_row() -> None:
    assert {command for command, _, _ in COMMANDS} == set(Command)


@pytest.mark.parametrize("command", [Command.TRUNCATE, Command.DROP_PARTITION, Command.RENAME_PARTITION])
def test_a_table_without_snapshots_has_no_readers_beside(command: Command) -> None:
    settings = replace(HIVE, make_copy=True)
    ((_, write),), _ = command_rule(command, settings, transactional=False)
    assert write is WriteType.DDL_EXCLUSIVE


# --- statements ----------------------------------------------------------------------------------------------------


@pytest.mark.conformance("L27")
def test_l27_insert_overwrite(plan_of: PlanOf) -> None:
    plan = plan_of("INSERT OVERWRITE t SELECT id, email, 1 FROM demo.users")
    assert shown(data_locks([plan], HIVE)) == [
        "default.t -> EXCL_WRITE update",
        "demo.users -> SHARED_READ select",
    ]
    assert shown(data_locks([plan], X))[0] == "default.t -> EXCLUSIVE update"
    assert shown(data_locks([plan], replace(X, exclusive_overwrites=False)))[0] == "default.t -> EXCL_WRITE update"


@pytest.mark.conformance("L28")
def test_l28_insert_into_tables_without_transactions(plan_of: PlanOf) -> None:
    managed, external = plan_of("INSERT INTO demo.plain VALUES (1)"), plan_of("INSERT INTO demo.ext VALUES (1)")
    assert shown(data_locks([managed], HIVE)) == ["demo.plain -> EXCLUSIVE insert"]
    assert shown(data_locks([managed], replace(HIVE, strict=False))) == ["demo.plain -> SHARED_READ insert"]
    assert data_locks([external], HIVE) == ()
    # Ours: a write that is given up is undone under the lock (decision 8).
    assert shown(data_locks([external])) == ["demo.ext -> EXCLUSIVE insert"]


@pytest.mark.conformance("L29")
def test_l29_update_and_delete_of_a_partitioned_table(plan_of: PlanOf) -> None:
    update = plan_of("UPDATE demo.flights SET delay = 0 WHERE month = 3")
    delete = plan_of("DELETE FROM demo.flights WHERE month = 3 AND flight IN (SELECT flight FROM demo.flights)")
    for plan, operation in ((update, "update"), (delete, "delete")):
        locks = data_locks([plan], HIVE, {"demo.flights": ["month=3"]})
        assert shown(locks) == [f"demo.flights -> SHARED_WRITE {operation}"]
        assert locks[0].component.dynamic_partitions
    assert shown(data_locks([delete], X)) == ["demo.flights -> EXCL_WRITE delete"]


@pytest.mark.conformance("L30")
def test_l30_select_locks_the_partitions_it_reads_or_the_table(plan_of: PlanOf) -> None:
    plan = plan_of("SELECT * FROM demo.flights WHERE month < 3")
    two = {"demo.flights": ["month=1", "month=2"]}
    assert shown(data_locks([plan], HIVE, two)) == [
        "demo.flights.month=1 -> SHARED_READ select",
        "demo.flights.month=2 -> SHARED_READ select",
    ]
    table = ["demo.flights -> SHARED_READ select"]
    assert shown(data_locks([plan], HIVE, {"demo.flights": []})) == table
    assert shown(data_locks([plan], HIVE)) == table
    assert shown(data_locks([plan], replace(HIVE, max_partitions=1), two)) == table
    assert "hive.locks.max.partitions=1" in data_locks([plan], replace(HIVE, max_partitions=1), two)[0].rule


@pytest.mark.conformance("L31")
def test_l31_merge_has_one_lock_on_its_target(plan_of: PlanOf) -> None:
    all_three = plan_of(
        "MERGE INTO demo.flights t USING demo.airlines s ON t.carrier = s.carrier "
        "WHEN MATCHED AND s.name = 'x' THEN DELETE WHEN MATCHED THEN UPDATE SET delay = 0 "
        "WHEN NOT MATCHED THEN INSERT (carrier, month) VALUES (s.carrier, 1)"
    )
    only_insert = plan_of(
        "MERGE INTO t USING demo.users u ON t.id = u.id WHEN NOT MATCHED THEN INSERT VALUES (u.id, u.email, 0)"
    )
    source = "demo.airlines -> SHARED_READ select"
    assert shown(data_locks([all_three], HIVE)) == ["demo.flights -> SHARED_WRITE delete", source]
    assert shown(data_locks([all_three], X)) == ["demo.flights -> EXCL_WRITE delete", source]
    guarded = replace(X, guarded_merge_inserts=True)
    assert shown(data_locks([only_insert], guarded))[0] == "default.t -> EXCL_WRITE update"
    assert shown(data_locks([only_insert], X))[0] == "default.t -> SHARED_READ insert"
    assert shown(data_locks([only_insert]))[0] == "default.t -> SHARED_WRITE update"


def test_rules_of_a_merge_are_all_named(plan_of: PlanOf) -> None:
    (lock,) = data_locks(
        [
            plan_of(
                "MERGE INTO t USING src s ON t.id = s.flight WHEN MATCHED THEN UPDATE SET name = 'x' "
                "WHEN NOT MATCHED THEN INSERT VALUES (1, 'a', 2)"
            )
        ]
    )
    assert lock.rule.split("; ") == [
        "UPDATE: hive.txn.xlock.write=false",
        "MERGE … INSERT: hive.txn.xlock.mergeinsert=true, hive.txn.xlock.write=false",
    ]


def test_an_insert_that_leases_do_not_stop_says_so(plan_of: PlanOf) -> None:
    """R7: the lock of a lease is EXCL_WRITE."""
    (shared,) = data_locks([plan_of("INSERT INTO t VALUES (1, 'a', 2)")], X)
    assert shared.rule == (
        "INSERT: hive.txn.xlock.write=true, hive.acid.lockless.reads.enabled=false, so it waits for no lease"
    )
    (alone,) = data_locks([plan_of("INSERT INTO t VALUES (1, 'a', 2)")])
    assert alone.rule == "INSERT: hive.txn.xlock.write=false"


@pytest.mark.conformance("L32")
def test_l32_drop_and_alter(table_of: TableOf) -> None:
    assert ddl(table_of, "DROP TABLE t") == ["default -> SHARED_READ no_txn", "default.t -> EXCLUSIVE no_txn"]
    assert ddl(table_of, "ALTER TABLE t ADD COLUMNS (x INT)") == ["default.t -> EXCLUSIVE no_txn"]
    assert ddl(table_of, "ALTER TABLE t SET TBLPROPERTIES ('a'='b')") == ["default.t -> SHARED_READ no_txn"]
    assert ddl(table_of, "ALTER TABLE t COMPACT 'major'") == []


@pytest.mark.conformance("L33")
def test_l33_truncate_keeps_writers_out_and_lets_readers_in(table_of: TableOf) -> None:
    from airflow_hive_acid.metastore.locks.compatibility import BLOCKING

    assert ddl(table_of, "TRUNCATE TABLE t") == ["default.t -> EXCL_WRITE update"]
    assert ddl(table_of, "TRUNCATE TABLE demo.plain") == ["demo.plain -> EXCLUSIVE no_txn"]
    assert ddl(table_of, "TRUNCATE TABLE demo.days PARTITION (h=1, ds='a')") == [
        "demo.days.ds=a/h=1 -> EXCL_WRITE update"
    ]
    assert ddl(table_of, "TRUNCATE TABLE demo.days PARTITION (ds='a')") == ["demo.days -> EXCL_WRITE update"]
    assert EW not in BLOCKING[SR]


@pytest.mark.conformance("L34")
def test_l34_create_table_and_ctas(table_of: TableOf, plan_of: PlanOf) -> None:
    assert ddl(table_of, "CREATE TABLE w.n (a INT)") == ["w -> SHARED_READ no_txn"]
    query = plan_of("SELECT * FROM demo.users")
    new = TableName("w", "n")
    assert shown(ctas_locks(new, query, HIVE)) == [
        "w -> SHARED_READ no_txn",
        "w.n -> EXCL_WRITE insert",
        "demo.users -> SHARED_READ select",
    ]
    assert shown(ctas_locks(new, query, HIVE, transactional=False))[1] == "w.n -> EXCLUSIVE no_txn"


def ddl(table_of: TableOf, sql: str, settings: LockSettings = DEFAULT_LOCKS) -> list[str]:
    (statement,) = parse_script(sql)
    return shown(ddl_locks(statement, table_of, settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE DATABASE x", []),
        ("DROP DATABASE x", ["x -> EXCLUSIVE no_txn"]),
        (
            "ALTER TABLE t RENAME TO demo.u",
            [
                "default -> SHARED_READ no_txn", "demo -> SHARED_READ no_txn", "default.t -> EXCLUSIVE no_txn",
                "demo.u -> EXCLUSIVE no_txn",
            ],
        ),
        ("ALTER TABLE t REPLACE COLUMNS (x INT)", ["default.t -> EXCLUSIVE no_txn"]),
        ("ALTER TABLE t CHANGE id n BIGINT", ["default.t -> EXCLUSIVE no_txn"]),
        ("ALTER TABLE t UNSET TBLPROPERTIES ('a')", ["default.t -> EXCLUSIVE no_txn"]),
        ("ALTER TABLE t SET SERDEPROPERTIES ('a'='b')", ["default.t -> SHARED_READ no_txn"]),
        ("ALTER TABLE t SET SERDE 'x'", ["default.t -> EXCLUSIVE no_txn"]),
        ("ALTER TABLE t SET FILEFORMAT ORC", ["default.t -> EXCLUSIVE no_txn"]),
        ("ALTER TABLE demo.plain SET TBLPROPERTIES ('transactional'='true')", ["demo.plain -> EXCLUSIVE no_txn"]),
        ("ALTER TABLE demo.days ADD PARTITION (ds='a', h=1)", ["demo.days -> SHARED_READ no_txn"]),
        ("ALTER TABLE demo.days ADD IF NOT EXISTS PARTITION (ds='a', h=1)", ["demo.days -> EXCL_WRITE no_txn"]),
        ("ALTER TABLE demo.days DROP PARTITION (h=1, ds='a')", ["demo.days.ds=a/h=1 -> EXCL_WRITE delete"]),
        ("ALTER TABLE demo.plainp DROP PARTITION (h=1, ds='a')", ["demo.plainp.ds=a/h=1 -> EXCLUSIVE no_txn"]),
        ("ALTER TABLE demo.days DROP PARTITION (h='01', ds='a')", ["demo.days.ds=a/h=1 -> EXCL_WRITE delete"]),
        ("ALTER TABLE demo.days DROP PARTITION (ds<'b')", ["demo.days -> EXCL_WRITE no_txn"]),
        (
            "ALTER TABLE demo.days PARTITION (ds='b', h=1) RENAME TO PARTITION (ds='a', h=1)",
            ["demo.days.ds=a/h=1 -> EXCLUSIVE no_txn", "demo.days.ds=b/h=1 -> EXCLUSIVE no_txn"],
        ),
        (
            "ALTER TABLE demo.days PARTITION (ds='b', h=1) SET LOCATION 'file:/x'",
            ["demo.days.ds=b/h=1 -> EXCLUSIVE no_txn"],
        ),
        ("ALTER TABLE t TOUCH", []),
        ("ALTER TABLE t CONCATENATE", []),
        ("ALTER TABLE demo.plain CONCATENATE", ["demo.plain -> EXCLUSIVE no_txn"]),
    ],
)  # fmt: skip
def test_what_ddl_statements_ask_for(table_of: TableOf, sql: str, expected: list[str]) -> None:
    assert ddl(table_of, sql) == expected


def test_ddl_of_external_tables(table_of: TableOf) -> None:
    assert ddl(table_of, "DROP TABLE demo.ext", HIVE) == ["demo -> SHARED_READ no_txn"]
    ours = replace(HIVE, lock_external_ddl=True)
    assert ddl(table_of, "DROP TABLE demo.ext", ours) == ["demo -> SHARED_READ no_txn", "demo.ext -> EXCLUSIVE no_txn"]


@pytest.mark.parametrize(
    ("settings", "transactional", "external", "locked"),
    [
        (HIVE, True, False, True),
        (replace(HIVE, acid_reads=False), True, False, False),
        (replace(HIVE, acid_reads=False), False, False, True),
        (replace(HIVE, plain_reads=False), False, False, False),
        (replace(HIVE, plain_reads=False), True, False, True),
        (HIVE, False, True, False),
        (replace(HIVE, external=True), False, True, True),
        (replace(HIVE, external=True, plain_reads=False), False, True, False),
        (LOCKLESS, True, False, False),
        (LOCKLESS, False, False, True),
    ],
)
def test_what_reads_lock(settings: LockSettings, transactional: bool, external: bool, locked: bool) -> None:
    assert (read_rule(settings, transactional=transactional, external=external) is not None) is locked


def test_places_of_reads() -> None:
    assert read_places(["a=1", "a=2"], replace(HIVE, max_partitions=2)) == ("a=1", "a=2")
    assert read_places(["a=1", "a=2"], replace(HIVE, max_partitions=1)) == (None,)
    assert read_places(["a=1"], replace(HIVE, max_partitions=0)) == (None,)
    assert read_places(None) == read_places([]) == (None,)


def test_a_static_partition_is_locked_alone_and_dynamic_ones_lock_the_table(plan_of: PlanOf) -> None:
    static = plan_of("INSERT INTO demo.days PARTITION (ds='a', h=1) SELECT id, v FROM demo.days WHERE ds = 'b'")
    assert shown(data_locks([static], HIVE, {"demo.days": ["ds=b/h=1"]})) == [
        "demo.days.ds=a/h=1 -> SHARED_WRITE insert",
        "demo.days.ds=b/h=1 -> SHARED_READ select",
    ]
    (dynamic,) = data_locks([plan_of("INSERT INTO demo.days PARTITION (ds='a', h) VALUES (1, 'v', 5)")], HIVE)
    assert str(dynamic) == "demo.days -> SHARED_WRITE"
    assert dynamic.component.dynamic_partitions
    assert dynamic.rule.endswith("its partitions become known later")


def test_statements_of_one_transaction_ask_for_the_strongest_lock_of_each_object(plan_of: PlanOf) -> None:
    plans = [
        plan_of("INSERT INTO t SELECT id, email, 0 FROM demo.users"),
        plan_of("INSERT OVERWRITE t VALUES (1, 'a', 2)"),
        plan_of("DELETE FROM demo.users"),
    ]
    assert shown(data_locks(plans, HIVE)) == ["default.t -> EXCL_WRITE update", "demo.users -> SHARED_WRITE delete"]


def test_a_temporary_view_and_values_lock_nothing(plan_of: PlanOf) -> None:
    assert data_locks([plan_of("SELECT * FROM src"), plan_of("VALUES (1)")], HIVE) == ()


def test_advisory_locks_are_taken_by_name(plan_of: PlanOf) -> None:
    settings = LockSettings.of(Settings({Source.REQUEST: {"hive.query.exclusive.lock": " nightly, load "}}))
    assert shown(data_locks([plan_of("SELECT * FROM t")], settings))[1:] == [
        "__global_locks.nightly -> EXCLUSIVE no_txn",
        "__global_locks.load -> EXCLUSIVE no_txn",
    ]


def test_a_declared_transaction_locks_by_the_same_rules(table_of: TableOf) -> None:
    operations = {"demo.flights": "update", "default.t": "select", "demo.plain": "overwrite", "demo.logs": "insert"}
    assert shown(declared_locks(operations, table_of, X)) == [
        "demo.flights -> EXCL_WRITE update",
        "demo.logs -> SHARED_READ insert",
        "demo.plain -> EXCLUSIVE no_txn",
        "default.t -> SHARED_READ select",
    ]


def test_settings_are_read_by_their_keys() -> None:
    assert LockSettings.of(Settings()) == LockSettings()
    given = {
        "hive.txn.xlock.write": "true", "hive.txn.xlock.iow": "false", "hive.txn.xlock.mergeinsert": "false",
        "hive.txn.xlock.ctas": "false", "hive.txn.strict.locking.mode": "false",
        "hive.txn.nonacid.read.locks": "false", "hive.txn.ext.locking.enabled": "false",
        "hive.txn.read.locks": "false", "hive.acid.lockless.reads.enabled": "true", "hive.locks.max.partitions": "7",
    }  # fmt: skip
    assert LockSettings.of(Settings({Source.REQUEST: given})) == LockSettings(
        True, False, False, False, False, False, False, False, True, 7
    )
