"""Clients of a metastore in closed loops: ours as processes, Hive's as threads of one warm JVM, and the bare driver.

All answer with the same numbers: txns done, seconds, CPU seconds of the clients, milliseconds of each verb.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any

import psycopg
import sqlalchemy as sa

from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TABLES = 100
VERBS = ("openTxn", "lock", "allocateTableWriteIds", "commitTxn")
#: As Hive's TxnHandler runs by itself: the notification listener is the metastore server's.
SETTINGS = Settings({Source.CONNECTION: {"hive.metastore.event.db.listener.on": "false"}})
_METADATA = sa.MetaData()
RAW = sa.Table(
    "HIVE_ACID_FLOOR",
    _METADATA,
    sa.Column("ID", sa.BigInteger, primary_key=True, autoincrement=True),
    sa.Column("A", sa.Text),
    sa.Column("B", sa.BigInteger),
)
_WARM_UP = 20


@dataclass
class Run:
    """What the clients of one case did in one round.

    :param cpu: seconds of the clients; ``server`` those of the database server's processes.
    """

    done: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    latencies: Sequence[Sequence[float]] = field(default_factory=list)
    server: float = 0.0

    @property
    def rate(self) -> float:
        """Txns per second."""
        return self.done / self.seconds


def floor(url: str) -> Callable[[], tuple[float, ...]]:
    """One INSERT and its COMMIT, through the driver alone."""
    parsed = sa.make_url(url)
    values = ("abcdefghijklmnop", 1)
    if parsed.get_backend_name() == "mysql":
        engine = sa.create_engine(parsed.set(drivername="mysql+pymysql"), isolation_level="AUTOCOMMIT")
        driver: Any = engine.raw_connection().driver_connection
        cursor = driver.cursor()

        def insert() -> tuple[float, ...]:
            cursor.execute("INSERT INTO `HIVE_ACID_FLOOR` (`A`, `B`) VALUES (%s, %s)", values)
            return ()

        return insert
    connection = psycopg.connect(
        parsed.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True
    )
    statement = 'INSERT INTO "HIVE_ACID_FLOOR" ("A", "B") VALUES (%s, %s)'

    def once() -> tuple[float, ...]:
        connection.execute(statement, values, prepare=True)
        return ()

    return once


def verbs(client: MetastoreClient, operation: Operation) -> Callable[[], tuple[float, ...]]:
    """Open, lock, write id and commit; a conflict ends the txn as well."""

    def once() -> tuple[float, ...]:
        table = f"t{random.randrange(TABLES)}"
        component = LockComponent("db", table, None, LockType.SHARED_WRITE, operation)
        times = [time.perf_counter()]
        txn_id = client.open_txn()
        times.append(time.perf_counter())
        client.lock([component], txn_id=txn_id)
        times.append(time.perf_counter())
        client.allocate_write_ids(f"db.{table}", txn_id)
        times.append(time.perf_counter())
        with suppress(WriteConflictError):
            client.commit_txn(txn_id)
        times.append(time.perf_counter())
        return tuple(1000 * (b - a) for a, b in pairwise(times))

    return once


def transaction(client: MetastoreClient) -> Callable[[], tuple[float, ...]]:
    """The whole protocol."""

    def once() -> tuple[float, ...]:
        with client.transaction({f"db.t{random.randrange(TABLES)}": "insert"}):
            return ()

    return once


def _work(case: str, url: str, seconds: float, start: Any, answers: Any) -> None:
    """One client: a closed loop for so many seconds."""
    with MetastoreClient(url, SETTINGS) as client:
        once = {
            "floor": lambda: floor(url),
            "insert": lambda: verbs(client, Operation.INSERT),
            "update": lambda: verbs(client, Operation.UPDATE),
            "transaction": lambda: transaction(client),
        }[case]()
        for _ in range(_WARM_UP):
            once()
        start.wait()
        latencies = []
        began, cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - began < seconds:
            latencies.append(once())
        answers.put((len(latencies), time.perf_counter() - began, time.process_time() - cpu, latencies))


def run_ours(case: str, url: str, clients: int, seconds: float) -> Run:
    """One case with so many client processes."""
    # Children of a process that has imported everything: two cores have better things to do.
    context = multiprocessing.get_context("forkserver")
    answers, start = context.Queue(), context.Barrier(clients)
    processes = [context.Process(target=_work, args=(case, url, seconds, start, answers)) for _ in range(clients)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=seconds + 120) for _ in processes]
    for process in processes:
        process.join()
    return Run(
        sum(f[0] for f in found),
        max(f[1] for f in found),
        sum(f[2] for f in found),
        [latency for f in found for latency in f[3] if latency],
    )


class Hive:
    """Hive's TxnStore in a JVM of its own.

    :param command: starts ``HiveVerbs`` on one metastore database.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, operation: str, clients: int, seconds: float) -> Run:
        """The four verbs with so many threads."""
        requests, answers = self._pipes()
        requests.write(f"{operation} {clients} {seconds}\n")
        requests.flush()
        line = answers.readline()
        if not line:
            raise RuntimeError("Hive's process died; run its command by hand to see why")
        return Run(**json.loads(line))

    def warm_up(self, txns: int = 1500, seconds: float = 60) -> None:
        """Let the JVM's compilers see that many txns, or give up after so long."""
        began, done = time.monotonic(), 0
        while done < txns and time.monotonic() - began < seconds:
            done += sum(self.run(operation, 2, 2).done for operation in ("insert", "update"))

    def close(self) -> None:
        """End it."""
        requests, answers = self._pipes()
        requests.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        answers.close()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout
