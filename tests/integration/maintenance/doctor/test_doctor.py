"""The doctor on a live warehouse: what it finds, and that it changes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.maintenance.doctor.doctor import examine_metastore, examine_tables
from airflow_hive_acid.maintenance.doctor.rules import Check
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks import legacy_lock_manager
from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    HIVE_ACID_JOB,
    HIVE_ACID_LEGACY_LOCK,
    HIVE_LOCKS,
    TXNS,
)
from airflow_hive_acid.metastore.txns.statistics import RowChange, count_rows
from airflow_hive_acid.settings import Settings, Source
from airflow_hive_acid.settings_table import DUMMY_TXN_MANAGER
from tests import orc_footers

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem


def test_a_sound_warehouse_has_no_findings(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    table, parted = make_table("default.t"), make_table("default.p", "day")
    table.insert()
    table.delete()
    table.abort()
    parted.insert(partition="day=1")
    for made in (table, parted):
        for file in local(made.location).rglob("bucket_*"):
            file.write_bytes(orc(1, 0, 0))
    with client.transaction({"default.t": "insert"}):
        timeout = client.settings.milliseconds("hive.txn.timeout")
        assert examine_metastore(client, timeout) == []
        assert list(examine_tables(client, fs)) == []


def test_what_ended_owners_have_left_is_found(client: MetastoreClient, make_table: Callable[..., Any]) -> None:
    make_table("default.t")
    silent, ghost = client.open_txns(2)
    client.lock([LockComponent("default", "t", None, LockType.SHARED_READ, Operation.SELECT)], txn_id=ghost)
    free = client.lock([LockComponent("default", "t", None, LockType.SHARED_READ, Operation.NO_TXN)]).lock_id
    client.compactions.enqueue("default.t")
    assert client.compactions.claim("host2-7") is not None
    with client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_ID == silent).values(TXN_LAST_HEARTBEAT=1))
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_ID == ghost).values(TXN_STATE="c"))
        connection.execute(sa.update(COMPACTION_QUEUE).values(CQ_TXN_ID=ghost))
        connection.execute(sa.update(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_LOCK_EXT_ID == free).values(HL_LAST_HEARTBEAT=1))
    found = {f.check: f for f in examine_metastore(client, client.settings.milliseconds("hive.txn.timeout"))}
    assert set(found) == {Check.SILENT_TXN, Check.GHOST_LOCK, Check.SILENT_LOCK, Check.DEAD_COMPACTION}
    assert found[Check.SILENT_TXN].place == f"txn {silent}"
    assert f"txn {ghost}, which is not open" in found[Check.GHOST_LOCK].text
    assert found[Check.SILENT_LOCK].place.startswith(f"lock {free}.1 on default.t")


def set_count(client: MetastoreClient, rows: int, partition: str = "") -> None:
    """What the writers of ``default.t`` have counted."""
    table_id = client.catalog.get_table("default.t").id
    with client.database.transaction() as connection:
        count_rows(connection, table_id, {partition: RowChange(rows, replaced=True)}, [partition] if partition else ())


def local(uri: str) -> Path:
    return Path(uri.removeprefix("file:").replace("//", "/"))


def orc(*counts: int) -> bytes:
    """The end of an ORC file whose writer noted so many inserts, updates and deletes."""
    name, value = b"hive.acid.stats", ",".join(map(str, counts)).encode()
    item = b"\x0a" + bytes([len(name)]) + name + b"\x12" + bytes([len(value)]) + value
    footer = b"\x2a" + bytes([len(item)]) + item
    postscript = b"\x08" + bytes([len(footer)]) + b"\x10\x00\x82\xf4\x03\x03ORC"
    return b"ORC" + footer + postscript + bytes([len(postscript)])


@pytest.mark.parametrize("empty", [b"", orc(0, 0, 0)], ids=["no bytes", "no events"])
def test_tables_that_hive_wrote_are_judged_by_the_ids_the_metastore_has_given(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], golden: Callable[..., Any], empty: bytes
) -> None:
    """Hive's own files: unknown until their write ids are given, and those of an older Hive without version files."""
    table = make_table("default.t")
    place = local(table.location)
    for directory in golden("unpart_dml", "3_delete").root.iterdir():
        shutil.copytree(directory, place / directory.name)
    names = sorted(d.name for d in place.iterdir() if d.is_dir())
    found = list(examine_tables(client, fs, ["default.t"]))
    assert {f.check for f in found} == {Check.UNKNOWN_DIRECTORY}
    assert sorted(f.place.rsplit("/", 1)[-1] for f in found) == names
    client.seed_write_id("default.t", 20)
    set_count(client, 4)
    assert list(examine_tables(client, fs)) == []
    before = sorted(str(path) for path in place.rglob("*"))
    (delete_delta,) = [name for name in names if name.startswith("delete_delta") and name.endswith("_0000")][:1]
    for path in place.glob("delta_*/_orc_acid_version"):
        path.unlink()
    # Hive's footers count inserts alone, so that nothing of it needs a compaction.
    assert list(examine_tables(client, fs)) == []
    for path in (place / delete_delta).glob("bucket_*"):
        path.write_bytes(empty)
    (data, *_) = sorted(place.glob("delta_*/bucket_*"))
    whole = data.read_bytes()
    found = []
    for contents, said in ((orc(5, 1, 0), "holds update or delete events"), (whole[:-1], "is unknown")):
        data.write_bytes(contents)
        found = list(examine_tables(client, fs))
        damaged = {f.place.rpartition("/")[0] for f in found if f.check is Check.DAMAGED_FILE}
        cut = {f"{table.location}/{data.parent.name}"} if contents == whole[:-1] else set()
        assert damaged == cut | (set() if empty else {f"{table.location}/{delete_delta}"})
        assert {f.check for f in found} - {Check.DAMAGED_FILE, Check.ROWS} == {
            Check.OLD_UPDATES,
            Check.EMPTY_DELETE_DELTA,
        }
        assert [said in f.text for f in found if f.check is Check.OLD_UPDATES] == [True]
    assert [f.place for f in found if f.check is Check.EMPTY_DELETE_DELTA] == [f"{table.location}/{delete_delta}"]
    assert [path for path in before if not path.endswith("_orc_acid_version") and not Path(path).exists()] == []


