"""ACID tables in whole cycles of a policy: DDL of the primary between syncs, fail-over and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import ReplicationGapError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.replication.cycles.cycle import event_source, replicate
from airflow_hive_acid.replication.policies.policy import policy
from tests.integration.replication.acid_world import (
    T,
    begin,
    compact,
    create,
    drop_partition,
    drop_table,
    fill,
    rename_partition,
    rows,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.replication.site import Site

pytestmark = pytest.mark.backends("sqlite")
POLICY = policy({"name": "p", "source": "primary", "destination": "replica", "databases": ["default"]})


def cycle(primary: Site, replica: Site) -> None:
    replicate(POLICY, primary, replica, holder="a test")
    assert replica.client.catalog.list_tables() == primary.client.catalog.list_tables()
    for name in primary.client.catalog.list_tables():
        assert rows(replica, f"default.{name}") == rows(primary, f"default.{name}")


def test_ddl_of_the_primary_leaves_no_write_ids_of_its_own_at_the_replica(primary: Site, replica: Site) -> None:
    """ALTER takes a write id at the primary, as in Hive; at the replica it would be a foreign one."""
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    cycle(primary, replica)
    catalog, files = primary.client.catalog, WarehouseFiles(primary.client, primary.filesystem)
    catalog.add_columns(T, [Column("b", "int")])
    write(primary, "b", partition="p=2")
    cycle(primary, replica)
    assert [c.name for c in replica.client.catalog.get_table(T).columns] == ["a", "b"]
    catalog.alter_properties(T, {"note": "x"}, files=files)
    catalog.add_locked_partitions(T, ["p=3"])
    drop_partition(primary, "p=1")
    cycle(primary, replica)
    assert replica.client.catalog.get_table(T).property("note") == "x"
    compact(primary, major=True, partition="p=2", clean=True)
    catalog.change_column(T, "b", Column("b", "bigint"))
    write(primary, "c", partition="p=2")
    cycle(primary, replica)
    catalog.rename_table(T, "default.renamed", files=files)
    write(primary, "d", table="default.renamed", partition="p=2")
    cycle(primary, replica)
    drop_table(primary, "default.renamed")
    create(primary, partitioned=True)
    write(primary, "e", partition="p=9")
    cycle(primary, replica)
    assert rows(replica) == {"p=9": {"1:e"}}


def test_partitions_that_get_other_names_keep_their_rows(primary: Site, replica: Site) -> None:
    """Names swap and chain between cycles; each cycle finds the replica as the primary is."""
    create(primary, partitioned=True)
    for number, row in enumerate("abc", 1):
        write(primary, row, partition=f"p={number}")
    cycle(primary, replica)
    for moves in ([(1, 4)], [(2, 1), (3, 2)], [(4, 9), (1, 4), (9, 1)], [(1, 8), (8, 1)]):
        for old, new in moves:
            rename_partition(primary, f"p={old}", f"p={new}")
        cycle(primary, replica)
        write(primary, f"after {moves}", partition=f"p={moves[-1][1]}")
        cycle(primary, replica)


def two_partitions_of_one_write(site: Site) -> None:
    create(site, partitioned=True)
    with begin(site, partition="p=1") as transaction:
        fill(site, transaction, "a", partition="p=1")
        fill(site, transaction, "b", partition="p=2")


def swap(site: Site) -> None:
    for old, new in (("p=1", "p=9"), ("p=2", "p=1"), ("p=9", "p=2")):
        rename_partition(site, old, new)


def test_names_that_were_swapped_in_events_that_are_gone_are_copied_again_with_the_rest(
    primary: Site, replica: Site
) -> None:
    """Who copies everything again need not know what was missed. No listing tells of it: files have the same names."""
    two_partitions_of_one_write(primary)
    cycle(primary, replica)
    swap(primary)
    primary.client.notifications.purge(-60_000)
    with pytest.raises(ReplicationGapError):
        cycle(primary, replica)
    replicate(POLICY, primary, replica, holder="a test", again=True)
    assert rows(replica) == rows(primary) == {"p=1": {"1:b"}, "p=2": {"1:a"}}
    write(primary, "c", partition="p=1")
    cycle(primary, replica)


def test_names_that_were_swapped_are_told_by_the_event_store_when_the_log_is_purged(
    primary: Site, replica: Site, tmp_path: Path
) -> None:
    stored = policy({
        "name": "p", "source": "primary", "destination": "replica", "databases": ["default"],
        "event_store": (tmp_path / "events").as_uri(),
    })  # fmt: skip
    two_partitions_of_one_write(primary)
    replicate(stored, primary, replica, holder="a test")
    swap(primary)
    event_source(stored, primary, replica)
    primary.client.notifications.purge(-60_000)
    replicate(stored, primary, replica, holder="a test")
    assert rows(replica) == rows(primary) == {"p=1": {"1:b"}, "p=2": {"1:a"}}


def test_a_table_that_nobody_has_written_for_long_goes_on_where_it_was(primary: Site, replica: Site) -> None:
    """The events since its last sync are gone; they were read, and told of nothing."""
    two_partitions_of_one_write(primary)
    cycle(primary, replica)
    create(primary, "default.other")
    for _ in range(3):
        write(primary, "x", table="default.other")
        cycle(primary, replica)
    primary.client.notifications.purge(-60_000)
    write(primary, "c", partition="p=1")
    report = replicate(POLICY, primary, replica, holder="a test")
    assert rows(replica) == rows(primary)
    assert report.files < 4
