"""A warehouse that is not there is not an empty one (R17): who acts x how it is absent x kind of table."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import CorruptTableError, HiveAcidError, WarehouseMissingError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.filesystem.plain_publishing import MovedFile, PlainManifest
from airflow_hive_acid.format.jobs import Column, PartitionRef, TableSnapshot
from airflow_hive_acid.format.names import PLACE_MARKER
from airflow_hive_acid.maintenance import run_cleaner, run_initiator, run_reaper, run_worker
from airflow_hive_acid.maintenance.doctor.doctor import examine_tables
from airflow_hive_acid.maintenance.doctor.rules import Check
from airflow_hive_acid.maintenance.warehouse.fences import fence_jobs_of
from airflow_hive_acid.maintenance.warehouse.places import Places, Verdict, judge
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.txns.jobs import JobState
from airflow_hive_acid.settings import Settings, Source
from airflow_hive_acid.spark.hadoop import Entry
from airflow_hive_acid.spark.read.files import list_partitions
from tests.integration.engine.conftest import FakeSpark
from tests.integration.maintenance.conftest import FAST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.rule("R17")

KINDS = {
    "acid": "CREATE TABLE w.t (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')",
    "insert-only": "CREATE TABLE w.t (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true', "
    "'transactional_properties'='insert_only')",
    "partitioned": "CREATE TABLE w.t (a INT) PARTITIONED BY (p INT) STORED AS ORC "
    "TBLPROPERTIES ('transactional'='true')",
    "plain partitioned": "CREATE TABLE w.t (a INT) PARTITIONED BY (p INT) STORED AS ORC "
    "TBLPROPERTIES ('transactional'='false')",
    "plain": "CREATE TABLE w.t (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')",
    "external": "CREATE EXTERNAL TABLE w.t (a INT) STORED AS ORC TBLPROPERTIES ('external.table.purge'='true')",
}
STATES = ("gone", "mount point", "another disk", "unreadable")


class World:
    """A warehouse with one table, committed rows in it, and a dead job on it."""

    def __init__(self, client: MetastoreClient, kind: str, root: Path) -> None:
        self.client, self.root, self.fs = client, root, AnyFilesystem()
        self.partitioned = "partitioned" in kind
        self.path = root / "wh"
        self.path.mkdir()
        self.fake: Any = FakeSpark()
        self.engine = Engine(client, self.fake, self.path.as_uri(), agent_info="tests")
        self.engine.run(f"CREATE DATABASE w; {KINDS[kind]}")
        self.location = client.catalog.get_table("w.t").location
        insert = "INSERT INTO w.t PARTITION (p=1) VALUES (1)" if self.partitioned else "INSERT INTO w.t VALUES (1)"
        for _ in range(2):
            self.engine.run(insert)
        self.txn_id = client.open_txn()
        plain = kind in ("plain", "external", "plain partitioned")
        client.jobs.start(
            job_id="j1", txn_id=self.txn_id, table="w.t", write_id=None if plain else 9, statement=0, kind="insert",
            table_location=self.location, staging=f"{self.location}/_tmp_j1",
        )  # fmt: skip
        self.fs.make_directory(f"{self.location}/_tmp_j1/data")
        if plain:  # it was about to move a file, so that fencing it means to undo that
            moved = MovedFile("", self.location, "000000_0_copy_9", 1)
            client.jobs.record_manifest("j1", PlainManifest("w.t", "j1", (moved,)).to_document())
        client.abort_txn(self.txn_id)

    def take_away(self, state: str) -> None:
        self.path.rename(self.root / "elsewhere")
        if state in ("mount point", "another disk"):
            self.path.mkdir()
        if state == "another disk":
            shutil.copytree(self.root / "elsewhere", self.path, dirs_exist_ok=True)
            shutil.rmtree(next(self.path.rglob("_tmp_j1")))
            (self.path / PLACE_MARKER).write_text('{"id": "another"}')
        if state == "unreadable":
            self.path.symlink_to(self.path)  # whatever is asked for behind it fails, for root as well

    def bring_back(self) -> None:
        if self.path.is_symlink():
            self.path.unlink()
        shutil.rmtree(self.path, ignore_errors=True)
        (self.root / "elsewhere").rename(self.path)

    def stored(self) -> object:
        jobs = [(job.job_id, job.state) for job in self.client.jobs.of_txn(self.txn_id)]
        there = [t.txn_id for t in self.client.show_transactions() if t.txn_id == self.txn_id]
        return jobs, there, self.client.catalog.list_tables("w"), files(self.path)


def files(path: Path) -> object:
    return None if path.is_symlink() or not path.exists() else sorted(str(p.relative_to(path)) for p in path.rglob("*"))


class LocalHadoop:
    """As much of Hadoop's file system as a listing needs."""

    def qualify(self, uri: str) -> str:
        return uri

    def exists(self, uri: str) -> bool:
        return AnyFilesystem().exists(uri)

    def list_many(self, uris: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for uri in uris:
            try:
                found[uri] = [Entry(e.path, e.size, e.is_dir) for e in AnyFilesystem().list_files(uri)]
            except FileNotFoundError:
                found[uri] = None
        return found


def _reads(world: World) -> None:
    part = PartitionRef("p=1", f"{world.location}/p=1", ("1",)) if world.partitioned else None
    snapshot = TableSnapshot(
        "w.t", world.location, (Column("a", "int"),), (), (part or PartitionRef("", world.location),), "", ""
    )
    list_partitions(LocalHadoop(), snapshot)  # type: ignore[arg-type]


def _cleans(world: World) -> None:
    assert not [o for o in run_cleaner(world.client, world.fs) if o.removed]


def _reaps(world: World) -> None:
    assert [job.job_id for job, _ in run_reaper(world.client, world.fs).alive] == ["j1"]


def _fences(world: World) -> None:
    assert [job.job_id for job, _ in fence_jobs_of(world.client, world.fs, [world.txn_id], "a retry").alive] == ["j1"]


def _examines(world: World) -> None:
    try:
        found = list(examine_tables(world.client, world.fs))
    except OSError:
        return  # unreadable is an error of its own
    assert [finding.check for finding in found] == [Check.MISSING]


def _refuses(statement: str) -> Callable[[World], None]:
    def run(world: World) -> None:
        with pytest.raises((HiveAcidError, OSError)):
            world.engine.run(statement)

    return run


def _refuses_to_read(world: World) -> None:
    with pytest.raises((WarehouseMissingError, CorruptTableError, OSError)):
        _reads(world)


ACTORS: dict[str, Callable[[World], None]] = {
    "Cleaner": _cleans,
    "reaper": _reaps,
    "fence of a retry": _fences,
    "doctor": _examines,
    "reader": _refuses_to_read,
    "DROP TABLE": _refuses("DROP TABLE w.t"),
    "DROP DATABASE": _refuses("DROP DATABASE w CASCADE"),
    "TRUNCATE": _refuses("TRUNCATE TABLE w.t"),
    "INSERT": _refuses("INSERT INTO w.t VALUES (3)"),
    "RENAME TABLE": _refuses("ALTER TABLE w.t RENAME TO w.u"),
    "DROP PARTITION": _refuses("ALTER TABLE w.t DROP PARTITION (p=1)"),
    "RENAME PARTITION": _refuses("ALTER TABLE w.t PARTITION (p=1) RENAME TO PARTITION (p=2)"),
    "CREATE TABLE": _refuses("CREATE TABLE w.u (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"),
}
SEEN_ONLY_BY_THE_MARKER = {"reader", "TRUNCATE", "INSERT"}
"""On another warehouse's disk with the same tables these see nothing strange; what looks for absence does."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[MetastoreClient]:
    with MetastoreClient(f"sqlite:///{tmp_path}/m.db", Settings({Source.CONNECTION: FAST}), user="ann") as client:
        client.create_schema()
        yield client


@pytest.mark.parametrize("kind", KINDS)
def test_who_finds_nothing_in_a_warehouse_that_is_absent_concludes_nothing(
    kind: str, client: MetastoreClient, tmp_path: Path
) -> None:
    """t1  rows are committed, a job died; t2  the disk is away; t3  everybody acts; t4  it is back: all is there."""
    world = World(client, kind, tmp_path)
    rows = files(world.path)
    for state in STATES:
        world.take_away(state)
        before = world.stored()
        for name, act in ACTORS.items():
            if state == "another disk" and name in SEEN_ONLY_BY_THE_MARKER:
                continue
            if name == "INSERT" and world.partitioned:
                continue  # the same place as TRUNCATE
            if name.endswith(" PARTITION") and not world.partitioned:
                continue
            if name == "RENAME TABLE" and kind == "external":
                continue  # its files stay where they are
            act(world)
            assert world.stored() == before, (name, state)
        world.bring_back()
        assert files(world.path) == rows
    assert not run_reaper(client, world.fs).alive
    assert world.fs.read_text(f"{world.location}/_tmp_j1").startswith("job j1")


OWN_DISK = {
    "acid": "CREATE TABLE w.o (a INT) STORED AS ORC LOCATION '{disk}' TBLPROPERTIES ('transactional'='true')",
    "partitioned": "CREATE TABLE w.o (a INT) PARTITIONED BY (p INT) STORED AS ORC LOCATION '{disk}' "
    "TBLPROPERTIES ('transactional'='true')",
}


@pytest.mark.parametrize("kind", OWN_DISK)
def test_a_table_on_a_disk_of_its_own_is_known_by_its_marker(
    kind: str, client: MetastoreClient, tmp_path: Path
) -> None:
    """Its directory is the mount point: without the disk it is there, and empty."""
    world, disk = World(client, "acid", tmp_path), tmp_path / "disk"
    world.engine.run(OWN_DISK[kind].format(disk=disk))
    insert = f"INSERT INTO w.o {'PARTITION (p=1) ' if kind == 'partitioned' else ''}VALUES (1)"
    world.engine.run(insert)
    world.fake.answer = [(1,)]
    world.engine.run("SELECT a FROM w.o")
    seen = world.fake.specs[-1].views[0].snapshot
    assert list_partitions(LocalHadoop(), seen) != [[]]  # type: ignore[arg-type]
    disk.rename(tmp_path / "the disk")
    disk.mkdir()
    with pytest.raises(WarehouseMissingError, match=f"it has no {PLACE_MARKER}"):
        list_partitions(LocalHadoop(), seen)  # type: ignore[arg-type]
    changes = ["DROP TABLE w.o", "TRUNCATE TABLE w.o", "ALTER TABLE w.o DROP PARTITION (p=1)"]
    for statement in (insert, *changes[: 3 if kind == "partitioned" else 2]):
        with pytest.raises(WarehouseMissingError, match=f"no {PLACE_MARKER} was found"):
            world.engine.run(statement)
        assert files(disk) == [], statement
    disk.rmdir()
    (tmp_path / "the disk").rename(disk)
    world.engine.run(insert)


def test_an_external_table_at_a_mount_point_is_known_by_a_marker_that_was_asked_for(
    client: MetastoreClient, tmp_path: Path
) -> None:
    world, disk = World(client, "acid", tmp_path), tmp_path / "disk"
    disk.mkdir()
    world.engine.run(f"CREATE EXTERNAL TABLE w.e (a INT) STORED AS ORC LOCATION '{disk}'")
    world.engine.run("INSERT INTO w.e VALUES (1)")
    assert not (disk / PLACE_MARKER).exists()
    Places(client, AnyFilesystem()).accept(disk.as_uri())
    world.engine.run("INSERT INTO w.e VALUES (2)")
    world.fake.answer = [(1,), (2,)]
    world.engine.run("SELECT a FROM w.e")
    seen = world.fake.specs[-1].views[0].snapshot
    assert list_partitions(LocalHadoop(), seen) != [[]]  # type: ignore[arg-type]
    disk.rename(tmp_path / "the disk")
    disk.mkdir()
    with pytest.raises(WarehouseMissingError, match=f"it has no {PLACE_MARKER}"):
        list_partitions(LocalHadoop(), seen)  # type: ignore[arg-type]
    for statement in ("INSERT INTO w.e VALUES (3)", "INSERT OVERWRITE TABLE w.e VALUES (3)"):
        with pytest.raises(WarehouseMissingError, match=f"no {PLACE_MARKER} was found"):
            world.engine.run(statement)
        assert files(disk) == [], statement
    disk.rmdir()
    (tmp_path / "the disk").rename(disk)
    world.engine.run("INSERT OVERWRITE TABLE w.e VALUES (3)")
    assert (disk / PLACE_MARKER).exists()
    world.engine.run("INSERT INTO w.e VALUES (4)")


@pytest.mark.parametrize("transactional", ["true", "false"])
def test_a_partition_on_a_disk_that_is_away_is_neither_made_anew_nor_forgotten(
    transactional: str, client: MetastoreClient, tmp_path: Path
) -> None:
    world, disk = World(client, "acid", tmp_path), tmp_path / "disk"
    properties = f"TBLPROPERTIES ('transactional'='{transactional}')"
    world.engine.run(f"CREATE TABLE w.o (a INT) PARTITIONED BY (p INT) STORED AS ORC {properties}")
    world.engine.run(f"ALTER TABLE w.o ADD PARTITION (p=1) LOCATION '{disk / 'p'}'")
    world.engine.run("INSERT INTO w.o PARTITION (p=1) VALUES (1)")
    disk.rename(tmp_path / "the disk")
    disk.mkdir()
    for statement in (
        "INSERT INTO w.o PARTITION (p=1) VALUES (1)", "ALTER TABLE w.o DROP PARTITION (p=1)", "DROP TABLE w.o",
        "DROP DATABASE w CASCADE",
    ):  # fmt: skip
        with pytest.raises(WarehouseMissingError, match=f"{disk}/p .*is not there"):
            world.engine.run(statement)
        assert files(disk) == [], statement
    assert [part.name for part in client.catalog.list_partitions("w.o")] == ["p=1"]


def test_an_external_table_that_is_purged_and_empty_can_be_dropped(client: MetastoreClient, tmp_path: Path) -> None:
    world = World(client, "acid", tmp_path)
    world.engine.run(
        f"CREATE EXTERNAL TABLE w.e (a INT) STORED AS ORC LOCATION '{tmp_path}/e' "
        "TBLPROPERTIES ('external.table.purge'='true'); DROP TABLE w.e"
    )
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize("state", ["gone", "mount point"])
def test_a_compaction_finds_no_table_and_is_not_done(state: str, client: MetastoreClient, tmp_path: Path) -> None:
    world = World(client, "acid", tmp_path)
    asked = client.compactions.enqueue("w.t", type=CompactionType.MAJOR)
    assert asked.accepted
    world.take_away(state)
    [outcome] = run_worker(client, world.fs, lambda spec: pytest.fail("no job is started"), "w1")
    assert "is not there" in outcome.reason
    assert all("is not there" in decision.reason for decision in run_initiator(client, world.fs))
    world.bring_back()


def test_a_warehouse_of_before_is_marked_when_it_holds_its_tables(client: MetastoreClient, tmp_path: Path) -> None:
    """An installation that has no markers yet: an empty mount point is not marked, the warehouse is."""
    world = World(client, "acid", tmp_path)
    (world.path / PLACE_MARKER).unlink()
    client.places.forget(world.path.as_uri().replace("file://", "file:"))
    world.take_away("mount point")
    with pytest.raises(WarehouseMissingError, match="none of its tables"):
        Places(client, world.fs).require("w", world.location)
    with pytest.raises(WarehouseMissingError, match="none of its tables"):
        world.engine.run("CREATE TABLE w.u (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    world.bring_back()
    Places(client, world.fs).require("w", world.location)
    assert (world.path / PLACE_MARKER).is_file()
    world.take_away("mount point")
    with pytest.raises(WarehouseMissingError, match=f"no {PLACE_MARKER} was found"):
        Places(client, world.fs).require("w", world.location)
    world.bring_back()


def test_a_restored_warehouse_is_accepted_by_command(client: MetastoreClient, tmp_path: Path) -> None:
    world = World(client, "acid", tmp_path)
    (world.path / PLACE_MARKER).unlink()
    places = Places(client, world.fs)
    with pytest.raises(WarehouseMissingError, match="--accept-place"):
        places.require("w", world.location)
    root = client.places.root_of("w", world.location)
    assert places.accept(root)
    places.require("w", world.location)


def test_a_metastore_without_the_table_of_places_knows_a_warehouse_by_its_tables(
    client: MetastoreClient, tmp_path: Path
) -> None:
    world = World(client, "acid", tmp_path)
    (world.path / PLACE_MARKER).unlink()
    with client.database.transaction() as connection:
        from airflow_hive_acid.metastore.schema.places import HIVE_ACID_PLACE

        HIVE_ACID_PLACE.drop(connection)
    client.database.forget_features()
    Places(client, world.fs).require("w", world.location)
    world.take_away("mount point")
    with pytest.raises(WarehouseMissingError):
        Places(client, world.fs).require("w", world.location)
    world.bring_back()


@pytest.mark.parametrize(
    ("marker", "record", "holds", "verdict"),
    [
        ("1", "1", False, Verdict.HERE),
        ("1", "1", True, Verdict.HERE),
        ("2", "1", True, Verdict.OTHER),
        ("2", "1", False, Verdict.OTHER),
        (None, "1", True, Verdict.MISSING),
        (None, "1", False, Verdict.MISSING),
        (None, None, True, Verdict.UNMARKED),
        (None, None, False, Verdict.MISSING),
        ("1", None, True, Verdict.ADOPTED),
        ("1", None, False, Verdict.OTHER),
    ],
)
def test_what_a_place_is(marker: str | None, record: str | None, holds: bool, verdict: Verdict) -> None:
    assert judge(marker, record, holds_tables=holds) is verdict


def mounted_by_the_proof(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The disk comes back when somebody who has found nothing looks for its place; returns the places looked for."""
    looked: list[str] = []
    original = Places.require

    def require(self: Places, database: str, location: str, **how: Any) -> str:
        if not looked and not world.path.joinpath("w.db").exists():
            world.bring_back()
            looked.append(location)
        return original(self, database, location, **how)

    monkeypatch.setattr(Places, "require", require)
    return looked


@pytest.mark.rule("R4")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("who", ["fence", "reaper", "Cleaner"])
def test_a_disk_that_is_mounted_between_the_look_and_its_proof_hides_nothing(
    client: MetastoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, who: str
) -> None:
    """The job counts as fenced only if its staging is a file: the dead driver wakes up and finds no directory."""
    world = World(client, kind, tmp_path)
    world.take_away("gone")
    looked = mounted_by_the_proof(world, monkeypatch)
    if who == "fence":
        fence_jobs_of(client, world.fs, [world.txn_id], "a retry")
    elif who == "reaper":
        run_reaper(client, world.fs)
    else:
        for _ in range(2):
            run_cleaner(client, world.fs)
    (job,) = client.jobs.of_txn(world.txn_id)
    staging = world.path / "w.db" / "t" / "_tmp_j1"
    assert looked or job.state is JobState.RUNNING or job.state is JobState.PUBLISHING
    assert staging.is_file() or job.state is not JobState.FENCED
    if who == "fence":
        assert job.state is JobState.FENCED
        assert staging.is_file()


def test_a_query_finds_a_partition_whose_disk_is_mounted_between_the_look_and_its_proof(
    client: MetastoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(client, "partitioned", tmp_path)
    part = PartitionRef("p=1", f"{world.location}/p=1", ("1",))
    snapshot = TableSnapshot("w.t", world.location, (Column("a", "int"),), (), (part,), "", "")
    (before,) = list_partitions(LocalHadoop(), snapshot)  # type: ignore[arg-type]
    assert before
    world.take_away("gone")
    original = LocalHadoop.exists

    def exists(self: LocalHadoop, uri: str) -> bool:
        if not world.path.exists():
            world.bring_back()
        return original(self, uri)

    monkeypatch.setattr(LocalHadoop, "exists", exists)
    assert list_partitions(LocalHadoop(), snapshot) == [before]  # type: ignore[arg-type]