def _no_bytes(file: Path) -> None:
    file.write_bytes(b"")


def _three_bytes(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:3])


def _without_its_end(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def _lying_footer(file: Path) -> None:
    orc_footers.lie(file, orc_footers.ROWS, 77)


def _lying_stripe(file: Path) -> None:
    orc_footers.lie(file, orc_footers.STRIPE, 77)


def _lying_statistics(file: Path) -> None:
    orc_footers.lie(file, orc_footers.STATISTICS, 77)


DAMAGES = (_no_bytes, _three_bytes, _without_its_end, _lying_footer, _lying_stripe, _lying_statistics, Path.unlink)


@pytest.mark.parametrize("kind", ["delta", "delete_delta", "compacted"])
def test_damage_to_a_file_of_hives_is_found_and_named(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], golden: Callable[..., Any], kind: str
) -> None:
    table = make_table("default.t")
    place = local(table.location)
    stage = ("minor_major", "7_major_cleaned") if kind == "compacted" else ("unpart_dml", "3_delete")
    client.seed_write_id("default.t", 20)
    set_count(client, 5 if kind == "compacted" else 4)
    for txn in client.open_txns(60):
        client.commit_txn(txn)
    pattern = "base_*_v*" if kind == "compacted" else f"{kind}_*"
    for damage in (None, *DAMAGES):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(golden(*stage).root, place)
        if damage is None:
            assert list(examine_tables(client, fs)) == []
            continue
        file = sorted(place.glob(f"{pattern}/bucket_*"))[0]
        damage(file)
        findings = list(examine_tables(client, fs))
        checks = {f.check: f for f in findings}
        found = [f.place for f in findings if f.check is Check.DAMAGED_FILE]
        where = f"{table.location}/{file.parent.name}"
        if damage is not Path.unlink:
            assert found == [f"{where}/{file.name}"], damage
        elif kind == "compacted" or any(file.parent.glob("bucket_*")):
            assert found == [], "a bucket without rows may have no file"
            assert "the files hold 0" in checks[Check.ROWS].text, "but the catalog has counted its rows"
        else:
            assert found == [where]


def test_what_is_gone_as_a_whole_is_known_by_the_rows_that_were_counted(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], golden: Callable[..., Any]
) -> None:
    """A directory that nothing names any more, in a table or a partition; not while a writer is at it."""
    make_table("default.t", "day")
    client.seed_write_id("default.t", 20)
    client.catalog.add_partitions("default.t", ["day=1"])
    place = local(client.catalog.get_partition("default.t", "day=1").location)
    shutil.copytree(golden("unpart_dml", "3_delete").root, place, dirs_exist_ok=True)
    set_count(client, 4, "day=1")
    assert list(examine_tables(client, fs)) == []
    inserts, deletes = place / "delta_0000001_0000001_0000", place / "delete_delta_0000004_0000004_0000"
    for directory, said in ((inserts, "files with inserted rows"), (deletes, "deleted rows are back")):
        kept = shutil.move(directory, place.parent.parent / directory.name)
        (found,) = examine_tables(client, fs)
        assert (found.check, found.place) == (Check.ROWS, f"file:{place}")
        assert said in found.text
        with client.transaction({"default.t": "insert"}, partitioned=["default.t"]) as txn:
            assert list(examine_tables(client, fs)) == []
            txn.add_partitions("default.t", [])
        shutil.move(kept, directory)
    assert list(examine_tables(client, fs)) == []


