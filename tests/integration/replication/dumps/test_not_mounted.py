"""A disk that is not mounted looks like a table without rows, and is not replicated as one (R17)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, update

from airflow_hive_acid.errors import WarehouseMissingError
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.replica.records import read_sync
from airflow_hive_acid.metastore.schema.hive_catalog import SDS, TBLS
from airflow_hive_acid.replication.acid.snapshot import source_state
from airflow_hive_acid.replication.acid.sync import sync_tables
from airflow_hive_acid.replication.acid.tables import drop_for_bootstrap, fence_syncs
from airflow_hive_acid.replication.dumps.drops import drop_partitions, drop_table
from airflow_hive_acid.replication.dumps.dump import Scope
from airflow_hive_acid.replication.dumps.empty_objects import open_exports
from airflow_hive_acid.replication.dumps.exports import export_table, open_export
from airflow_hive_acid.replication.dumps.imports import import_table
from tests.integration.replication import acid_world
from tests.integration.replication.dumps.exim import add_partition, contents, location, make_table, path_of, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from airflow_hive_acid.replication.site import Site

T = acid_world.T


@contextlib.contextmanager
def away(directory: Path, *, mount_point: bool = False) -> Iterator[None]:
    """A directory whose disk is not there; its mount point may be."""
    hidden = directory.with_name(f"{directory.name} of the disk")
    directory.rename(hidden)
    if mount_point:
        directory.mkdir()
    yield
    if mount_point:
        directory.rmdir()
    hidden.rename(directory)


def opened(site: Site, reader: str) -> AbstractContextManager[object]:
    if reader == "a sync":
        return source_state(site, [T])
    if reader == "many exports":
        return open_exports(site, {TableName("default", "t"): ()})
    return open_export(site, T, scope=Scope.ALL)


@pytest.mark.rule("R17")
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize(
    ("kind", "reader"),
    [("acid", "a sync"), ("acid", "an export"), ("plain", "an export"), ("plain", "many exports")],
)
def test_a_source_that_is_not_mounted_is_refused_and_read_when_it_is_back(
    primary: Site, kind: str, reader: str, partitioned: bool
) -> None:
    if kind == "acid":
        acid_world.create(primary, T, partitioned=partitioned)
        acid_world.write(primary, "a", partition="p=1" if partitioned else "")
    else:
        make_table(primary, "default.t", partitioned=partitioned)
        if partitioned:
            add_partition(primary, "ds=1", {"f": b"1\n"}, T)
        else:
            write(primary, location(primary, T), {"f": b"1\n"})
    with (
        away(path_of(location(primary, T))),
        pytest.raises(WarehouseMissingError, match=r"of default\.t is not there"),
        opened(primary, reader),
    ):
        pass
    with opened(primary, reader):
        pass


@pytest.mark.rule("R17")
def test_a_partition_that_was_never_written_is_none_that_is_away(primary: Site) -> None:
    acid_world.create(primary, T, partitioned=True)
    primary.client.catalog.add_partitions(T, ["p=1"])
    for reader in ("a sync", "an export"):
        with opened(primary, reader):
            pass


@pytest.mark.rule("R17")
@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("kind", ["table", "partition", "copy"])
def test_what_is_dropped_for_replication_stays_while_its_disk_is_away(
    primary: Site, replica: Site, tmp_path: Path, kind: str
) -> None:
    dropped = _replicated(primary, replica, tmp_path, kind)
    place = location(replica, T)
    home = path_of(replica.client.catalog.warehouse() or "")
    with away(home, mount_point=True):
        with pytest.raises(WarehouseMissingError, match="is not there"):
            dropped()
        assert list(home.iterdir()) == []
    assert contents(replica, place)
    dropped()
    assert not contents(replica, place)


@pytest.mark.rule("R17")
@pytest.mark.parametrize("kind", ["table", "partition", "copy"])
def test_files_that_a_hive_has_let_another_table_share_stay_when_one_is_dropped_for_replication(
    primary: Site, replica: Site, tmp_path: Path, kind: str
) -> None:
    dropped = _replicated(primary, replica, tmp_path, kind)
    place = location(replica, T, "ds=1" if kind == "partition" else None)
    acid_world.create(replica, "default.other")
    of_other = select(TBLS.c.SD_ID).where(TBLS.c.TBL_ID == replica.client.catalog.get_table("default.other").id)
    change = update(SDS).where(SDS.c.SD_ID.in_(of_other)).values(LOCATION=place)
    replica.client.database.run(lambda connection: connection.execute(change))
    before = contents(replica, place)
    dropped()
    assert contents(replica, place) == before != {}


def _replicated(primary: Site, replica: Site, tmp_path: Path, kind: str) -> Callable[[], object]:
    """A table that came by replication, and what drops it, or its partition, or drops it for a new copy."""
    if kind == "copy":
        acid_world.create(primary)
        acid_world.write(primary, "a")
        sync_tables(primary, replica, "p", [T])
        record = replica.client.database.read(lambda connection: read_sync(connection, "p"))
        assert record is not None
        attempt = record.attempt
        return lambda: drop_for_bootstrap(replica, replica.client.catalog.get_table(T), "p", attempt)
    make_table(primary, T, partitioned=kind == "partition")
    if kind == "partition":
        add_partition(primary, "ds=1", {"f": b"1"}, T)
    else:
        write(primary, location(primary, T), {"f": b"1"})
    dump = (tmp_path / "dump").as_uri()
    export_table(primary, T, dump, scope=Scope.ALL, event_id="1")
    import_table(replica, dump)
    if kind == "partition":
        return lambda: drop_partitions(replica, T, ["ds=1"], 10**6)
    return lambda: drop_table(replica, T, 10**6)


@pytest.mark.rule("R4", "R17")
@pytest.mark.parametrize("mount_point", [False, True])
def test_syncs_of_a_replica_that_is_not_mounted_do_not_count_as_fenced(
    primary: Site, replica: Site, mount_point: bool
) -> None:
    acid_world.create(primary)
    acid_world.write(primary, "a")
    sync_tables(primary, replica, "p", [T])
    table = replica.client.catalog.get_table(T)
    warehouse = path_of(replica.client.catalog.warehouse() or "")
    with away(warehouse, mount_point=mount_point), pytest.raises(WarehouseMissingError, match="is not there"):
        fence_syncs(replica, table, "taken over")
    acid_world.write(primary, "b")
    sync_tables(primary, replica, "p", [T])
    assert acid_world.rows(replica) == acid_world.rows(primary)
