"""SQL in a simulation: the product's engine, whose Spark writes lists of row ids.

A statement holds a number; from that the job draws what it adds and deletes. All tries of a statement say ``once``.
"""

from __future__ import annotations

import contextlib
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.outcomes.events import TransactionOpened
from airflow_hive_acid.engine.statements import truncate
from airflow_hive_acid.engine.transactions import shared
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import (
    HiveAcidError,
    JobFailedError,
    MetastoreUnavailableError,
    TransactionEndedError,
)
from airflow_hive_acid.format.jobs import Column, Delete, Insert, JobResult, Select, Update
from airflow_hive_acid.format.names import (
    PLAIN_FILES,
    base_name,
    bucket_file_name,
    delete_delta_name,
    delta_name,
    unique_file_name,
)
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

from . import rows
from .model import Author, Change, Violated
from .scheduler import Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.format.jobs import JobSpec, TableSnapshot
    from airflow_hive_acid.metastore import MetastoreClient

    from .plan import Op
    from .rows import Place, Row
    from .scheduler import Scheduler
    from .world import World

TABLES = ("s.a", "s.b", "s.p")
PLAIN = "s.q"
"""It has no transactions: it takes no UPDATE, no DELETE, and cannot be part of what several tasks do."""
NAMES = ("s.b", "s.r")
"""Of a table that is renamed, dropped and made anew."""
KINDS = {
    "sql insert": "INSERT INTO {table} {values}",
    "sql update": "UPDATE {table} SET id = {pick}",
    "sql delete": "DELETE FROM {table} WHERE id = {pick}",
    "sql overwrite": "INSERT OVERWRITE TABLE {table} {values}",
    "sql rewrite": "INSERT OVERWRITE TABLE {table} SELECT id + {pick}{also} FROM {table}",
    "sql truncate": "TRUNCATE TABLE {table}{partition}",
    "sql read": "SELECT * FROM {table}",
    "sql drop": "ALTER TABLE s.p DROP IF EXISTS PARTITION (k='{k}')",
    "sql rename": "ALTER TABLE {one} RENAME TO {other}",
    "sql drop table": "DROP TABLE IF EXISTS {one}",
    "sql create": "CREATE TABLE IF NOT EXISTS s.b (id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')",
    "sql add": "ALTER TABLE s.p ADD IF NOT EXISTS PARTITION (k='{k}')",
}
PROGRAM = ("sql insert", "sql update", "sql delete", "sql overwrite", "sql rewrite", "sql truncate")


def text_of(kind: str, table: str, pick: int) -> str:
    """A statement of a kind."""
    if table == PLAIN and kind in ("sql update", "sql delete"):
        kind = "sql insert"
    k = pick % 2 + 1
    partitioned = table == "s.p"
    return KINDS[kind].format(
        table=table, pick=pick, k=k, one=NAMES[pick % 4 == 0], other=NAMES[pick % 4 != 0],
        values=f"SELECT {pick}, '{k}'" if partitioned else f"SELECT {pick}",
        also=", k" if partitioned else "",
        partition=f" PARTITION (k='{k}')" if partitioned and pick % 3 else "",
    )  # fmt: skip


def run(world: World, client: MetastoreClient, op: Op, tag: str) -> None:
    """Do what an op says; several tries of it are one."""
    dice = random.Random(op.pick)
    table = dice.choice((*TABLES, *TABLES, PLAIN, NAMES[1]))
    if op.kind == "sql lease":
        _under_lease(world, client, op, tag, dice, table)
    elif op.kind == "sql shared":
        _shared(world, client, op, tag, dice)
    elif op.kind == "sql program":
        kinds = [dice.choice(PROGRAM) for _ in range(dice.randint(2, 4))]
        tables = [dice.choice((table, dice.choice((*TABLES, PLAIN)))) for _ in kinds]
        script = "; ".join(text_of(kind, t, op.pick + n) for n, (kind, t) in enumerate(zip(kinds, tables, strict=True)))
        with engine(world, client, op, Author(tag)) as each:
            each.run(script, one_transaction=True, once=Once((tag,)))
    else:
        author = Author(tag, waits_for_leases=op.kind != "sql insert")
        with engine(world, client, op, author) as each:
            world.wrong.pop(tag, None)
            each.run(text_of(op.kind, table, op.pick), once=Once((tag,)))
        if tag in world.wrong:
            raise Violated(world.wrong[tag])
        if op.kind == "sql insert" and tag not in world.model.applied:
            raise Violated(f"{tag} is said to be applied, and is not")


