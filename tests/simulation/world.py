"""The whole control plane in one thread: clients, readers, Initiator, Workers, Cleaner, reaper on one metastore.

Everything that decides is the product's; only Spark jobs, files, threads and time are the simulation's. Services are
killed and started again, clients are killed or stopped until their txns have timed out and then go on as zombies, the
warehouse is absent, full, slow or lists what is gone; the clock jumps. After each effect the model looks (``model``).
"""

from __future__ import annotations

import contextlib
import random
import shutil
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError, NoSuchObjectError, SnapshotTooOldError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance import run_cleaner, run_initiator, run_reaper, run_worker
from airflow_hive_acid.maintenance.reaper.shared_txns import keep
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.settings import Settings

from . import rows, statements
from .database import Metastore, one_thread
from .memory import MemoryFilesystem
from .model import Author, Change, Model, Violated
from .plan import FAULTS, Op, Plan
from .rest import require_rest
from .rows import Place
from .scheduler import Actor, Killed, Process, Scheduler, Stuck
from .statements import PLAIN, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_hive_acid.metastore import ReaderSnapshot, Transaction

WAREHOUSE = "file:/sim/warehouse"
SETTINGS = {
    "hive.compactor.delta.num.threshold": "2",
    "hive.compactor.abortedtxn.threshold": "0",
    "hive.compactor.cleaner.run.interval": "1s",
    "hive.lock.numretries": "8",
    "hive.compactor.initiator.failed.compacts.threshold": "99",
    "hive.compactor.history.retention.failed": "100",
}
TRASH = {"hive.acid.cleaner.trash.dir": "file:/sim/trash"}
LIMIT = 200_000
TRIES = 4


@dataclass(frozen=True)
class Report:
    """How a run ended.

    :param failure: what was wrong, with the last steps; None when nothing was.
    """

    steps: int
    checks: int
    committed: int
    failure: str | None


def make_template(path: Path) -> None:
    """A metastore with a database and tables: two without partitions, one with two, and one without transactions."""
    with MetastoreClient(f"sqlite:///{path}", Settings()) as client:
        client.create_schema()
        client.catalog.set_warehouse(WAREHOUSE)
        client.catalog.create_database("s")
        for name in TABLES:
            keys = (Column("k", "string"),) if name == "s.p" else ()
            definition = TableDefinition(*name.split("."), (Column("id", "bigint"),), partition_columns=keys)
            client.catalog.create_table(definition)
        properties = {"transactional": "false"}
        client.catalog.create_table(
            TableDefinition(*PLAIN.split("."), (Column("id", "bigint"),), properties=properties)
        )
        client.catalog.add_partitions("s.p", [("1",), ("2",)])


@dataclass
class Task:
    """What a client has to do, and how far it is.

    :ivar process: of its newest try; those before may live on.
    """

    ops: tuple[Op, ...]
    next: int = 0
    tries: int = 0
    process: Process = field(default_factory=lambda: Process("nobody"))

    @property
    def is_waiting(self) -> bool:
        """Whether it is not done, and may be tried again."""
        return self.next < len(self.ops) and self.tries < TRIES


