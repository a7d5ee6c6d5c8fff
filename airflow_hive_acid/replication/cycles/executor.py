"""What tasks ask for, done at two sites: exports that go straight into imports, drops, and the sync of ACID tables.

A dump need not be written to be imported: it stays open at the source, locked for reading, while the destination copies
its files. Metadata of many tables is exported and imported together, in one transaction at each side.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.metastore.catalog import EXTERNAL_TABLE
from airflow_hive_acid.metastore.database import AbortReason, chunks
from airflow_hive_acid.metastore.names import TableName, is_table_name, table_name
from airflow_hive_acid.metastore.replica import mark_target, open_mapped_txns, sync_txns, unmap
from airflow_hive_acid.metastore.txns import abort_rows, aborted
from airflow_hive_acid.replication.acid.sync import sync_tables
from airflow_hive_acid.replication.cycles.released import give_up, is_written
from airflow_hive_acid.replication.cycles.runner import Applied
from airflow_hive_acid.replication.cycles.unfinished_txns import agent_of, end_earlier
from airflow_hive_acid.replication.cycles.views import ViewsLeftOut
from airflow_hive_acid.replication.dumps.drops import drop_partitions, drop_table, files_go, kept_drops
from airflow_hive_acid.replication.dumps.empty_objects import import_empty, open_exports
from airflow_hive_acid.replication.dumps.exports import MATERIALIZED_VIEW, export_metadata, open_export
from airflow_hive_acid.replication.dumps.import_plan import Asked
from airflow_hive_acid.replication.dumps.imports import import_dump
from airflow_hive_acid.replication.dumps.metadata_imports import import_metadata
from airflow_hive_acid.replication.dumps.state_ids import STATE_ID
from airflow_hive_acid.replication.events.selection import changed, copies, next_write_ids, seen_changed, unfinished
from airflow_hive_acid.replication.events.stages import Transfer, partitions_of, stages, unite
from airflow_hive_acid.replication.events.tasks import (
    CopyCommand,
    DropDatabaseCommand,
    DropPartitionCommand,
    DropTableCommand,
    ExportCommand,
    ImportCommand,
    NoOp,
    ReplicationTask,
    SyncAcidCommand,
)
from airflow_hive_acid.replication.policies.privileges import PrivilegeMode, sync_privileges
from airflow_hive_acid.replication.policies.state import PolicyRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.format.write_ids import ValidTxnList
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.replication.acid.report import TableReport
    from airflow_hive_acid.replication.dumps.drops import DropResult
    from airflow_hive_acid.replication.dumps.import_results import ImportResult
    from airflow_hive_acid.replication.events.event import EventSource
    from airflow_hive_acid.replication.events.tasks import Command
    from airflow_hive_acid.replication.events.unreadable import Reread
    from airflow_hive_acid.replication.policies.policy import Policy
    from airflow_hive_acid.replication.site import Site

_BATCH = 500
"""Tables whose metadata travels together."""


@dataclass(slots=True)
class SiteExecutor:
    """The :class:`~airflow_hive_acid.replication.cycles.runner.Executor` of a policy.

    :param brought: tables of the source that an earlier cycle has brought, with the names that they got.
    :param anew: tables of the source that are dropped at the destination and copied from nothing.
    :param step: told before each step of a sync.
    :param events: a store that keeps the source's events for longer than its log, if the policy has one.
    :param again: the first copy is made once more, because nobody knows what was missed.
    """

    policy: Policy
    source: Site
    target: Site
    brought: Mapping[TableName, TableName]
    anew: frozenset[TableName] = frozenset()
    step: Callable[[str], object] = lambda _name: None
    events: EventSource | None = None
    again: bool = False
    _acid: frozenset[TableName] | None = field(default=None, init=False)
    _all_anew: bool = field(default=False, init=False)
    _marked: set[str] = field(default_factory=set, init=False)
    _odd: list[str] = field(default_factory=list, init=False)
    _came: set[TableName] = field(default_factory=set, init=False)
    _left_out: ViewsLeftOut = field(init=False)

    def __post_init__(self) -> None:
        self._left_out = ViewsLeftOut(self.policy.rename)

    def begin(self, epoch: int) -> None:
        """Txns are called after the cycle; those of earlier ones, which were killed or given up, end now.

        Their locks would be waited for until they time out. What they have put into place is undone, as after that.
        """
        end_earlier(self.target, self.policy.name, epoch)
        record = PolicyRecord(self.target.client.database, self.policy.name)
        self.target = replace(
            self.target,
            agent=agent_of(self.policy.name, epoch),
            guard=lambda connection: record.require(connection, epoch),
        )

    def begin_anew(self) -> None:
        """Nothing that is here counts. ACID tables that somebody else has written here stay, and stop the cycle."""
        self._all_anew = True
        self.target.client.database.run(self._give_up)

    def _give_up(self, connection: Connection) -> None:
        """Txns that stand for open ones of the source: nobody commits them any more, and their ids are others'."""
        self.target.require_allowed(connection)
        client, policy = self.target.client, self.policy.name
        waiting = sorted({*open_mapped_txns(connection, policy)} - {*sync_txns(connection, policy)})
        if waiting:
            abort_rows(connection, waiting, client.database.features(connection), AbortReason.REPLICATION)
            unmap(connection, waiting)
            aborted(connection, client.notifications, waiting)

    # --- what there is ------------------------------------------------------------------------------------------------

    def tables(self) -> list[TableName]:
        """Tables and views of the source that the policy replicates."""
        catalog = self.source.client.catalog
        names = [
            TableName(database, name)
            for database in catalog.list_databases()
            if self.policy.touches(database)
            for name in catalog.list_tables(database)
            if self.policy.selects(TableName(database, name))
        ]
        self._odd = sorted(str(name) for name in names if not is_table_name(str(name)))
        found = catalog.find_tables(str(name) for name in names if is_table_name(str(name)))
        copied = (t for t in found.values() if t.type != MATERIALIZED_VIEW and self._left_out.take(t) is None)
        return sorted(TableName(t.db, t.name) for t in copied)

    def require_databases(self, tables: Iterable[TableName]) -> None:
        """The seed's security rule: what is private at the source must not come to be by itself. Others keep out."""
        wanted = {self.policy.target_database(table.database): table.database for table in tables}
        if self._marked.issuperset(wanted):
            return
        missing = sorted(set(wanted) - set(self.target.client.catalog.list_databases()))
        if missing:
            raise NoSuchObjectError(
                f"replication policy {self.policy.name!r}: {self.target.name} has no database {missing[0]} for the "
                f"tables of {wanted[missing[0]]}; databases are not created by replication, so that nothing becomes "
                f"readable unintentionally: run CREATE DATABASE {missing[0]} there"
            )
        unmarked = sorted(set(wanted) - self._marked)
        if unmarked:
            self.target.client.database.run(lambda connection: self._mark(connection, unmarked))
            self._marked |= set(unmarked)

    def _mark(self, connection: Connection, databases: Iterable[str]) -> None:
        self.target.require_allowed(connection)
        for database in databases:
            mark_target(connection, database, self.policy.name)

    def acid_tables(self, tables: Iterable[TableName]) -> list[TableName]:
        """Those that exist at the source and have write ids."""
        found = self.source.client.catalog.find_tables(str(table) for table in tables)
        acid = (t for t in found.values() if t.is_transactional and t.type != MATERIALIZED_VIEW)
        return sorted(TableName(t.db, t.name) for t in acid)

    def changed_acid_tables(self) -> frozenset[TableName]:
        """By the write ids of both sides, whatever events say."""
        if self._acid is None:
            self._acid = frozenset(self.acid_tables(self.tables()))
        there = self.source.client.database.read(next_write_ids)
        here, known = self.target.client.database.read(
            lambda connection: (next_write_ids(connection), copies(connection, self.policy.name))
        )
        return changed(self._acid, self.policy, there, here, unfinished(known))

    def _written_with(self, txns: ValidTxnList) -> dict[str, str]:
        """Tables of which a snapshot sees what is not here: a txn over several tables may have committed since the
        events were read."""
        known = self.target.client.database.read(lambda connection: copies(connection, self.policy.name))
        found = self.source.client.database.read(lambda connection: seen_changed(connection, self.policy, known, txns))
        tables = self.acid_tables(found)
        self.require_databases(tables)
        return {str(table): str(self.policy.target(table)) for table in tables}

    # --- bringing -----------------------------------------------------------------------------------------------------

    def copy_table(self, table: TableName, event_id: int) -> list[Applied]:
        """The whole table, straight from its files."""
        # Whatever its state is: it was asked for by name, or the state is of other events.
        anew, target = table in self.anew or self._all_anew, str(self.policy.target(table))
        if anew and not _takes_over(
            self.source.client.catalog.find_tables([str(table)]).get(str(table)),
            self.target.client.catalog.find_tables([target]).get(target),
        ):
            drop_table(self.target, target, sys.maxsize)
        return [self._bring(table, self.policy.target(table), (), event_id, anew=anew)]

    def drop_others(self, tables: Iterable[TableName], event_id: int) -> list[Applied]:
        """What came by this policy and is not at the source any more, or is not the policy's any more."""
        return self._drop_gone(tables, event_id) + give_up(self.target, self.policy, self.brought)

    def _drop_gone(self, tables: Iterable[TableName], event_id: int) -> list[Applied]:
        upto, there = sys.maxsize if self._all_anew else event_id, set(tables)
        gone = sorted(t for t, at in self.brought.items() if is_written(self.policy, t, at) and t not in there)
        return [_dropped(t, drop_table(self.target, str(self.brought[t]), upto)) for t in gone]

    def read_again(self, wanted: Reread) -> list[Applied]:
        """Tables that are at another state than the source's; those of another kind make way for a new copy."""
        policy, done = self.policy, []
        tables = {table for table in wanted.tables if policy.selects(table)}
        if wanted.names:
            everything = self.tables()
            done += self._drop_gone(everything, wanted.event_id)
            there = self.target.client.catalog.find_tables(str(policy.target(t)) for t in everything)
            tables |= {t for t in everything if str(policy.target(t)) not in there}
        now = self.source.client.catalog.find_tables(map(str, tables))
        copies = self.target.client.catalog.find_tables(str(policy.target(t)) for t in tables)
        for table in sorted(tables):
            found, copied, target = now.get(str(table)), copies.get(str(policy.target(table))), policy.target(table)
            if copied is not None and (found is None or found.is_transactional != copied.is_transactional):
                done.append(_dropped(table, drop_table(self.target, str(target), wanted.event_id)))
            if found is not None and not found.is_transactional and found.type != MATERIALIZED_VIEW:
                done.append(self._bring(table, target, (), wanted.event_id))
        return done

    def run(self, tasks: Sequence[ReplicationTask]) -> list[Applied]:
        """As many together as can be, those about one table in order (:mod:`stages`)."""
        done: list[Applied] = []
        for stage in stages(tasks):
            for several in chunks(unite(stage.data), _BATCH):
                done += self._bring_data(several)
            for some in chunks(stage.metadata, _BATCH):
                done += self._bring_metadata(some)
            idle = self._kept_ones(stage.others)
            for task in stage.others:
                done += idle.get(task.event_ids) or self._run(task)
        return done

    def sync(self, tables: Sequence[TableName], event_id: int) -> list[Applied]:
        """All at one snapshot; those that are as new already are left out."""
        self._acid = None
        here = self.target.client.catalog.find_tables(str(self.policy.target(table)) for table in tables)
        wanted = [
            t for t in tables
            if t in self.anew or self._all_anew or not self._has(t, here.get(str(self.policy.target(t))), event_id)
        ]  # fmt: skip
        if not wanted:
            return []
        report = sync_tables(
            self.source, self.target, self.policy.name, {str(t): str(self.policy.target(t)) for t in wanted},
            bootstrap=[str(self.policy.target(t)) for t in wanted if t in self.anew],
            others=self._written_with, step=self.step, events=self.events, again=self.again,
            other_log=self._all_anew,
        )  # fmt: skip
        self._came.update(table_name(one.source) for one in report.tables)
        return [_synced(one, report.state_id) for one in report.tables]

    def _has(self, table: TableName, here: Table | None, event_id: int) -> bool:
        """Whether the destination has a table by this policy, as new as an event."""
        return self._is_ours(table) and _is_as_new(here, event_id)

    def _is_ours(self, table: TableName) -> bool:
        """Whether this policy has brought a table: the state id of what another one has left is of other events."""
        return table in self._came or self.brought.get(table) == self.policy.target(table)

    def finish(self) -> list[str]:
        """Roles, owners and privileges, which have no events; and what was left out."""
        odd = [f"not replicated, as names are letters, digits and _ only: {', '.join(self._odd)}"] if self._odd else []
        return odd + self._left_out.told() + self._privileges()

    def _privileges(self) -> list[str]:
        if self.policy.privileges is PrivilegeMode.NONE:
            return []
        names = [name for name in self.source.client.catalog.list_databases() if self.policy.touches(name)]
        report = sync_privileges(
            self.source.client, self.target.client, self.policy.name,
            {name: self.policy.target_database(name) for name in names}, self.policy.privileges,
            tables=lambda database, table: self.policy.selects(TableName(database, table)),
            whole=self.policy.owns, allowed=self.target.require_allowed,
        )  # fmt: skip
        named = (("granted", report.granted), ("revoked", report.revoked), ("kept", report.kept),
                 ("waiting", report.waiting))  # fmt: skip
        return [f"privileges {word}: {', '.join(items)}" for word, items in named if items]

    def _run(self, task: ReplicationTask) -> list[Applied]:
        """The commands of a task: what its export wants is brought by its import."""
        exports = [c for c in task.source if isinstance(c, ExportCommand)]
        done: list[Applied] = []
        for command in task.destination:
            if isinstance(command, ImportCommand):
                exported = next((e for e in exports if e.event_id == command.event_id), None)
                if exported is None:
                    raise _odd(task, command)
                done.append(
                    self._bring(exported.table, command.table, exported.partitions, command.event_id)
                    if not exported.metadata_only
                    else self._bring_metadata([Transfer(exported, command)])[0]
                )
            else:
                done += self._drop(task, command)
        return done

    def _drop(self, task: ReplicationTask, command: Command) -> list[Applied]:
        match command:
            case DropTableCommand(table, event_id):
                return [_dropped(self._source_name(table), drop_table(self.target, str(table), event_id))]
            case DropPartitionCommand(table, partition, event_id):
                result = drop_partitions(self.target, str(table), [partition], event_id)
                return [Applied(self._source_name(table), _said(result), result.done, event_id)]
            case DropDatabaseCommand(database, event_id):
                return self._drop_database(database, event_id)
            case NoOp() | CopyCommand():
                return []
            case SyncAcidCommand() | ExportCommand() | ImportCommand():
                raise _odd(task, command)

    def _drop_database(self, database: str, event_id: int) -> list[Applied]:
        """Its tables one by one, by their state ids; the database when nothing is left in it."""
        catalog = self.target.client.catalog
        if database not in catalog.list_databases():
            return [Applied(None, f"database {database} is gone already", done=False)]
        done = []
        for name in catalog.list_tables(database):
            table = TableName(database, name)
            done.append(_dropped(self._source_name(table), drop_table(self.target, str(table), event_id)))
        left = catalog.list_tables(database)
        if left:
            kept = f"database {database} stays: {left[0]} is not older than the drop"
            return [*done, Applied(None, kept, done=False)]
        self.target.client.database.run(self.target.require_allowed)
        catalog.drop_database(database, if_exists=True)
        return [*done, Applied(None, f"dropped database {database}")]

    def _bring(
        self, table: TableName, target: TableName, partitions: tuple[str, ...], event_id: int, *, anew: bool = False
    ) -> Applied:
        """Export and import with data, unless the destination has it, or an ACID table's sync will bring it."""
        there = self.source.client.catalog.find_tables([str(table)]).get(str(table))
        if there is not None and there.is_transactional:
            return Applied(table, "an ACID table by now; its sync brings it", done=False)
        if (why := self._left_out.take(there)) is not None:
            return Applied(table, why, done=False)
        is_ours = self._is_ours(table)
        if not (partitions and is_ours):
            here = self.target.client.catalog.find_tables([str(target)]).get(str(target))
            if not partitions and not anew and table not in self.anew and self._has(table, here, event_id):
                return Applied(table, f"its state is not older than event {event_id}", done=False)
            partitions = partitions if here is None else ()  # its others are not ours, either
        self.require_databases([table])
        with open_export(self.source, str(table), partitions or None, event_id=str(event_id)) as dump:
            asked = Asked(table=target, anew=anew or not is_ours)
            result = import_dump(self.target, dump, self.source.filesystem, asked)
        self._came.add(table)
        return _imported(table, result)

    def _bring_data(self, groups: Sequence[Sequence[Transfer]]) -> list[Applied]:
        """Tables and partitions, each table once: those without files together, then the others one after the other."""
        copied = Counter(group[0].exported.table for group in groups)
        written = Counter(group[0].imported.table for group in groups)
        maybe = [
            group for group in groups if all(transfer.may_be_empty for transfer in group)
            and copied[group[0].exported.table] == written[group[0].imported.table] == 1
        ]  # fmt: skip
        results = self._bring_empty(maybe) if maybe else {}
        done = []
        for group in groups:
            source, target = group[0].exported.table, group[0].imported.table
            event_id = max(transfer.event_id for transfer in group)
            one = results.get(target) or self._bring(source, target, partitions_of(group), event_id)
            done.append(one)
            done += [Applied(source, "came together with it", done=False) for _ in group[1:]]
        return done

    def _bring_empty(self, groups: Sequence[Sequence[Transfer]]) -> dict[TableName, Applied]:
        """By table of the destination: those that are as new already, and those without files.

        What somebody else has brought is left to the import of one table.
        """
        names = {group[0].exported.table: group[0].imported.table for group in groups}
        here = self.target.client.catalog.find_tables([str(name) for name in names.values()])
        wanted = {}
        done: dict[TableName, Applied] = {}
        for group in groups:
            source, target = group[0].exported.table, group[0].imported.table
            event_id, parts = max(t.event_id for t in group), partitions_of(group)
            there = here.get(str(target))
            if not parts and source not in self.anew and self._has(source, there, event_id):
                done[target] = Applied(source, f"its state is not older than event {event_id}", done=False)
            elif there is None or self._is_ours(source):
                wanted[source] = parts
        self.require_databases(wanted)
        with open_exports(self.source, wanted) as dumps:
            some = [(names[source], d) for source, d in dumps.items() if self._left_out.take(d.table) is None]
            results = import_empty(self.target, some)
        sources = {target: source for source, target in names.items()}
        self._came.update(sources[target] for target in results)
        return done | {target: _imported(sources[target], result) for target, result in results.items()}

    def _kept_ones(self, tasks: Sequence[ReplicationTask]) -> dict[tuple[int, ...], list[Applied]]:
        """Drops of what is not there, or stays as it is newer, by their tasks' events: found by one look at all."""
        drops: dict[tuple[int, ...], list[DropTableCommand | DropPartitionCommand]] = {}
        for task in tasks:
            commands = [c for c in task.destination if not isinstance(c, NoOp)]
            found = [c for c in commands if isinstance(c, DropTableCommand | DropPartitionCommand)]
            if found and len(found) == len(commands):
                drops[task.event_ids] = found
        wanted = list(dict.fromkeys(command for commands in drops.values() for command in commands))
        if not wanted:
            return {}
        kept = kept_drops(
            self.target,
            [(c.table, c.partition if isinstance(c, DropPartitionCommand) else None, c.event_id) for c in wanted],
        )
        reasons = dict(zip(wanted, kept, strict=True))
        return {
            ids: [_stays(self._source_name(c.table), reasons[c], c) for c in commands]
            for ids, commands in drops.items()
            if all(reasons[c] is not None for c in commands)
        }

    def _bring_metadata(self, transfers: Sequence[Transfer]) -> list[Applied]:
        if not transfers:
            return []
        dumps = export_metadata(
            self.source,
            [(str(t.exported.table), t.exported.partitions or None) for t in transfers],
            event_ids=[str(t.exported.event_id) for t in transfers],
        )
        reasons = [self._left_out.take(dump.table) for dump in dumps]
        some = [(d, t) for d, t, why in zip(dumps, transfers, reasons, strict=True) if why is None]
        results = iter(import_metadata(self.target, [d for d, _ in some], [t.imported.table for _, t in some]))
        return [
            _imported(t.exported.table, next(results)) if why is None else Applied(t.exported.table, why, done=False)
            for t, why in zip(transfers, reasons, strict=True)
        ]

    def _source_name(self, target: TableName) -> TableName:
        names = {new: old for old, new in self.policy.rename.items()}
        return TableName(names.get(target.database, target.database), target.name)


