"""A real Apache Hive under remote control: one process, many statements, any number of sessions.

``python -m tests.interop.hive`` gives a prompt on a fresh metastore, for looking at what Hive does.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = tuple[Any, ...]
STATEMENT_SECONDS = 180
_NONE = " --- "  # how SHOW COMPACTIONS prints an absent value


class HiveError(Exception):
    """A statement failed in Hive, or Hive itself died; the text is Hive's."""


@dataclass(frozen=True)
class RowId:
    """Hive's ROW__ID."""

    write_id: int
    bucket: int
    row: int

    @classmethod
    def parse(cls, text: str) -> RowId:
        value = json.loads(text)
        return cls(value["writeid"], value["bucketid"], value["rowid"])


@dataclass(frozen=True)
class HiveSnapshot:
    """What a transaction that begins now would see: Hive's texts of the lists, by ``db.table``."""

    txns: str
    reader: dict[str, str]
    compactor: dict[str, str]


class Hive:
    """An embedded Hive on one metastore database.

    :param metastore_url: SQLAlchemy URL of a PostgreSQL database that holds a metastore schema.
    :param warehouse: warehouse directory; a database ``d`` gets ``d.db`` in it.
    :param settings: of Hive, for example ``oracle.NOTIFICATIONS``: it writes no events otherwise.
    :param jars: what it needs beyond its own, for a storage of its warehouse.
    """

    def __init__(
        self,
        metastore_url: str,
        warehouse: Path,
        settings: Mapping[str, str] | None = None,
        jars: Sequence[Path] = (),
    ) -> None:
        self.settings = dict(settings or {})
        self.jars = tuple(jars)
        self.metastore_url = metastore_url
        self.warehouse = warehouse
        self._scratch = tempfile.TemporaryDirectory(prefix="hive-oracle-")
        self._log = Path(self._scratch.name) / "hive.log"
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._open: set[str] = set()

    def start(self) -> Hive:
        """Start the process and wait until it answers."""
        output = oracle.build()
        self.warehouse.mkdir(parents=True, exist_ok=True)
        command = oracle.hive_command(
            oracle.jdbc_url(self.metastore_url), self.warehouse, Path(self._scratch.name), output, self.settings,
            self.jars,
        )  # fmt: skip
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self._scratch.name
            )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), name="hive-answers")
        self._reader.start()
        try:
            self.run("show databases")
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End the process (the end of its input tells it to) and remove what it scribbled."""
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._reader.join()
            self._process.stdout.close()
            self._process = None
        self._scratch.cleanup()

    def run(self, sql: str, session: str = "main") -> list[Row]:
        """Run one statement and return its rows; complex values are Hive's JSON text, decimals and times text."""
        return self.submit(sql, session).result()

    def submit(self, sql: str, session: str = "main") -> Rows:
        """Start one statement; a session runs its statements in turn, sessions run at the same time."""
        return Rows(self._request("sql", session, sql=sql.strip().rstrip(";")))

    def script(self, statements: str, session: str = "main") -> None:
        """Run statements separated by ``;`` at the end of a line."""
        for statement in statements.split(";\n"):
            if statement.strip():
                self.run(statement, session)

    def row_ids(self, table: str, columns: str = "*") -> dict[RowId, Row]:
        """The rows of an ACID table by their ROW__ID."""
        select = ", ".join(f"t.{name.strip()}" for name in columns.split(","))
        rows = self.run(f"select t.row__id, {select} from {table} t")
        found = {RowId.parse(row[0]): row[1:] for row in rows}
        assert len(found) == len(rows), f"two rows of {table} have the same ROW__ID: {rows}"
        return found

    def begin(self, session: str) -> None:
        """Open a transaction of several statements (Hive has it, but only its own tests may use it)."""
        self._transaction("start transaction", session)
        self._open.add(session)

    def commit(self, session: str) -> None:
        """Commit the transaction of a session."""
        self._open.discard(session)
        self._transaction("commit", session)

    def rollback(self, session: str) -> None:
        """Roll the transaction of a session back."""
        self._open.discard(session)
        self._transaction("rollback", session)

    def rollback_all(self) -> None:
        """Roll back what a failed test left open."""
        for session in list(self._open):
            self.rollback(session)

    def _transaction(self, sql: str, session: str) -> None:
        self._request("transaction", session, sql=sql).result(STATEMENT_SECONDS)

    def snapshot(self, *tables: str) -> HiveSnapshot:
        """What a reader of these tables (``db.table``) that begins now would see."""
        answer = self._request("snapshot", "maintenance", tables=tables).result(STATEMENT_SECONDS)
        return HiveSnapshot(answer["txns"], answer["reader"], answer["compactor"])

    def events_after(self, event_id: int) -> list[dict[str, Any]]:
        """Events of the notification log with larger ids, each message decoded by Hive's deserializer.

        ``message`` holds what the message's getters answer, by their names without ``get``; objects are Hive's texts.
        """
        answer = self._request("events", "maintenance", after=event_id).result(STATEMENT_SECONDS)
        return list(answer["events"])

    def initiator(self) -> None:
        """One cycle of Hive's Initiator."""
        self._request("initiator", "maintenance").result(STATEMENT_SECONDS)

    def worker(self, *, query_based: bool = False) -> None:
        """One cycle of Hive's compaction Worker: at most one request of the queue.

        :param query_based: compact by SQL, which Hive does not do by default and needs for a rebalance.
        """
        self._set_query_based(query_based)
        try:
            self._request("worker", "maintenance").result(STATEMENT_SECONDS)
        finally:
            self._set_query_based(False)

    def _set_query_based(self, value: bool) -> None:
        self.run(f"set hive.compactor.crud.query.based={str(value).lower()}", "maintenance")

    def cleaner(self) -> None:
        """One cycle of Hive's Cleaner.

        It leaves alone what a transaction that is open, or was opened less than a second ago, may still see.
        """
        self._request("cleaner", "maintenance").result(STATEMENT_SECONDS)

    def clean(self, table: str) -> None:
        """Let the Cleaner run until no compaction of a table waits for it any more."""
        deadline = time.monotonic() + STATEMENT_SECONDS
        while waiting := [c for c in self.compactions("ready for cleaning") if c.split("/")[0] == table]:
            if time.monotonic() > deadline:
                raise HiveError(f"the Cleaner left {waiting} for {STATEMENT_SECONDS} s")
            time.sleep(0.2)
            self.cleaner()

    def compactions(self, state: str) -> list[str]:
        """The compactions in a state, by Hive's name of it, as ``db.table`` or ``db.table/partition``."""
        rows = self.run("show compactions", "maintenance")
        header, *rows = rows
        column = [str(name).lower() for name in header].index("state")
        return [
            f"{row[1]}.{row[2]}" + ("" if row[3] == _NONE else f"/{row[3]}") for row in rows if row[column] == state
        ]

    def housekeeping(self) -> None:
        """One round of Hive's housekeepers: time-outs and purges of the transaction tables."""
        self._request("housekeeping", "maintenance").result(STATEMENT_SECONDS)

    def _request(self, do: str, session: str, **fields: Any) -> Future[dict[str, Any]]:
        number = next(self._numbers)
        answer: Future[dict[str, Any]] = Future()
        line = json.dumps({"id": number, "session": session, "do": do, **fields})
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                raise HiveError(f"Hive is not running; the end of its log:\n{self._end_of_log()}")
            assert self._process.stdin is not None
            self._waiting[number] = answer
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        return answer

    def _read(self, answers: IO[str]) -> None:
        for line in answers:
            answer = json.loads(line)
            waiting = self._waiting.pop(answer["id"])
            if "error" in answer:
                waiting.set_exception(HiveError(answer["error"]))
            else:
                waiting.set_result(answer)
        with self._lock:
            for waiting in self._waiting.values():
                waiting.set_exception(HiveError(f"Hive died; the end of its log:\n{self._end_of_log()}"))
            self._waiting.clear()

    def _end_of_log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else "(no log)"


