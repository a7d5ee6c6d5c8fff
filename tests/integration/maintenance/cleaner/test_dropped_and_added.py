"""Partitions that are dropped and added again, before the Cleaner has removed what the drop has left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.format.names import base_name, delta_name
from airflow_hive_acid.maintenance import run_cleaner
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.metastore.compaction.model import Resource
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE
from tests.integration.maintenance.cycles.steps import (
    change,
    forget_what_has_ended,
    hive_inserts,
    lines,
    pass_time,
    rows,
    soft_delete,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Partition, Table


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "0"}


def test_an_insert_that_adds_a_dropped_partition_again_keeps_its_rows(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """
    t1  DROP PARTITION leaves its files to the Cleaner
    t2              a Hive's INSERT begins, SHARED_READ, and writes into the same directory
    t3  the Cleaner is granted EXCL_WRITE: the two do not conflict
    t4              the INSERT adds the partition, and commits
    """
    table = make_table("default.p", "k")
    table.insert(3, "k=a")
    client.catalog.drop_partitions("default.p", ["k=a"], files=WarehouseFiles(client, fs))
    pass_time(client)  # who begins at once has seen the drop's txn open
    writer, write_id = hive_inserts(client, table)
    new = delta_name(write_id, write_id, 0)
    table.directory(new, 2, "k=a")
    fs.make_directory(f"{table.place('k=a')}/.hive-staging_hive_2026/-ext-10000")
    pass_time(client)
    (outcome,) = run_cleaner(client, fs)
    assert (outcome.kind, new in outcome.reason) == (Kind.WAITING, True)
    fs.delete(f"{table.place('k=a')}/.hive-staging_hive_2026", inside=table.location)
    client.catalog.add_partitions("default.p", ["k=a"])
    client.add_partitions(writer, "default.p", ["k=a"])
    client.commit_txn(writer)
    assert len(lines(client, table, "k=a")) == 2
    pass_time(client)
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert len(lines(client, table, "k=a")) == 2
    assert new in table.directories("k=a")
    assert client.show_locks() == []


def test_an_insert_into_a_dropped_partition_that_is_aborted_leaves_nothing(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    table = make_table("default.p", "k")
    table.insert(3, "k=a")
    client.catalog.drop_partitions("default.p", ["k=a"], files=WarehouseFiles(client, fs))
    writer, write_id = hive_inserts(client, table)
    table.directory(delta_name(write_id, write_id, 0), 2, "k=a")
    pass_time(client)
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.WAITING]
    client.abort_txn(writer)
    pass_time(client)
    (outcome,) = [o for o in run_cleaner(client, fs) if o.request_id is not None]
    assert (outcome.kind, outcome.removed) == (Kind.CLEANED, (table.place("k=a"),))
    assert not fs.exists(table.place("k=a"))


def test_who_reads_a_partition_that_was_added_again_keeps_its_files_when_it_is_dropped_again(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """A Hive leaves a request for each drop; ours forgets the one before.

    t1  drop                                     (request 1: nobody older is there)
    t2  the partition is added again, with rows
    t3            a reader begins
    t4  drop                                     (request 2: the reader is older)
    t5  the Cleaner does what request 1 wants
    """
    table = make_table("default.p", "k")
    table.insert(3, "k=a")
    dropped, place = Resource("default", "p", "k=a"), table.place("k=a")

    def drop(before: Sequence[int] = ()) -> int:
        kept = [row for row in rows(client, COMPACTION_QUEUE) if row["CQ_ID"] in before]
        client.catalog.drop_partition("default.p", "k=a")
        with table.begin("delete") as txn:
            write_id = txn.write_ids[table.name]
            table.directory(base_name(write_id), 0, "k=a")
            txn.add_partitions(table.name, [])
        for row in kept:
            change(client, sa.insert(COMPACTION_QUEUE).values(row))
        return soft_delete(client, dropped, place, highest=write_id)

    first = drop()
    table.insert(2, "k=a")
    pass_time(client)
    reader = client.open_snapshot(["default.p"])
    second = drop([first])
    pass_time(client)
    assert [(o.request_id, o.kind) for o in run_cleaner(client, fs)] == [(first, Kind.CLEANED)]
    assert len(table.read(reader, "k=a")) == 2
    reader.close()
    pass_time(client)
    (outcome,) = [o for o in run_cleaner(client, fs) if o.request_id == second]
    assert (outcome.kind, outcome.removed) == (Kind.CLEANED, (place,))
    assert not fs.exists(place)


class Meeting(WarehouseFiles):
    """Files of a drop, beside which somebody begins to write."""

    def __init__(self, client: MetastoreClient, fs: Filesystem, act: Callable[[], object]) -> None:
        super().__init__(client, fs)
        self._act = act

    def hide(self, txn_id: int, write_id: int, table: Table, partitions: Sequence[Partition]) -> None:
        self._act()
        super().hide(txn_id, write_id, table, partitions)


def test_an_insert_that_began_beside_a_drop_and_was_aborted_is_not_shown_by_the_next_one(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """
    t1  DROP PARTITION has its write id
    t2              a Hive's INSERT into the partition begins, with the next one, and writes
    t3  the drop commits
    t4              the INSERT is aborted
    t5                        another one adds the partition again
    """
    table = make_table("default.p", "k")
    table.insert(3, "k=a")
    begun: list[tuple[int, int]] = []

    def insert() -> None:
        begun.append(hive_inserts(client, table, "k=a"))
        write_id = begun[0][1]
        table.directory(delta_name(write_id, write_id, 0), 2, "k=a")

    client.catalog.drop_partitions("default.p", ["k=a"], files=Meeting(client, fs, insert))
    client.abort_txn(begun[0][0])
    table.insert(1, "k=a")
    forget_what_has_ended(client)
    assert len(lines(client, table, "k=a")) == 1
    run_cleaner(client, fs)
    forget_what_has_ended(client)
    assert len(lines(client, table, "k=a")) == 1
