"""DDL with its files: directories move with their names, and dropped partitions wait for their readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, JobsAliveError, NoSuchObjectError
from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation, TxnType
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.txns.jobs import JobState
from tests.jobs import jobs_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient


@pytest.fixture
def files(client: MetastoreClient, fs: Filesystem) -> WarehouseFiles:
    return WarehouseFiles(client, fs)


@pytest.mark.conformance("K25")
def test_a_dropped_partition_stays_for_its_readers_and_goes_after_them(
    client: MetastoreClient, fs: Filesystem, files: WarehouseFiles, make_table: Callable[..., Any]
) -> None:
    """
    t1  A reads p
    t2            B drops k=a without waiting for A; the partition is gone from the catalog
    t3  A still reads its rows; the Cleaner waits
    t4  A ends; the Cleaner removes the directory
    """
    table = make_table("default.p", "k")
    table.insert(partition="k=a")
    table.insert(partition="k=b")
    reader = client.open_snapshot(["default.p"])
    place = client.catalog.get_partition("default.p", "k=a").location
    dropped = client.catalog.drop_partitions("default.p", ["k=a"], files=files)
    assert [part.name for part in dropped] == ["k=a"]
    assert [part.name for part in client.catalog.list_partitions("default.p")] == ["k=b"]
    (request,) = client.compactions.find_ready_to_clean()
    assert (request.soft_deleted_location, request.highest_write_id, request.state.text) == (
        place, 3, "ready for cleaning",
    )  # fmt: skip
    table.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.WAITING
    assert len(table.read(reader, "k=a")) == 1
    reader.close()
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, outcome.removed) == (Kind.CLEANED, (place,))
    assert not fs.exists(place)
    assert len(table.directories("k=b")) == 1
    assert client.compactions.find_candidates() != []
    assert client.show_locks() == []


def test_a_partition_that_is_added_again_starts_empty(
    client: MetastoreClient, fs: Filesystem, files: WarehouseFiles, make_table: Callable[..., Any]
) -> None:
    """The Cleaner has not come yet: the old rows are there, below a base without rows. Later it removes them."""
    table = make_table("default.p", "k")
    table.insert(3, partition="k=a")
    client.catalog.drop_partitions("default.p", [{"K": "a"}], files=files)
    table.insert(1, partition="k=a")
    with client.snapshot(["default.p"]) as reader:
        assert len(table.read(reader, "k=a")) == 1
    metadata = f"{table.place('k=a')}/base_0000002/_metadata_acid"
    assert fs.read_text(metadata) == '{"thisFileVersion":"0","dataFormat":"dropped"}'
    assert not [entry for entry in fs.list_files(table.location) if entry.name.startswith("_tmp_")]
    table.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert sorted(entry.name for entry in fs.list_files(table.place("k=a"))) == [
        "base_0000002", "delta_0000003_0000003_0000",
    ]  # fmt: skip


@pytest.mark.rule("R4")
def test_a_drop_that_was_reaped_hides_nothing(
    client: MetastoreClient, fs: Filesystem, files: WarehouseFiles, make_table: Callable[..., Any], monkeypatch: Any
) -> None:
    """
    t1  A drops k=a: its base lies in the partition, under a write id nobody sees
    t2            the reaper aborts A's txn
    t3  A commits: refused; every row is still there
    t4            the reaper fences A, and the base is among what the Cleaner removes before it forgets the txn
    """
    table = make_table("default.p", "k")
    table.insert(2, partition="k=a")
    hide = files.hide

    def reaped(txn_id: int, *rest: Any) -> None:
        hide(txn_id, *rest)
        client.abort_txn(txn_id, "heartbeat time-out")

    monkeypatch.setattr(files, "hide", reaped)
    with pytest.raises(Exception, match="heartbeat time-out"):
        client.catalog.drop_partitions("default.p", ["k=a"], files=files)
    assert client.compactions.find_ready_to_clean() == []
    with client.snapshot(["default.p"]) as reader:
        assert len(table.read(reader, "k=a")) == 2
    aborted = client.compactions.find_aborts_to_clean(1, 0)
    assert [str(writes.resource) for writes in aborted] == ["default.p partition k=a"]
    run_reaper(client, fs)
    assert client.jobs.to_fence() == []
    with pytest.raises(Exception, match="publishes nothing: it is fenced"):
        client.jobs.record_manifest(jobs_of(client, "default.p")[0].job_id, {})


def test_writers_of_the_partition_are_waited_for_and_readers_are_not(
    client: MetastoreClient, files: WarehouseFiles, make_table: Callable[..., Any], monkeypatch: Any
) -> None:
    table = make_table("default.p", "k")
    table.insert(partition="k=a")
    asked: list[LockComponent] = []
    lock = client.lock

    def note(components: Any, **rest: Any) -> Any:
        asked.extend(components)
        return lock(components, **rest)

    monkeypatch.setattr(client, "lock", note)
    client.catalog.drop_partitions("default.p", ["k=a"], files=files)
    assert asked == [LockComponent("default", "p", "k=a", LockType.EXCL_WRITE, Operation.DELETE)]


def test_what_cannot_be_dropped_is_refused_as_a_whole(
    client: MetastoreClient, files: WarehouseFiles, make_table: Callable[..., Any]
) -> None:
    make_table("default.p", "k").insert(partition="k=a")
    make_table("default.t")
    txns = len(client.show_transactions(include_committed=True))
    with pytest.raises(NoSuchObjectError, match="has no partition k=z; nothing was dropped"):
        client.catalog.drop_partitions("default.p", ["k=a", "k=z"], files=files)
    with pytest.raises(InvalidArgumentsError, match="is not partitioned"):
        client.catalog.drop_partitions("default.t", ["k=a"], files=files)
    assert client.catalog.drop_partitions("default.p", ["k=z"], files=files, if_exists=True) == []
    assert len(client.show_transactions(include_committed=True)) == txns
    assert len(client.catalog.drop_partitions("default.p", ["k=a", "k=z"], files=files, if_exists=True)) == 1


def test_the_directory_of_a_managed_table_moves_with_its_name(
    client: MetastoreClient, fs: Filesystem, files: WarehouseFiles, make_table: Callable[..., Any], warehouse: str
) -> None:
    table = make_table("default.p", "k")
    table.insert(2, partition="k=a")
    old = table.location
    client.catalog.create_database("d")
    renamed = client.catalog.rename_table("default.p", "d.q", files=files)
    assert renamed.location == f"{client.catalog.get_database('d').managed_location}/q"
    assert client.catalog.get_partition("d.q", "k=a").location == f"{renamed.location}/k=a"
    assert not fs.exists(old)
    table.name = "d.q"
    part = client.catalog.rename_partition("d.q", "k=a", "k=b", files=files)
    assert part.location == f"{renamed.location}/k=b"
    table.insert(1, partition="k=b")
    with client.snapshot(["d.q"]) as reader:
        assert len(table.read(reader, "k=b")) == 3


def test_a_rename_that_fails_leaves_table_and_directory_where_they_were(
    client: MetastoreClient, fs: Filesystem, files: WarehouseFiles, make_table: Callable[..., Any], monkeypatch: Any
) -> None:
    table = make_table("default.t")
    table.insert(2)
    before = client.catalog.get_table("default.t")
    taken = before.location.removesuffix("t") + "u"
    fs.make_directory(taken)
    with pytest.raises(AlreadyExistsError, match="where there are files already"):
        client.catalog.rename_table("default.t", "default.u", files=files)
    fs.delete(taken, inside=taken.rpartition("/")[0])
    with monkeypatch.context() as patch:
        patch.setattr("airflow_hive_acid.metastore.statements.tables.rename_table_rows", _fail)
        with pytest.raises(RuntimeError, match="half way"):
            client.catalog.rename_table("default.t", "default.u", files=files)
    assert client.catalog.get_table("default.t") == before
    assert not fs.exists(taken)
    with client.snapshot(["default.t"]) as reader:
        assert len(table.read(reader)) == 2


def _fail(*_: Any) -> None:
    raise RuntimeError("half way")


@pytest.mark.rule("R4")
def test_jobs_left_over_are_fenced_before_anything_is_renamed_or_dropped(
    client: MetastoreClient, fs: Filesystem, files: WarehouseFiles, make_table: Callable[..., Any], monkeypatch: Any
) -> None:
    table = make_table("default.p", "k")
    table.insert(partition="k=a")
    table.insert(partition="k=b")

    def orphan(job_id: str, *, publishing: bool = False) -> None:
        txn = table.begin()
        staging = f"{table.location}/_tmp_{job_id}"
        client.jobs.start(job_id=job_id, txn_id=txn.txn_id, table=table.name, write_id=txn.write_ids[table.name],
                          statement=0, kind="insert", table_location=table.location, staging=staging)  # fmt: skip
        fs.make_directory(f"{staging}/data/delta_9")
        if publishing:
            client.jobs.record_manifest(job_id, {"directories": []})
        txn.abort("its worker was lost")

    orphan("j1")
    client.catalog.drop_partitions("default.p", ["k=a"], files=files)
    orphan("j2")
    client.catalog.rename_partition("default.p", "k=b", "k=c", files=files)
    orphan("j3")
    client.catalog.rename_table("default.p", "default.q", files=files)
    assert [client.jobs.get(j).state for j in ("j1", "j2", "j3")] == [JobState.FENCED] * 3
    assert client.jobs.get("j3").table == "default.q"
    table.name = "default.q"
    monkeypatch.setattr(fs, "can_fence", lambda _: False)
    orphan("j4", publishing=True)
    with pytest.raises(JobsAliveError, match="it was publishing; its staging is removed"):
        client.catalog.drop_partitions("default.q", ["k=c"], files=files)
    assert [p.name for p in client.catalog.list_partitions("default.q")] == ["k=c"]


@pytest.mark.rule("R4")
def test_partitions_are_changed_while_others_are_written_and_compacted(
    client: MetastoreClient, files: WarehouseFiles, make_table: Callable[..., Any]
) -> None:
    """Jobs of open txns with locks on other partitions are in nobody's way, nor are compactions.

    t1  A inserts into k=b, B compacts k=a, C drops k=d: each has a job under way
    t2          k=a is dropped, k=c is renamed
    t3  D may write anywhere, under a lock that does not keep out a drop: that is refused until D has ended
    """
    table = make_table("default.p", "k")
    for partition in ("k=a", "k=b", "k=c", "k=d"):
        table.insert(partition=partition)
    txns = []

    def begin(job: str, kind: str, partition: str | None, lock: LockType, operation: Operation) -> None:
        txn_id = client.open_txn(type=TxnType.COMPACTION if kind == "compact" else TxnType.DEFAULT)
        component = LockComponent("default", "p", partition, lock, operation, dynamic_partitions=partition is None)
        assert client.lock([component], txn_id=txn_id).state is LockState.ACQUIRED
        client.jobs.start(job_id=job, txn_id=txn_id, table="default.p", write_id=None if kind == "compact" else 99,
                          statement=0, kind=kind, table_location=table.location,
                          staging=f"{table.location}/_tmp_{job}")  # fmt: skip
        txns.append(txn_id)

    begin("a", "insert", "k=b", LockType.SHARED_WRITE, Operation.INSERT)
    begin("b", "compact", "k=a", LockType.SHARED_READ, Operation.SELECT)
    begin("c", "drop", "k=d", LockType.EXCL_WRITE, Operation.DELETE)
    client.catalog.drop_partitions("default.p", ["k=a"], files=files)
    client.catalog.rename_partition("default.p", "k=c", "k=e", files=files)
    assert [p.name for p in client.catalog.list_partitions("default.p")] == ["k=b", "k=d", "k=e"]
    client.abort_txn(txns[2])
    client.jobs.mark_fenced("c", "a test")
    begin("d", "insert", None, LockType.SHARED_READ, Operation.INSERT)
    with pytest.raises(JobsAliveError, match=r"job d of txn \d+ may still write into default\.p: .* is open"):
        client.catalog.drop_partitions("default.p", ["k=e"], files=files)
    client.abort_txn(txns[3])
    client.abort_txn(txns[0])
    client.catalog.drop_partitions("default.p", ["k=e"], files=files)
    assert [client.jobs.get(job).state for job in ("a", "d")] == [JobState.FENCED] * 2
