"""Leases on a PostgreSQL of its own, durable, beside the floor: plain ``INSERT … COMMIT`` through the same driver.

    python benchmarks/leases.py [--rounds 5] [--turns 200] [--no-fsync] [--part uncontended|handover|many|extend]

Four claims, each a ratio of one interleaved run: an uncontended grab and drop beside two inserts; the hand-over between
8 processes that want one object beside one insert, and how many of them were woken by nothing but their own patience; a
grab among 100,000 live leases beside one among none; and the round trips, and the time, of extending 1,000 objects.
CPU is that of this process, or of the clients, without the server's.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.backends import pipeline
from airflow_hive_acid.metastore.database.backends.postgresql import LISTEN
from airflow_hive_acid.metastore.database.wakeups import CHANNEL
from airflow_hive_acid.metastore.leases.model import LeaseObject
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, NEXT_LOCK_ID
from airflow_hive_acid.metastore.schema.leases import HIVE_ACID_LEASE_OBJECT, HIVE_LEASE
from airflow_hive_acid.settings import Settings, Source

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.interop.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = ("uncontended", "handover", "many", "extend")
CLIENTS, MANY, OBJECTS = 8, 100_000, 1_000
_FLOOR = sa.Table("BENCH_FLOOR", sa.MetaData(), sa.Column("N", sa.BigInteger), sa.Column("T", sa.String(100)))


class Timer:
    """Wall and CPU seconds of each call, by name."""

    def __init__(self) -> None:
        self.wall: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}

    def time(self, name: str, call: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        self.wall.setdefault(name, []).append(time.perf_counter() - wall)
        self.cpu.setdefault(name, []).append(time.process_time() - cpu)
        return result

    def show(self, base: str) -> None:
        for name, wall in self.wall.items():
            cpu = self.cpu[name]
            ratio = statistics.median(wall) / statistics.median(self.wall[base])
            cpu_ratio = statistics.mean(cpu) / statistics.mean(self.cpu[base])
            print(
                f"  {name:34} median {_ms(statistics.median(wall))}, p99 {_ms(_percentile(wall, 0.99))}, CPU "
                f"{_ms(statistics.mean(cpu))}; {ratio:.2f} x wall, {cpu_ratio:.2f} x CPU of {base}"
            )


class Floor:
    """What a durable write costs at least here."""

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(MetastoreClient(url).database.url)
        _FLOOR.create(self.engine, checkfirst=True)
        self._conn = self.engine.connect()

    def insert(self) -> None:
        """``INSERT … COMMIT``."""
        self._conn.execute(_FLOOR.insert(), {"N": 1, "T": "x" * 50})
        self._conn.commit()


def client(url: str, mirror: str) -> MetastoreClient:
    return MetastoreClient(url, Settings({Source.REQUEST: {"hive.acid.lease.mirror": mirror}}))


def uncontended(url: str, rounds: int, turns: int) -> None:
    timer, floor = Timer(), Floor(url)
    plain, mirrored = client(url, "off"), client(url, "on")

    def two_inserts() -> None:
        floor.insert()
        floor.insert()

    def grab_and_drop(of: MetastoreClient, number: int) -> None:
        of.leases.drop_lease(of.leases.grab_lease(f"db.t{number % 50}", 60))

    for number in range(60):  # prepared statements, and the rows of the tables
        grab_and_drop(plain, number)
        grab_and_drop(mirrored, number)
    for _ in range(rounds):
        for number in range(turns):
            timer.time("two INSERT … COMMIT", two_inserts)
            timer.time("grab and drop, not mirrored", lambda n=number: grab_and_drop(plain, n))
            timer.time("grab and drop, mirrored", lambda n=number: grab_and_drop(mirrored, n))
    print("uncontended grab and drop (goal: within 2 x of two inserts)")
    timer.show("two INSERT … COMMIT")


def _contend(url: str, mirror: str, turns: int, start: Any, answers: Any) -> None:
    with client(url, mirror) as mine:
        mine.leases.drop_lease(mine.leases.grab_lease("db.warm", 60, 60))
        start.wait()
        events = []
        for _ in range(turns):
            lease = mine.leases.grab_lease("db.hot", 60, 600)
            granted = time.monotonic()
            time.sleep(0.01)  # something is done under it; the others are asleep by then
            mine.leases.drop_lease(lease)
            events.append((lease.lease_id, granted, time.monotonic()))
        answers.put((events, time.process_time()))


def _echo(url: str, turns: int, start: Any, answers: Any) -> None:
    """Insert a row whenever called: the least that a process can do which was asleep."""
    floor = Floor(url)
    with floor.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(LISTEN)
        driver = connection.connection.driver_connection
        floor.insert()
        start.wait()
        for _ in range(turns):
            list(driver.notifies(timeout=60, stop_after=1))
            floor.insert()
            answers.put(time.monotonic())


def least_handover(url: str, turns: int) -> list[float]:
    """From the end of one process's ``NOTIFY … COMMIT`` to the end of another's ``INSERT … COMMIT``: nothing that goes
    through the database can be faster."""
    spawn = get_context("spawn")
    start, answers = spawn.Barrier(2), spawn.Queue()
    process = spawn.Process(target=_echo, args=(url, turns, start, answers))
    process.start()
    gaps = []
    with Floor(url).engine.connect() as connection:
        start.wait()
        for _ in range(turns):
            time.sleep(0.01)
            connection.execute(_FLOOR.insert(), {"N": 1, "T": "x" * 50})
            connection.execute(sa.select(sa.func.pg_notify(CHANNEL, "")))
            connection.commit()
            called = time.monotonic()
            gaps.append(max(0.0, answers.get(timeout=60) - called))
    process.join()
    return gaps


def handover(url: str, rounds: int, turns: int) -> None:
    floor, timer = Floor(url), Timer()
    spawn = get_context("spawn")
    late, gaps, least = 0, [], []
    for _ in range(rounds):
        least += least_handover(url, turns)
        for _ in range(turns):
            timer.time("INSERT … COMMIT", floor.insert)
        start, answers = spawn.Barrier(CLIENTS), spawn.Queue()
        each = max(4, turns // CLIENTS)
        processes = [spawn.Process(target=_contend, args=(url, "off", each, start, answers)) for _ in range(CLIENTS)]
        for process in processes:
            process.start()
        held = sorted(event for _ in processes for event in answers.get(timeout=600)[0])
        for process in processes:
            process.join()
        # Ids grow with the grants: the one before is the one that was waited for. The last ones wait for nobody.
        pairs = list(itertools.pairwise(held))[:-CLIENTS]
        gaps += [max(0.0, after[1] - before[2]) for before, after in pairs]
        late += sum(1 for before, after in pairs if after[1] - before[2] > 0.9)
    base = timer.wall["INSERT … COMMIT"]
    print(f"{CLIENTS} processes, one object, {len(gaps)} hand-overs (goal: none by patience, p99 under 3 x the floor)")
    timer.show("INSERT … COMMIT")
    print(
        f"  from the end of a drop to the next grant: median {_ms(statistics.median(gaps))}, p99 "
        f"{_ms(_percentile(gaps, 0.99))}; p99 is {_percentile(gaps, 0.99) / statistics.median(base):.2f} x the floor's "
        f"median, {_percentile(gaps, 0.99) / _percentile(base, 0.99):.2f} x its p99; not woken: {late}"
    )
    print(
        f"  the least there can be (NOTIFY … COMMIT, another process's INSERT … COMMIT): median "
        f"{_ms(statistics.median(least))}, p99 {_ms(_percentile(least, 0.99))}; a hand-over's median is "
        f"{statistics.median(gaps) / statistics.median(least):.2f} x that, its p99 "
        f"{_percentile(gaps, 0.99) / _percentile(least, 0.99):.2f} x"
    )


def fill(url: str) -> None:
    """100,000 live, mirrored leases: 1,000 tables with 100 partitions each."""
    n = sa.func.generate_series(1, MANY).column_valued("n")
    end = 4_000_000_000_000
    table, part = sa.func.concat("t", n % 1000), sa.func.concat("p=", n / 1000)
    with client(url, "off") as mine, mine.database.transaction() as connection:
        for target, values in (
            (
                HIVE_LEASE,
                {
                    "LEASE_ID": n, "LEASE_NUMBER": 1, "LEASE_USER": "u", "DB_NAME": "db", "TABLE_NAME": table,
                    "PARTITION_NAME": part, "START_UTC": 1, "END_UTC": end, "LEASE_TYPE": "x", "SECRET_HASH": "0" * 64,
                    "MIRROR_EXT_ID": n, "MIRROR_INT_ID": 1,
                },
            ),
            (
                HIVE_LOCKS,
                {
                    "HL_LOCK_EXT_ID": n, "HL_LOCK_INT_ID": 1, "HL_TXNID": 0, "HL_DB": "db", "HL_TABLE": table,
                    "HL_PARTITION": part, "HL_LOCK_STATE": "a", "HL_LOCK_TYPE": "x", "HL_LAST_HEARTBEAT": end,
                    "HL_USER": "u", "HL_HOST": "h",
                },
            ),
        ):  # fmt: skip
            columns = [v if isinstance(v, sa.ColumnElement) else sa.literal(v) for v in values.values()]
            connection.execute(target.insert().from_select(list(values), sa.select(*columns)))
        connection.execute(NEXT_LOCK_ID.update().values(NL_NEXT=MANY + 1))
        number = sa.func.generate_series(0, 999).column_valued("n")
        guards = sa.select(sa.literal("db"), sa.func.concat("t", number))
        connection.execute(HIVE_ACID_LEASE_OBJECT.insert().from_select(["HLO_DATABASE", "HLO_TABLE"], guards))
    engine = sa.create_engine(MetastoreClient(url).database.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text("VACUUM ANALYZE"))


def many(empty: str, full: str, rounds: int, turns: int) -> None:
    fill(full)
    timer = Timer()
    clients = {f"grab among {name}, {mirror}": client(url, mirror)
               for name, url in (("none", empty), (f"{MANY:,}", full)) for mirror in ("off", "on")}  # fmt: skip
    for number in range(rounds * turns + 30):
        for name, mine in clients.items():
            place = f"db.t{number % 50}/p=free"
            if number < 30:
                mine.leases.drop_lease(mine.leases.grab_lease(place, 60))
                continue
            mine.leases.drop_lease(timer.time(name, lambda m=mine, p=place: m.leases.grab_lease(p, 60)))
    print(f"a grab among {MANY:,} live leases, 100 on its table (goal: less than 1.3 x)")
    for mirror in ("off", "on"):
        base = f"grab among none, {mirror}"
        part = Timer()
        part.wall = {k: v for k, v in timer.wall.items() if k.endswith(mirror)}
        part.cpu = {k: v for k, v in timer.cpu.items() if k.endswith(mirror)}
        part.show(base)


def extend(url: str, rounds: int) -> None:
    timer, floor = Timer(), Floor(url)
    trips = 0
    whole = pipeline.run

    def counted(*arguments: Any) -> Any:
        nonlocal trips
        trips += 1
        return whole(*arguments)

    for mirror in ("off", "on"):
        mine = client(url, mirror)
        lease = mine.leases.grab_lease([LeaseObject("db", f"e{mirror}{i % 100}", f"p={i}") for i in range(OBJECTS)], 60)
        lease = mine.leases.extend_lease(lease)
        for _ in range(rounds * 4):
            timer.time("INSERT … COMMIT", floor.insert)
            pipeline.run, trips = counted, 0  # type: ignore[assignment]
            lease = timer.time(
                f"extend {OBJECTS} objects, mirror {mirror}", lambda m=mine, held=lease: m.leases.extend_lease(held)
            )
            pipeline.run = whole
        print(f"extending {OBJECTS} objects of 100 tables, mirror {mirror}: {trips} round trip(s) (goal: 1)")
        mine.leases.drop_lease(lease)
    timer.show("INSERT … COMMIT")


def _percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--no-fsync", action="store_true")
    parser.add_argument("--part", choices=PARTS)
    options = parser.parse_args()
    with ExitStack() as stack:
        server = oracle.Postgres.start(durable=not options.no_fsync)
        stack.callback(server.stop)

        def metastore(name: str) -> str:
            url = server.create_database(name)
            with MetastoreClient(url) as made:
                made.create_schema()
            return url

        for part in [options.part] if options.part else PARTS:
            url = metastore(f"leases_{part}")
            match part:
                case "uncontended":
                    uncontended(url, options.rounds, options.turns)
                case "handover":
                    handover(url, options.rounds, options.turns)
                case "many":
                    many(url, metastore("leases_full"), options.rounds, options.turns)
                case "extend":
                    extend(url, options.rounds)


if __name__ == "__main__":
    main()
