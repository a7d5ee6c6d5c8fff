"""ACID tables in whole cycles of a policy: DDL of the primary between syncs, fail-over and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.replication.cycles.cycle import replicate
from airflow_hive_acid.replication.policies.policy import policy
from tests.integration.replication.acid_world import (
    T,
    compact,
    create,
    drop_partition,
    drop_table,
    rename_partition,
    rows,
    write,
)

if TYPE_CHECKING:
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
