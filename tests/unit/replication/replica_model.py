"""A plain model of replication: a source with a history of states, and a replica that runs tasks lazily.

An export sees the source as it is when it runs, which may be many events later; a try may end after any task and begin
again at an earlier event. The rules of imports and drops are those of ``state_ids``. Nothing is read from the code
under test but tasks and these rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.catalog.values.model import Storage, Table
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.notifications.log import LoggedEvent
from airflow_hive_acid.replication.dumps.state_ids import ObjectState, may_drop, may_import
from airflow_hive_acid.replication.events.event import EventKind, ReplicationEvent
from airflow_hive_acid.replication.events.tasks import (
    CopyCommand,
    DropDatabaseCommand,
    DropPartitionCommand,
    DropTableCommand,
    ExportCommand,
    ImportCommand,
    NoOp,
    SyncAcidCommand,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.replication.events.tasks import ReplicationTask

DATABASE = "d"
_OF_TXNS = (EventKind.OPEN_TXN, EventKind.COMMIT_TXN, EventKind.ABORT_TXN)


@dataclass(frozen=True)
class Held:
    """A table or a partition: which content it has, told by the event that made it.

    :param state: at the replica its state id, ``metadata_state`` that of its metadata.
    """

    metadata: int
    data: int
    acid: bool = False
    partitioned: bool = False
    partitions: dict[str, Held] = field(default_factory=dict)
    state: int | None = None
    metadata_state: int | None = None

    def content(self) -> tuple[object, ...]:
        """Without what only a replica has."""
        parts = {name: part.content() for name, part in self.partitions.items()}
        return self.metadata, self.data, self.acid, self.partitioned, tuple(sorted(parts.items()))

    def known(self) -> ObjectState:
        return ObjectState(True, self.state, self.metadata_state)


Tables = dict[str, Held]


def content(tables: Tables) -> dict[str, tuple[object, ...]]:
    return {name: table.content() for name, table in tables.items()}


class Source:
    """A primary: every change is an event; ``history[i]`` is the state after event ``i``."""

    def __init__(self) -> None:
        self.events: list[ReplicationEvent] = []
        self.history: list[Tables] = [{}]
        self.tables_of_txn: dict[int, set[str]] = {}
        self.open: dict[int, set[str]] = {}

    @property
    def tables(self) -> Tables:
        return self.history[-1]

    def emit(self, kind: EventKind, change: Callable[[Tables, int], None] | None = None, **fields: object) -> int:
        event_id = len(self.events) + 1
        state = dict(self.tables)
        if change is not None:
            change(state, event_id)
        self.history.append(state)
        table = fields.pop("name", None)
        row = LoggedEvent(event_id, 0, kind.name, "hive", DATABASE, None, "", None)
        event = ReplicationEvent(
            event_id, 0, kind, kind.name, row, database=None if kind in _OF_TXNS else DATABASE,
            table=None if table is None else name_of(str(table)),
            **fields,  # type: ignore[arg-type]
        )  # fmt: skip
        self.events.append(event)
        return event_id

    def change(self, name: str, kind: EventKind, update: Callable[[Held, int], Held], **fields: object) -> None:
        """An event about an existing table."""
        acid = self.tables[name].acid

        def apply(tables: Tables, event_id: int) -> None:
            tables[name] = update(tables[name], event_id)

        self.emit(kind, apply, name=name, transactional=acid, was_transactional=acid, **fields)


def name_of(name: str) -> TableName:
    return TableName(DATABASE, name)


def table_object(name: str) -> Table:
    return Table(
        DATABASE, name, 1, None, None, 0, 0, 0, Storage((), None, None, None, (None, None)), (), {}, "MANAGED_TABLE"
    )


class Replica:
    """A destination that runs tasks.

    :param at: says how many events the source has had, whenever something is read there.
    :param knows_txns: whether TXN_TO_WRITE_ID of the source still says what ended txns wrote.
    :param skips: whether what has a state id that is not older than the event is not even exported.
    :param creates: whether partitions of a table that is not there bring the table, whose state is then 0.
    """

    def __init__(
        self, source: Source, at: Callable[[], int], *, knows_txns: bool = True, skips: bool = False,
        creates: bool = False,
    ) -> None:  # fmt: skip
        self.tables: Tables = {}
        self.exports = 0
        self._source = source
        self._at = at
        self._knows_txns = knows_txns
        self._skips = skips
        self._creates = creates
        self._dumps: dict[str, tuple[int, Held | None]] = {}

    def run(self, tasks: Iterable[ReplicationTask]) -> None:
        for task in tasks:
            for command in (*task.source, *task.copies, *task.destination):
                self._run(command)

    def _run(self, command: object) -> None:
        if isinstance(command, ExportCommand):
            self._export(command)
        elif isinstance(command, ImportCommand):
            state, dump = self._dumps[command.location.replace("target:", "source:")]
            if dump is not None:
                self._import(command, state, dump)
        elif isinstance(command, DropTableCommand):
            held = self.tables.get(command.table.name)
            if held is not None and may_drop(held.known(), command.event_id).accepted:
                del self.tables[command.table.name]
        elif isinstance(command, DropPartitionCommand):
            self._drop_partition(command)
        elif isinstance(command, DropDatabaseCommand):
            for name, held in list(self.tables.items()):
                if may_drop(held.known(), command.event_id).accepted:
                    del self.tables[name]
        elif isinstance(command, SyncAcidCommand):
            self._sync(command)
        else:
            assert isinstance(command, (NoOp, CopyCommand))

    def _export(self, command: ExportCommand) -> None:
        held = self.tables.get(command.table.name)
        whole = not command.metadata_only and not command.partitions
        if self._skips and whole and held is not None and (held.state or 0) >= command.event_id:
            self._dumps[command.location] = (0, None)
            return
        self.exports += 1
        state = self._at()
        assert state >= command.event_id
        found = self._source.history[state].get(command.table.name)
        # What is an ACID table by now comes with the synchronisation.
        self._dumps[command.location] = (state, None if found is None or found.acid else found)

    def _import(self, command: ImportCommand, state: int, dump: Held) -> None:
        name = command.table.name
        held = self.tables.get(name)
        if command.partitions:
            if (
                held is None
                and self._creates
                and not command.metadata_only
                and set(command.partitions) & set(dump.partitions)
            ):
                held = replace(dump, partitions={}, state=0)
            if held is not None and not held.acid:
                self._import_partitions(command, held, state, dump)
            return
        known = ObjectState(False) if held is None else held.known()
        if not may_import(known, state, metadata_only=command.metadata_only).accepted:
            return
        if command.metadata_only:
            assert held is not None
            self.tables[name] = replace(held, metadata=dump.metadata, metadata_state=state)
            return
        # The whole table, and no partition that it does not have.
        parts = {key: replace(part, state=state) for key, part in dump.partitions.items()}
        self.tables[name] = replace(dump, partitions=parts, state=state)

    def _import_partitions(self, command: ImportCommand, held: Held, state: int, dump: Held) -> None:
        partitions = dict(held.partitions)
        for key in command.partitions:
            found, old = dump.partitions.get(key), partitions.get(key)
            if found is None:
                continue
            known = ObjectState(False) if old is None else old.known()
            if not may_import(known, state, metadata_only=command.metadata_only).accepted:
                continue
            if command.metadata_only:
                assert old is not None
                partitions[key] = replace(old, metadata=found.metadata, metadata_state=state)
            else:
                assert old is None or old.state is None or old.state < state
                partitions[key] = replace(found, state=state)
        self.tables[command.table.name] = replace(held, partitions=partitions)

    def _drop_partition(self, command: DropPartitionCommand) -> None:
        held = self.tables.get(command.table.name)
        part = None if held is None else held.partitions.get(command.partition)
        if held is not None and part is not None and may_drop(part.known(), command.event_id).accepted:
            rest = {key: value for key, value in held.partitions.items() if key != command.partition}
            self.tables[command.table.name] = replace(held, partitions=rest)

    def _sync(self, command: SyncAcidCommand) -> None:
        state = self._at()
        assert state >= command.event_id
        now = self._source.history[state]
        names = {table.name for table in command.tables}
        if command.txn_ids:
            everything = set(now)
            known = [self._source.tables_of_txn.get(txn_id, set()) for txn_id in command.txn_ids]
            names |= set().union(*known) if self._knows_txns else everything
        for name in names:
            found, held = now.get(name), self.tables.get(name)
            if self._skips and held is not None and held.state is not None and held.state >= command.event_id:
                continue
            if found is not None and found.acid and (held is None or held.state is None or held.state < state):
                self.tables[name] = replace(found, state=state)
