"""A storage that does not answer is not one without files (R17, R4): every actor x everything a name node can say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from airflow_hive_acid.errors import HiveAcidError, StorageUnavailableError
from airflow_hive_acid.filesystem import Filesystem, open_filesystem
from airflow_hive_acid.filesystem.plain_publishing import MovedFile, PlainManifest, undo, undo_fenced
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.names import DROP_MARK
from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.maintenance.cleaner.trash import purge_trash
from airflow_hive_acid.maintenance.cleaner.undo import restore_into
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.maintenance.warehouse.fences import fence_jobs_of
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.trash_records import Trashed
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.replication.acid.tables import create_like, fence_syncs, staging_of_syncs
from airflow_hive_acid.replication.dumps import dropped_directories
from airflow_hive_acid.replication.site import Site
from airflow_hive_acid.settings import Settings, Source
from tests.integration.maintenance.conftest import FAST, FakeTable
from tests.unit.filesystem.name_node import AUTHORITY, FAILURES, NameNode, name_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.rule("R17"), pytest.mark.rule("R4")]

WAREHOUSE = f"hdfs://{AUTHORITY}/wh"


class World:
    """A warehouse on the stand-in with everything that maintenance may decide about."""

    def __init__(self, client: MetastoreClient, node: NameNode) -> None:
        self.client, self.node = client, node
        self.fs: Any = open_filesystem(WAREHOUSE)
        made = client.catalog.create_table(
            TableDefinition(
                "default", "t", (Column("line", "string"),), properties={"transactional": "true"},
            )
        )  # fmt: skip
        self.location = made.location
        self.fs.make_directory(self.location)
        self.table = FakeTable(client, self.fs, "default.t", False)
        self.table.insert(lines=2)
        txn = self.table.begin()
        self.table.put(txn, 3)
        self.staging = f"{self.location}/_tmp_j1"
        client.jobs.start(
            job_id="j1", txn_id=txn.txn_id, table="default.t", write_id=txn.write_ids["default.t"], statement=0,
            kind="insert", table_location=self.location, staging=self.staging,
        )  # fmt: skip
        self.fs.make_directory(f"{self.staging}/data")
        txn.abort("its task was killed")
        self.txn_id = txn.txn_id
        self.fs.write_text(f"{self.location}/{DROP_MARK}", "dropped\n")
        self.fs.make_directory(f"{self.location}/_tmp_repl-1")
        self.trash = f"{WAREHOUSE}/.trash"
        self.fs.write_text(f"{self.trash}/default.t/b1/delta_1", "x")
        resource = _resource(client)
        item = Trashed(
            "", "b1", 1, resource, f"{self.location}/delta_1", self.trash, f"{self.trash}/default.t/b1/delta_1", 1
        )
        client.trash.add([item])
        self.files = WarehouseFiles(client, self.fs)
        self.site = Site(client, self.fs)
        moved = MovedFile("", self.location, "000000_0_copy_9", 1)
        self.plain = PlainManifest("default.t", "j9", (moved,), (f"{self.location}/000000_0",))

    @property
    def stored(self) -> object:
        table = self.client.catalog.get_table("default.t")
        return (
            self.node.tree(),
            [(job.job_id, job.state) for job in self.client.jobs.of_txn(self.txn_id)],
            sorted(txn.txn_id for txn in self.client.show_transactions()),
            len(self.client.trash.batch("b1")),
            table.location,
            self.client.catalog.list_tables("default"),
        )


def _resource(client: MetastoreClient) -> Any:
    from airflow_hive_acid.metastore.compaction.model import Resource

    return Resource("default", "t", None)


def _move(world: World, source: str) -> None:
    with world.files.moving(world.txn_id, table_name("default.t"), [(source, f"{world.location}_new")]):
        raise AssertionError("it was moved")


RAISES: dict[str, Callable[[World], object]] = {
    "DDL: move": lambda w: _move(w, w.location),
    "DDL: move of what is not there": lambda w: _move(w, f"{w.location}_x"),
    "plain: undo": lambda w: undo(w.fs, f"{w.staging}.undo", w.plain, w.location),
    "plain: undo_fenced": lambda w: undo_fenced(w.fs, w.staging, w.plain, w.location, "note"),
    "trash: restore": lambda w: restore_into(w.client, w.fs, "b1", f"{WAREHOUSE}/restored"),
    "replication: bury": lambda w: dropped_directories.bury(w.site, w.location, "default.t"),
    "replication: mark": lambda w: dropped_directories.mark_dropped(w.site, w.location, "note"),
    "replication: unmark": lambda w: dropped_directories.unmark(w.site, w.location),
    "replication: remove": lambda w: dropped_directories.remove_dropped(w.site, w.location, "default.t"),
    "replication: staging": lambda w: staging_of_syncs(w.site, w.client.catalog.get_table("default.t")),
    "replication: fence": lambda w: fence_syncs(w.site, w.client.catalog.get_table("default.t"), "note"),
    "replication: create": lambda w: create_like(w.site, w.client.catalog.get_table("default.t"), "default.copy"),
}
"""Who says so with an error."""


def _kept_by_fences(world: World) -> None:
    report = fence_jobs_of(world.client, world.fs, [world.txn_id], "a test")
    assert [job.job_id for job, _ in report.alive] == ["j1"]
    with pytest.raises(HiveAcidError, match="may still write"):
        world.files.fence(world.client.jobs.of_txn(world.txn_id))


def _kept_by_reaper(world: World) -> None:
    assert [job.job_id for job, _ in run_reaper(world.client, world.fs).alive] == ["j1"]


def _kept_by_trash(world: World) -> None:
    assert purge_trash(world.client, world.fs, age_ms=0) == 0


GO_ON: dict[str, Callable[[World], object]] = {
    "fences": _kept_by_fences,
    "reaper": _kept_by_reaper,
    "trash: purge": _kept_by_trash,
    "Cleaner": lambda w: run_cleaner(w.client, w.fs),
}
"""Who does the rest of its work and says what stays undone."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with name_node(tmp_path / "hdfs") as node:
        conf = {"user": "hive", "namenodes": {AUTHORITY: f"127.0.0.1:{node.port}"}}
        monkeypatch.setitem(fsspec.config.conf, "webhdfs", conf)
        settings = Settings({Source.CONNECTION: FAST})
        with MetastoreClient(f"sqlite:///{tmp_path}/m.db", settings, user="ann") as client:
            client.create_schema()
            client.catalog.set_warehouse(WAREHOUSE)
            client.catalog.create_database("default", if_not_exists=True)
            yield World(client, node)


