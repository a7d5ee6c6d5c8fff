"""Recorded histories of a cache: who read what with which list while DDL and rows were committed, and their judge.

A history is deterministic for its seed: one thread does everything in a drawn order, with two caches whose followers
look when it is their turn. ``python -m`` this module is a process with a cache of its own that judges what it reads.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.cache.cache import CachedCatalog
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.metastore.txns.snapshots import TableWriteIds

TABLES = [f"db.t{number}" for number in range(5)]


@dataclass
class Change:
    """A committed change of a table: from this write id on, its property ``v`` is at least this."""

    table_id: int
    write_id: int
    version: int


@dataclass
class Judge:
    """What was committed, what each reader was shown, and every broken promise."""

    changes: dict[int, list[Change]] = field(default_factory=dict)
    shown: dict[tuple[str, int], int] = field(default_factory=dict)
    partitions: dict[tuple[str, int], int] = field(default_factory=dict)
    reads: int = 0
    broken: list[str] = field(default_factory=list)

    def committed(self, change: Change) -> None:
        self.changes.setdefault(change.table_id, []).append(change)

    def read(self, who: str, ids: TableWriteIds, found: Any, partitions: int | None) -> None:
        """A reader was given a table, and perhaps how many partitions it has: those only grow here."""
        self.reads += 1
        version = int(found.properties.get("v", 0))
        if found.id != ids.table_id:
            self.broken.append(f"{who} asked for table {ids.table_id} and got {found.id}")
        if ids.write_ids is not None:
            required = self._required(ids.table_id, ids.write_ids)
            if version < required:
                self.broken.append(f"{who} read {version} of {found.name} with {ids.write_ids}, which shows {required}")
        before = self.shown.get((who, found.id), 0)
        if version < before:
            self.broken.append(f"{who} read {version} of {found.name} after {before}")
        self.shown[who, found.id] = version
        if partitions is not None:
            before = self.partitions.get((who, found.id), 0)
            if partitions < before:
                self.broken.append(f"{who} saw {partitions} partitions of {found.name} after {before}")
            self.partitions[who, found.id] = partitions

    def _required(self, table_id: int, reader: ValidWriteIdList) -> int:
        changes = self.changes.get(table_id, ())
        return max((c.version for c in changes if reader.is_valid(c.write_id)), default=0)


def write_id_of(client: MetastoreClient, table: Table) -> int:
    """That of a change which its writer has just made; a metastore of Hive 3 keeps it nowhere but in the list."""
    if client.database.layout().lacks("TBLS", "WRITE_ID"):
        return client.get_valid_write_ids(table.qualified_name)[table.qualified_name].high_watermark
    return table.write_id


class History:
    """Writers and readers on one metastore in a drawn order.

    :param clients: each has a cache of its own, as processes would.
    """

    def __init__(self, clients: Sequence[MetastoreClient], seed: int) -> None:
        self.dice = random.Random(seed)
        self.clients = clients
        # A clock that stands still: how long a look is ago depends on nothing but the history.
        self.caches = [CachedCatalog(client, client.catalog, clock=lambda: 0.0) for client in clients]
        self.judge = Judge()
        self.versions: Counter[str] = Counter()
        self.held: dict[str, dict[str, TableWriteIds]] = {}
        self.open: list[tuple[int, str, int]] = []
        self.made = 0
        catalog = clients[0].catalog
        catalog.set_warehouse("file:/wh")
        catalog.create_database("db")
        for name in TABLES:
            self.create(name)
        for cache in self.caches:
            cache.follower.look()

    def create(self, name: str) -> None:
        db, _, table = name.partition(".")
        columns, keys = (Column("a", "int"),), (Column("p", "int"),)
        self.clients[0].catalog.create_table(TableDefinition(db, table, columns, keys))
        self.versions[name] = 0

    def run(self, reads: int) -> None:
        """Until so many reads were judged."""
        actions = [self.look] * 6 + [self.alter] * 2 + [self.rows] * 3 + [self.begin, self.end, self.end, self.add]
        while self.judge.reads < reads:
            if self.dice.random() < 0.5:
                self.dice.choice(actions)()
            elif self.dice.random() < 0.01:
                self.make_anew()
            else:
                self.several_reads()

    # --- writers --------------------------------------------------------------------------------------------------

    def alter(self) -> None:
        """DDL; its own client reads right afterwards, and sees it."""
        name, who = self.dice.choice(TABLES), self.dice.randrange(len(self.clients))
        self.versions[name] += 1
        version = self.versions[name]
        table = self.clients[who].catalog.alter_properties(name, {"v": str(version)})
        self.judge.committed(Change(table.id, write_id_of(self.clients[who], table), version))
        found = self.caches[who].view([name]).get_table(name)
        if int(found.properties.get("v", 0)) < version:
            self.judge.broken.append(f"client {who} does not see its own version {version} of {name}")

    def add(self) -> None:
        name, client = self.dice.choice(TABLES), self.dice.choice(self.clients)
        client.catalog.add_locked_partitions(name, [f"p={self.dice.randrange(50)}"], if_not_exists=True)

    def rows(self) -> None:
        """A write of rows: a write id, and nothing of the catalog."""
        name, client = self.dice.choice(TABLES), self.dice.choice(self.clients)
        txn = client.open_txn()
        client.allocate_write_ids(name, txn)
        if self.dice.random() < 0.8:
            client.commit_txn(txn)
        else:
            client.abort_txn(txn)

    def begin(self) -> None:
        name, who = self.dice.choice(TABLES), self.dice.randrange(len(self.clients))
        txn = self.clients[who].open_txn()
        self.clients[who].allocate_write_ids(name, txn)
        self.open.append((txn, name, who))

    def end(self) -> None:
        if self.open:
            txn, _, who = self.open.pop(self.dice.randrange(len(self.open)))
            self.clients[who].commit_txn(txn)

    def make_anew(self) -> None:
        name = self.dice.choice(TABLES)
        if all(name != of for _, of, _ in self.open):
            self.clients[0].catalog.drop_table(name)
            self.create(name)

    # --- readers --------------------------------------------------------------------------------------------------

    def look(self) -> None:
        self.dice.choice(self.caches).follower.look()

    def several_reads(self) -> None:
        """One set of lists, new or as old as a long query's, and some reads with it."""
        who = self.dice.randrange(len(self.caches))
        reader = f"client {who}"
        if reader not in self.held or self.dice.random() < 0.7:
            self.held[reader] = self.clients[who].valid_write_ids_and_table_ids(TABLES)
        for _ in range(25):
            self.read(reader, self.caches[who], self.dice.choice(TABLES))

    def read(self, reader: str, cache: CachedCatalog, name: str) -> None:
        ids = self.held[reader].get(name)
        if ids is None:
            return
        db, _, table = name.partition(".")
        try:
            found = cache.get_table(db, table, ids.table_id, ids.write_ids)
            count = None
            if self.dice.random() < 0.25:
                parts = cache.list_partitions(db, table, table_id=ids.table_id, valid_write_id_list=ids.write_ids)
                count = len(parts)
        except NoSuchObjectError:
            self.held.pop(reader, None)  # made anew: ids and lists are taken anew
            self.held[reader] = self.clients[0].valid_write_ids_and_table_ids(TABLES)
            return
        self.judge.read(reader, ids, found, count)


