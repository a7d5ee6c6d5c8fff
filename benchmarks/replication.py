"""Replication on one machine: how fast files are copied, how fast events are applied, how much a small change moves.

    python benchmarks/replication.py [--part copy|events|increment] [--rounds 3] [--mib 1024] [--files 200]
                                     [--events 10000] [--rows 2000000]

copy: a directory of random bytes, copied and verified as replication does, beside ``cp -r`` and a checksum of both
sides (SHA-256 by the same library, one file after the other). Interleaved, both on the same disk; goal: at least 0.5 x
its rate.

events: a log of metadata events of plain tables, applied by a cycle to a metastore on a PostgreSQL of its own, with
fsync; goal: over 300 events per second.

increment: an ACID table of a million rows and more, written by Spark; 1 % of the rows are updated and synchronised;
goal: less than 3 % of the table's bytes are moved.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.schema.hive_catalog import TABLE_PARAMS
from airflow_hive_acid.replication.cycles.cycle import parts_of
from airflow_hive_acid.replication.cycles.runner import run_cycle
from airflow_hive_acid.replication.dumps.copies import FileCopy, copy_files
from airflow_hive_acid.replication.events.collapse import one_by_one
from airflow_hive_acid.replication.events.factories import create_tasks, load_factory
from airflow_hive_acid.replication.events.tasks import TaskSettings
from airflow_hive_acid.replication.policies.policy import policy
from airflow_hive_acid.replication.site import Site

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.interop.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hive_acid.replication.cycles.runner import CycleReport

PARTS = ("copy", "events", "increment")
MIB = 1 << 20


def cpu_seconds() -> float:
    """User and system time of this process and of the programs it ran."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def measured(call: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of a call."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    call()
    return time.perf_counter() - wall, cpu_seconds() - cpu


# --- copy ----------------------------------------------------------------------------------------------------------


def make_files(home: Path, mib: int, count: int) -> None:
    """Files of random bytes, none as large as another."""
    home.mkdir()
    rng = random.Random(1)
    weights = [rng.uniform(0.5, 1.5) for _ in range(count)]
    for number, weight in enumerate(weights):
        directory = home / f"delta_{number // 10:07}_{number // 10:07}_0000"
        directory.mkdir(exist_ok=True)
        with (directory / f"bucket_{number % 10:05}").open("wb") as file:
            file.write(rng.randbytes(int(mib * MIB * weight / sum(weights))))