def test_nothing_is_concluded_while_a_name_node_does_not_answer(world: World) -> None:
    """t1  an aborted txn has a job and a delta; t2  the name node fails; t3  everybody acts; t4  it answers again.

    At t4 all is as it was: no job fenced, no txn forgotten, nothing moved, hidden or deleted.
    """
    before = world.stored
    for failure in FAILURES:
        with world.node.failing(failure):
            for name, act in RAISES.items():
                with pytest.raises(StorageUnavailableError):
                    act(world)
                assert world.stored == before, (name, failure)
            for name, act in GO_ON.items():
                act(world)
                assert world.stored == before, (name, failure)
    report = run_reaper(world.client, world.fs)
    assert not report.alive
    assert world.fs.read_text(world.staging).startswith("job j1")


def test_a_dropped_partition_is_not_left_unhidden_because_nobody_answered(world: World) -> None:
    """The base that hides it is put where the partition is; "it is not there" has to be an answer."""
    fs: Filesystem = world.fs
    made = world.client.catalog.create_table(
        TableDefinition(
            "default", "p", (Column("line", "string"),), (Column("ds", "string"),),
            properties={"transactional": "true"},
        )
    )  # fmt: skip
    fs.make_directory(f"{made.location}/ds=1")
    world.client.catalog.add_partitions("default.p", [{"ds": "1"}])
    [partition] = world.client.catalog.find_partitions("default.p", ["ds=1"]).values()
    txn = world.client.begin({"default.p": "delete"}, partitioned=["default.p"])
    write_id = txn.write_ids["default.p"]
    for failure in FAILURES:
        with world.node.failing(failure), pytest.raises(StorageUnavailableError):
            world.files.hide(txn.txn_id, write_id, made, [partition])
    world.files.hide(txn.txn_id, write_id, made, [partition])
    txn.abort("a test")
    assert fs.exists(f"{made.location}/ds=1/base_0000001/_metadata_acid")
