"""Partitions that are given another directory while something of aborted txns lies in the old one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.names import delta_name
from airflow_hive_acid.maintenance import run_cleaner
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.metastore.catalog.values.partition_alteration import PartitionAlteration
from tests.integration.maintenance.cycles.steps import forget_what_has_ended, hive_inserts, lines, pass_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "0"}


def move(client: MetastoreClient, fs: Filesystem, place: str) -> None:
    files = WarehouseFiles(client, fs)
    client.catalog.alter_partition("default.p", "k=a", PartitionAlteration(location=place), files=files)


@pytest.mark.rule("R4")
def test_aborted_rows_are_not_seen_when_a_partition_comes_back_to_its_directory(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """
    t1  a Hive's INSERT is aborted, its delta lies in the partition's directory
    t2            SET LOCATION: the partition lies elsewhere
    t3  the Cleaner looks for what aborted txns have left, and forgets them; what is forgotten is valid
    t4            SET LOCATION: the partition is back
    """
    table = make_table("default.p", "k")
    table.insert(3, "k=a")
    writer, write_id = hive_inserts(client, table, "k=a")
    table.directory(delta_name(write_id, write_id, 0), 2, "k=a")
    client.abort_txn(writer)
    assert len(lines(client, table, "k=a")) == 3
    move(client, fs, f"{table.location}/elsewhere")
    pass_time(client)
    (outcome,) = run_cleaner(client, fs)
    assert outcome.numbers["forgotten_components"] == 1
    forget_what_has_ended(client)
    move(client, fs, table.place("k=a"))
    assert len(lines(client, table, "k=a")) == 3


@pytest.mark.rule("R4")
def test_a_partition_with_aborted_rows_among_others_stays_where_it_is(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """A transaction batch keeps the rows of several txns in one delta."""
    table = make_table("default.p", "k")
    aborted, first = hive_inserts(client, table, "k=a")
    committed, last = hive_inserts(client, table, "k=a")
    table.directory(delta_name(first, last), 2, "k=a")
    client.catalog.add_partitions("default.p", ["k=a"])
    client.commit_txn(committed)
    client.abort_txn(aborted)
    with pytest.raises(InvalidArgumentsError, match=r"rows of aborted transactions among others.*COMPACT 'major'"):
        move(client, fs, f"{table.location}/elsewhere")
    assert client.catalog.get_partition("default.p", "k=a").location == table.place("k=a")
    assert client.show_locks() == []


def test_a_partition_keeps_its_name_while_rows_lie_in_the_directory_that_it_has_left(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """
    t1  rows in the partition's directory
    t2  SET LOCATION: they stay there, and are nobody's
    t3  a RENAME would leave them to the next partition of the old name: refused until the directory is gone
    """
    table = make_table("default.p", "k")
    table.insert(3, "k=a")
    move(client, fs, f"{table.location}/elsewhere")
    files = WarehouseFiles(client, fs)
    with pytest.raises(InvalidArgumentsError, match=r"k=a .*lies at .*elsewhere.* left in .*/k=a "):
        client.catalog.rename_partition("default.p", "k=a", "k=b", files=files)
    assert client.show_locks() == []
    fs.delete(table.place("k=a"), inside=table.location)
    assert client.catalog.rename_partition("default.p", "k=a", "k=b", files=files).name == "k=b"
    client.catalog.add_partitions("default.p", ["k=a"])
    fs.make_directory(table.place("k=a"))
    assert lines(client, table, "k=a") == []


def test_a_partition_that_was_dropped_elsewhere_starts_empty_in_its_own_directory(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """
    t1  rows in the partition's directory
    t2  SET LOCATION: they stay there, and are nobody's
    t3  DROP PARTITION
    t4  the partition is added again, where its name says
    """
    table = make_table("default.p", "k")
    table.insert(3, "k=a")
    move(client, fs, f"{table.location}/elsewhere")
    client.catalog.drop_partitions("default.p", ["k=a"], files=WarehouseFiles(client, fs))
    client.catalog.add_partitions("default.p", ["k=a"])
    assert lines(client, table, "k=a") == []