def _under_lease(world: World, client: MetastoreClient, op: Op, tag: str, dice: random.Random, table: str) -> None:
    place = dice.choice(["s.p/k=1", "s.p"]) if table == "s.p" else table
    lease = client.leases.grab_lease(place, dice.choice((5, 60, 1200)), dice.choice((0, 30)))
    try:
        for number in range(2):
            kind = dice.choice(PROGRAM)
            author = Author(f"{tag} statement {number}", lease.lease_id, waits_for_leases=kind != "sql insert")
            with engine(world, client, op, author) as each:
                each.run(text_of(kind, table, op.pick), once=Once((author.tag,)), lease=lease)
            if dice.random() < 0.5:
                lease = client.leases.extend_lease(lease)
    finally:
        client.leases.drop_lease(lease)


@dataclass
class Group:
    """A txn of several tasks, as far as it is."""

    txn_id: int | None = None
    next: int = 0
    attempts: int = 0


def _shared(world: World, client: MetastoreClient, op: Op, tag: str, dice: random.Random) -> None:
    """Each try goes on where the one before has ended, as tasks of Airflow do; a txn that was given up begins anew."""
    kinds = [dice.choice(PROGRAM[: 6 if dice.random() < 0.3 else 3]) for _ in range(dice.randint(2, 3))]
    tables = [dice.choice(TABLES) for _ in kinds]
    operations = dict.fromkeys(tables, "overwrite" if set(kinds) - set(PROGRAM[:3]) else "update")
    group = world.groups.setdefault(tag, Group())
    scope = (tag, "run", "1")
    try:
        if group.txn_id is None:
            with engine(world, client, op, Author(tag, member="begin")) as each:
                begun = each.begin_shared(operations, Once((*scope, "begin")))
            if isinstance(begun, list):
                return
            group.txn_id, group.next = begun.txn_id, 0
            world.keep(begun.txn_id)
        while group.next < len(kinds):
            number = group.next
            group.attempts += 1
            author = Author(tag, member=f"member {number}", attempt=group.attempts)
            with engine(world, client, op, author, group.txn_id) as each:
                name = (*scope, author.member)
                with each.joined(group.txn_id, name, patience=60, is_final=lambda _: dice.random() < 0.2):
                    each.run(text_of(kinds[number], tables[number], op.pick + number))
            group.next = max(group.next, number + 1)
        with engine(world, client, op, Author(tag, member="commit")) as each:
            each.commit_shared(group.txn_id)
    except TransactionEndedError:
        group.txn_id = None
        raise


@contextlib.contextmanager
def engine(
    world: World, client: MetastoreClient, op: Op, author: Author, txn_id: int | None = None
) -> Iterator[Engine]:
    """An engine whose files and Spark are the simulation's.

    :param txn_id: of the txn in which it is to work, where it does not open one itself.
    """
    name = f"{author.tag} {author.member}".rstrip()
    spark = Spark(world, op, author)
    spark.txn_id = txn_id

    def told(event: Event) -> None:
        if isinstance(event, TransactionOpened):
            spark.txn_id = event.txn_id

    with Engine(client, spark, None, on_event=told, agent_info=name) as each:  # type: ignore[arg-type]
        each._context.filesystem = world.fs  # type: ignore[assignment]
        world.authors[name] = author
        yield each


