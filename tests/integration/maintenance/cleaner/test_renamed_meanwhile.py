"""Tables and partitions that get other names between two looks of the Cleaner, and what is known of either name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.format.names import delta_name
from airflow_hive_acid.maintenance import run_cleaner, run_worker
from airflow_hive_acid.maintenance.cleaner import cleaning
from airflow_hive_acid.maintenance.cleaner.cleaning import clean_up
from airflow_hive_acid.maintenance.cleaner.look import Look
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE
from tests.integration.maintenance.cycles.steps import (
    change,
    forget_what_has_ended,
    hive_inserts,
    lines,
    pass_time,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "0"}


@pytest.mark.every_database
def test_what_is_known_of_aborted_writes_outlives_a_rename_in_the_middle_of_a_pass(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob
) -> None:
    """
    t1  the Cleaner reads what waits for it, t among it, and is busy with others
    t2                            t becomes u
    t3  the Cleaner comes to t, and finds no table of that name
    """
    table = make_table("default.t")
    table.insert()
    table.insert()
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    table.abort()
    pass_time(client)
    (waiting,) = client.compactions.find_ready_to_clean()
    client.catalog.rename_table("default.t", "default.u", files=WarehouseFiles(client, fs))
    renamed = replace(table, name="default.u")
    clean_up(Look.begin(client, fs), waiting)
    renamed.insert()
    forget_what_has_ended(client)
    assert len(lines(client, renamed)) == 3
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_RETRY_RETENTION=0))
    pass_time(client)
    assert {o.kind for o in run_cleaner(client, fs)} == {Kind.CLEANED}
    forget_what_has_ended(client)
    assert len(lines(client, renamed)) == 3


def test_what_is_known_of_a_table_is_not_used_on_one_that_takes_its_name_at_that_moment(
    client: MetastoreClient,
    fs: Filesystem,
    make_table: Callable[..., Any],
    compact_lines: RunJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    t1  the Cleaner looks up t, or what is known of its write ids: 3 was aborted
    t2                            t becomes u, and there is a new t with rows of its own write id 3
    t3  the Cleaner looks up the other of the two
    """
    table = make_table("default.t")
    table.insert()
    table.insert()
    table.abort()
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    pass_time(client)
    (waiting,) = client.compactions.find_ready_to_clean()
    made: list[Any] = []

    def between(found: Any) -> Any:
        if not made:
            client.catalog.rename_table("default.t", "default.u", files=WarehouseFiles(client, fs))
            made.append(make_table("default.t"))
            for _ in range(3):
                made[0].insert()
        return found

    for name in ("find_subject", "read_readers"):
        kept = getattr(cleaning, name)
        monkeypatch.setattr(cleaning, name, lambda *given, kept=kept: between(kept(*given)))
    clean_up(Look.begin(client, fs), waiting)
    assert len(lines(client, made[0])) == 3


def test_a_partition_that_was_dropped_added_again_and_renamed_is_cleaned(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob
) -> None:
    """What the drop has left went along; nothing is to wait for the place where it was."""
    table = make_table("default.p", "k")
    files = WarehouseFiles(client, fs)
    table.insert(3, "k=a")
    client.catalog.drop_partitions("default.p", ["k=a"], files=files)
    table.insert(2, "k=a")
    client.catalog.rename_partition("default.p", "k=a", "k=b", files=files)
    pass_time(client)
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert delta_name(1, 1, 0) not in table.directories("k=b")
    table.insert(2, "k=b")
    client.compactions.enqueue("default.p", "k=b")
    run_worker(client, fs, compact_lines, "w")
    pass_time(client)
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert len(table.directories("k=b")) == 1
    assert len(lines(client, table, "k=b")) == 4


def test_what_a_drop_has_left_goes_where_its_table_has_gone(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """And nothing goes of the table that has taken the name."""
    table = make_table("default.p", "k")
    files = WarehouseFiles(client, fs)
    table.insert(3, "k=a")
    table.insert(1, "k=b")
    client.catalog.drop_partitions("default.p", ["k=a"], files=files)
    client.catalog.rename_table("default.p", "default.q", files=files)
    renamed, new = replace(table, name="default.q"), make_table("default.p", "k")
    pass_time(client)
    writer, write_id = hive_inserts(client, new)
    new.directory(delta_name(write_id, write_id, 0), 2, "k=a")
    pass_time(client)
    (outcome,) = run_cleaner(client, fs)
    assert (outcome.kind, outcome.removed) == (Kind.CLEANED, (renamed.place("k=a"),))
    assert not fs.exists(renamed.place("k=a"))
    client.catalog.add_partitions("default.p", ["k=a"])
    client.add_partitions(writer, "default.p", ["k=a"])
    client.commit_txn(writer)
    assert len(lines(client, new, "k=a")) == 2
    assert len(lines(client, renamed, "k=b")) == 1


def test_what_a_drop_has_left_is_not_looked_for_in_a_table_that_has_taken_the_name(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """A Hive that renames a table leaves the old place in the request of a drop."""
    table = make_table("default.p", "k")
    files = WarehouseFiles(client, fs)
    table.insert(3, "k=a")
    client.catalog.drop_partitions("default.p", ["k=a"], files=files)
    (left,) = [row["CQ_TBLPROPERTIES"] for row in rows(client, COMPACTION_QUEUE)]
    client.catalog.rename_table("default.p", "default.q", files=files)
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_TBLPROPERTIES=left))
    new = make_table("default.p", "k")
    pass_time(client)
    writer, write_id = hive_inserts(client, new)
    new.directory(delta_name(write_id, write_id, 0), 2, "k=a")
    pass_time(client)
    (outcome,) = run_cleaner(client, fs)
    assert (outcome.kind, "default.p now" in outcome.reason) == (Kind.REFUSED, True)
    client.catalog.add_partitions("default.p", ["k=a"])
    client.add_partitions(writer, "default.p", ["k=a"])
    client.commit_txn(writer)
    assert len(lines(client, new, "k=a")) == 2


def test_what_a_create_table_as_that_failed_has_left_takes_nothing_from_a_table_that_gets_its_name(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """
    t1  CREATE TABLE u AS … has write id 1 of u, and is aborted: there is no u
    t2  t, with rows of its own write id 1, becomes u
    t3  the Cleaner removes what aborted txns have left in u
    """
    table = make_table("default.t")
    table.insert(2)
    creator = client.open_txn()
    component = LockComponent("default", "u", None, LockType.EXCL_WRITE, Operation.INSERT)
    assert client.lock([component], txn_id=creator).state is LockState.ACQUIRED
    assert client.allocate_write_ids("default.u", creator) == {creator: 1}
    client.abort_txn(creator)
    client.catalog.rename_table("default.t", "default.u", files=WarehouseFiles(client, fs))
    renamed = replace(table, name="default.u")
    pass_time(client)
    run_cleaner(client, fs)
    assert len(lines(client, renamed)) == 2
    assert renamed.insert() == 3
    forget_what_has_ended(client)
    assert len(lines(client, renamed)) == 3
