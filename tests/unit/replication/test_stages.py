"""Stages: what travels together, and that tasks about one table keep their order where it matters."""

from __future__ import annotations

import random

import pytest

from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.replication.events.event import EventKind as K
from airflow_hive_acid.replication.events.stages import Stage, partitions_of, stages, unite
from airflow_hive_acid.replication.events.tasks import (
    DropDatabaseCommand,
    DropPartitionCommand,
    DropTableCommand,
    ExportCommand,
    ImportCommand,
    NoOp,
    ReplicationTask,
)


def bring(event_id: int, table: str, *parts: str, metadata: bool = False, drops: str | None = None) -> ReplicationTask:
    source, target = TableName("d", table), TableName("copy", table)
    imported = ImportCommand(target, parts, "file:/x", metadata, event_id)
    first = () if drops is None else (DropTableCommand(TableName("copy", drops), event_id),)
    exported = ExportCommand(source, parts, "file:/x", metadata, event_id)
    kind = K.ADD_PARTITION if parts else K.CREATE_TABLE
    return ReplicationTask((event_id,), kind, table, (exported,), (*first, imported))


def drop(event_id: int, table: str, part: str | None = None) -> ReplicationTask:
    name = TableName("copy", table)
    command = DropTableCommand(name, event_id) if part is None else DropPartitionCommand(name, part, event_id)
    return ReplicationTask((event_id,), K.DROP_TABLE, table, (NoOp("x"),), (command,))


def drop_database(event_id: int) -> ReplicationTask:
    return ReplicationTask((event_id,), K.DROP_DATABASE, "d", (NoOp("x"),), (DropDatabaseCommand("copy", event_id),))


def ids(stage: Stage) -> tuple[list[int], list[int], list[int]]:
    return (
        [t.event_id for t in stage.data], [t.event_id for t in stage.metadata], [t.event_ids[0] for t in stage.others],
    )  # fmt: skip


def test_tables_do_not_wait_for_each_other() -> None:
    tasks = [bring(1, "a"), bring(2, "a", "p=1"), drop(3, "a", "p=1"), bring(4, "b"), bring(5, "b", metadata=True)]
    assert [ids(stage) for stage in stages(tasks)] == [([1, 2, 4], [5], [3])]


def test_what_comes_after_a_drop_of_the_same_table_comes_after_it() -> None:
    tasks = [drop(1, "a"), bring(2, "a"), drop(3, "a"), bring(4, "a", metadata=True), bring(5, "b")]
    assert [ids(stage) for stage in stages(tasks)] == [([5], [], [1]), ([2], [], [3]), ([], [4], [])]


def test_a_rename_is_about_both_tables() -> None:
    tasks = [bring(1, "old"), bring(2, "new", drops="old"), bring(3, "new", "p=1"), bring(4, "old")]
    assert [ids(stage) for stage in stages(tasks)] == [([1], [], [2]), ([3, 4], [], [])]


def test_the_drop_of_a_database_is_between_all_others() -> None:
    tasks = [drop(1, "a"), bring(2, "a"), drop_database(3), bring(4, "b")]
    assert [ids(stage) for stage in stages(tasks)] == [([], [], [1]), ([2], [], []), ([], [], [3]), ([4], [], [])]


@pytest.mark.parametrize("seed", range(20))
def test_no_task_is_lost_and_none_overtakes_a_drop_of_its_table(seed: int) -> None:
    rng = random.Random(seed)
    tables = "abc"
    tasks = []
    for number in range(30):
        table = rng.choice(tables)
        makers = [
            lambda n=number, t=table: bring(n, t), lambda n=number, t=table: bring(n, t, "p=1", metadata=True),
            lambda n=number, t=table: drop(n, t), lambda n=number, t=table: bring(n, t, drops=rng.choice(tables)),
            lambda n=number: drop_database(n),
        ]  # fmt: skip
        tasks.append(rng.choices(makers, [6, 6, 3, 2, 1])[0]())
    order = [n for stage in stages(tasks) for group in ids(stage) for n in group]
    assert sorted(order) == list(range(30))
    place = {n: i for i, n in enumerate(order)}

    def about(task: ReplicationTask) -> set[TableName]:
        return {c.table for c in task.destination if isinstance(c, ImportCommand | DropTableCommand)}

    for i, one in enumerate(tasks):
        for j in range(i + 1, len(tasks)):
            other = tasks[j]
            everything = not about(one) or not about(other)
            drops = any(not isinstance(c, ImportCommand) for c in (*one.destination, *other.destination))
            if drops and (everything or about(one) & about(other)):
                assert place[i] < place[j], (one, other)


def test_one_export_brings_what_several_tasks_want_of_a_table() -> None:
    (stage,) = stages([bring(1, "a", "p=1"), bring(2, "b"), bring(3, "a", "p=2", "p=1"), bring(4, "b", "p=1")])
    groups = unite(stage.data)
    assert [[t.event_id for t in group] for group in groups] == [[1, 3], [2, 4]]
    assert [partitions_of(group) for group in groups] == [("p=1", "p=2"), ()], "the whole table has its partitions"