@contextlib.contextmanager
def simulated(world: World) -> Iterator[None]:
    """The engine's threads are the simulation's, and the model hears of tables that are truncated: no job does that."""
    publish = truncate.publish_empty

    def publish_empty(transaction: Any, table: Any, chosen: Any) -> Any:
        author = world.authors[transaction._context.agent_info]
        names = {partition.name for partition in chosen}
        for place in world.places:
            if world.model.is_there(place) and place.table == table.qualified_name and place.partition in names:
                world.model.does(transaction.txn_id, place, Change(frozenset(), frozenset(), True), author)
        return publish(transaction, table, chosen)

    def watch(beat: Callable[[int], None], interval: float, what: str) -> Watch:
        return Watch(world.scheduler, beat, interval)

    with mock.patch.object(truncate, "publish_empty", publish_empty), mock.patch.object(shared, "Heartbeater", watch):
        yield


class Watch:
    """Takes the place of the thread that keeps a turn in a txn of several tasks."""

    def __init__(self, scheduler: Scheduler, beat: Callable[[int], None], interval: float) -> None:
        self._scheduler, self._beat, self._interval = scheduler, beat, interval
        self._closed = False

    def add(self, txn_id: int) -> None:
        actor = self._scheduler.current
        if actor is None:
            raise AssertionError("not in a process of the simulation")

        def look() -> None:
            while not self._closed:
                self._scheduler.sleep(self._interval)
                if self._closed:
                    return
                try:
                    self._beat(txn_id)
                except MetastoreUnavailableError:
                    continue
                except HiveAcidError:
                    return

        self._scheduler.spawn(f"{actor.name} turn", actor.process, look, background=True)

    def close(self) -> None:
        self._closed = True


Effect = tuple["Place", Change, dict[str, list[object]]]
"""A place, what is done to it, and the contents of new directories by their names."""


