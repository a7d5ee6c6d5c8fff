"""The ZooKeeper lock manager beside the one on the metastore's database: what a lock costs, and how long writers wait.

    python benchmarks/zookeeper.py [--seconds 10] [--rounds 5]

A ZooKeeper and a PostgreSQL of its own, both on loopback, both writing to disk before they answer. Cost: interleaved
rounds of taking and releasing X on one partition of a table (two objects), in a session that is open, in one that is
opened for it (as the engine does), and in the metastore's table. Starvation: readers that overlap hold S on a table
while a writer asks for X; the recipe denies and lets him ask again, the metastore's queue lets him wait in line.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest
from airflow_hive_acid.metastore.locks.legacy.manager import LegacyLockManager
from airflow_hive_acid.metastore.locks.legacy.zookeeper import ZooKeeperLockManager
from airflow_hive_acid.settings import Settings, Source
from tests.interop.oracle import oracle
from tests.zookeeper.server import running_server

if TYPE_CHECKING:
    from collections.abc import Callable

S, X = LockType.SHARED_READ, LockType.EXCLUSIVE
_READERS, _READ_SECONDS, _PAUSE = 3, 0.3, 0.05
_LOCKS = 200


def request(kind: LockType, partition: str | None = None) -> LockRequest:
    """A lock on ``db.t`` or a partition of it."""
    return LockRequest((LockComponent("db", "t", partition, kind, Operation.NO_TXN),), "bench", "localhost")


def cost(cases: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds a lock costs, on the wall and of our process's CPU, by case and round."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, take_and_release in cases.items():
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(_LOCKS):
                take_and_release()
            found[name].append(
                ((time.perf_counter() - wall) * 1000 / _LOCKS, (time.process_time() - cpu) * 1000 / _LOCKS)
            )
    return found


def starvation(
    read: Callable[[float, threading.Event], int], write: Callable[[threading.Event], bool], seconds: float
) -> tuple[int, list[float]]:
    """How many reads there were, and the seconds that each grant of X took; one that was never granted is missing."""
    stop, reads, waits = threading.Event(), [0] * _READERS, []

    def reader(number: int) -> None:
        time.sleep(number * _READ_SECONDS / _READERS)  # so that always one of them holds S
        while not stop.is_set():
            reads[number] += read(_READ_SECONDS, stop)

    threads = [threading.Thread(target=reader, args=(number,)) for number in range(_READERS)]
    for thread in threads:
        thread.start()
    time.sleep(_READ_SECONDS)
    end = time.monotonic() + seconds
    timer = threading.Timer(seconds, stop.set)
    timer.start()
    while time.monotonic() < end:
        began = time.monotonic()
        if write(stop):
            waits.append(time.monotonic() - began)
    for thread in threads:
        thread.join()
    timer.join()
    return sum(reads), waits


class Recipe:
    """Denied, and asked again after a pause."""

    def __init__(self, make: Callable[[], ZooKeeperLockManager]) -> None:
        self._make = make

    def read(self, seconds: float, stop: threading.Event) -> int:
        return int(self._hold(S, seconds, stop))

    def write(self, stop: threading.Event) -> bool:
        return self._hold(X, 0, stop)

    def _hold(self, kind: LockType, seconds: float, stop: threading.Event) -> bool:
        with closing(self._make()) as manager:
            while not stop.is_set():
                if manager.lock(request(kind)).state is LockState.ACQUIRED:
                    time.sleep(seconds)
                    return True
                time.sleep(_PAUSE)
        return False


class Queue:
    """The metastore's own lock manager: whoever waits has a place."""

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client

    def read(self, seconds: float, stop: threading.Event) -> int:
        return int(self._hold(S, seconds, stop))

    def write(self, stop: threading.Event) -> bool:
        return self._hold(X, 0, stop)

    def _hold(self, kind: LockType, seconds: float, stop: threading.Event) -> bool:
        lock = self._client.lock(request(kind))
        while lock.state is not LockState.ACQUIRED and not stop.is_set():
            time.sleep(_PAUSE)
            lock = self._client.check_lock(lock.lock_id)
        granted = lock.state is LockState.ACQUIRED
        time.sleep(seconds if granted else 0)
        self._client.unlock(lock.lock_id)
        return granted


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=10.0)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hive-acid-zk-")))
        server = stack.enter_context(running_server(folder, durable=True))
        postgres = oracle.Postgres.start(durable=True)
        stack.callback(postgres.stop)
        client = stack.enter_context(MetastoreClient(postgres.create_database("locks")))
        client.create_schema()
        settings = Settings({Source.REQUEST: {"hive.zookeeper.quorum": server.address}})

        def session() -> ZooKeeperLockManager:
            return ZooKeeperLockManager(client.database, settings)

        open_session = stack.enter_context(closing(session()))
        table = LegacyLockManager(client.database, settings)

        def in_session(manager: ZooKeeperLockManager | LegacyLockManager) -> None:
            manager.unlock(manager.lock(request(X, "p=1")).lock_id)

        def with_session() -> None:
            with closing(session()) as manager:
                in_session(manager)

        found = cost(
            {
                "metastore's table (hive.lock.manager = EmbeddedLockManager)": lambda: in_session(table),
                "ZooKeeper, in an open session": lambda: in_session(open_session),
                "ZooKeeper, with a session for it (as the engine does)": with_session,
            },
            given.rounds,
        )
        base = statistics.median(wall for wall, _ in next(iter(found.values())))
        print(f"\nX on one partition, taken and released; medians of {given.rounds} interleaved rounds of {_LOCKS}\n")
        print("| | ms | ratio | our CPU ms |\n|---|---:|---:|---:|")
        for name, samples in found.items():
            wall, cpu = (statistics.median(values) for values in zip(*samples, strict=True))
            print(f"| {name} | {wall:.2f} | {wall / base:.2f} | {cpu:.2f} |")
        print(
            f"\n{_READERS} readers that overlap, each holding S for {_READ_SECONDS} s again and again, and a writer "
            f"that wants X, {given.seconds:g} s each\n"
        )
        print("| | reads | X granted | longest wait, s |\n|---|---:|---:|---:|")
        for name, locks in {"ZooKeeper (the recipe)": Recipe(session), "metastore's queue": Queue(client)}.items():
            reads, waits = starvation(locks.read, locks.write, given.seconds)
            print(f"| {name} | {reads} | {len(waits)} | {f'{max(waits):.2f}' if waits else '-'} |")


if __name__ == "__main__":
    main()
