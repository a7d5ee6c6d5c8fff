"""EximReplicationTaskFactory: events to EXPORT, copy and IMPORT, the default way (HiveReplicationDevelopment).

Each of the seed's ten kinds of events is a row of its table. Three things are added, because the metadata alone would
not do: a change of metadata that changed the data as well (TRUNCATE, another location, a Hive that writes no INSERT
events) is exported with its data; a rename is a drop of the old name and an import under the new one; and events of
ACID tables ask for a synchronisation of their state, which comes last and takes all of them at one snapshot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.replication.events.decoder import SILENT, base_type
from airflow_hive_acid.replication.events.event import TXN_KINDS, EventKind
from airflow_hive_acid.replication.events.tasks import (
    CopyCommand,
    CopyMode,
    DropDatabaseCommand,
    DropPartitionCommand,
    DropTableCommand,
    ExportCommand,
    ImportCommand,
    NoOp,
    ReplicationTask,
    SyncAcidCommand,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.replication.events.event import ReplicationEvent
    from airflow_hive_acid.replication.events.tasks import Command, TaskSettings

MATERIALIZED_VIEW = "MATERIALIZED_VIEW"
_NOT_AT_SOURCE = NoOp("nothing is to be exported")


class EximReplicationTaskFactory:
    """The default :class:`~airflow_hive_acid.replication.events.tasks.ReplicationTaskFactory`."""

    def __init__(self, settings: TaskSettings) -> None:
        self._settings = settings
        self._makers: dict[EventKind, Callable[[ReplicationEvent], ReplicationTask]] = {
            EventKind.CREATE_DATABASE: self._create_database,
            EventKind.DROP_DATABASE: self._drop_database,
            EventKind.ALTER_DATABASE: self._alter_database,
            EventKind.CREATE_TABLE: self._with_data,
            EventKind.DROP_TABLE: self._drop_table,
            EventKind.ALTER_TABLE: self._alter_table,
            EventKind.ADD_PARTITION: self._with_data,
            EventKind.DROP_PARTITION: self._drop_partition,
            EventKind.ALTER_PARTITION: self._alter_partition,
            EventKind.INSERT: self._with_data,
            EventKind.NOT_REPLICATED: self._not_replicated,
            EventKind.UNREADABLE: self._unknown,
            EventKind.UNKNOWN: self._unknown,
        }

    def create(self, event: ReplicationEvent) -> ReplicationTask:
        """The task of one event."""
        if event.kind in TXN_KINDS:
            return self._txn(event)
        if event.table_object is not None and event.table_object.type == MATERIALIZED_VIEW:
            return _nothing(event, "a materialized view is built at each side from the tables it is made of", told=True)
        if event.transactional and event.kind is not EventKind.DROP_TABLE:
            return self._acid(event)
        return self._makers[event.kind](event)

    # --- databases ---

    def _create_database(self, event: ReplicationEvent) -> ReplicationTask:
        return _nothing(
            event, "a database is not replicated before it exists at the destination: an administrator creates it there"
        )

    def _alter_database(self, event: ReplicationEvent) -> ReplicationTask:
        return _nothing(
            event, "AlterDatabase is not implemented: a database is a container, and its location is its site's own",
            told=True,
        )  # fmt: skip

    def _drop_database(self, event: ReplicationEvent) -> ReplicationTask:
        if event.database is None:
            raise AssertionError(f"{event} was decoded without a database")
        target = self._settings.target_database(event.database)
        return _task(event, destination=(DropDatabaseCommand(target, event.event_id),))

    # --- tables and partitions ---

    def _with_data(self, event: ReplicationEvent) -> ReplicationTask:
        return self._transfer(event, event.partitions, metadata_only=False)

    def _alter_table(self, event: ReplicationEvent) -> ReplicationTask:
        if event.table_before is not None:
            return self._transfer(event, (), metadata_only=False, drops=(self._drop(event, event.table_before),))
        if event.was_transactional and not event.transactional:
            return self._transfer(event, (), metadata_only=False, drops=(self._drop(event, _table(event)),))
        return self._transfer(event, (), metadata_only=not (event.truncated or event.moved))

    def _alter_partition(self, event: ReplicationEvent) -> ReplicationTask:
        if event.partitions_before:
            drops = self._partition_drops(event, event.partitions_before)
            return self._transfer(event, event.partitions, metadata_only=False, drops=drops)
        return self._transfer(event, event.partitions, metadata_only=not (event.truncated or event.moved))

    def _drop_table(self, event: ReplicationEvent) -> ReplicationTask:
        return _task(event, destination=(self._drop(event, _table(event)),))

    def _drop_partition(self, event: ReplicationEvent) -> ReplicationTask:
        return _task(event, destination=self._partition_drops(event, event.partitions))

    def _drop(self, event: ReplicationEvent, table: TableName) -> DropTableCommand:
        return DropTableCommand(self._settings.target_table(table), event.event_id)

    def _partition_drops(self, event: ReplicationEvent, names: Sequence[str]) -> tuple[DropPartitionCommand, ...]:
        target = self._settings.target_table(_table(event))
        return tuple(DropPartitionCommand(target, name, event.event_id) for name in names)

    def _transfer(
        self,
        event: ReplicationEvent,
        partitions: tuple[str, ...],
        *,
        metadata_only: bool,
        drops: Sequence[Command] = (),
    ) -> ReplicationTask:
        """Export, copy, import; several partitions travel in one dump and arrive together or not at all."""
        table = _table(event)
        suffix = "_metadata" if metadata_only else ""
        name = f"{table.database}/{table.name}/{event.event_id}_{event.kind.name.lower()}{suffix}"
        source = f"{self._settings.source_staging.rstrip('/')}/{name}"
        target = f"{self._settings.target_staging.rstrip('/')}/{name}"
        mode = CopyMode.METADATA if metadata_only else CopyMode.DATA
        imported = ImportCommand(self._settings.target_table(table), partitions, target, metadata_only, event.event_id)
        return _task(
            event,
            source=(ExportCommand(table, partitions, source, metadata_only, event.event_id),),
            copies=(CopyCommand(source, target, mode),),
            destination=(*drops, imported),
        )

    # --- ACID ---

    def _acid(self, event: ReplicationEvent) -> ReplicationTask:
        """An event about an ACID table other than its drop."""
        table = _table(event)
        gone = event.table_before
        if gone is None and event.kind is EventKind.ALTER_TABLE and event.was_transactional is False:
            gone = table  # it was a plain one until now: its copy is no ACID table
        drops = () if gone is None else (self._drop(event, gone),)
        return _task(
            event, destination=(*drops, SyncAcidCommand(frozenset({table}), frozenset(), None, event.event_id))
        )

    def _txn(self, event: ReplicationEvent) -> ReplicationTask:
        if event.kind is EventKind.OPEN_TXN:
            return _nothing(event, "a txn concerns a table from its first write id on, which has an event of its own")
        if event.table is not None:
            sync = SyncAcidCommand(frozenset({event.table}), frozenset(), None, event.event_id)
            return _task(event, destination=(sync,))
        if event.databases == ():
            return _nothing(event, "the txn wrote to no table but those whose write ids have events of their own")
        databases = None if event.databases is None else frozenset(event.databases)
        return _task(
            event, destination=(SyncAcidCommand(frozenset(), frozenset(event.txn_ids), databases, event.event_id),)
        )

    # --- what is only reported ---

    def _not_replicated(self, event: ReplicationEvent) -> ReplicationTask:
        return _nothing(event, event.problem or "not replicated", told=base_type(event.type) not in SILENT)

    def _unknown(self, event: ReplicationEvent) -> ReplicationTask:
        return _nothing(event, event.problem or "unknown", told=True)


def merge_syncs(tasks: Sequence[ReplicationTask]) -> list[ReplicationTask]:
    """The tasks with all synchronisations of ACID tables as one, the last: they share a snapshot, so that a txn that
    wrote several tables arrives whole. What else a task does (the drop of a renamed table's old name) stays with it.
    """
    kept: list[ReplicationTask] = []
    merged: list[ReplicationTask] = []
    sync: SyncAcidCommand | None = None
    for task in tasks:
        syncs = [command for command in task.destination if isinstance(command, SyncAcidCommand)]
        if not syncs:
            kept.append(task)
            continue
        merged.append(task)
        for command in syncs:
            sync = command if sync is None else _both(sync, command)
        rest = tuple(command for command in task.destination if not isinstance(command, SyncAcidCommand))
        if rest or task.copies:
            kept.append(replace(task, destination=rest))
    if sync is None:
        return kept
    ids = tuple(sorted({event_id for task in merged for event_id in task.event_ids}))
    about = ", ".join(sorted(map(str, sync.tables))[:3]) or merged[-1].about
    more = len(sync.tables) - 3
    last = max(merged, key=lambda task: task.last_event_id)
    return [*kept, ReplicationTask(ids, last.kind, about + (f" and {more} more" if more > 0 else ""), (), (sync,))]


def _both(one: SyncAcidCommand, other: SyncAcidCommand) -> SyncAcidCommand:
    if not one.txn_ids or not other.txn_ids:
        databases = (one if one.txn_ids else other).databases
    elif one.databases is None or other.databases is None:
        databases = None
    else:
        databases = one.databases | other.databases
    return SyncAcidCommand(
        one.tables | other.tables, one.txn_ids | other.txn_ids, databases, max(one.event_id, other.event_id)
    )


def _task(
    event: ReplicationEvent,
    *,
    source: tuple[Command, ...] = (_NOT_AT_SOURCE,),
    destination: tuple[Command, ...],
    copies: tuple[CopyCommand, ...] = (),
) -> ReplicationTask:
    return ReplicationTask((event.event_id,), event.kind, event.about, source, destination, copies)


def _nothing(event: ReplicationEvent, reason: str, *, told: bool = False) -> ReplicationTask:
    no_op = (NoOp(reason),)
    return ReplicationTask(
        (event.event_id,), event.kind, event.about, no_op, no_op, report=f"{event}: {reason}" if told else None
    )


def _table(event: ReplicationEvent) -> TableName:
    if event.table is None:
        raise AssertionError(f"{event} was decoded without a table")
    return event.table