class Spark:
    """A launcher and its application in one."""

    application_id = "application_1"

    def __init__(self, world: World, op: Op, author: Author) -> None:
        self._world, self._op, self._author = world, op, author
        self._job: Process | None = None
        self.txn_id: int | None = None
        self.is_alive = True

    def start(self, application: object = None) -> Spark:
        return self

    def wait_ready(self) -> str:
        return self.application_id

    def rows_uri(self, job_id: str) -> str:
        return f"file:/sim/rows/{job_id}"

    def read_rows(self, uri: str) -> Iterator[list[Any]]:
        return iter([])

    def cancel(self) -> None:
        self.is_alive = False
        if self._job is not None:
            self._job.killed = True

    def close(self) -> None: ...

    def run(self, spec: JobSpec) -> JobResult:
        """A job, in a process of its own: it may die alone, and lives on when we do."""
        world, done = self._world, list[JobResult | HiveAcidError | OSError]()
        process = Process(f"job {spec.job_id[:4]}")
        world.processes.append(process)
        self._job = process

        def job() -> None:
            try:
                done.append(self._run(spec))
            except (HiveAcidError, OSError) as error:
                done.append(error)
            finally:
                process.killed = True

        world.scheduler.spawn(process.name, process, job, background=True)
        world.scheduler.wait_until(lambda: process.killed)
        if not done:
            raise JobFailedError("the Spark application has ended")
        if not isinstance(done[0], JobResult):
            raise done[0]
        return done[0]

    def _run(self, spec: JobSpec) -> JobResult:
        world, step = self._world, spec.step
        world.scheduler.step(f"job {spec.job_id[:4]}: {type(step).__name__}")
        world.scheduler.sleep(self._op.pause) if self._op.pause else None
        if isinstance(step, Select):
            for view in spec.views:
                self._compare(view.snapshot)
            return JobResult(spec.job_id, self.application_id, columns=(Column("id", "bigint"),))
        if not isinstance(step, Insert | Update | Delete) or spec.staging is None:
            raise AssertionError(f"not simulated: {step}")
        if self.txn_id is None:
            raise AssertionError("a job without a txn")
        txn_id, written = self.txn_id, []
        world.model.is_at_work(txn_id, self._author)
        for place, change, outputs in self._changes(step):
            world.model.does(txn_id, place, change, self._author)
            if isinstance(step, Insert) and place.plain:
                file = unique_file_name(0, step.statement_id, txn_id)
            else:
                file = bucket_file_name(step.bucket_offset if isinstance(step, Insert) else 0)
            written += rows.stage(world.fs, spec.staging, place.partition, outputs, file=file)
        return JobResult(spec.job_id, self.application_id, directories=tuple(written), inserted=len(written))

    def _changes(self, step: Insert | Update | Delete) -> Iterator[Effect]:
        """What a statement does to each place; its number, and that of the place, say what."""
        if isinstance(step, Insert):
            statement, text = step.statement_id, step.query
        elif isinstance(step, Update):
            statement, text = step.insert_statement_id, step.assignments[0].expression
        else:
            statement, text = step.statement_id, str(step.where)
        pick = max(int(number) for number in re.findall(r"\d+", text))
        dice = random.Random(f"{pick} {statement}")
        there = [p for p in self._world.places if p.table == step.target.table]
        for number, place in enumerate(filter(self._world.model.is_there, there)):
            adds = [(step.write_id, statement * 100 + number * 10 + i) for i in range(dice.randint(1, 3))]
            if isinstance(step, Insert):
                if " FROM " in step.query.upper() or place.partition in ("", f"k={pick % 2 + 1}"):
                    yield from self._inserted(step, place, adds)
                continue
            seen = self._seen(step.target, place)
            if not seen:
                continue
            deletes = dice.sample(sorted(seen), dice.randint(1, len(seen)))
            events: list[object] = [(step.write_id, row) for row in sorted(deletes)]
            if isinstance(step, Delete):
                outputs = {delete_delta_name(step.write_id, step.write_id, statement): events}
                yield place, Change(frozenset(), frozenset(deletes)), outputs
            else:
                outputs = {delete_delta_name(step.write_id, step.write_id, step.delete_statement_id): events}
                outputs[delta_name(step.write_id, step.write_id, statement)] = list(adds)
                yield place, Change(frozenset(adds), frozenset(deletes)), outputs

    def _inserted(self, step: Insert, place: Place, adds: list[Row]) -> Iterator[Effect]:
        """An overwrite of what it reads replaces that alone, any other whatever is there when it commits."""
        reads = " FROM " in step.query.upper()
        seen = self._seen(step.target, place) if reads else set()
        if place.plain:
            name = PLAIN_FILES
        elif step.overwrite:
            name = base_name(step.write_id)
        else:
            name = delta_name(step.write_id, step.write_id, step.statement_id)
        joins = not step.overwrite or step.bucket_offset > 0
        if seen or not reads or not place.partition:
            yield place, Change(frozenset(adds), frozenset(seen), not reads and not joins), {name: list(adds)}

    def _seen(self, snapshot: TableSnapshot, place: Place) -> set[Row]:
        if not any(partition.name == place.partition for partition in snapshot.partitions):
            return set()
        try:
            if place.plain:
                return rows.read_plain(self._world.fs, place)
            return rows.read(
                self._world.fs, place, ValidWriteIdList.parse(snapshot.write_ids), ValidTxnList.parse(snapshot.txns)
            )
        except FileNotFoundError as error:
            raise JobFailedError(str(error)) from error

    def _compare(self, snapshot: TableSnapshot) -> None:
        """Whoever was timed out may read anything, and is told so before it is believed."""
        world = self._world
        for place in (p for p in world.places if p.table == snapshot.table and world.model.is_there(p)):
            if all(partition.name != place.partition for partition in snapshot.partitions):
                continue
            try:
                if not snapshot.transactional:
                    expected, found = world.model.rows(place), rows.read_plain(world.fs, place)
                else:
                    txns = ValidTxnList.parse(snapshot.txns)
                    expected = world.model.rows(place, [t for t in world.model.committed if txns.is_valid(t)])
                    found = rows.read(world.fs, place, ValidWriteIdList.parse(snapshot.write_ids), txns)
            except FileNotFoundError as error:
                if world.fs.fault:
                    raise JobFailedError(str(error)) from error
                world.wrong[self._author.tag] = f"{self._author.tag} misses a file of {place}: {error}"
                continue
            if found != expected and not world.fs.fault:
                some = sorted(found ^ expected)[:3]
                world.wrong[self._author.tag] = f"{self._author.tag} reads {some} of {place} otherwise than committed"
