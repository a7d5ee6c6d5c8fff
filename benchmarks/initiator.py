"""A look of the Initiator over a table of very many partitions of which few were written since the last look.

The partitions lie in local directories with a base each (links to one, so that making them does not take longer than
the looks); what is written gets a directory of its own with twelve deltas. Time and CPU seconds of a look must follow
what was written, and memory must not grow with the warehouse: the peak is that of the process during the look, beyond
what it had before. The first look, which has to see all partitions, stands beside.

    python benchmarks/initiator.py [--partitions 100000] [--rounds 3] [--url URL] [--without-first]

Without the first look, everything is noted as looked at beforehand: the looks after it are what is measured.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from many_partitions import HOURS, make_table, mark_looked_at, mark_written, partition_name
from measure import memory_of_this_process

from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.initiator.initiator import look_once
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.setup.schema import COMPACTION_QUEUE, COMPLETED_TXN_COMPONENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

DELTAS = 12
CHANGED = (0, 10, 100, 1000)
TABLE = "db.events"


class Warehouse:
    """The table, its directories, and rows that say what was written."""

    def __init__(self, client: MetastoreClient, home: Path, partitions: int) -> None:
        self.client = client
        self._home = home
        self._next = 1_000_000
        self._partitions = partitions
        client.catalog.set_warehouse(f"file:{home}")
        client.catalog.create_database("db")
        table = make_table(client, partitions)
        self._root = Path(table.location.removeprefix("file:"))
        for _ in range(DELTAS + 1):
            with client.transaction({TABLE: "insert"}, partitioned=[TABLE]) as txn:
                txn.add_partitions(TABLE, [])
        mark_written(client, table, partitions, DELTAS + 1, DELTAS + 1)
        base = home / "base"
        self._file(base / "base_0000001", 100_000)
        self._root.mkdir(parents=True, exist_ok=True)
        for number in range(partitions):
            place = self._root / partition_name(number)
            if number % HOURS == 0:
                place.parent.mkdir()
            place.symlink_to(base)

    def write(self, names: Sequence[str]) -> None:
        """Twelve deltas in each of these partitions, and the rows of their commit."""
        for name in names:
            place = self._root / name
            if place.is_symlink():
                place.unlink()
                self._file(place / "base_0000001", 100_000)
            for write_id in range(2, DELTAS + 2):
                self._file(place / f"delta_{write_id:07d}_{write_id:07d}_0000", 100)
        self._components(names)

    def forget_requests(self) -> None:
        """What a look has asked for must not stand in the way of the next round."""
        with self.client.database.transaction() as connection:
            connection.execute(sa.delete(COMPACTION_QUEUE))

    def _components(self, names: Sequence[str]) -> None:
        rows = []
        for name in names:
            self._next += 1
            rows.append({
                "CTC_TXNID": self._next, "CTC_DATABASE": "db", "CTC_TABLE": "events", "CTC_PARTITION": name,
                "CTC_WRITEID": DELTAS + 1, "CTC_UPDATE_DELETE": "N",
            })  # fmt: skip
        if rows:
            with self.client.database.transaction() as connection:
                connection.execute(sa.insert(COMPLETED_TXN_COMPONENTS), rows)

    def _file(self, directory: Path, size: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "bucket_00000").open("wb") as file:
            file.truncate(size)


def look(client: MetastoreClient) -> tuple[int, int, float, float, float]:
    """Looks once: partitions seen, requests made, wall and CPU seconds, peak of memory beyond the start in MB."""
    start = memory_of_this_process("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    wall, cpu = time.monotonic(), time.process_time()
    seen = asked = 0
    for step in look_once(client, AnyFilesystem()):
        seen += len(step)
        asked += sum(decision.enqueued for decision in step)
    return seen, asked, time.monotonic() - wall, time.process_time() - cpu, memory_of_this_process("VmHWM") - start


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-first", action="store_true", help="note everything as looked at")
    parser.add_argument("--url", help="an empty metastore; by default an embedded one")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        MetastoreClient(options.url or f"sqlite:///{home}/metastore.db") as client,
    ):
        client.create_schema()
        warehouse = Warehouse(client, Path(home) / "warehouse", options.partitions)
        print(f"{options.partitions:,} partitions, {client.database.backend.name}, load {os.getloadavg()[0]:.1f}")
        print("| written since | looked at | requests | wall s | CPU s | peak memory, MB more |")
        print("|---|---|---|---|---|---|")
        if options.without_first:
            mark_looked_at(client)
        first = look(client)
        name = "all compared, once an hour" if options.without_first else "first look"
        print(
            f"| {name} | {first[0]:,} | {first[1]:,} | {first[2]:.1f} | {first[3]:.1f} | {first[4]:.0f} |",
            flush=True,
        )
        results: dict[int, list[tuple[int, int, float, float, float]]] = {number: [] for number in CHANGED}
        for number in range(options.rounds):
            for changed in CHANGED:
                begin = (number * len(CHANGED) + CHANGED.index(changed)) * max(CHANGED)
                warehouse.write([partition_name((begin + i) % options.partitions) for i in range(changed)])
                results[changed].append(look(client))
                warehouse.forget_requests()
        for changed, found in results.items():
            wall, cpu, memory = (statistics.median(one[i] for one in found) for i in (2, 3, 4))
            seen, asked = found[-1][0], found[-1][1]
            print(f"| {changed:,} | {seen:,} | {asked:,} | {wall:.2f} | {cpu:.2f} | {memory:.0f} |")


if __name__ == "__main__":
    main()