def test_the_exit_code_tells_whether_something_was_found(
    client: MetastoreClient, make_table: Callable[..., Any], metastore_url: str, tmp_path: Path
) -> None:
    table = make_table("default.t")
    site = tmp_path / "hive-site.xml"
    timeout = "<property><name>hive.txn.timeout</name><value>300s</value></property>"
    site.write_text(f"<configuration>{timeout}</configuration>")

    def doctor(*arguments: str) -> Any:
        options = ["--metastore-url", metastore_url, "--hive-site", str(site), *arguments]
        return CliRunner().invoke(app, [*options, "doctor", "--format", "json"])

    done = doctor()
    assert (done.exit_code, done.stdout) == (0, "[]\n"), done.output
    table.directory("delta_0000009_0000009_0000")
    done = doctor()
    assert done.exit_code == 3
    assert [row["check"] for row in json.loads(done.stdout)] == ["directory no txn knows"]
    done = doctor("--set", "hive.txn.timeout=60s")
    assert [row["check"] for row in json.loads(done.stdout)] == ["time-outs differ", "directory no txn knows"]


def test_files_of_a_dropped_table_that_could_not_be_deleted_are_said_found_and_finished(
    client: MetastoreClient,
    make_table: Callable[..., Any],
    metastore_url: str,
    warehouse: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table is gone with the commit; its files are out of the way, and whoever comes next deletes them."""
    table = make_table("default.t")
    table.insert()
    location = table.location
    timeout = client.settings.milliseconds("hive.txn.timeout")
    place = local(location)

    def drop(*arguments: str) -> Any:
        options = ["--metastore-url", metastore_url, "--warehouse", warehouse, *arguments]
        return CliRunner().invoke(app, options)

    def refuse(*_: Any) -> None:
        raise PermissionError("the disk says no")

    with monkeypatch.context() as patched:
        patched.setattr("airflow_hive_acid.maintenance.warehouse.ddl_files.finish", refuse)
        patched.setattr("airflow_hive_acid.maintenance.warehouse.fences.finish", refuse)
        done = drop("sql", "-e", "DROP TABLE default.t")
        assert done.exit_code == 0, done.output
        said = " ".join(done.stderr.split())
        assert f"note: files of {location} could not be deleted (PermissionError: the disk says no)" in said
        assert "hive-acid doctor --finish" in said
        failed = drop("doctor", "--finish", "--no-files", "--format", "json")
        assert "still cannot be deleted: PermissionError: the disk says no" in " ".join(failed.stderr.split())
    events = [entry.name for entry in place.parent.iterdir() if entry.name.startswith("_tmp_")]
    assert len(events) == 1
    assert not place.exists()
    assert [f.check for f in examine_metastore(client, timeout)] == []  # its own process may be at it
    with client.database.transaction() as connection:
        connection.execute(sa.update(HIVE_ACID_JOB).values(HAJ_UPDATED=HIVE_ACID_JOB.c.HAJ_UPDATED - 61_000))
    (finding,) = examine_metastore(client, timeout)
    assert finding.check is Check.UNDELETED
    assert f"{finding.place}".endswith(events[0])
    assert "hive-acid doctor --finish" in finding.repair
    finished = drop("doctor", "--finish", "--format", "json")
    assert "of default.t is deleted" in finished.stderr
    # On a server the doctor cannot see the time-out of a Hive that shares it, and says so.
    assert {row["check"] for row in json.loads(finished.stdout)} <= {Check.TIMEOUT.value}, finished.output
    assert not [entry for entry in place.parent.iterdir() if entry.name.startswith("_tmp_")]
    assert "nothing is left to delete" in drop("doctor", "--finish", "--no-files").stderr


def test_locks_of_the_hive_concurrency_model_are_looked_at(client: MetastoreClient, metastore_url: str) -> None:
    dummy = Settings({Source.CONNECTION: {"hive.txn.manager": DUMMY_TXN_MANAGER}})
    manager = legacy_lock_manager(client.database, dummy)
    part = LockComponent("default", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN, transactional=False)
    manager.lock(LockRequest((part,), "ann", "host", agent_info="a writer"))
    timeout = client.settings.milliseconds("hive.txn.timeout")
    (other,) = examine_metastore(client, timeout)
    assert other.check is Check.OTHER_MANAGER
    assert "(1 of them, the first is ann@host's)" in other.text
    with MetastoreClient(metastore_url, dummy) as legacy:
        assert examine_metastore(legacy, timeout) == []
        with client.database.transaction() as connection:
            connection.execute(sa.update(HIVE_ACID_LEGACY_LOCK).values(HLL_HEARTBEAT=1))
        (silent,) = examine_metastore(legacy, timeout)
    assert silent.check is Check.SILENT_LOCK
    assert silent.place.endswith("on default.t")
    assert "a writer's" in silent.text
