"""Collapsing: what becomes of a stretch of events, and that the replica does not depend on it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hive_acid.replication.events.collapse import collapse, one_by_one
from airflow_hive_acid.replication.events.event import EventKind as K
from airflow_hive_acid.replication.events.exim_tasks import EximReplicationTaskFactory, merge_syncs
from airflow_hive_acid.replication.events.factories import create_tasks
from airflow_hive_acid.replication.events.tasks import TaskSettings
from tests.examples import examples
from tests.unit.replication.replica_model import Held, Replica, Source, content, name_of, table_object

if TYPE_CHECKING:
    from collections.abc import Callable

FACTORY = EximReplicationTaskFactory(TaskSettings("source:", "target:"))
NAMES, PARTS = ("a", "b", "c"), ("p=1", "p=2")


# --- changes of the source ---


def create(source: Source, name: str, partitioned: bool, acid: bool) -> None:
    def apply(tables: dict[str, Held], event_id: int) -> None:
        tables[name] = Held(event_id, event_id, acid, partitioned)

    if name not in source.tables:
        source.emit(K.CREATE_TABLE, apply, name=name, transactional=acid, table_object=table_object(name))


def drop(source: Source, name: str) -> None:
    if name in source.tables:
        acid = source.tables[name].acid
        source.emit(K.DROP_TABLE, lambda tables, _: tables.pop(name) and None, name=name, transactional=acid)


def rename(source: Source, name: str, to: str) -> None:
    def apply(tables: dict[str, Held], event_id: int) -> None:
        tables[to] = replace(tables.pop(name), metadata=event_id)

    if name in source.tables and to not in source.tables:
        acid = source.tables[name].acid
        source.emit(
            K.ALTER_TABLE, apply, name=to, table_before=name_of(name), transactional=acid, was_transactional=acid,
            moved=True,
        )  # fmt: skip
        for tables in (*source.open.values(), *source.tables_of_txn.values()):
            if name in tables:
                tables.add(to)


def alter(source: Source, name: str, how: str) -> None:
    if name not in source.tables:
        return
    if how == "convert":
        if source.tables[name].acid or source.tables[name].partitioned:
            return
        source.emit(
            K.ALTER_TABLE, lambda t, i: t.update({name: replace(t[name], metadata=i, acid=True)}), name=name,
            transactional=True, was_transactional=False,
        )  # fmt: skip
    elif how == "truncate" and not source.tables[name].partitioned:
        source.change(name, K.ALTER_TABLE, lambda t, i: replace(t, metadata=i, data=i), truncated=True)
    else:
        source.change(name, K.ALTER_TABLE, lambda t, i: replace(t, metadata=i))


def insert(source: Source, name: str, part: str) -> None:
    table = source.tables.get(name)
    if table is None or table.acid:
        return
    if not table.partitioned:
        source.change(name, K.INSERT, lambda t, i: replace(t, data=i))
    elif part in table.partitions:
        change_partition(source, name, K.INSERT, part, lambda p, i: replace(p, data=i))


def change_partition(
    source: Source, name: str, kind: K, part: str, update: Callable[[Held, int], Held], **fields: object
) -> None:
    def apply(table: Held, event_id: int) -> Held:
        return replace(table, partitions={**table.partitions, part: update(table.partitions[part], event_id)})

    source.change(name, kind, apply, partitions=(part,), **fields)


def partitions(source: Source, name: str, part: str, how: str) -> None:
    table = source.tables.get(name)
    if table is None or not table.partitioned:
        return
    other = next(p for p in PARTS if p != part)
    if how == "add both" and not table.partitions:
        added = {p: Held(0, 0) for p in PARTS}
        source.change(
            name, K.ADD_PARTITION,
            lambda t, i: replace(t, partitions={p: replace(h, metadata=i, data=i) for p, h in added.items()}),
            partitions=PARTS,
        )  # fmt: skip
    elif how in ("add", "add both") and part not in table.partitions:
        source.change(
            name, K.ADD_PARTITION, lambda t, i: replace(t, partitions={**t.partitions, part: Held(i, i)}),
            partitions=(part,),
        )  # fmt: skip
    elif part not in table.partitions:
        return
    elif how == "drop":
        rest = {p: h for p, h in table.partitions.items() if p != part}
        source.change(name, K.DROP_PARTITION, lambda t, _: replace(t, partitions=rest), partitions=(part,))
    elif how == "rename" and other not in table.partitions:
        source.change(
            name, K.ALTER_PARTITION,
            lambda t, i: replace(t, partitions={other: replace(t.partitions[part], metadata=i)}),
            partitions=(other,), partitions_before=(part,), moved=True,
        )  # fmt: skip
    elif how == "move":
        change_partition(source, name, K.ALTER_PARTITION, part, lambda p, i: replace(p, metadata=i, data=i), moved=True)
    else:
        change_partition(source, name, K.ALTER_PARTITION, part, lambda p, i: replace(p, metadata=i))


def txn(source: Source, name: str, how: str) -> None:
    if how == "open" or not source.open:
        txn_id = len(source.tables_of_txn) + 1
        source.open[txn_id] = set()
        source.tables_of_txn[txn_id] = set()
        source.emit(K.OPEN_TXN, txn_ids=(txn_id,))
        return
    txn_id = min(source.open)
    if how == "write":
        if name in source.tables and source.tables[name].acid:
            write_id = len(source.events)
            source.open[txn_id].add(name)
            source.tables_of_txn[txn_id].add(name)
            # An open write id is part of a table's state at the replica as well.
            source.change(name, K.ALLOC_WRITE_ID, lambda t, i: replace(t, data=i), txn_ids=(txn_id,),
                          write_ids=((txn_id, write_id),))  # fmt: skip
        return
    written = source.open.pop(txn_id)

    def apply(tables: dict[str, Held], event_id: int) -> None:
        for written_name in written & set(tables):
            if tables[written_name].acid:
                tables[written_name] = replace(tables[written_name], data=event_id)

    source.emit(K.COMMIT_TXN if how == "commit" else K.ABORT_TXN, apply, txn_ids=(txn_id,))


def database(source: Source, how: str) -> None:
    if how == "drop":
        for name in list(source.tables):
            drop(source, name)
        source.emit(K.DROP_DATABASE)
    elif how == "alter":
        source.emit(K.ALTER_DATABASE)
    else:
        source.emit(K.UNKNOWN, problem="nobody knows it")


def build(random: Random, size: int) -> Source:
    """A source in which that many changes were tried, most of which could be done."""
    source = Source()
    create(source, "a", partitioned=True, acid=False)
    partitions(source, "a", PARTS[0], "add")
    create(source, "b", partitioned=False, acid=False)
    create(source, "c", partitioned=False, acid=True)
    for _ in range(size):
        name, part, pick = random.choice(NAMES), random.choice(PARTS), random.choice
        match random.randrange(14):
            case 0 | 1:
                create(source, name, partitioned=pick((True, False)), acid=pick((True, False, False)))
            case 2:
                drop(source, name)
            case 3:
                rename(source, name, pick(NAMES))
            case 4:
                alter(source, name, pick(("metadata", "metadata", "truncate", "convert")))
            case 5 | 6:
                insert(source, name, part)
            case 7 | 8 | 9:
                partitions(source, name, part, pick(("add", "add both", "drop", "rename", "move", "alter")))
            case 10 | 11 | 12:
                for how in pick((("open", "write", "commit"), ("open", "write"), ("write",), ("commit",), ("abort",))):
                    txn(source, pick((name, "c")), how)
            case _:
                database(source, pick(("drop", "alter", "unknown")))
    return source


SEEDS = st.integers(0, 2**32)
"""Choices are drawn from a generator of their own: uniformly, so that long histories come up as often as short ones."""


# --- properties ---


@settings(max_examples=examples(600), deadline=None)
@given(seed=SEEDS, size=st.integers(0, 25), collapsed=st.booleans())
def test_a_replica_is_the_source_however_its_events_are_cut_repeated_and_collapsed(
    seed: int, size: int, collapsed: bool
) -> None:
    """
    t1  events 1..n are read in pieces; a piece may begin anywhere up to the position (a repeat)
    t2  an export sees the source as it is when it runs: at the end of the piece or any later event
    t3  a try may end after any task; then the position stays
    t4  the last piece ends with the last event: the replica is the source, and it does not matter how it got there
    """
    random = Random(seed)
    source = build(random, size)
    last = len(source.events)
    clock = {"now": 0}

    def at() -> int:
        if random.random() < 0.3:
            clock["now"] = random.randint(clock["now"], last)
        return clock["now"]

    knows_txns, skips, creates = (random.random() < 0.5 for _ in range(3))
    replica = Replica(source, at, knows_txns=knows_txns, skips=skips, creates=creates)
    make = collapse if collapsed else one_by_one
    position = 0
    while position < last:
        start = random.randint(max(0, position - 6), position) if random.random() < 0.4 else position
        end = random.randint(start, min(start + 8, last))
        clock["now"] = max(clock["now"], end)
        items = make(source.events[start:end])
        tasks = merge_syncs(create_tasks(FACTORY, items))
        done = random.randint(0, len(tasks)) if random.random() < 0.4 else len(tasks)
        replica.run(tasks[:done])
        if done == len(tasks):
            position = max(position, end)
    assert content(replica.tables) == content(source.tables)


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, size=st.integers(0, 40))
def test_collapsed_events_are_fewer_and_lose_no_id(seed: int, size: int) -> None:
    events = build(Random(seed), size).events
    full, fewer = one_by_one(events), collapse(events)
    assert len(fewer) <= len(full)
    assert {i for item in fewer for i in item.event_ids} == {event.event_id for event in events}
    for item in fewer:
        assert item.event.event_id in item.event_ids
        assert list(item.event_ids) == sorted(set(item.event_ids))


# --- what becomes of a stretch ---


def story(*changes: Callable[[Source], object], after: int = 0) -> list[tuple[str, str, tuple[int, ...]]]:
    """Kind, object and ids of what the events after the first ``after`` ones are collapsed to."""
    source = Source()
    for change in changes:
        change(source)
    items = collapse(source.events[after:])
    return [(item.event.kind.value, item.event.about.removeprefix("d."), item.event_ids) for item in items]


def plain(name: str, *, partitioned: bool = False, acid: bool = False) -> Callable[[Source], object]:
    return lambda source: create(source, name, partitioned, acid)


def do(function: Callable[..., object], *arguments: object) -> Callable[[Source], object]:
    return lambda source: function(source, *arguments)


def test_what_was_created_and_dropped_again_is_not_exported_and_only_the_drop_is_left() -> None:
    found = story(plain("a"), do(insert, "a", ""), do(alter, "a", "metadata"), do(drop, "a"))
    assert found == [("DropTable", "a", (1, 2, 3, 4))]
    found = story(plain("a", partitioned=True), do(partitions, "a", "p=1", "add"), do(partitions, "a", "p=1", "move"),
                  do(partitions, "a", "p=1", "drop"), after=1)  # fmt: skip
    assert found == [("DropPartition", "a (p=1)", (2, 3, 4))]


def test_a_table_that_was_dropped_and_created_anew_loses_its_old_copy_first() -> None:
    found = story(plain("a"), do(drop, "a"), plain("a"), do(insert, "a", ""), do(drop, "a"), plain("a"),
                  do(insert, "a", ""), after=1)  # fmt: skip
    assert found == [("DropTable", "a", (2, 3, 4, 5)), ("CreateTable", "a", (6, 7))]


def test_alters_and_inserts_of_a_table_are_one_each() -> None:
    change = [do(alter, "a", "metadata"), do(insert, "a", "")] * 3
    assert story(plain("a"), *change, after=1) == [("AlterTable", "a", (2, 4, 6)), ("Insert", "a", (3, 5, 7))]


def test_a_change_of_the_data_takes_what_came_before_and_after_into_its_export() -> None:
    change = [do(insert, "a", ""), do(alter, "a", "metadata"), do(alter, "a", "truncate"), do(insert, "a", ""),
              do(alter, "a", "metadata")]  # fmt: skip
    source = Source()
    for one in (plain("a"), *change):
        one(source)
    (item,) = collapse(source.events[1:])
    assert (item.event.kind, item.event.truncated, item.event_ids) == (K.ALTER_TABLE, True, (2, 3, 4, 5, 6))


def test_changes_of_partitions_are_one_event_for_all_of_them() -> None:
    both = [plain("a", partitioned=True), do(partitions, "a", "p=1", "add"), do(partitions, "a", "p=2", "add")]
    assert story(*both, after=1) == [("AddPartition", "a (p=1, p=2)", (2, 3))]
    change = [do(insert, "a", "p=1"), do(partitions, "a", "p=2", "alter"), do(insert, "a", "p=2"),
              do(partitions, "a", "p=1", "alter"), do(insert, "a", "p=1")]  # fmt: skip
    assert story(*both, *change, after=3) == [
        ("AlterPartition", "a (p=1, p=2)", (5, 7)), ("Insert", "a (p=1, p=2)", (4, 6, 8)),
    ]  # fmt: skip
    assert story(*both, *change, after=1) == [("AddPartition", "a (p=1, p=2)", (2, 3, 4, 5, 6, 7, 8))]
    assert story(*both, *change) == [("CreateTable", "a", (1, 2, 3, 4, 5, 6, 7, 8))]


def test_a_renamed_partition_is_a_drop_and_an_addition() -> None:
    found = story(plain("a", partitioned=True), do(partitions, "a", "p=1", "add"), do(insert, "a", "p=1"),
                  do(partitions, "a", "p=1", "rename"), do(insert, "a", "p=2"), after=2)  # fmt: skip
    assert found == [("DropPartition", "a (p=1)", (3, 4)), ("AddPartition", "a (p=2)", (4, 5))]


def test_a_table_that_goes_through_several_names_is_exported_once_under_the_last() -> None:
    found = story(plain("a"), do(insert, "a", ""), do(rename, "a", "b"), do(insert, "b", ""), do(rename, "b", "c"),
                  do(insert, "c", ""), after=1)  # fmt: skip
    assert found == [("DropTable", "a", (2, 3)), ("DropTable", "b", (3, 4, 5)), ("CreateTable", "c", (5, 6))]


def test_two_tables_that_swap_their_names_are_exported_under_both() -> None:
    found = story(plain("a"), plain("b"), do(rename, "a", "c"), do(rename, "b", "a"), do(rename, "c", "b"), after=2)
    assert sorted(found) == [
        ("CreateTable", "a", (4,)), ("CreateTable", "b", (5,)), ("DropTable", "a", (3,)), ("DropTable", "b", (4,)),
        ("DropTable", "c", (3, 5)),
    ]  # fmt: skip
    assert found.index(("DropTable", "a", (3,))) < found.index(("CreateTable", "a", (4,)))
    assert found.index(("DropTable", "b", (4,))) < found.index(("CreateTable", "b", (5,)))


def test_an_acid_table_is_one_event_and_txns_of_the_stretch_need_no_look_up() -> None:
    change = [do(txn, "a", "open"), do(txn, "a", "write"), do(txn, "a", "commit"), do(alter, "a", "metadata")]
    found = story(plain("a", acid=True), *change, *change)
    assert found == [("OpenTxn", "txn 2", (2, 6)), ("AlterTable", "a", (1, 3, 4, 5, 7, 8, 9))]
    source = Source()
    for one in (plain("a", acid=True), *change, do(txn, "a", "open"), do(txn, "a", "open")):
        one(source)
    items = collapse(source.events)
    tasks = merge_syncs(create_tasks(FACTORY, items))
    assert [(task.is_no_op, task.event_ids) for task in tasks] == [(True, (2, 6, 7)), (False, (1, 3, 4, 5))]
    assert tasks[1].destination[0].event_id == 5
    nothing_written = story(do(txn, "a", "open"), do(txn, "a", "commit"))
    assert nothing_written == [("CommitTxn", "txn 1", (1, 2))]


def test_ends_of_txns_that_began_before_the_stretch_are_one_with_all_their_ids() -> None:
    source = Source()
    for how in ("open", "open", "open", "commit", "abort", "commit"):
        txn(source, "a", how)
    events = [replace(event, databases=(f"d{event.event_id}",)) for event in source.events]
    (item,) = collapse(events[3:])
    assert (item.event.txn_ids, item.event.databases, item.event_ids) == ((1, 2, 3), ("d4", "d5", "d6"), (4, 5, 6))
    unknown = [*events[3:5], replace(events[5], databases=None)]
    assert collapse(unknown)[0].event.databases is None


def test_a_table_that_became_an_acid_table_is_dropped_and_synchronised() -> None:
    found = story(plain("a"), do(insert, "a", ""), do(alter, "a", "convert"), after=1)
    assert found == [("DropTable", "a", (2, 3)), ("CreateTable", "a", (3,))]


def test_what_is_only_reported_stays_and_what_is_alike_is_counted_together() -> None:
    source = Source()
    for how in ("unknown", "alter", "unknown", "alter", "drop"):
        database(source, how)
    for _ in range(3):
        source.emit(K.NOT_REPLICATED, name="a", problem="statistics")
    found = [(item.event.kind, item.event_ids) for item in collapse(source.events)]
    assert found == [
        (K.UNKNOWN, (1,)), (K.UNKNOWN, (3,)), (K.ALTER_DATABASE, (2, 4)), (K.DROP_DATABASE, (5,)),
        (K.NOT_REPLICATED, (6, 7, 8)),
    ]  # fmt: skip


def test_without_collapsing_every_event_is_itself_and_a_rename_is_two() -> None:
    source = Source()
    for change in (plain("a"), do(insert, "a", ""), do(rename, "a", "b")):
        change(source)
    found = [(item.event.kind, str(item.event.table), item.event_ids) for item in one_by_one(source.events)]
    assert found == [
        (K.CREATE_TABLE, "d.a", (1,)), (K.INSERT, "d.a", (2,)), (K.DROP_TABLE, "d.a", (3,)),
        (K.CREATE_TABLE, "d.b", (3,)),
    ]  # fmt: skip
