"""Names that change while the Cleaner works: what it has listed is deleted of nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.format.names import delta_name
from airflow_hive_acid.maintenance import run_cleaner, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from tests.integration.maintenance.cycles.steps import pass_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    """Whoever waits for a lock gives up soon."""
    return {
        **settings,
        "hive.compactor.abortedtxn.threshold": "0",
        "hive.lock.numretries": "2",
        "hive.lock.sleep.between.retries": "1ms",
    }


class Meeting:
    """A filesystem in which somebody else does something before the first delete.

    :ivar met: what became of that.
    """

    def __init__(self, inner: Filesystem, act: Callable[[], object]) -> None:
        self._inner, self._act = inner, act
        self.met: list[str] = []

    def delete(self, uri: str, *, inside: str) -> bool:
        if not self.met:
            try:
                self._act()
            except HiveAcidError as failure:
                self.met.append(type(failure).__name__)
            else:
                self.met.append("done")
        return self._inner.delete(uri, inside=inside)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._inner, verb)


def lines(client: MetastoreClient, table: Any, partition: str | None = None) -> list[str]:
    with client.snapshot([table.name]) as reader:
        return table.read(reader, partition)


def test_a_table_that_takes_the_name_keeps_its_files(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob
) -> None:
    """
    t1  t is compacted; u is the new one, with files of the same names
    t2  the Cleaner lists t
    t3                          t is renamed to old, u to t: they wait
    t4  the Cleaner deletes what it has listed
    """
    table, new = make_table("default.t"), make_table("default.u")
    for each in (table, new):
        each.insert(lines=2)
        each.insert(lines=2)
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    pass_time(client)

    def swap() -> None:
        files = WarehouseFiles(client, fs)
        client.catalog.rename_table("default.t", "default.old", files=files)
        client.catalog.rename_table("default.u", "default.t", files=files)

    meeting = Meeting(fs, swap)
    assert [o.kind for o in run_cleaner(client, meeting)] == [Kind.CLEANED]
    assert len(lines(client, new)) == 4
    assert meeting.met == ["LockTimeoutError"]
    swap()
    assert len(lines(client, table)) == 4


def test_a_partition_that_takes_the_name_keeps_its_files(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob
) -> None:
    """Both have files of one write id, and one of them was compacted."""
    table = make_table("default.p", "k")
    for _ in range(2):
        with table.begin() as txn:
            write_id = txn.write_ids[table.name]
            for partition in ("k=a", "k=b"):
                table.directory(delta_name(write_id, write_id, 0), 1, partition)
                txn.add_partitions(table.name, [partition])
                client.catalog.add_partitions(table.name, [partition])
    client.compactions.enqueue("default.p", "k=a")
    run_worker(client, fs, compact_lines, "w")
    pass_time(client)

    def swap() -> None:
        for old, new in (("k=a", "k=c"), ("k=b", "k=a"), ("k=c", "k=b")):
            client.catalog.rename_partition("default.p", old, new, files=WarehouseFiles(client, fs))

    meeting = Meeting(fs, swap)
    assert [o.kind for o in run_cleaner(client, meeting)] == [Kind.CLEANED]
    assert meeting.met == ["LockTimeoutError"]
    assert len(lines(client, table, "k=a")) == len(lines(client, table, "k=b")) == 2
    swap()
    assert len(lines(client, table, "k=a")) == len(lines(client, table, "k=b")) == 2


def test_aborted_writes_are_removed_of_the_table_that_had_them(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """What is aborted in the one table is committed in the other, under the same write id."""
    table, new = make_table("default.t"), make_table("default.u")
    table.abort()
    new.insert(lines=2)
    pass_time(client)

    def swap() -> None:
        files = WarehouseFiles(client, fs)
        client.catalog.rename_table("default.t", "default.old", files=files)
        client.catalog.rename_table("default.u", "default.t", files=files)

    meeting = Meeting(fs, swap)
    outcomes = run_cleaner(client, meeting)
    assert len(lines(client, new)) == 2
    assert meeting.met == ["LockTimeoutError"]
    assert [(o.kind, len(o.removed)) for o in outcomes] == [(Kind.CLEANED, 1)]
    assert client.show_locks() == []


@pytest.mark.every_database
def test_what_is_locked_by_others_is_cleaned_later(client: MetastoreClient, fs: Filesystem, compacted: Any) -> None:
    compacted.settle()
    component = LockComponent("default", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN)
    lock = client.lock(component)
    before = compacted.directories()
    (outcome,) = run_cleaner(client, fs)
    assert (outcome.kind, outcome.reason) == (Kind.WAITING, "default.t is locked; looking again soon")
    assert compacted.directories() == before
    client.unlock(lock.lock_id)
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert client.show_locks() == []
