"""Replication between two real Hives: one writes the primary, with a notification log; the other reads the replica.

What lies between is ours. After each cycle both Hives read the same rows, of ACID tables with the same ROW__IDs; each
side compacts and cleans on its own. Replicas of many recorded states of a Hive are in ``test_recorded_hives``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.replication.cycles.cycle import replicate
from airflow_hive_acid.replication.policies.policy import policy
from airflow_hive_acid.replication.site import Site

from .hive import Hive
from .oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.replication.cycles.runner import CycleReport

pytestmark = pytest.mark.interop

DATABASE = "shop"
ACID = "stored as orc tblproperties ('transactional'='true')"


class Side:
    """A real Hive, and our client on its metastore."""

    def __init__(self, hive: Hive, client: MetastoreClient, name: str) -> None:
        self.hive = hive
        self.site = Site(client, name=name)


@pytest.fixture(scope="module")
def sides(
    hive_postgres: oracle.Postgres, hive_schema: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Side, Side]]:
    """The primary's Hive and the replica's, each with a metastore of Hive's own schema and a warehouse."""
    made: list[Side] = []
    try:
        for name, settings in (("primary", oracle.NOTIFICATIONS), ("replica", {})):
            url = hive_postgres.create_database(f"replication_{name}", template=hive_schema)
            hive = Hive(url, tmp_path_factory.mktemp(name) / "warehouse", settings).start()
            client = MetastoreClient(url)
            client.upgrade_schema()
            made.append(Side(hive, client, name))
            hive.run(f"create database {DATABASE}")
        yield made[0], made[1]
    finally:
        for side in made:
            side.site.client.close()
            side.hive.close()


def same_rows(sides: tuple[Side, Side], table: str, *, acid: bool = True) -> int:
    """Both Hives read the same rows (with the same ROW__IDs), of which there are so many."""
    column = "t.row__id, " if acid else ""
    theirs, ours = (sorted(s.hive.run(f"select {column}t.* from {table} t"), key=str) for s in sides)
    assert ours == theirs
    return len(ours)


@pytest.fixture
def cycle(sides: tuple[Side, Side]) -> Callable[[], CycleReport]:
    """One cycle of a policy of the whole database."""
    wanted = policy({
        "name": "dr", "source": "primary", "destination": "replica", "tables": [f"{DATABASE}.*"],
    })  # fmt: skip

    def run() -> CycleReport:
        report = replicate(wanted, sides[0].site, sides[1].site, holder="a test")
        assert report.position == report.current
        assert not report.kept
        return report

    return run


def test_a_replica_of_a_hive_is_read_by_another_hive_row_by_row(
    sides: tuple[Side, Side], cycle: Callable[[], CycleReport]
) -> None:
    """First copy, events, compaction and cleaning by Hive at the source, then by Hive at the replica, and on."""
    primary, replica = (side.hive for side in sides)
    primary.script(f"""
        create external table {DATABASE}.raw (id int, what string) partitioned by (day string) stored as orc;
        insert into {DATABASE}.raw partition (day = 'mon') values (1, 'tea'), (2, 'jam');
        create table {DATABASE}.orders (id int, item string) {ACID};
        insert into {DATABASE}.orders values (1, 'tea'), (2, 'jam'), (3, 'rye');
        update {DATABASE}.orders set item = 'oat' where id = 2;
        create table {DATABASE}.lines (id int) partitioned by (day string) {ACID};
        insert into {DATABASE}.lines values (1, 'mon'), (2, 'tue'), (3, 'tue');
    """)
    assert cycle().first
    assert same_rows(sides, f"{DATABASE}.orders") == 3
    assert same_rows(sides, f"{DATABASE}.lines") == 3
    assert same_rows(sides, f"{DATABASE}.raw", acid=False) == 2

    # The source compacts and cleans what the replica has, and changes go on.
    primary.script(f"alter table {DATABASE}.orders compact 'major';\n")
    primary.worker()
    primary.clean(f"{DATABASE}.orders")
    primary.script(f"""
        insert into {DATABASE}.raw partition (day = 'tue') values (3, 'rye');
        alter table {DATABASE}.raw drop partition (day = 'mon');
        delete from {DATABASE}.orders where id = 1;
        insert into {DATABASE}.orders values (4, 'fig');
        insert into {DATABASE}.lines values (4, 'wed');
    """)
    report = cycle()
    assert not report.first
    assert report.tables
    assert same_rows(sides, f"{DATABASE}.orders") == 3
    assert same_rows(sides, f"{DATABASE}.lines") == 4
    assert same_rows(sides, f"{DATABASE}.raw", acid=False) == 1
    assert replica.run(f"show partitions {DATABASE}.raw") == [("day=tue",)]

    # A real Hive compacts and cleans at the replica; the next changes are of rows that lie in its new base.
    replica.script(f"alter table {DATABASE}.orders compact 'major';\n")
    replica.worker()
    replica.clean(f"{DATABASE}.orders")
    names = {e.name for e in sides[1].site.filesystem.list_files(_location(sides[1], "orders"))}
    assert [name for name in names if name.startswith("delta_")] == []
    primary.script(f"""
        update {DATABASE}.orders set item = 'OAT' where id = 2;
        drop table {DATABASE}.raw;
    """)
    cycle()
    assert same_rows(sides, f"{DATABASE}.orders") == 3
    assert ("raw",) not in replica.run(f"show tables in {DATABASE}")
    assert cycle().tables == []


def _location(side: Side, table: str) -> str:
    return side.site.client.catalog.get_table(f"{DATABASE}.{table}").location