@dataclass(frozen=True)
class Rows:
    """The rows of a statement that may still be running."""

    answer: Future[dict[str, Any]]

    def done(self) -> bool:
        return self.answer.done()

    def result(self, timeout: float = STATEMENT_SECONDS) -> list[Row]:
        """Wait for the rows.

        :raises HiveError: when the statement failed.
        """
        return [tuple(row) for row in self.answer.result(timeout).get("rows", [])]


def prompt() -> None:
    """Read statements from standard input, a line each, until it ends."""
    oracle.build()
    postgres = oracle.Postgres.start()
    with tempfile.TemporaryDirectory(prefix="hive-oracle-warehouse-") as warehouse, ExitStack() as stack:
        stack.callback(postgres.stop)
        hive = Hive(postgres.create_hive_metastore("metastore"), Path(warehouse)).start()
        stack.callback(hive.close)
        sys.stderr.write(f"metastore {hive.metastore_url}\nwarehouse {warehouse}\n")
        services = {"worker": hive.worker, "initiator": hive.initiator, "cleaner": hive.cleaner}
        for line in sys.stdin:
            began = time.monotonic()
            try:
                if line.strip() in services:
                    services[line.strip()]()
                elif line.strip():
                    sys.stdout.writelines(json.dumps(row) + "\n" for row in hive.run(line))
            except HiveError as e:
                sys.stderr.write(f"{e}\n")
            sys.stdout.flush()
            sys.stderr.write(f"{time.monotonic() - began:.2f} s\n")


if __name__ == "__main__":
    prompt()
