"""What a statement, a listing or a pass of a service costs on a table of very many partitions that it does not touch.

A metastore is made for each number of partitions (``many_partitions``), each with a completed write; then every variant
runs once for warming up and ``--rounds`` times. CPU milliseconds of this process, which on SQLite are those of the
database as well, and the peak of memory beyond the start. Flat is a row whose columns are alike.

    python benchmarks/partitions.py [--partitions 10000,100000,1000000] [--rounds 3] [--only TEXT] [--url URL]

``--url`` is an empty metastore, and takes one number of partitions.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from many_partitions import HOURS, make_table, mark_written, partition_name
from measure import memory_of_this_process

from airflow_hive_acid.engine.context import Context
from airflow_hive_acid.engine.locking.requests import Statements
from airflow_hive_acid.engine.queries.explain import explain
from airflow_hive_acid.engine.tables.partitions import KnownPartitions
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.measures.health import read_health
from airflow_hive_acid.maintenance.reaper.history import run_history_purge
from airflow_hive_acid.maintenance.reaper.reaper import run_reaper
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog import Compare
from airflow_hive_acid.metastore.compaction.model import format_properties
from airflow_hive_acid.metastore.listing import Slice, TablesWanted, partitions_page, tables_page
from airflow_hive_acid.metastore.setup.schema import COMPACTION_QUEUE
from airflow_hive_acid.sql import parse_script, plan

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = "db.events"
SELECT = "SELECT count(*) FROM db.events WHERE "
DELETE = "DELETE FROM db.events WHERE v = 2 AND "
INSERT = "INSERT INTO db.events PARTITION (day='{}', hour=7) VALUES (1, 2)"
WRITE_ID = 3


class Bench:
    """The variants over one metastore.

    :param partitions: how many its table has.
    """

    def __init__(self, client: MetastoreClient, home: Path, partitions: int) -> None:
        self.client = client
        self._partitions = partitions
        self._cleaned = self._dropped = self._named = 0
        client.catalog.set_warehouse(f"file:{home}")
        client.catalog.create_database("db")
        table = make_table(client, partitions)
        self._root = Path(table.location.removeprefix("file:"))
        self._root.mkdir(parents=True, exist_ok=True)
        for _ in range(WRITE_ID):
            with client.transaction({TABLE: "insert"}, partitioned=[TABLE]) as txn:
                txn.add_partitions(TABLE, [])
        mark_written(client, table, partitions, 2, 2)
        self._context = Context(client, None, None, lambda _event: None, "benchmark", client.settings)  # type: ignore[arg-type]

    def variants(self) -> dict[str, Callable[[], object]]:
        """What is measured, by name."""
        client, catalog = self.client, self.client.catalog
        middle = self._partitions // HOURS // 2
        day, next_day = f"d{middle:05}", f"d{middle + 1:05}"
        one, some = f"day = '{day}' AND hour = 7", f"day BETWEEN '{day}' AND '{next_day}'"
        half = partition_name(self._partitions // 2)

        def page(read: Callable[[Any, Any], Any]) -> object:
            return client.database.read(lambda connection: read(connection, client.database.features(connection)))

        return {
            "SELECT of one partition": lambda: self._kept(SELECT + one),
            "SELECT … BETWEEN, 200 partitions": lambda: self._kept(SELECT + some),
            "SELECT of one hour of each day": lambda: self._kept(SELECT + "hour = 7"),
            "EXPLAIN of one partition, and its locks": lambda: self._explained(SELECT + one),
            "DELETE in one partition, the same": lambda: self._explained(DELETE + one),
            "INSERT into one partition, the same": lambda: self._explained(INSERT.format(day)),
            "a txn with its snapshot": self._txn,
            "SHOW PARTITIONS, a page from the middle": lambda: catalog.list_partitions(TABLE, limit=1000, after=half),
            "SHOW PARTITIONS of one day": lambda: catalog.list_partitions(TABLE, Compare("day", "=", day), limit=1000),
            "the page's partitions": lambda: page(
                lambda c, f: partitions_page(c, f, "db", "events", None, Slice(limit=100))
            ),
            "the page's tables": lambda: page(lambda c, f: tables_page(c, f, TablesWanted(), Slice(limit=100))),
            "metrics": lambda: read_health(client),
            "reaper": lambda: run_reaper(client, AnyFilesystem()),
            "history purge": lambda: run_history_purge(client),
            "a page of the Initiator's dry run": lambda: client.compactions.decisions.find_written(1000),
            "Cleaner, nothing to do": lambda: run_cleaner(client, AnyFilesystem()),
            "Cleaner, 10 requests": lambda: self._clean(10),
            "Cleaner, 100 requests": lambda: self._clean(100),
            "Cleaner, 5 dropped partitions": lambda: self._clean_dropped(5),
            "Cleaner, 100 dropped partitions": lambda: self._clean_dropped(100),
            "ADD of 5 partitions with LOCATION": lambda: self._add(5),
            "ADD of 100 partitions with LOCATION": lambda: self._add(100),
            "whose are 100 partitions that go": lambda: self._whose(100),
            "DROP of 100 partitions": lambda: self._drop(100),
            "DROP of 1,000 partitions": lambda: self._drop(1000),
        }

    def _planned(self, sql: str) -> Any:
        (statement,) = parse_script(sql)
        return plan(statement, self._context.table)  # type: ignore[arg-type]

    def _kept(self, sql: str) -> int:
        (read,) = self._planned(sql).reads
        table = self._context.table(TABLE)
        return len(KnownPartitions(self.client.catalog, table).matching(read.partitions))

    def _explained(self, sql: str) -> object:
        found = self._planned(sql)
        locks = self._context.locking.plan(Statements([found]))
        return locks, explain(self._context, found.statement, [found])

    def _txn(self) -> None:
        with self.client.transaction({TABLE: "insert"}, partitioned=[TABLE]) as txn:
            txn.add_partitions(TABLE, [])

    def _clean(self, number: int) -> None:
        """After so many compactions, each of a base over one delta."""
        numbers = [(self._cleaned + i) % self._partitions for i in range(number)]
        first = self._cleaned + 1
        self._cleaned += number
        rows = []
        for i, partition in enumerate(numbers):
            place = self._root / partition_name(partition)
            for name in ("base_0000002", "delta_0000002_0000002_0000"):
                (place / name).mkdir(parents=True, exist_ok=True)
                (place / name / "bucket_00000").write_bytes(b"ORC")
            rows.append({
                "CQ_ID": first + i, "CQ_DATABASE": "db", "CQ_TABLE": "events",
                "CQ_PARTITION": partition_name(partition), "CQ_STATE": "r", "CQ_TYPE": "a", "CQ_HIGHEST_WRITE_ID": 2,
                "CQ_NEXT_TXN_ID": 3, "CQ_COMMIT_TIME": 1,
            })  # fmt: skip
        with self.client.database.transaction() as connection:
            connection.execute(sa.insert(COMPACTION_QUEUE), rows)
        done = run_cleaner(self.client, AnyFilesystem())
        if len(done) != number or not all(outcome.removed for outcome in done):
            raise AssertionError([str(outcome) for outcome in done][:3])

    def _clean_dropped(self, number: int) -> None:
        """After a drop of so many partitions, each with a base."""
        names = self._new(number)
        rows = []
        for i, name in enumerate(names):
            (self._root / name / "base_0000002").mkdir(parents=True)
            rows.append({
                "CQ_ID": self._cleaned + i + 1, "CQ_DATABASE": "db", "CQ_TABLE": "events", "CQ_PARTITION": name,
                "CQ_STATE": "r", "CQ_TYPE": "a", "CQ_HIGHEST_WRITE_ID": 2, "CQ_NEXT_TXN_ID": 1, "CQ_COMMIT_TIME": 1,
                "CQ_TBLPROPERTIES": format_properties({"location": f"file:{self._root}/{name}"}),
            })  # fmt: skip
        self._cleaned += number
        with self.client.database.transaction() as connection:
            connection.execute(sa.insert(COMPACTION_QUEUE), rows)
        done = run_cleaner(self.client, AnyFilesystem())
        if len(done) != number or any((self._root / name).exists() for name in names):
            raise AssertionError([str(outcome) for outcome in done][:3])

    def _add(self, number: int) -> None:
        names = self._new(number)
        places = {name: f"file:{self._root.parent}/elsewhere/{name}" for name in names}
        self.client.catalog.add_locked_partitions(TABLE, names, locations=places)

    def _whose(self, number: int) -> None:
        catalog = self.client.catalog
        names = [partition_name(self._partitions // 2 + i) for i in range(number)]
        found = list(catalog.find_partitions(TABLE, names).values())
        if len(found) != number or catalog.shared_partition_places(catalog.get_table(TABLE), found):
            raise AssertionError(found)

    def _drop(self, number: int) -> None:
        """Of partitions without directories."""
        names = [partition_name(self._dropped + i) for i in range(number)]
        self._dropped += number
        self.client.catalog.drop_partitions(TABLE, names, files=WarehouseFiles(self.client, AnyFilesystem()))

    def _new(self, number: int) -> list[str]:
        """Names of partitions that the table does not have."""
        self._named += number
        return [partition_name(self._partitions + self._named - i) for i in range(number)]


def measured(run: Callable[[], object]) -> tuple[float, float]:
    """CPU milliseconds, and the peak of memory beyond the start in MB."""
    start = memory_of_this_process("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    cpu = time.process_time()
    run()
    return (time.process_time() - cpu) * 1000, memory_of_this_process("VmHWM") - start


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", default="10000,100000,1000000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="variants with this text in their names")
    parser.add_argument("--url", help="an empty metastore; by default embedded ones")
    options = parser.parse_args()
    numbers = [int(text) for text in options.partitions.split(",")]
    found: dict[str, list[str]] = {}
    for number in numbers:
        with tempfile.TemporaryDirectory() as home:
            url = options.url or f"sqlite:///{home}/metastore.db"
            with MetastoreClient(url) as client:
                client.create_schema()
                bench = Bench(client, Path(home) / "warehouse", number)
                for name, run in bench.variants().items():
                    if options.only not in name:
                        continue
                    run()
                    taken = [measured(run) for _ in range(options.rounds)]
                    cpu, memory = statistics.median(cpu for cpu, _ in taken), max(memory for _, memory in taken)
                    found.setdefault(name, []).append(f"{cpu:.1f} ({memory:.1f})")
    print(f"CPU ms (MB more), load {os.getloadavg()[0]:.1f}")
    print(f"| | {' | '.join(f'{number:,}' for number in numbers)} |\n|---{'|---' * len(numbers)}|")
    for name, cells in found.items():
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
