"""Which tasks of a page travel together: those that bring tables and partitions, as many at once as can be.

Tables do not depend on each other, and a page of events is done as a whole or again (decision 36). So only the order of
tasks about one table counts: what is brought is the source's state after all events of the page, and it comes after
every drop that was ordered before it. What has a state id already is not dropped by an older event.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.replication.events.event import EventKind
from airflow_hive_acid.replication.events.tasks import (
    DropPartitionCommand,
    DropTableCommand,
    ExportCommand,
    ImportCommand,
    NoOp,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.replication.events.tasks import ReplicationTask

_WITHOUT_FILES = (EventKind.CREATE_TABLE, EventKind.ADD_PARTITION)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One export with its import.

    :param may_be_empty: the event is one after which there often are no files.
    """

    exported: ExportCommand
    imported: ImportCommand
    may_be_empty: bool = False

    @property
    def event_id(self) -> int:
        """Of the event that asks for it."""
        return self.exported.event_id


@dataclass(frozen=True, slots=True)
class Stage:
    """Tasks whose order among each other does not matter, but that the other ones come last, in their order.

    :param data: exports and imports of tables and partitions.
    :param metadata: the same of their metadata alone.
    :param others: everything else.
    """

    data: tuple[Transfer, ...] = ()
    metadata: tuple[Transfer, ...] = ()
    others: tuple[ReplicationTask, ...] = ()


def stages(tasks: Iterable[ReplicationTask]) -> list[Stage]:
    """Tasks in as few stages as keep the order of those about one table.

    A task that says of no table that it is about it (the drop of a database) has a stage of its own.
    """
    found: list[Stage] = []
    last: dict[TableName, tuple[int, bool]] = {}
    floor = 0
    for task in tasks:
        transfer = transfer_of(task)
        tables = _tables(task)
        at = floor
        if tables is None:
            at = len(found)
        for table in tables or ():
            stage, is_other = last.get(table, (floor, False))
            at = max(at, stage + 1 if is_other and transfer is not None else stage)
        while len(found) <= at:
            found.append(Stage())
        now = found[at]
        if transfer is None:
            found[at] = replace(now, others=(*now.others, task))
        elif transfer.exported.metadata_only:
            found[at] = replace(now, metadata=(*now.metadata, transfer))
        else:
            found[at] = replace(now, data=(*now.data, transfer))
        if tables is None:
            floor = at + 1
        for table in tables or ():
            last[table] = (at, transfer is None)
    return found


def transfer_of(task: ReplicationTask) -> Transfer | None:
    """The transfer that a task is, if it is nothing else."""
    source = [command for command in task.source if not isinstance(command, NoOp)]
    target = [command for command in task.destination if not isinstance(command, NoOp)]
    if len(source) != 1 or len(target) != 1:
        return None
    exported, imported = source[0], target[0]
    if not isinstance(exported, ExportCommand) or not isinstance(imported, ImportCommand):
        return None
    if exported.event_id != imported.event_id:
        return None
    return Transfer(exported, imported, may_be_empty=task.kind in _WITHOUT_FILES)


def unite(transfers: Sequence[Transfer]) -> list[list[Transfer]]:
    """Transfers with data of the same table, which one export brings together; in the order of their first."""
    groups: dict[tuple[TableName, TableName], list[Transfer]] = {}
    for transfer in transfers:
        groups.setdefault((transfer.exported.table, transfer.imported.table), []).append(transfer)
    return list(groups.values())


def partitions_of(group: Sequence[Transfer]) -> tuple[str, ...]:
    """The partitions that transfers of one table ask for; none for the whole table."""
    if any(not transfer.exported.partitions for transfer in group):
        return ()
    return tuple(dict.fromkeys(name for transfer in group for name in transfer.exported.partitions))


def _tables(task: ReplicationTask) -> set[TableName] | None:
    """The tables of the destination that a task is about; None: one cannot tell."""
    found: set[TableName] = set()
    for command in task.destination:
        if isinstance(command, ImportCommand | DropTableCommand | DropPartitionCommand):
            found.add(command.table)
        elif not isinstance(command, NoOp):
            return None
    return found
