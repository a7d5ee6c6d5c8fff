"""A replica becomes the primary, and the old primary becomes its replica.

Fail-over ends what a policy does at its destination: the databases may be written, and txns that stand for open ones
of the source are aborted, because nobody can commit them any more. What the tables were at that moment stays recorded.

Fail-back is a policy the other way. The old primary may have committed what never travelled: write ids beyond the
recorded ones, or ids that were open then. Both sides have given the same numbers to different rows, so such a table has
diverged; it is named, and bootstrapped again only when that is asked for. All other tables go on where they were:
nothing is copied that is there already.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import ActionRefusedError, NoSuchObjectError
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.database import AbortReason
from airflow_hive_acid.metastore.names import TableName, table_name
from airflow_hive_acid.metastore.replica import (
    SyncRecord,
    TableRecord,
    begin_attempt,
    diverged,
    forget_records,
    given_up,
    mark_failed_over,
    mark_target,
    note_state,
    open_mapped_txns,
    read_names,
    read_records,
    read_sync,
    release_locks,
    sync_txns,
    target_databases,
    unmap,
    unmark_target,
    write_records,
)
from airflow_hive_acid.metastore.txns import abort_rows, max_allocated
from airflow_hive_acid.metastore.txns import aborted as aborted_event
from airflow_hive_acid.replication.acid.tables import fence_syncs, remove_leftovers
from airflow_hive_acid.replication.events.decoder import decode_event
from airflow_hive_acid.replication.events.event import EventKind
from airflow_hive_acid.replication.policies.state import Phase, read_states, reopen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.replication.events.event import ReplicationEvent
    from airflow_hive_acid.replication.site import Site


@dataclass(frozen=True, slots=True)
class FailedOver:
    """What a fail-over found and did.

    :param state_id: event of the old primary whose state the tables have.
    :param databases: that may be written from now on.
    :param tables: by name here, the write ids that had come.
    :param aborted: txns of the source that were open, as they were known here.
    :param already: it had been failed over before.
    """

    policy: str
    state_id: int | None
    databases: tuple[str, ...]
    tables: Mapping[str, ValidWriteIdList]
    aborted: tuple[int, ...] = ()
    already: bool = False


@dataclass(frozen=True, slots=True)
class FailBack:
    """How the old primary stands to the new one.

    :param tables: that go on where they were: name at the new primary, name at the old one.
    :param diverged: by name at the old primary, why it cannot go on.
    :param dropped: names at the old primary of tables that were dropped at the new one: they stay there.
    """

    policy: str
    tables: Mapping[str, str]
    diverged: Mapping[str, str]
    dropped: tuple[str, ...] = ()

    @property
    def proposal(self) -> str:
        """What to do, for people."""
        return "; ".join(filter(None, (self._about_tables(), self._about_dropped())))

    def _about_dropped(self) -> str:
        if not self.dropped:
            return ""
        return (
            f"{len(self.dropped)} were dropped at the new primary since, and stay at the old one, because replication "
            "drops nothing that it has not brought: drop them there first, if nobody needs them: "
            + ", ".join(self.dropped)
        )

    def _about_tables(self) -> str:
        if not self.diverged and not self.tables:
            return "there are no ACID tables; the others are copied by the first run"
        if not self.diverged:
            return f"all {len(self.tables)} tables can follow; nothing has to be copied again"
        listed = "; ".join(f"{name}: {why}" for name, why in sorted(self.diverged.items()))
        return (
            f"{len(self.diverged)} of {len(self.tables) + len(self.diverged)} tables have diverged: {listed}. What was "
            "committed there after the last sync is nowhere else: save it first (CREATE TABLE … AS SELECT), then "
            f"bootstrap them again: {', '.join(sorted(self.diverged))}"
        )


def fail_over(target: Site, policy: str) -> FailedOver:
    """Let the destination of a policy be written by others, and by the policy no more.

    A sync that is under way finds that it no longer counts (R3, R5), and what it renamed into place is removed before
    anybody else may write. Again is fine.

    :raises NoSuchObjectError: when the policy has never replicated ACID tables here.
    """
    client = target.client
    latest = _latest_event(target)  # before: whatever is done here as by a primary comes after it
    before, records = client.database.run(lambda connection: _take_over(connection, policy, target.name, latest))
    tables = {t.qualified_name: t for t in _tables_of(target, records)}
    known = {name: records[t.id].write_ids for name, t in tables.items()}
    left = client.database.read(lambda connection: sync_txns(connection, policy))
    # Before anybody else may write: what a killed sync left there would become rows of their write ids (R4).
    for table in tables.values():
        fence_syncs(target, table, f"failed over from policy {policy}")
        remove_leftovers(target, table, records[table.id].write_ids, left)
    for name in sorted(set(before.tables) - tables.keys()):
        for table in client.catalog.find_tables([name]).values():
            fence_syncs(target, table, f"failed over from policy {policy}")
            remove_leftovers(target, table, ValidWriteIdList(0), left)

    def operation(connection: Connection) -> FailedOver:
        databases = target_databases(connection, policy)
        mark_failed_over(connection, policy, str(uuid.uuid4()))
        for database in databases:
            unmark_target(connection, database, policy)
        waiting = open_mapped_txns(connection, policy)
        abort_rows(connection, waiting, client.database.features(connection), AbortReason.REPLICATION)
        unmap(connection, waiting)
        aborted_event(connection, client.notifications, waiting)
        again = before.failed_over is not None
        return FailedOver(policy, before.state_id, tuple(databases), known, tuple(waiting), again)

    return client.database.run(operation)


def _latest_event(site: Site) -> int:
    has_log = site.client.database.read(lambda connection: site.client.database.features(connection).notifications)
    return site.client.notifications.current_event_id() if has_log else 0


def _take_over(
    connection: Connection, policy: str, site: str, latest: int
) -> tuple[SyncRecord, dict[int, TableRecord]]:  # fmt: skip
    before = read_sync(connection, policy, lock=True)
    if before is None:
        raise NoSuchObjectError(
            f"replication policy {policy!r} has replicated no ACID table to {site}; there is nothing to fail over"
        )
    if before.failed_over is None:
        mark_failed_over(connection, policy, str(uuid.uuid4()), latest)
    release_locks(connection, sync_txns(connection, policy))
    return before, read_records(connection, policy)


def compare_for_fail_back(old_primary: Site, new_primary: Site, policy: str) -> FailBack:
    """What a fail-back would find; nothing is changed.

    :param policy: the one that was failed over; its record is at the new primary.
    :raises ActionRefusedError: when it was not failed over.
    """
    return _compare(old_primary, new_primary, policy)[0]


def fail_back(
    old_primary: Site, new_primary: Site, policy: str, back: str, *, abort_open: bool = False
) -> FailBack:  # fmt: skip
    """Make the old primary the replica of the new one, without copying what both have.

    Afterwards ``sync_tables(new_primary, old_primary, back, …)`` goes on; tables that have diverged are refused there
    until they are given as ``bootstrap``.

    :param back: the policy the other way; another name than the first.
    :param abort_open: abort writers that are open at the old primary since before the fail-over; else they are named.
    :raises ActionRefusedError: when the policy was not failed over, or writers are still open; nothing was changed.
    """
    if back == policy:
        raise ActionRefusedError(
            f"the policy the other way needs another name than {policy!r}: positions are kept under names"
        )
    client = old_primary.client
    found, records = _compare(old_primary, new_primary, policy)
    writers = sorted({t for r in records for t in _writers(old_primary, r[1])})
    if writers and not abort_open:
        raise ActionRefusedError(
            f"txns {writers[:10]} of {old_primary.name} are open and have write ids of tables that are to follow "
            f"{new_primary.name}; they were aborted there. Let them be aborted (abort_open), then fail back"
        )
    if writers:
        client.abort_txns(writers, AbortReason.REPLICATION)
        found, records = _compare(old_primary, new_primary, policy)
    databases = sorted({table_name(name).database for name in (*found.tables.values(), *found.diverged)})

    def operation(connection: Connection) -> None:
        moved = {}
        for record, table in records:
            high = max_allocated(connection, table_name(table.qualified_name))
            if high != record.write_ids.high_watermark:
                moved[table.qualified_name] = f"it was written while it was compared (write id {high})"
        if moved:
            raise diverged(moved)
        reopen(connection, back)  # it may have been failed over, when these two changed places before
        begin_attempt(connection, back, str(uuid.uuid4()), ())
        if records:
            note_state(connection, back, min(record.state_id for record, _ in records))
        for database in databases:
            mark_target(connection, database, back)
        forget_records(connection, back)
        write_records(connection, back, [record for record, _ in records])

    client.database.run(operation, retry_duplicates=True)
    return found


def _compare(old_primary: Site, new_primary: Site, policy: str) -> tuple[FailBack, list[tuple[TableRecord, Table]]]:
    last, records = _failed_over(new_primary, policy)
    here = {t.id: t for t in _tables_of(new_primary, records)}
    there = old_primary.client.catalog.find_tables(sorted({r.source_table for r in records.values()}))
    going: dict[str, str] = {}
    problems: dict[str, str] = {}
    kept: list[tuple[TableRecord, Table]] = []
    dropped: list[str] = []
    for table_id, record in sorted(records.items()):
        mine, table = here.get(table_id), there.get(record.source_table)
        if mine is None:
            if table is not None and table.id == record.source_id:
                dropped.append(record.source_table)
            continue  # dropped since: it does not go back
        problem = _problem(old_primary, record, table)
        if problem is None and table is not None and table.is_partitioned and last.state_id is not None:
            problem = _replaced_partition(old_primary, table, last.state_id)
        if problem is not None:
            problems[record.source_table] = problem
        if problem is not None or table is None:
            continue
        going[mine.qualified_name] = table.qualified_name
        # Counted by the new primary's events, as that is the source now.
        write_ids, state = given_up(record.write_ids, record.write_ids.open), record.state_id
        kept.append((TableRecord(table.id, mine.qualified_name, mine.id, write_ids, state), table))
    return FailBack(policy, going, problems, tuple(sorted(dropped))), kept


def _failed_over(site: Site, policy: str) -> tuple[SyncRecord, dict[int, TableRecord]]:
    def read(connection: Connection) -> tuple[SyncRecord | None, dict[int, TableRecord]]:
        found = read_sync(connection, policy)
        if found is None and any(s.policy == policy and s.phase is Phase.FAILED_OVER for s in read_states(connection)):
            found = SyncRecord("", (), None, 0)  # it had no ACID tables
        return found, read_records(connection, policy)

    before, records = site.client.database.read(read)
    if before is None or before.failed_over is None:
        raise ActionRefusedError(
            f"replication policy {policy!r} was not failed over at {site.name}; fail over first, so that it is known "
            "what both sides have in common"
        )
    return before, records


def _problem(site: Site, record: TableRecord, table: Table | None) -> str | None:
    """Why a table of the old primary cannot follow, None when it can."""
    if table is None:
        return "it does not exist any more"
    if table.id != record.source_id:
        return "it was dropped and made again there"
    name = table.qualified_name
    now = site.client.get_valid_write_ids(name)[name]
    known = record.write_ids
    given = site.client.max_allocated_write_id(name)
    if given < known.high_watermark:
        return f"it is at write id {given} there, and was at {known.high_watermark}: it was restored from a backup"
    late = [w for w in range(known.high_watermark + 1, given + 1) if not now.is_aborted(w)]
    if late or given > known.high_watermark:
        return f"write ids {known.high_watermark + 1} to {given} were given there after the last sync" + (
            "" if late else ", all aborted, and would be given again"
        )
    committed = sorted(w for w in known.open if now.is_valid(w))
    if committed:
        return f"write ids {committed[:10]} were open at the last sync and have committed there since"
    return None


def _replaced_partition(site: Site, table: Table, state_id: int) -> str | None:
    """Which partition of the old primary holds other rows than it did, without a write id; None when none is known.

    A Hive may drop and add, rename, empty or move one like that. Its log tells; where that does not go back so far, the
    first sync finds what is missing.

    :param state_id: event of the old primary that has come with the last sync.
    """
    name, log, after = table.qualified_name, site.client.notifications, state_id
    while page := log.partitions_altered(TableName(table.db, table.name), after, dropped=True):
        events = [decode_event(logged) for logged in page]
        told = [(part, event) for event in events if _has_other_rows(event) for part in event.partitions]
        there = site.client.catalog.find_partitions(name, sorted({part for part, _ in told}))
        for part, event in told:
            if part in there:
                return (
                    f"its partition {part} was dropped, renamed, emptied or moved there after the last sync (event "
                    f"{event.event_id})"
                )
        after = page[-1].event_id
    return None


def _has_other_rows(event: ReplicationEvent) -> bool:
    is_dropped = event.kind is EventKind.DROP_PARTITION
    return is_dropped or bool(event.partitions_before) or event.truncated or event.relocated


def _writers(site: Site, table: Table) -> list[int]:
    name = table.qualified_name
    client = site.client
    found = (client.txn_of_write_id(name, w) for w in client.get_valid_write_ids(name)[name].open)
    return [txn_id for txn_id in found if txn_id is not None]


def _tables_of(site: Site, records: Mapping[int, TableRecord]) -> list[Table]:
    names = site.client.database.read(lambda connection: read_names(connection, records))
    return [t for t in site.client.catalog.find_tables(sorted(names.values())).values() if t.id in records]
