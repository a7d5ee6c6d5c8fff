"""Readers of each side keep the files they need, whichever side compacts and whichever side's Cleaner runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.metastore import MetastoreClient

    from .hive import Hive

pytestmark = pytest.mark.interop

DELTAS = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000"]
CLEANER_CYCLES = 4


@pytest.fixture
def table(hive: Hive, client: MetastoreClient, hive_database: str) -> str:
    """A table of two deltas."""
    client.upgrade_schema()
    name = f"{hive_database}.t"
    hive.run(f"create table {name} (id int) stored as orc tblproperties ('transactional'='true')")
    hive.run(f"insert into {name} values (1)")
    hive.run(f"insert into {name} values (2)")
    return name


def table_location(hive: Hive, table: str) -> Path:
    database, name = table.split(".")
    return hive.warehouse / f"{database}.db" / name


def directories(hive: Hive, table: str) -> list[str]:
    return sorted(path.name for path in table_location(hive, table).iterdir() if path.is_dir())


def clean(hive: Hive, client: MetastoreClient, table: str) -> None:
    """Let our Cleaner run until no compaction of the table waits for it."""
    deadline = time.monotonic() + 60
    while table in hive.compactions("ready for cleaning"):
        assert time.monotonic() < deadline, "our Cleaner leaves a compaction that nobody needs"
        time.sleep(0.2)
        run_cleaner(client, open_filesystem(table_location(hive, table).as_uri()))


def compact(hive: Hive, table: str) -> str:
    """A major compaction by Hive's Worker; returns the new base."""
    hive.run(f"alter table {table} compact 'major'")
    hive.worker()
    (base,) = set(directories(hive, table)) - set(DELTAS)
    assert base.startswith("base_0000002_v")
    return base


@pytest.mark.rule("R16")
def test_hives_cleaner_leaves_what_our_reader_needs(hive: Hive, client: MetastoreClient, table: str) -> None:
    """
    t1  we open a snapshot
    t2                        Hive compacts
    t3                        Hive's Cleaner runs, again and again: nothing goes
    t4  we close the snapshot
    t5                        Hive's Cleaner removes the deltas
    """
    with client.snapshot([table]) as snapshot:
        base = compact(hive, table)
        for _ in range(CLEANER_CYCLES):
            time.sleep(0.4)  # the Cleaner never touches what was opened within the last second
            hive.cleaner()
        assert directories(hive, table) == [base, *DELTAS]
        assert str(snapshot.snapshot[table]) == f"{table}:2:{2**63 - 1}::"
    hive.clean(table)
    assert directories(hive, table) == [base]
    assert hive.compactions("succeeded")[0] == table


def test_our_cleaner_leaves_what_hives_reader_needs(hive: Hive, client: MetastoreClient, table: str) -> None:
    """
    t1                        Hive reads in an open transaction
    t2                        Hive compacts
    t3  our Cleaner runs, again and again: nothing goes
    t4                        Hive ends its transaction
    t5  our Cleaner removes the deltas
    """
    hive.begin("reader")
    assert sorted(hive.run(f"select * from {table}", "reader")) == [(1,), (2,)]
    base = compact(hive, table)
    for _ in range(CLEANER_CYCLES):
        time.sleep(0.4)
        run_cleaner(client, open_filesystem(table_location(hive, table).as_uri()))
    assert directories(hive, table) == [base, *DELTAS]
    assert sorted(hive.run(f"select * from {table}", "reader")) == [(1,), (2,)]
    hive.commit("reader")
    clean(hive, client, table)
    assert directories(hive, table) == [base]
    assert hive.compactions("succeeded")[0] == table
    assert sorted(hive.run(f"select * from {table}")) == [(1,), (2,)]


def test_hives_cleaner_sweeps_what_our_aborted_transaction_left(
    hive: Hive, client: MetastoreClient, table: str
) -> None:
    """Files of an aborted write id go with the next compaction, and only then its components."""
    aborted = client.begin({table: "insert"})
    left_behind = table_location(hive, table) / "delta_0000003_0000003_0000"
    left_behind.mkdir()
    (left_behind / "bucket_00000").write_bytes(b"never to be read")
    aborted.abort()
    assert sorted(hive.run(f"select * from {table}")) == [(1,), (2,)]
    hive.run(f"insert into {table} values (4)")
    hive.run(f"alter table {table} compact 'major'")
    hive.worker()
    hive.clean(table)
    assert [d.rsplit("_v", 1)[0] for d in directories(hive, table)] == ["base_0000004"]
    assert sorted(hive.run(f"select * from {table}")) == [(1,), (2,), (4,)]


def test_our_cleaner_clears_a_compaction_that_a_later_one_overtook(
    hive: Hive, client: MetastoreClient, table: str
) -> None:
    """Where Hive's own Cleaner first serves the later one and then has "not enough history" for the earlier."""
    hive.run(f"alter table {table} compact 'minor'")
    hive.worker()
    hive.run(f"insert into {table} values (3)")
    hive.run(f"alter table {table} compact 'major'")
    hive.worker()
    assert hive.compactions("ready for cleaning") == [table, table]
    clean(hive, client, table)
    assert [d.rsplit("_v", 1)[0] for d in directories(hive, table)] == ["base_0000003"]
    assert sorted(hive.run(f"select * from {table}")) == [(1,), (2,), (3,)]


def test_hive_sees_no_row_of_a_partition_that_we_dropped_and_somebody_added_again(
    hive: Hive, client: MetastoreClient, hive_database: str
) -> None:
    """
    t1  a snapshot of ours is open, so that the Cleaner has to wait
    t2  we drop ds=x: its rows are hidden by a base without rows
    t3                        Hive adds ds=x again, in the same directory: it is empty; Hive fills it
    t4  the snapshot ends; the Cleaner removes what was hidden
    t5                        Hive still sees its new rows, and only those
    """
    client.upgrade_schema()
    table = f"{hive_database}.p"
    hive.run(
        f"create table {table} (id int) partitioned by (ds string) stored as orc tblproperties ('transactional'='true')"
    )
    hive.run(f"insert into {table} values (1, 'x'), (2, 'x'), (3, 'y')")
    filesystem = open_filesystem(table_location(hive, table).as_uri())
    with client.snapshot([f"{hive_database}.other"]):
        client.catalog.drop_partitions(table, ["ds=x"], files=WarehouseFiles(client, filesystem))
        assert hive.run(f"select * from {table}") == [(3, "y")]
        assert hive.run(f"show partitions {table}") == [("ds=y",)]
        hive.run(f"alter table {table} add partition (ds='x')")
        (dropped,) = (table_location(hive, table) / "ds=x").glob("base_*")
        assert '"dropped"' in (dropped / "_metadata_acid").read_text()
        assert hive.run(f"select * from {table}") == [(3, "y")]
        assert hive.run(f"select count(*) from {table} where ds = 'x'") == [(0,)]
        hive.run(f"insert into {table} values (4, 'x')")
        assert sorted(hive.run(f"select * from {table}")) == [(3, "y"), (4, "x")]
        run_cleaner(client, filesystem)
        assert sorted(hive.run(f"select * from {table}")) == [(3, "y"), (4, "x")]
    deadline = time.monotonic() + 60
    while hive.compactions("ready for cleaning"):
        assert time.monotonic() < deadline, "our Cleaner leaves a dropped partition that nobody needs"
        time.sleep(0.2)
        run_cleaner(client, filesystem)
    assert sorted(hive.run(f"select * from {table}")) == [(3, "y"), (4, "x")]
    assert not list((table_location(hive, table) / "ds=x").glob("delta_0000001_*"))
