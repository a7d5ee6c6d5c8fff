"""A disk that is not mounted looks like a table without rows, and is not replicated as one (R17)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import WarehouseMissingError
from airflow_hive_acid.metastore.objects import TableName
from airflow_hive_acid.replication.acid_snapshot import source_state
from airflow_hive_acid.replication.acid_sync import sync_tables
from airflow_hive_acid.replication.acid_tables import fence_syncs
from airflow_hive_acid.replication.dump import Scope
from airflow_hive_acid.replication.empty import open_exports
from airflow_hive_acid.replication.exporting import open_export

from . import acid_world
from .exim import add_partition, location, make_table, path_of, write

if TYPE_CHECKING:
    from collections.abc import Iterator
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