def _odd(task: ReplicationTask, command: object) -> InvalidArgumentsError:
    return InvalidArgumentsError(
        f"the task of events {list(task.event_ids)} has {command!r} without what belongs to it; its factory must make "
        "an export for each import, with the same event id, and leave syncs alone"
    )


def _takes_over(source: Table | None, here: Table | None) -> bool:
    """Whether the copy of an external table takes the place of what is there: a drop would leave its files, which would
    be in the way."""
    if source is None or here is None or files_go(here) or not (source.type == here.type == EXTERNAL_TABLE):
        return False
    keys = [[(column.name, column.type) for column in table.partition_columns] for table in (source, here)]
    return keys[0] == keys[1]


def _is_as_new(table: Table | None, event_id: int) -> bool:
    state = None if table is None else table.property(STATE_ID)
    return state is not None and state.isdecimal() and int(state) >= event_id


def _synced(report: TableReport, state_id: int) -> Applied:
    if report.bootstrapped:
        word = "copied from nothing"
    elif report.directories or report.added or report.dropped:
        word = f"{report.directories} directories arrived"
    else:
        word = "nothing new"
    more = [f"{len(names)} partitions {what}" for what, names in (("added", report.added), ("dropped", report.dropped))
            if names]  # fmt: skip
    said = ", ".join([f"{word}, up to write id {report.high_watermark}", *more, *report.reasons[:3]])
    return Applied(table_name(report.source), said, True, state_id, report.bytes, report.files)


def _stays(table: TableName, reason: str | None, drop: DropTableCommand | DropPartitionCommand) -> Applied:
    name = drop.partition if isinstance(drop, DropPartitionCommand) else str(drop.table)
    return Applied(table, f"{name} stays: {reason}", done=False)


def _imported(table: TableName, result: ImportResult) -> Applied:
    said = f"{result.action}: {result.reason}"
    return Applied(table, said, result.done, result.state_id, result.bytes, result.files)


def _said(result: DropResult) -> str:
    if result.dropped:
        return f"dropped {', '.join(result.dropped)}"
    return "; ".join(f"{name} stays: {why}" for name, why in result.kept) or "nothing to drop"


def _dropped(table: TableName, result: DropResult) -> Applied:
    return Applied(table, _said(result), result.done, dropped=result.done)