def sha256(home: Path) -> list[str]:
    """Checksums of all files, in order."""
    found = []
    for path in sorted(p for p in home.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return found


def cp_and_compare(source: Path, target: Path) -> None:
    """What a person would do: ``cp -r``, then a checksum of both sides."""
    subprocess.run(["/bin/cp", "-r", str(source), str(target)], check=True)
    assert sha256(source) == sha256(target)


def replicate(source: Path, target: Path) -> None:
    """What replication does."""
    filesystem = AnyFilesystem()
    files = [
        FileCopy(path.as_uri(), (target / path.relative_to(source)).as_uri(), path.stat().st_size)
        for path in sorted(p for p in source.rglob("*") if p.is_file())
    ]
    report = copy_files(filesystem, filesystem, files)
    assert report.files == len(files)


def copying(home: Path, mib: int, files: int, rounds: int) -> None:
    source = home / "source"
    make_files(source, mib, files)
    variants = {"cp -r and checksums": cp_and_compare, "replication's copy": replicate}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for number in range(rounds + 1):  # the first one warms the cache of the disk
        for name, copy in variants.items():
            target = home / "target"
            os.sync()
            sample = measured(lambda copy=copy, target=target: copy(source, target))
            shutil.rmtree(target)
            if number:
                samples[name].append(sample)
    base = statistics.median(wall for wall, _ in samples["cp -r and checksums"])
    print(f"copying {mib} MiB in {files} files, medians of {rounds} rounds (goal: at least 0.5 x the rate of cp)")
    for name, found in samples.items():
        wall, cpu = (statistics.median(s[i] for s in found) for i in (0, 1))
        print(f"  {name:22} {wall:6.2f} s, CPU {cpu:6.2f} s, {mib / wall:7.0f} MiB/s; {base / wall:5.2f} x the rate")


# --- events --------------------------------------------------------------------------------------------------------


def make_events(client: MetastoreClient, tables: int, count: int, kind: str) -> None:
    """Events of plain tables until there are so many: ``alter`` changes tables that are there, round and round;
    ``mixed`` makes tables and partitions as well, and drops some."""
    catalog = client.catalog
    first = client.notifications.current_event_id()
    for number in itertools.count():
        if kind == "alter":
            alter_all(client, [f"bench.t{n}" for n in range(tables)], str(number))
        else:
            name = f"bench.m{number}"
            make_table(client, name)
            catalog.alter_properties(name, {"turn": "1"})
            catalog.drop_partition(name, ("wed",))
            catalog.alter_properties(name, {"turn": "2"})
            if number % 5 == 4:
                catalog.drop_table(name)
        if client.notifications.current_event_id() - first >= count:
            return


def alter_all(client: MetastoreClient, names: Sequence[str], turn: str) -> None:
    """An ALTER TABLE of each, as its rows and events are, in one transaction: it is not what is measured."""
    log = client.catalog.events
    tables = client.catalog.get_tables(names)
    params = TABLE_PARAMS.c

    def operation(connection: sa.Connection) -> None:
        for table in tables:
            connection.execute(sa.delete(TABLE_PARAMS).where(params.TBL_ID == table.id, params.PARAM_KEY == "turn"))
            row = {"TBL_ID": table.id, "PARAM_KEY": "turn", "PARAM_VALUE": turn}
            connection.execute(sa.insert(TABLE_PARAMS), row)
            log.table_altered(connection, table, replace(table, properties={**table.properties, "turn": turn}))

    client.database.run(log.finishing(operation))


def make_table(client: MetastoreClient, name: str) -> None:
    columns = (Column("id", "bigint"), Column("name", "string"))
    made = client.catalog.create_table(
        TableDefinition(*name.split("."), columns, (Column("day", "string"),), external=True)
    )
    for day in ("mon", "tue", "wed"):
        AnyFilesystem().make_directory(f"{made.location}/day={day}")
        client.catalog.add_partitions(name, [(day,)])


def run(source: Site, target: Site, collapsed: bool) -> CycleReport:
    """One cycle of a policy of everything."""
    wanted = policy({"name": "bench", "source": "a", "destination": "b", "tables": ["bench.*"]})
    parts = parts_of(wanted, source, target, lambda _step: None)
    if not collapsed:
        factory = load_factory(None, TaskSettings("file:/nowhere", "file:/nowhere"))
        parts = replace(parts, create=lambda events: create_tasks(factory, one_by_one(events)))
    return run_cycle(wanted, source, target, parts, holder="bench")


def applying(home: Path, count: int, kinds: Sequence[str], tables: int = 50) -> None:
    print(
        f"{count} events applied, PostgreSQL with fsync (goal for metadata alone, which is alter: over 300 per second)"
    )
    for kind, collapsed in itertools.product(kinds, (True, False)):
        with ExitStack() as stack:
            server = oracle.Postgres.start(durable=True)
            stack.callback(server.stop)
            sites = []
            for name in ("primary", "replica"):
                client = stack.enter_context(MetastoreClient(server.create_database(name)))
                client.create_schema()
                place = home / f"{kind}-{collapsed}-{name}"
                place.mkdir()
                client.catalog.set_warehouse(place.as_uri())
                client.catalog.create_database("bench")
                sites.append(Site(client, name=name))
            primary, replica = sites
            for number in range(tables if kind == "alter" else 1):
                make_table(primary.client, f"bench.t{number}")
            run(primary, replica, collapsed)  # the first copy
            make_events(primary.client, tables, count, kind)
            reports = []
            wall, cpu = measured(lambda: reports.append(run(primary, replica, collapsed)))  # noqa: B023
            (report,) = reports
            how = "collapsed" if collapsed else "one by one"
            print(
                f"  {kind:6} {how:10} {report.events / wall:7.0f} events/s, {wall:.1f} s, CPU {cpu:.1f} s without the "
                f"server's; {report.tasks} tasks"
            )


# --- increment -----------------------------------------------------------------------------------------------------

INCREMENT_GOAL = 0.03


def increment(home: Path, rows: int) -> None:
    """Write a table, replicate it, update every hundredth row, replicate that."""
    from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
    from airflow_hive_acid.replication.acid.sync import sync_tables

    with ExitStack() as stack:
        sites = []
        for name in ("primary", "replica"):
            client = stack.enter_context(MetastoreClient(f"sqlite:///{home / name}.db"))
            client.create_schema()
            warehouse = (home / name).as_uri()
            client.catalog.set_warehouse(warehouse)
            client.catalog.create_database("w")
            engine = stack.enter_context(Engine(client, SparkSubmitLauncher("local[2]"), warehouse))
            sites.append((Site(client, run_job=engine.run_job, name=name), engine))
        (primary, engine), (replica, _) = sites
        engine.run("CREATE TABLE w.t (id BIGINT, a DOUBLE, b STRING) STORED AS ORC "
                   "TBLPROPERTIES ('transactional' = 'true')")  # fmt: skip
        insert = "INSERT INTO w.t SELECT id, rand(1), sha1(CAST(id AS STRING)) FROM range({})"
        engine.run(insert.format(rows))
        size = bytes_of(home / "primary")
        wall, cpu = measured(lambda: sync_tables(primary, replica, "bench", ["w.t"]))
        print(f"an ACID table of {rows} rows, {size / MIB:.1f} MiB; first copy {wall:.2f} s, CPU {cpu:.2f} s")
        engine.run("UPDATE w.t SET a = a + 1 WHERE id % 100 = 0")
        before = bytes_of(home / "replica")
        wall, cpu = measured(lambda: sync_tables(primary, replica, "bench", ["w.t"]))
        moved = bytes_of(home / "replica") - before
        print(
            f"  1 % updated: {moved / MIB:.2f} MiB moved, {100 * moved / size:.2f} % of the table "
            f"(goal: below {100 * INCREMENT_GOAL:.0f} %); {wall:.2f} s, CPU {cpu:.2f} s"
        )


def bytes_of(home: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--kind", choices=("alter", "mixed"), action="append", help="kinds of events")
    parser.add_argument("--rows", type=int, default=2_000_000)
    options = parser.parse_args()
    parts = options.part or PARTS
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-replication-")))
        if "copy" in parts:
            copying(home, options.mib, options.files, options.rounds)
        if "events" in parts:
            applying(home, options.events, options.kind or ("alter", "mixed"))
        if "increment" in parts:
            increment(home, options.rows)


if __name__ == "__main__":
    main()