class World:
    """One run."""

    def __init__(self, plan: Plan, template: Path, path: Path) -> None:
        shutil.copy(template, path)
        self.plan = plan
        self.dice = random.Random(plan.seed ^ 0x5EED)
        self.scheduler = Scheduler(self.dice, LIMIT)
        self.metastore = Metastore(path, self.scheduler, {**SETTINGS, **(TRASH if plan.trash else {})})
        self.fs = MemoryFilesystem(self.scheduler)
        self.processes: list[Process] = []
        self.over = False
        self._waiting_troubles = list(plan.troubles)
        self._until: list[tuple[int, Callable[[], None]]] = []
        self.places = self._places(path)
        self.model = Model(self.metastore.raw, self.fs, self.places, self.tables, now=lambda: self.scheduler.now)
        self.failure: BaseException | None = None
        self.authors: dict[str, Author] = {}
        self.wrong: dict[str, str] = {}
        self.groups: dict[str, statements.Group] = {}
        self.tasks = [Task(ops) for ops in plan.clients]

    def _places(self, path: Path) -> list[Place]:
        with MetastoreClient(f"sqlite:///{path}", Settings()) as client:
            found = {name: client.catalog.get_table(name) for name in (*TABLES, PLAIN)}
        self.tables = {str(table.id): (name, table.location) for name, table in found.items()}
        places = []
        for name, table in found.items():
            for partition in ("k=1", "k=2") if name == "s.p" else ("",):
                places.append(Place(str(table.id), partition, name == PLAIN, self.tables))
        for place in places:
            node = self.fs.root
            for part in place.parts:
                node = node.setdefault(part, {})
        return places

    # --- a run ----------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Until all clients are done and maintenance has nothing left to do."""
        try:
            with one_thread(self.scheduler), statements.simulated(self):
                try:
                    self._run()
                finally:
                    self.scheduler.end()
        except (Violated, Stuck) as problem:
            self.failure = self.failure or problem
        finally:
            self.metastore.close()
        told = None
        if self.failure is not None:
            kind = type(self.failure).__name__
            told = "\n".join([*self.scheduler.told(), f"{kind}: {self.failure}"])
        return Report(self.scheduler.steps, self.model.checks, len(self.model.committed), told)

    def _run(self) -> None:
        self.metastore.committed = self._guarded(self.model.after_commit)
        self.fs.changed = lambda parts: self._guarded(partial(self.model.files_changed, parts))()
        self.scheduler.before_step = self._trouble
        for number in range(len(self.tasks)):
            self._start_task(number)
        if self.plan.retries:
            self.scheduler.spawn("airflow", Process("airflow"), self._start_again)
        services = {"initiator": self._initiate, "worker0": self._work, "worker1": self._work,
                    "cleaner": self._clean, "reaper": self._reap}  # fmt: skip
        for name, service in services.items():
            self._start(name, partial(self._service, service, name), background=True)
        self.scheduler.run()
        self._require_fine()
        self._settle(services)

    def _guarded(self, check: Callable[[], None]) -> Callable[[], None]:
        """A violation ends the run, whatever the product does with the exception."""

        def guarded() -> None:
            if self.failure is None:
                try:
                    check()
                except Violated as problem:
                    self.failure = problem
                    for process in self.processes:
                        process.killed = True

        return guarded

    def _require_fine(self) -> None:
        if self.failure is not None:
            raise Violated(str(self.failure))

    def _start_task(self, number: int) -> None:
        task = self.tasks[number]
        task.tries += 1
        name = f"client{number}" + (f".{task.tries}" if task.tries > 1 else "")
        task.process = self._start(name, partial(self._client, number, task.tries))

    def _start_again(self) -> None:
        """As Airflow does with tasks whose process is dead, or says nothing for a while and may go on later."""
        while self.failure is None and any(task.is_waiting for task in self.tasks):
            self.scheduler.sleep(20)
            for number, task in enumerate(self.tasks):
                away = task.process.killed or task.process.frozen_until > self.scheduler.now + 60_000
                if task.is_waiting and away and self.failure is None:
                    self._start_task(number)

    def keep(self, txn_id: int) -> None:
        """Start the keeper of a txn of several tasks, in a triggerer of its own."""

        def beat(client: MetastoreClient) -> None:
            ended = False
            while not self.over and not ended:
                with contextlib.suppress(HiveAcidError, OSError):
                    ended = keep(client, self.fs, txn_id, measure=False).ended
                self.scheduler.sleep(5)

        self._start(f"keeper {txn_id}", beat, background=True)

    def _start(self, name: str, work: Callable[[MetastoreClient], None], *, background: bool = False) -> Process:
        process = Process(name)
        self.processes.append(process)
        client = self.metastore.client(process)

        def main() -> None:
            try:
                work(client)
            except Killed:
                raise
            except Exception as error:  # noqa: BLE001 - the run says what it was
                if self.failure is None:
                    self.failure = error
                for other in self.processes:
                    other.killed = True
            finally:
                process.killed = True
                client.close()

        def beat() -> None:
            while not process.killed:
                self.scheduler.sleep(100)
                client.heartbeats.beat()  # type: ignore[attr-defined]

        self.scheduler.spawn(name, process, main, background=background)
        self.scheduler.spawn(f"{name} beats", process, beat, background=True)
        return process

    # --- what goes wrong ------------------------------------------------------------------------------------------

    def _trouble(self, actor: Actor) -> None:
        for until, end in list(self._until):
            if self.scheduler.now >= until:
                end()
                self._until.remove((until, end))
        while self._waiting_troubles and self._waiting_troubles[0].step <= self.scheduler.steps:
            trouble = self._waiting_troubles.pop(0)
            if self.over:
                return
            self.scheduler.note(f"*** {trouble}")
            alive = [process for process in self.processes if not process.killed]
            process = alive[trouble.which % len(alive)]
            until = self.scheduler.now + trouble.lasts
            match trouble.kind:
                case "kill":
                    process.killed = True
                case "freeze":
                    process.frozen_until = until
                case "jump":
                    self.scheduler.now += trouble.lasts
                case fault if fault in FAULTS:
                    self.fs.fault = fault
                    self._until.append((until, self._mend))

    def _mend(self) -> None:
        self.fs.fault = ""

    # --- clients --------------------------------------------------------------------------------------------------

    def _client(self, number: int, mine: int, client: MetastoreClient) -> None:
        task = self.tasks[number]
        while task.next < len(task.ops) and task.tries == mine:
            at = task.next
            for _ in range(TRIES if self.plan.retries else 1):
                if self._is_done(client, task.ops[at], f"client{number} op {at}") or task.tries != mine:
                    break
                self.scheduler.sleep(10)
            if task.tries == mine:
                task.next = at + 1

    def _is_done(self, client: MetastoreClient, op: Op, tag: str) -> bool:
        try:
            if op.kind.startswith("sql "):
                statements.run(self, client, op, tag)
            else:
                {"read": self._read, "pin": self._pin, "compact": self._ask}.get(op.kind, self._write)(client, op)
        except (HiveAcidError, OSError) as error:
            self.scheduler.note(f"{op.kind}: {type(error).__name__}: {str(error)[:150]}")
            return False
        return True

    def _write(self, client: MetastoreClient, op: Op) -> None:
        dice = random.Random(op.pick)
        tables = dice.sample(TABLES, 2 if op.kind == "two" else 1)
        operation = {"two": "update", "abort": "update"}.get(op.kind, op.kind)
        partitioned = [table for table in tables if table == "s.p"]
        with client.begin(dict.fromkeys(tables, operation), partitioned=partitioned) as txn:
            changes: dict[Place, Change] = {}
            for table in tables:
                mine = self._changes(client, txn, table, operation, dice)
                if mine:
                    rows.write(client, self.fs, txn, table, mine, uuid.uuid4(), overwrite=operation == "overwrite")
                if table in partitioned:
                    txn.add_partitions(table, sorted(place.partition for place in mine))
                changes |= mine
            self.scheduler.sleep(op.pause) if op.pause else None
            if op.kind == "abort":
                txn.abort("a simulation")
                return
            self.model.declare(txn.txn_id, changes)

    def _changes(
        self, client: MetastoreClient, txn: Transaction, table: str, operation: str, dice: random.Random
    ) -> dict[Place, Change]:
        places = [place for place in self.places if place.table == table and self.model.is_there(place)]
        if not places:
            raise NoSuchObjectError(f"{table} is not there")
        chosen = dice.sample(places, dice.randint(1, len(places)))
        changes = {}
        for number, place in enumerate(sorted(chosen)):
            adds, deletes = set(), set()
            if operation != "delete":
                adds = {(txn.write_ids[table], number * 10 + i) for i in range(dice.randint(1, 3))}
            if operation != "insert":
                seen = rows.read(self.fs, place, txn.snapshot[table], txn.valid_txns)
                some = dice.randint(1, len(seen)) if seen else 0
                deletes = seen if operation == "overwrite" else set(dice.sample(sorted(seen), some))
            if adds or deletes:
                changes[place] = Change(frozenset(adds), frozenset(deletes))
        return changes

    def _read(self, client: MetastoreClient, op: Op) -> None:
        dice = random.Random(op.pick)
        tables = sorted(dice.sample(TABLES, dice.randint(1, 3)))
        with client.snapshot(tables) as reader:
            for _ in range(2):
                for place in self.places:
                    if place.table in tables:
                        self._compare(reader, place)
                self.scheduler.sleep(op.pause) if op.pause else None
                reader.check()

    def _pin(self, client: MetastoreClient, op: Op) -> None:
        dice = random.Random(op.pick)
        name, tables = f"pin{self.scheduler.random.getrandbits(32)}", sorted(dice.sample(TABLES, dice.randint(1, 3)))
        client.pins.pin(name, tables, expires=dice.choice((1, 60, 3600)))
        for _ in range(3):
            self.scheduler.sleep(op.pause) if op.pause else None
            for table in tables:
                self._read_by(client, name, table)
        client.pins.unpin(name)

    def _read_by(self, client: MetastoreClient, name: str, table: str) -> None:
        """As a statement reads by a pin: its own txn is open meanwhile, and in the end it asks whether all was kept."""
        with client.snapshot([table]) as reader:
            pinned = client.pins.look(name, table)
            seen = [txn for txn in self.model.committed if pinned.txns.is_valid(txn)]
            wrong = ""
            for place in (each for each in self.places if each.table == table and self.model.is_there(each)):
                expected = self.model.rows(place, seen)
                try:
                    found = rows.read(self.fs, place, pinned.write_ids, pinned.txns)
                except (FileNotFoundError, SnapshotTooOldError) as problem:
                    if self.fs.fault:
                        raise
                    wrong = f"{problem} in {place}"
                else:
                    if found != expected and not self.fs.fault:
                        wrong = f"{sorted(found ^ expected)[:3]} are read otherwise than committed in {place}"
            client.pins.require_kept(pinned)
            reader.check()
            if wrong:
                self.failure = Violated(f"by {pinned.pin}: {wrong}")
                raise self.failure

    def _ask(self, client: MetastoreClient, op: Op) -> None:
        dice = random.Random(op.pick)
        places = [place for place in self.places if not place.plain and self.model.is_there(place)]
        place = dice.choice(places)
        kind = dice.choice((CompactionType.MINOR, CompactionType.MAJOR))
        client.compactions.enqueue(place.table, place.partition or None, kind)
        self.scheduler.sleep(op.pause) if op.pause else None

    def _compare(self, reader: ReaderSnapshot, place: Place) -> None:
        if not self.model.is_there(place):
            return
        seen = [txn for txn in self.model.committed if reader.valid_txns.is_valid(txn)]
        expected = self.model.rows(place, seen)
        try:
            found = rows.read(self.fs, place, reader.snapshot[place.table], reader.valid_txns)
        except FileNotFoundError:
            # Who was away for too long was timed out, and is told so at its next beat.
            if self.fs.fault or not self.is_open(reader.txn_id):
                raise
            raise Violated(f"a file of the snapshot of txn {reader.txn_id} is gone") from None
        if found != expected and not self.fs.fault and self.is_open(reader.txn_id):
            problem = f"txn {reader.txn_id} reads {sorted(found ^ expected)[:3]} otherwise than committed in {place}"
            self.failure = Violated(problem)
            raise self.failure

    def is_open(self, txn_id: int) -> bool:
        """Whether a txn is open now."""
        found = self.metastore.raw.execute("SELECT TXN_STATE FROM TXNS WHERE TXN_ID = ?", (txn_id,)).fetchone()
        return found is not None and found[0] == "o"

    # --- services -------------------------------------------------------------------------------------------------

    def _service(self, turn: Callable[[MetastoreClient, str], object], name: str, client: MetastoreClient) -> None:
        while not self.over:
            self._turn(turn, name, client)
            self.scheduler.sleep(self.dice.choice((2, 20, 60)))

    def _turn(self, turn: Callable[[MetastoreClient, str], object], name: str, client: MetastoreClient) -> None:
        try:
            turn(client, name)
        except (HiveAcidError, OSError) as error:
            self.scheduler.note(f"{type(error).__name__}: {str(error)[:150]}")

    def _initiate(self, client: MetastoreClient, name: str) -> None:
        run_initiator(client, self.fs)

    def _work(self, client: MetastoreClient, name: str) -> None:
        run_worker(client, self.fs, partial(rows.compact, self.fs), name, limit=2)

    def _clean(self, client: MetastoreClient, name: str) -> None:
        run_cleaner(client, self.fs)

    def _reap(self, client: MetastoreClient, name: str) -> None:
        run_reaper(client, self.fs)

    # --- the end --------------------------------------------------------------------------------------------------

    def _settle(self, services: dict[str, Callable[[MetastoreClient, str], object]]) -> None:
        """All processes are dead and nothing goes wrong any more: maintenance must bring everything to rest."""
        self.over, self.fs.fault = True, ""
        self.scheduler.end()

        def rest(client: MetastoreClient) -> None:
            for _ in range(4):
                self.scheduler.now += 2 * 86_400_000
                for name in ("reaper", "worker0", "worker1", "initiator", "worker0", "cleaner", "reaper", "cleaner"):
                    self._turn(services[name], name, client)

        self._start("maintenance", rest)
        self.scheduler.run()
        self._require_fine()
        for place in self.places:
            self.model.check(place)
        require_rest(self)


def simulate(plan: Plan, template: Path, path: Path) -> Report:
    """Run a plan on a copy of a metastore."""
    try:
        return World(plan, template, path).run()
    finally:
        for left in path.parent.glob(f"{path.name}*"):
            left.unlink()
