"""Replication tasks: what an event asks for, as values with their SQL, and the factories that make them.

A task has commands for the source, says what is copied between, and has commands for the destination (the columns of
the table in HiveReplicationDevelopment, "Handling of Events"). Who runs them is somebody else. A factory can be any
class: named by dotted path, or by an entry point of the group ``airflow_hive_acid.replication_task_factories``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from airflow_hive_acid.format.identifiers import quoted_name
from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.metastore.names import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.replication.events.event import EventKind, ReplicationEvent

ENTRY_POINTS = "airflow_hive_acid.replication_task_factories"


class CopyMode(Enum):
    """What travels between the source's commands and the destination's."""

    NONE = "none"
    METADATA = "metadata"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class NoOp:
    """Nothing is to be done here.

    :param reason: why.
    """

    reason: str
    sql = ""


@dataclass(frozen=True, slots=True)
class ExportCommand:
    """Dump a table, or some of its partitions, of the source.

    :param partitions: names; empty for the whole table.
    :param location: directory of the dump, below the source's staging directory.
    :param metadata_only: without data files.
    :param event_id: of the event that asks for it; the dump carries the state id of the moment when it is made.
    """

    table: TableName
    partitions: tuple[str, ...]
    location: str
    metadata_only: bool
    event_id: int

    @property
    def sql(self) -> str:
        """As Hive would be told."""
        only = "METADATA " if self.metadata_only else ""
        return (
            f"EXPORT TABLE {_quoted(self.table)}{_partition_specs(self.partitions)} TO {_literal(self.location)} "
            f"FOR {only}REPLICATION('{self.event_id}')"
        )


@dataclass(frozen=True, slots=True)
class CopyCommand:
    """Copy a dump to the destination.

    :param source: and ``target``: directories; the target's is a staging directory, too.
    """

    source: str
    target: str
    mode: CopyMode
    sql = ""


@dataclass(frozen=True, slots=True)
class ImportCommand:
    """Import a dump at the destination, unless the object there is as new (a no-op that says so).

    :param table: its name at the destination.
    :param event_id: of the event that asks for it; what counts is the state id in the dump.
    """

    table: TableName
    partitions: tuple[str, ...]
    location: str
    metadata_only: bool
    event_id: int

    @property
    def sql(self) -> str:
        """As Hive would be told."""
        return f"IMPORT TABLE {_quoted(self.table)}{_partition_specs(self.partitions)} FROM {_literal(self.location)}"


@dataclass(frozen=True, slots=True)
class DropTableCommand:
    """Drop a table of the destination, unless its state id is not older than the event."""

    table: TableName
    event_id: int

    @property
    def sql(self) -> str:
        """As Hive would be told."""
        return f"DROP TABLE IF EXISTS {_quoted(self.table)} FOR REPLICATION('{self.event_id}')"


@dataclass(frozen=True, slots=True)
class DropPartitionCommand:
    """Drop a partition of the destination, unless its state id is not older than the event."""

    table: TableName
    partition: str
    event_id: int

    @property
    def sql(self) -> str:
        """As Hive would be told."""
        return (
            f"ALTER TABLE {_quoted(self.table)} DROP IF EXISTS{_partition_specs((self.partition,))} "
            f"FOR REPLICATION('{self.event_id}')"
        )


@dataclass(frozen=True, slots=True)
class DropDatabaseCommand:
    """Drop a database of the destination with all that is in it.

    :param event_id: what in it has a state id that is not older came with a later database of that name, and stays.
    """

    database: str
    event_id: int

    @property
    def sql(self) -> str:
        """As Hive would be told."""
        return f"DROP DATABASE IF EXISTS {quoted_name(self.database)} CASCADE"


@dataclass(frozen=True, slots=True)
class SyncAcidCommand:
    """Bring ACID tables of the destination to the state of the source, all of them at one snapshot.

    :param tables: tables of the source that may have changed.
    :param txn_ids: txns that ended without the tables that they wrote being known from events: TXN_TO_WRITE_ID of the
        source tells, and when it has forgotten them, every ACID table of the policy may have changed.
    :param databases: databases to which the tables of ``txn_ids`` belong; None when not known.
    :param event_id: the newest event that asks for it; the snapshot must not be older.
    """

    tables: frozenset[TableName]
    txn_ids: frozenset[int]
    databases: frozenset[str] | None
    event_id: int
    sql = ""


Command: TypeAlias = (
    NoOp
    | ExportCommand
    | CopyCommand
    | ImportCommand
    | DropTableCommand
    | DropPartitionCommand
    | DropDatabaseCommand
    | SyncAcidCommand
)


@dataclass(frozen=True, slots=True)
class ReplicationTask:
    """What one event, or several collapsed into one, asks for.

    :param event_ids: of the events it stands for, in order; the position may pass the last one when it is done.
    :param kind: of the event that it was made from.
    :param about: the object, for messages and reports.
    :param source: commands for the source, ``copies`` what follows, ``destination`` commands for the destination.
    :param report: what a person must be told (not implemented, unknown type); None when there is nothing.
    """

    event_ids: tuple[int, ...]
    kind: EventKind
    about: str
    source: tuple[Command, ...]
    destination: tuple[Command, ...]
    copies: tuple[CopyCommand, ...] = ()
    report: str | None = None

    @property
    def first_event_id(self) -> int:
        """The oldest event it stands for."""
        return self.event_ids[0]

    @property
    def last_event_id(self) -> int:
        """The newest event it stands for."""
        return self.event_ids[-1]

    @property
    def needs_copy(self) -> CopyMode:
        """The column "Needs Copy?" of the seed's table."""
        modes = {copy.mode for copy in self.copies}
        return next((mode for mode in (CopyMode.DATA, CopyMode.METADATA) if mode in modes), CopyMode.NONE)

    @property
    def is_no_op(self) -> bool:
        """Whether nothing is done for it, at neither side."""
        return all(isinstance(command, NoOp) for command in (*self.source, *self.copies, *self.destination))

    @property
    def sql(self) -> tuple[str, ...]:
        """The texts of its commands, in order, without those that have none."""
        return tuple(c.sql for c in (*self.source, *self.copies, *self.destination) if c.sql)


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What factories need to know of a policy.

    :param source_staging: directory for dumps at the source, and ``target_staging`` where they are copied to.
    :param databases: names of databases at the destination by those at the source; others keep theirs.
    """

    source_staging: str
    target_staging: str
    databases: Mapping[str, str] = field(default_factory=dict)

    def target_database(self, name: str) -> str:
        """Name of a database at the destination."""
        return self.databases.get(name, name)

    def target_table(self, table: TableName) -> TableName:
        """Name of a table at the destination."""
        return TableName(self.target_database(table.database), table.name)


@runtime_checkable
class ReplicationTaskFactory(Protocol):
    """Turns events into tasks. It is called with :class:`TaskSettings` to be made."""

    def create(self, event: ReplicationEvent) -> ReplicationTask:
        """The task of one event. Every event has one, if only to say that nothing is done."""


def _quoted(table: TableName) -> str:
    return quoted_name(table.database, table.name)


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _partition_specs(partitions: tuple[str, ...]) -> str:
    specs = []
    for name in partitions:
        pairs = ", ".join(f"{quoted_name(key)}={_literal(value)}" for key, value in parse_partition_name(name))
        specs.append(f" PARTITION ({pairs})")
    return ",".join(specs)