def child(url: str, reads: int) -> dict[str, Any]:
    """Read with a cache and a follower of this process, while another one alters the tables.

    There the version of a table is the write id of its last DDL, so each answer can be judged by its list alone.
    """
    settings = Settings({Source.CONNECTION: {"hive.acid.cache.poll.interval": "10ms"}})
    judge, dice = Judge(), random.Random(1)
    with MetastoreClient(url, settings) as client, CachedCatalog(client, client.catalog) as cache:
        sys.stdout.write("reading\n")
        sys.stdout.flush()
        # Until there was something to see, too, however slow the writer is.
        while judge.reads < reads or max(judge.shown.values()) < 2 or not cache.statistics().hits:
            view = cache.view(TABLES)
            for _ in range(10):
                name = dice.choice(TABLES)
                ids = view.ids[name]
                mark = 0 if ids.write_ids is None else ids.write_ids.high_watermark
                while mark and ids.write_ids is not None and not ids.write_ids.is_valid(mark):
                    mark -= 1
                judge.changes[ids.table_id] = [Change(ids.table_id, mark, mark)]
                judge.read("child", ids, view.get_table(name), None)
        hits = cache.statistics().hits
    return {"reads": judge.reads, "broken": judge.broken, "latest": max(judge.shown.values()), "hits": hits}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(child(sys.argv[1], int(sys.argv[2]))) + "\n")
