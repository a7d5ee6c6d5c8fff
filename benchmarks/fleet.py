"""A fleet on one PostgreSQL: a thousand tasks that write, a hundred Workers that compact, and the house that runs them.

    python benchmarks/fleet.py [--tasks 250,1000] [--workers 100] [--partitions 5000] [--minutes 5] [--job 60]

The control plane is real, Spark is not: a job sleeps for ``--job`` seconds, give or take half, and writes files of
four bytes. Each task opens a client of its own, as a process of Airflow does, runs one INSERT into a partition, under a
claim, closes the client, and is followed by the next. Workers, Initiator, Cleaner and reaper run by their defaults;
more than ten deltas of a partition make a compaction. Everything, the server and the fleet, is on this machine: when
its cores are used up, both wait. ``begin`` is from the connection to the job, ``commit`` from the job's end to the
answer of COMMIT.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from control_plane import cpu_seconds

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.jobs import Compact, Insert, JobResult, WrittenDirectory, WrittenFile
from airflow_hive_acid.format.names import ACID_VERSION, ACID_VERSION_FILE, base_name, bucket_file_name, delta_name
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.maintenance.initiator.initiator import run_initiator
from airflow_hive_acid.maintenance.worker.worker import run_worker
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.setup.schema import COMPACTION_QUEUE

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.interop.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hive_acid.format.jobs import JobSpec

    Look = Callable[[MetastoreClient, AnyFilesystem], object]

TABLE = "f.t"
MOST_DELTAS = 10  # one more is compacted
PROCESSES = 4
SPREAD = 0.5
MEMORY = "/dev/shm"  # noqa: S108 - the disk is the server's


class Asleep:
    """A Spark whose jobs sleep and write a file of four bytes into each partition: a launcher and its application.

    :param seconds: of a job.
    :param partitions: values of ``p`` for a write that names no partition.
    """

    def __init__(self, seconds: float, partitions: Sequence[int] = ()) -> None:
        self.application_id = "asleep"
        self.is_alive = False
        self.began = self.ended = 0.0
        self._seconds = seconds
        self._partitions = partitions

    def start(self, application: object = None) -> Asleep:
        """Is there at once."""
        self.is_alive = True
        return self

    def wait_ready(self) -> str:
        """Its application."""
        return self.application_id

    def cancel(self) -> None:
        """Nothing to end."""
        self.is_alive = False

    close = cancel

    def run(self, spec: JobSpec) -> JobResult:
        """An INSERT, or a major compaction."""
        self.began = time.monotonic()
        time.sleep(self._seconds)
        step = spec.step
        if isinstance(step, Compact):
            high = ValidWriteIdList.parse(step.target.write_ids).for_compactor().high_watermark
            name, places = base_name(high, step.visibility_txn_id), [step.target.partitions[0].values]
        else:
            assert isinstance(step, Insert)
            name = delta_name(step.write_id, step.write_id, step.statement_id)
            static = tuple(value for _, value in step.static_partition)
            places = [static] if static else [(str(value),) for value in self._partitions]
        written = tuple(self._write(spec, name, values) for values in places)
        self.ended = time.monotonic()
        return JobResult(spec.job_id, self.application_id, directories=written, inserted=len(written))

    @staticmethod
    def _write(spec: JobSpec, name: str, values: tuple[str, ...]) -> WrittenDirectory:
        partition = partition_name([("p", *values)])
        place = Path((spec.staging or "").removeprefix("file:")) / "data" / partition / name
        place.mkdir(parents=True)
        (place / ACID_VERSION_FILE).write_text(ACID_VERSION)
        (place / bucket_file_name(0)).write_text("rows")
        return WrittenDirectory(partition, values, name, (WrittenFile(bucket_file_name(0), 1, 4),))


@dataclass
class Told:
    """What the processes of a fleet tell.

    :param begin: seconds of each task, from its first connection to its job.
    :param commit: the same from the job's end to the end of the statement.
    :param compact: the same of each compaction, without its job.
    :param looks: seconds of each look, by who looked.
    :param errors: how often, by class and first line.
    """

    begin: list[float] = field(default_factory=list)
    commit: list[float] = field(default_factory=list)
    compact: list[float] = field(default_factory=list)
    looks: dict[str, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, other: Told) -> None:
        """What another process has told."""
        for name in ("begin", "commit", "compact"):
            getattr(self, name).extend(getattr(other, name))
        for who, seconds in other.looks.items():
            self.looks.setdefault(who, []).extend(seconds)
        self.errors.update(other.errors)


@dataclass(frozen=True)
class Fleet:
    """What runs against one metastore.

    :param job: seconds of a job.
    :param until: when it ends, by ``time.time``.
    """

    url: str
    warehouse: str
    partitions: int
    job: float
    until: float

    def left(self) -> float:
        """Seconds until its end."""
        return self.until - time.time()

    def task(self, number: int, told: Told) -> None:
        """Tasks, one after the other; the first ones begin at different moments."""
        chance = random.Random(number)
        self._sleep(chance.uniform(0, self.job))
        for run in range(1_000_000):
            if self.left() <= 0:
                return
            spark = Asleep(self.job * chance.uniform(1 - SPREAD, 1 + SPREAD))
            began = time.monotonic()
            try:
                with MetastoreClient(self.url) as client, Engine(client, spark, self.warehouse) as engine:
                    sql = f"INSERT INTO {TABLE} PARTITION (p = {chance.randrange(self.partitions)}) VALUES (1)"  # noqa: S608 - of numbers
                    engine.run(sql, once=Once(("fleet", str(number), str(run))))
                    told.commit.append(time.monotonic() - spark.ended)
                    told.begin.append(spark.began - began)
            except Exception as error:  # noqa: BLE001 - what a fleet meets is counted, and the next task goes on
                told.errors[_line(error)] += 1

    def worker(self, number: int, told: Told) -> None:
        """Claims requests and compacts."""
        chance = random.Random(-number)
        with MetastoreClient(self.url) as client:
            while self.left() > 0:
                spark = Asleep(self.job * chance.uniform(1 - SPREAD, 1 + SPREAD))
                began = time.monotonic()
                try:
                    if run_worker(client, AnyFilesystem(), spark.run, f"fleet-{number}", limit=1):
                        told.compact.append(time.monotonic() - began - (spark.ended - spark.began))
                        continue
                except Exception as error:  # noqa: BLE001 - as above
                    told.errors[_line(error)] += 1
                self._sleep(chance.uniform(2, 5))

    def house(self, name: str, look: Look, every: float, told: Told) -> None:
        """Initiator, Cleaner, reaper: a look now and then."""
        with MetastoreClient(self.url) as client:
            while self.left() > 0:
                began = time.monotonic()
                try:
                    look(client, AnyFilesystem())
                except Exception as error:  # noqa: BLE001 - as above
                    told.errors[_line(error)] += 1
                told.looks.setdefault(name, []).append(time.monotonic() - began)
                self._sleep(every)

    def _sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, min(seconds, self.left())))


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:150]}"


HOUSE: dict[str, tuple[Look, float]] = {
    "Initiator": (run_initiator, 60), "Cleaner": (run_cleaner, 5), "reaper": (run_reaper, 60),
}  # fmt: skip


def process(fleet: Fleet, kind: str, numbers: range, answers: Any) -> None:
    """One process of the fleet, a thread for each of its members."""
    told, threads = Told(), []
    if kind == "house":
        for name, (look, every) in HOUSE.items():
            threads.append(threading.Thread(target=fleet.house, args=(name, look, every, told)))
    else:
        member = fleet.task if kind == "tasks" else fleet.worker
        threads += [threading.Thread(target=member, args=(number, told)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put(told)


def prepare(url: str, warehouse: str, partitions: int) -> None:
    """A table whose partitions have from two to eleven deltas each: a tenth of them is to be compacted at once."""
    with MetastoreClient(url) as client:
        client.create_schema()
        client.catalog.set_warehouse(warehouse)
        with Engine(client, Asleep(0), warehouse) as engine:
            engine.run("CREATE DATABASE f")
            acid = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
            engine.run(f"CREATE TABLE {TABLE} (a INT) PARTITIONED BY (p INT) {acid}")
        for deltas in range(MOST_DELTAS + 1):
            spark = Asleep(0, [p for p in range(partitions) if p % MOST_DELTAS >= deltas - 1])
            with Engine(client, spark, warehouse) as engine:
                engine.run(f"INSERT INTO {TABLE} PARTITION (p) SELECT 1, 1")
        engine_of = sa.create_engine(client.database.url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
        with engine_of.connect() as connection:
            connection.execute(sa.text("ANALYZE"))


class Server:
    """The PostgreSQL and what it did."""

    def __init__(self, stack: ExitStack, connections: int) -> None:
        self._server = oracle.Postgres.start(durable=True, settings=(f"max_connections={connections}",))
        stack.callback(self._server.stop)
        self._engine = sa.create_engine(self._server.url("postgres"), poolclass=sa.pool.NullPool)

    def database(self, name: str) -> str:
        """A new one; its URL."""
        return self._server.create_database(name)

    def connections(self) -> int:
        """How many clients are connected."""
        with self._engine.connect() as connection:
            activity = sa.table("pg_stat_activity", sa.column("backend_type"))
            mine = sa.select(sa.func.count()).where(activity.c.backend_type == "client backend")
            return int(connection.execute(mine).scalar_one())

    def cpu(self) -> float:
        """Seconds of its processes."""
        return cpu_seconds(self._server)


def run(server: Server, tasks: int, arguments: argparse.Namespace, home: Path) -> None:
    """One fleet, and a row for it."""
    url, warehouse = server.database(f"fleet{tasks}"), f"file:{home}/fleet{tasks}"
    prepare(url, warehouse, arguments.partitions)
    seconds = arguments.minutes * 60
    start = time.time() + 5
    fleet = Fleet(url, warehouse, arguments.partitions, arguments.job, start + seconds)
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    shares = [range(tasks * i // PROCESSES, tasks * (i + 1) // PROCESSES) for i in range(PROCESSES)]
    members = [("tasks", share) for share in shares] + [("workers", range(arguments.workers)), ("house", range(3))]
    processes = [context.Process(target=process, args=(fleet, kind, numbers, answers)) for kind, numbers in members]
    for each in processes:
        each.start()
    cpu, busiest, connected = server.cpu(), Counter[str](), 0
    states = sa.select(COMPACTION_QUEUE.c.CQ_STATE, sa.func.count()).group_by(COMPACTION_QUEUE.c.CQ_STATE)
    with MetastoreClient(url) as client:
        while fleet.left() > 0:
            time.sleep(min(5.0, max(0.0, fleet.left())))
            connected = max(connected, server.connections())
            with client.database.transaction() as connection:
                for state, count in connection.execute(states):
                    busiest[state] = max(busiest[state], count)
        cpu = server.cpu() - cpu
    told = Told()
    for _ in processes:
        told.add(answers.get(timeout=600))
    for each in processes:
        each.join()
    demanded = tasks / arguments.job
    print(
        f"| {tasks:,} | {demanded:.1f} / {len(told.commit) / seconds:.1f} | {_percentiles(told.begin)} "
        f"| {_percentiles(told.commit)} | {len(told.compact) / seconds * 3600:,.0f} | {_percentiles(told.compact)} "
        f"| {busiest['i']} / {busiest['w']} / {busiest['r']} | {connected:,} | {cpu / seconds:.2f} |",
        flush=True,
    )
    looks = ", ".join(f"{who} {len(found)} looks, {_percentiles(found)} s" for who, found in told.looks.items())
    errors = "; ".join(f"{count} x {what}" for what, count in told.errors.most_common()) or "none"
    print(f"  {looks}; errors: {errors}", file=sys.stderr, flush=True)


def _percentiles(values: Sequence[float]) -> str:
    """The median, the 95th and the 99th of a hundred, and the largest."""
    if not values:
        return "-"
    found = sorted(values)
    return " / ".join(f"{found[min(len(found) - 1, int(len(found) * part))]:.2f}" for part in (0.5, 0.95, 0.99, 1))


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="250,1000", help="how many at the same time; several numbers, a fleet each")
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=5_000)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--job", type=float, default=60, help="seconds of a Spark job")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.tasks.split(",")]
    print(
        f"{arguments.workers} Workers, {arguments.partitions:,} partitions, jobs of {arguments.job:g} s, "
        f"{arguments.minutes:g} minutes"
    )
    print(
        "| tasks at a time | txns a second, asked / done | begin s, p50 / p95 / p99 / most | commit s "
        "| compactions an hour | s without the job | queue at most: waits / works / to clean | connections "
        "| server, cores |"
    )
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    home = Path(tempfile.mkdtemp(prefix="hive-acid-fleet-", dir=MEMORY if Path(MEMORY).is_dir() else None))
    try:
        with ExitStack() as stack:
            server = Server(stack, 4 * max(sizes) + 4 * arguments.workers + 100)
            for size in sizes:
                run(server, size, arguments, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
