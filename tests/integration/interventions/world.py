"""A metastore with one victim at a time: a writer that can be stopped anywhere, and whatever comes between.

The victim writes one row into a table that holds one. It runs in a thread of its own and stops at a point of its life;
while it stands there, somebody intervenes with a client of his own; then it goes on, and finds out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import CommitStateUnknownError, HiveAcidError, LocksPendingError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.jobs import Append
from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.protocol.handover import Patience
from airflow_hive_acid.metastore.schema.hive_transactions import COMPLETED_TXN_COMPONENTS, HIVE_LOCKS, TXNS
from airflow_hive_acid.settings import Settings, Source
from tests.integration.engine.conftest import FakeSpark
from tests.integration.maintenance.batch_model import ModelSpark, local
from tests.integration.maintenance.batch_model import read as read_batch
from tests.integration.maintenance.cycles.steps import change, pass_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OLD, NEW = 1, 2
BOUND = 60.0
"""Seconds after which a thread that should have come to a point has not."""
SETTINGS = {
    "hive.txn.opentxn.timeout": "1000ms",
    "hive.compactor.abortedtxn.threshold": "0",
    "hive.lock.numretries": "1",
}
ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
SHAPES = {
    "ACID": f"CREATE TABLE {{}} (a INT) {ACID}",
    "insert-only": "CREATE TABLE {} (a INT) STORED AS ORC TBLPROPERTIES ('transactional_properties'='insert_only')",
    "plain": "CREATE TABLE {} (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')",
    "external": "CREATE EXTERNAL TABLE {} (a INT) STORED AS TEXTFILE",
    "partitioned": f"CREATE TABLE {{}} (a INT) PARTITIONED BY (k STRING) {ACID}",
    "batch": f"CREATE TABLE {{}} (a INT) {ACID}".replace("(a INT)", "(id INT)"),
    "shared": f"CREATE TABLE {{}} (a INT) {ACID}",
}


class Spark(FakeSpark):
    """Its files hold the row that was asked for."""

    row = OLD
    before: Callable[[Any], None] | None = None
    after: Callable[[Any], None] | None = None

    def work(self, spec):
        if self.before is not None:
            self.before(spec)
        result = super().work(spec)
        if self.after is not None:
            self.after(spec)
        return result

    def write(self, spec, partition, values, name):
        written = super().write(spec, partition, values, name)
        path = Path(spec.staging.removeprefix("file:")) / "data" / partition / name / written.files[0].name
        path.write_text(f"{self.row:04d}")
        return written


class BatchSpark(ModelSpark):
    """Stops before an append as well."""

    before: Callable[[Any], None] | None = None
    late: Callable[[Any], None] | None = None

    def run(self, spec):
        if isinstance(spec.step, Append) and self.before is not None:
            self.before(spec)
        result = super().run(spec)
        if isinstance(spec.step, Append) and self.late is not None:
            self.late(spec)
        return result


@dataclasses.dataclass
class Table:
    """A table of one kind."""

    kind: str
    name: str
    verb: str

    @property
    def plain(self) -> bool:
        return self.kind in ("plain", "external")

    def insert(self, row: int) -> str:
        partition = " PARTITION (k = 'b')" if self.kind == "partitioned" else ""
        return f"INSERT {self.verb} TABLE {self.name}{partition} VALUES ({row})"  # noqa: S608 - names of this test

    @property
    def once(self) -> Once:
        return Once(("dag", "run", self.name, "-1"), life="0")


class World:
    """One metastore and warehouse for many cells, one after the other."""

    def __init__(self, url: str, warehouse: str) -> None:
        self.url, self.warehouse, self.number = url, warehouse, 0
        settings = Settings({Source.CONNECTION: SETTINGS})
        self.client = MetastoreClient(url, settings, user="ann", host="host1")
        self.helper = MetastoreClient(url, settings, user="bob", host="host2")
        self.client.catalog.set_warehouse(warehouse)
        self.fs = open_filesystem(warehouse)
        self.spark, self.other_spark = Spark(), Spark()
        self.other = Engine(self.helper, self.other_spark, warehouse, agent_info="a task")
        self.other.run("CREATE DATABASE w")

    def close(self) -> None:
        for thing in (self.other, self.client, self.helper):
            thing.close()

    def table(self, kind: str, verb: str) -> Table:
        """A new table with one row."""
        self.number += 1
        table = Table(kind, f"w.t{self.number}", "INTO" if kind == "batch" else verb)
        self.other.run(SHAPES[kind].format(table.name))
        self.other_spark.row = OLD
        if kind == "batch":
            with self._batch_engine(self.helper) as engine, engine.batch(table.name, transactions=1) as batch:
                batch.write([{"id": OLD}])
        else:
            self.other.run(table.insert(OLD).replace("'b'", "'a'"))
        return table

    def _batch_engine(self, client: MetastoreClient, spark: BatchSpark | None = None) -> Engine:
        return Engine(client, spark or BatchSpark(), self.warehouse, agent_info="a task")

    # --- what is there --------------------------------------------------------------------------------------------

    def rows(self, table: Table) -> list[int]:
        """The rows that a reader sees now."""
        if table.kind == "batch":
            return read_batch(self.helper, table.name)
        if table.plain:
            place = local(self.helper.catalog.get_table(table.name).location)
            return sorted(int(p.read_text()) for p in place.iterdir() if not p.name.startswith((".", "_")))
        with self.helper.snapshot([table.name]) as reader:
            found = self.helper.catalog.get_table(table.name)
            parts = self.helper.catalog.list_partitions(table.name) if found.is_partitioned else [found]
            roots = [local(part.location) for part in parts]
            return sorted(i for root in roots for i in _rows_in(root, reader, table.name))

    def strays(self, table: Table) -> list[str]:
        """What lies there and should not: staging that is no fence, and directories that no reader will ever see."""
        root = local(self.helper.catalog.get_table(table.name).location)
        found = [str(p) for p in root.rglob("_tmp_*") if p.is_dir()]
        found += [str(p) for p in root.rglob("*.undo*")]
        if table.kind == "batch" or table.plain:
            return found  # rows of an aborted txn of a batch lie among others'; a plain table shows all it has
        with self.helper.snapshot([table.name]) as reader:
            deltas = [p for p in root.rglob("*") if p.is_dir() and p.name.startswith(("delta_", "base_"))]
            write_ids = reader.snapshot[table.name]
            return found + [str(p) for p in deltas if not write_ids.is_valid(int(p.name.split("_")[1]))]

    def left_open(self) -> list[str]:
        """Txns and locks that are there."""
        txns = [f"txn {t.txn_id} {t.agent_info}" for t in self.helper.show_transactions() if t.state.value == "o"]
        return txns + [f"lock {row.lock_id} of txn {row.txn_id}" for row in self.helper.show_locks()]

    def maintain(self) -> None:
        """One pass of maintenance."""
        pass_time(self.helper)
        run_reaper(self.helper, self.fs)
        run_cleaner(self.helper, self.fs)

    # --- what happens to txns from outside --------------------------------------------------------------------------

    def fall_silent(self) -> None:
        """As if the processes of all open txns were gone, and their time up."""
        change(self.helper, sa.update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1))

    def hive_aborts(self, txn_id: int) -> None:
        """A real Hive aborts: the locks go with it, and it knows of no jobs."""
        change(self.helper, sa.update(TXNS).where(TXNS.c.TXN_ID == txn_id).values(TXN_STATE="a"))
        change(self.helper, sa.delete(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_TXNID == txn_id))

    def hive_forgets(self, txn_id: int) -> None:
        """A real Hive purges an ended txn, and what it remembers of its commit."""
        self.helper.commit_txn(self.helper.open_txn())  # the largest id stays
        change(self.helper, sa.delete(COMPLETED_TXN_COMPONENTS).where(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID == txn_id))
        change(self.helper, sa.delete(TXNS).where(TXNS.c.TXN_ID == txn_id, TXNS.c.TXN_STATE != "o"))

    @contextlib.contextmanager
    def blocker(self, table: Table) -> Iterator[Callable[[], None]]:
        """Somebody holds the table, until told to let go."""
        txn_id = self.helper.open_txn(agent_info="blocker")
        database, name = table.name.split(".")
        self.helper.lock(LockComponent(database, name, None, LockType.EXCLUSIVE, Operation.NO_TXN), txn_id=txn_id)
        yield lambda: self.helper.abort_txn(txn_id)
        self.helper.abort_txn(txn_id)


def _rows_in(root: Path, reader: Any, name: str) -> Iterator[int]:
    listing = [FileEntry(str(p.relative_to(root)), p.stat().st_size) for p in root.rglob("*") if p.is_file()]
    for directory in acid_state(listing, reader.snapshot[name], reader.valid_txns).inserts:
        for entry in directory.files:
            if not entry.path.rpartition("/")[2].startswith("_"):
                yield int((root / entry.path).read_text())


class Victim:
    """A writer of one row in a thread, which stops at one point.

    :ivar txn_id: its txn, once it is known.
    :ivar error: what it ended with.
    """

    def __init__(self, world: World, table: Table, point: str | None, prepare: Callable[[], None]) -> None:
        self.world, self.table, self.point, self.prepare = world, table, point, prepare
        self.txn_id: int | None = None
        self.error: BaseException | None = None
        self.committed = False
        self.there, self.go = threading.Event(), threading.Event()
        self.spark: Any = BatchSpark() if table.kind == "batch" else world.spark
        # An engine that was cancelled starts nothing any more, so each victim has its own.
        self.engine = Engine(world.client, self.spark, world.warehouse, agent_info="a task")
        self.shared_id: int | None = None
        self.document: dict[str, Any] | None = None
        self._thread = threading.Thread(target=self._run, name="victim")

    # --- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Go to the point, or to the end."""
        world, spark = self.world, self.spark
        spark.row, spark.is_alive = NEW, True
        spark.before = self._at_job if self.point == "running" else self._know
        if self.table.kind == "batch":
            spark.late = self._at_job if self.point == "staged" else None
        else:
            spark.after = self._at_job if self.point == "staged" else None
        self._commit, self._hooks = world.client.commit_txn, world.client._all_hooks
        world.client.commit_txn = self._committing  # type: ignore[method-assign]
        self._thread.start()
        assert self.there.wait(BOUND), f"the victim never came to {self.point}: {self.error!r}"

    def finish(self) -> None:
        """Let it go on, to its end."""
        self.go.set()
        self._thread.join(BOUND)
        assert not self._thread.is_alive(), "the victim hangs"
        self.world.spark.before = self.world.spark.after = None
        self.world.client.__dict__.pop("commit_txn", None)
        self.world.client.__dict__.pop("_all_hooks", None)
        for txn_id in list(self.world.client.own_txns):
            self.world.client.heartbeats.remove(txn_id)
        self.engine.close()

    def wait(self, document: dict[str, Any] | None = None) -> None:
        """Ask for locks that somebody has, and go away; or come back for them."""
        world, table = self.world, self.table
        world.spark.row, world.spark.is_alive = NEW, True
        try:
            if table.kind == "shared":
                self.engine.begin_shared({table.name: self._operation()}, table.once, patience=Patience(0, document))
            else:
                self.engine.run(table.insert(NEW), once=table.once, patience=Patience(0, document))
        except LocksPendingError as pending:
            self.document = pending.document
            self.txn_id = int(str(pending.document["txn_id"]))

    def _run(self) -> None:
        try:
            self._write()
            self.committed = True
        except (HiveAcidError, OSError) as error:  # anything else fails the test
            self.error = error
        finally:
            self.there.set()

    def _write(self) -> None:
        table, engine = self.table, self.engine
        if table.kind == "batch":
            with engine.batch(table.name, transactions=2) as batch:
                batch.write([{"id": NEW}])
                batch.commit()
        elif table.kind == "shared":
            write_shared(engine, table, self._operation())
        else:
            engine.run(table.insert(NEW), once=table.once)

    def _operation(self) -> str:
        return "overwrite" if self.table.verb == "OVERWRITE" else "insert"

    # --- its points -------------------------------------------------------------------------------------------------

    def _stand(self) -> None:
        if not self.there.is_set():
            self.there.set()
            assert self.go.wait(BOUND * 2), "nobody lets the victim go on"

    def _know(self, spec: Any) -> None:
        self.txn_id = self.world.client.jobs.get(spec.job_id).txn_id

    def _at_job(self, spec: Any) -> None:
        self._know(spec)
        self._stand()

    def _committing(self, txn_id: int, **kwargs: Any) -> None:
        world = self.world
        if txn_id != self.txn_id:
            self._commit(txn_id, **kwargs)
            return
        if self.point == "published":
            self._stand()
        elif self.point == "in COMMIT":
            self.prepare()
            world.client._all_hooks = self._stopping  # type: ignore[method-assign]
        elif self.point == "unknown":
            raise CommitStateUnknownError("the connection broke")
        self._commit(txn_id, **kwargs)
        if self.point == "unknown but committed":
            raise CommitStateUnknownError("the connection broke")

    def _stopping(self, *args: Any) -> Any:
        """All statements of the commit have run, and its COMMIT is not sent yet."""
        hooks = self._hooks(*args)
        events = hooks.events
        assert events is not None

        def late(connection: Any, facts: Any) -> Any:
            steps = events(connection, facts)
            self._stand()
            return steps

        return dataclasses.replace(hooks, events=late)


def write_shared(engine: Engine, table: Table, operation: str) -> None:
    """Begin a transaction across tasks, have one member write, commit."""
    begun = engine.begin_shared({table.name: operation}, table.once)
    if isinstance(begun, list):
        return
    name = ("dag", "run", table.name, "member", "-1")
    with engine.joined(begun.txn_id, name, patience=0.0):
        engine.run(table.insert(NEW))
    engine.commit_shared(begun.txn_id)
