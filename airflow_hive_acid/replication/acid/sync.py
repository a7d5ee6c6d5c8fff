"""One sync of ACID tables: what is new in one snapshot of the source becomes visible at the replica, all of it at once.

Steps: a snapshot of the source with its listings; a plan per table and partition; copies into hidden staging
directories of the replica's tables, verified, and what an attempt before has copied is used; rows of new write ids out
of compacted directories by Spark; renames to places that nobody sees yet; one transaction (``metastore.replica_acid``).
A crash before the last leaves invisible files, which the next attempt takes over, fences (R4, R5) and tidies away. A
directory that vanishes at the source all the same makes the sync begin anew, with a new snapshot.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from airflow_hive_acid.errors import (
    ActionRefusedError,
    CopyFailedError,
    HiveAcidError,
    MetastoreUnavailableError,
    PublishInterruptedError,
    ReplicaDivergedError,
    ReplicationBusyError,
)
from airflow_hive_acid.filesystem.fencing import fence_staging
from airflow_hive_acid.filesystem.syncing import sync
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import ACID_VERSION, ACID_VERSION_FILE, staging_name
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.metastore.database import AbortReason
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.replica import (
    Advance,
    advance,
    begin_attempt,
    diverged,
    given_up,
    known_rebalance,
    mark_target,
    read_records,
    read_sync,
    release_locks,
    require_attempt,
    sync_txns,
    why_lost,
)
from airflow_hive_acid.metastore.txns import abort_txn, forget_mapping
from airflow_hive_acid.replication.acid.carry import carry
from airflow_hive_acid.replication.acid.descriptions import NEW_COLUMNS, describe
from airflow_hive_acid.replication.acid.plan import ReplicaView, plan
from airflow_hive_acid.replication.acid.renames import renamed_since
from airflow_hive_acid.replication.acid.report import SyncReport, TableReport
from airflow_hive_acid.replication.acid.snapshot import list_places, places_of, source_state
from airflow_hive_acid.replication.acid.tables import (
    STAGING,
    create_like,
    drop_for_bootstrap,
    ended_at,
    fence_syncs,
    is_stored_otherwise,
    keep_cleaner_away,
    remove_leftovers,
    require_no_lease,
    staging_of_syncs,
)
from airflow_hive_acid.replication.acid.target import Target
from airflow_hive_acid.replication.dumps.copiers import copy
from airflow_hive_acid.replication.dumps.copies import FileCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.replica import SyncRecord, TableRecord
    from airflow_hive_acid.replication.acid.snapshot import SourceState, SourceTable
    from airflow_hive_acid.replication.events.event import EventSource
    from airflow_hive_acid.replication.site import Site

log = logging.getLogger(__name__)

TRIES = 3
"""So many snapshots are taken when directories vanish while they are copied."""
_NOTHING_KNOWN = ValidWriteIdList(0)
_FEWER_PARTITIONS = "dropping partitions that the source has no more"
Others: TypeAlias = "Callable[[ValidTxnList], Mapping[str, str]]"


def sync_tables(
    source: Site,
    target: Site,
    policy: str,
    tables: Mapping[str, str] | Iterable[str],
    *,
    bootstrap: Collection[str] = (),
    others: Others = lambda _txns: {},
    step: Callable[[str], object] = lambda _name: None,
    events: EventSource | None = None,
    again: bool = False,
    other_log: bool = False,
) -> SyncReport:
    """Bring ACID tables of a replica to the state of one snapshot of the source.

    :param tables: ``db.table`` of the source, or a mapping from there to the names at the replica. Tables that
        transactions write together belong into one call.
    :param bootstrap: those (names at the replica) that begin with nothing, whatever is there: it is dropped.
    :param others: told which txns the snapshot sees: the tables of which it sees something that is not at the replica,
        as a mapping like ``tables``. They come along, so that no txn over several tables comes in part.
    :param step: called before each step, by its name; tests stop there.
    :param events: a store that keeps the source's events for longer than its log.
    :param again: nobody knows what was missed: a table whose partitions may have got other names, of which the log
        does not tell any more, begins anew.
    :param other_log: the source is another metastore than before, or was restored: its write ids, too, may be of other
        rows by now, so every table that came from it begins anew, unless somebody else wrote the replica.
    :raises ReplicaDivergedError: when somebody else wrote the replica, or it cannot follow; nothing was overwritten.
    :raises TablePinnedError: when a table that must be dropped, lose partitions or change columns is pinned at the
        replica; nothing was changed in any table, and the sync goes on when the pin has ended.
    :raises ReplicationBusyError: when a later sync took over, or the replica was failed over meanwhile.
    :raises ActionRefusedError: when the policy was failed over before; nothing was changed.
    :raises NoSuchObjectError: when a table of the source, or a database of the replica, does not exist.
    """
    names = dict(tables) if isinstance(tables, Mapping) else {t: t for t in tables}
    wanted = {str(table_name(s)): str(table_name(t)) for s, t in names.items()}
    anew = frozenset(str(table_name(t)) for t in bootstrap)
    left = TRIES
    while True:
        sync = _Sync(source, target, policy, wanted, anew, others, step, events, again=again, other_log=other_log)
        try:
            return sync.run()
        except _MoreTablesError as more:
            wanted |= more.args[0]  # a new snapshot, with locks on all of them
        except (HiveAcidError, OSError) as error:
            if isinstance(error, MetastoreUnavailableError | ReplicationBusyError):
                raise
            # R5: who was taken over finds files moved away and new write ids: no reason to take the policy back.
            sync.require_ours()
            left -= 1
            if not left or not isinstance(error, CopyFailedError | FileNotFoundError):
                raise
            log.warning("replication %s begins anew with a new snapshot: %s", policy, error)


class _MoreTablesError(Exception):
    """The snapshot sees txns that wrote tables which are not part of the sync; has them, with their names there."""


class _Sync:
    def __init__(
        self, source: Site, target: Site, policy: str, tables: Mapping[str, str], bootstrap: Collection[str],
        others: Others, step: Callable[[str], object], events: EventSource | None, *, again: bool, other_log: bool,
    ) -> None:  # fmt: skip
        self._source, self._target, self._policy = source, target, policy
        self._events, self._again, self._other_log = events, again, other_log
        self._tables, self._bootstrap, self._others, self._step = dict(tables), bootstrap, others, step
        self._client, self._files = target.client, target.filesystem
        self._attempt = str(uuid.uuid4())
        self._before: SyncRecord | None = None
        self._seen = ValidTxnList(0)
        self._has_begun = False

    def require_ours(self) -> None:
        """Raise ReplicationBusyError when another sync has taken over."""
        if self._has_begun:
            self._client.database.run(
                lambda connection: require_attempt(connection, self._policy, self._attempt) and None
            )

    def run(self) -> SyncReport:
        self._step("begin")
        # R3: before the source is looked at. What a sync that has ended saw is then not newer than what is seen here.
        before, records = self._begin()
        with source_state(self._source, self._tables, self._require_all) as state:
            targets = self._targets(state, records)
            left = self._left_behind()
            self._take_over(before, targets)
            self._plan(targets, left)
            for target in targets:
                self._step("copy")
                self._copy(target)
            metadata = describe(self._source, self._target, targets)
            state.reader.check()
        # From here on nothing of the source is looked at.
        self._tidy(before, targets, left)
        # Now: the same state has one txn, and that of a new try must be younger than what was compacted here since.
        self._forget(left)
        sync_txn = self._open(state, targets) if any(t.is_changed for t in targets) or self._dropped(targets) else 0
        for target in targets:
            self._step("publish")
            self._publish(target, sync_txn)
        self._step("advance")
        self._advance(state, targets, sync_txn, metadata)
        self._step("done")
        for target in targets:
            self._files.delete(self._staging(target.table), inside=target.table.location)
        return SyncReport(self._policy, state.state_id, tuple(t.reported() for t in targets))

    def _require_all(self, txns: ValidTxnList) -> None:
        if more := {name: at for name, at in self._others(txns).items() if name not in self._tables}:
            raise _MoreTablesError(more)

    # --- what is there -----------------------------------------------------------------------------------------------

    def _begin(self) -> tuple[SyncRecord | None, dict[int, TableRecord]]:
        """Take over from whoever was at it, and keep writers out of the databases."""

        def operation(connection: Connection) -> tuple[SyncRecord | None, dict[int, TableRecord]]:
            require_no_lease(self._target, connection, self._tables.values())
            self._target.require_allowed(connection)
            ended = read_sync(connection, self._policy, lock=True)
            if ended is not None and ended.failed_over is not None:
                raise ActionRefusedError(
                    f"replication policy {self._policy!r} was failed over: {self._target.name} may be written by "
                    "others since, and nothing is copied there any more. Fail back with a policy the other way"
                )
            before = begin_attempt(connection, self._policy, self._attempt, self._tables.values())
            if before is not None and before.attempt == self._attempt:
                before = self._before  # R17: the answer to the COMMIT was lost; whom we took over from is known still
            self._before = before
            release_locks(connection, sync_txns(connection, self._policy))
            for database in sorted({table_name(t).database for t in self._tables.values()}):
                mark_target(connection, database, self._policy)
            return before, read_records(connection, self._policy)

        begun = self._client.database.run(operation, retry_duplicates=True)
        self._has_begun = True
        return begun

    def _targets(self, state: SourceState, records: Mapping[int, TableRecord]) -> list[Target]:
        """The tables at the replica; those that are missing, or are copies of a table that is gone, begin anew."""
        there = self._client.catalog.find_tables(self._tables.values())
        record_of = {at: records.get(table.id) for at, table in there.items()}
        known = {at: _NOTHING_KNOWN if record is None else record.write_ids for at, record in record_of.items()}
        anew = {
            at: why for name, at in self._tables.items()
            if (why := self._why_anew(state.tables[name], at, there.get(at), record_of.get(at))) is not None
        }  # fmt: skip
        going_on = [(state.tables[name], there[at]) for name, at in self._tables.items() if at not in anew]
        # All of it before the first of them is dropped.
        self._require_unpinned([at for at in anew if at in there], going_on)
        looked_at = [(None, there[at]) for at in anew if at in there and at not in self._bootstrap]
        foreign = {
            table.qualified_name: why for source, table in (*going_on, *looked_at)
            if (why := self._untouched(table, known[table.qualified_name], source)) is not None
        }  # fmt: skip
        if foreign:
            raise diverged(foreign)
        known = {at: given_up(write_ids, ended_at(self._target, at, write_ids)) for at, write_ids in known.items()}
        found: list[Target] = []
        for name, at in self._tables.items():
            source, table = state.tables[name], there.get(at)
            if table is not None and at not in anew:
                found.append(Target(source, table, known[at], bootstrapped=record_of[at] is None))
                continue
            log.info("replication %s bootstraps %s: %s", self._policy, at, anew[at])
            if table is not None:
                drop_for_bootstrap(self._target, table, self._policy, self._attempt)
            found.append(Target(source, create_like(self._target, source.table, at), _NOTHING_KNOWN, True))
        return found

    def _require_unpinned(self, dropped: Sequence[str], going_on: Sequence[tuple[SourceTable, Table]]) -> None:
        """Refuse to drop tables for a new copy as long as a pin stands in the way of anything in this sync."""
        pins = self._client.pins
        pins.require_unpinned(dropped, "dropping it for a new copy")
        if dropped:
            stored = [t.qualified_name for s, t in going_on if is_stored_otherwise(s.table, t)]
            pins.require_unpinned(stored, NEW_COLUMNS)
            smaller = [t.qualified_name for s, t in going_on if places_of(self._target, t).keys() - s.places.keys()]
            pins.require_unpinned(smaller, _FEWER_PARTITIONS)

    def _why_anew(self, source: SourceTable, at: str, table: Table | None, record: TableRecord | None) -> str | None:
        """Why a table begins with nothing; None when it goes on."""
        if table is None:
            return "it does not exist"
        if at in self._bootstrap:
            return "it was asked for"
        if record is None:
            return None
        if record.source_id != source.table.id:
            return f"{source.table.qualified_name} was dropped and made again at the source"
        if self._other_log:
            return "the source is another one than before, or was restored"
        if source.rebalanced > known_rebalance(table, source.table.id):
            return f"a rebalancing compaction has given the rows of {source.table.qualified_name} other ids"
        here = places_of(self._target, table) if table.is_partitioned else {}
        renamed = renamed_since(
            self._source, source, record.state_id, record.write_ids, here, events=self._events, again=self._again
        )
        if not renamed:
            return None
        now, what = next(iter(renamed.items()))
        return f"partition {now} of {source.table.qualified_name} {what}"

    def _untouched(self, table: Table, known: ValidWriteIdList, source: SourceTable | None) -> str | None:
        """What others did to a table of the replica, None when nothing."""
        given = self._client.max_allocated_write_id(table.qualified_name)
        if given != known.high_watermark:
            return f"write ids up to {given} were given here, replication left {known.high_watermark}"
        if source is not None and source.write_ids.high_watermark < known.high_watermark:
            now = source.write_ids.high_watermark
            return f"the source is at write id {now}, and was at {known.high_watermark} before: it went back in time"
        if source is None:
            return None
        return why_lost(ended_at(self._target, table.qualified_name, known), source.write_ids)

    def _require_untouched(self, targets: Iterable[Target]) -> None:
        """After the listings: whatever was listed with a write id that is given to nobody even now is a sync's.

        So is what reaches across one whose txn here is open even now.
        """
        targets = list(targets)
        foreign = {t.name: why for t in targets if (why := self._untouched(t.table, t.known, None)) is not None}
        if foreign:
            raise diverged(foreign)
        if ended := [target.name for target in targets if ended_at(self._target, target.name, target.known)]:
            raise CopyFailedError(f"others have ended txns of {', '.join(ended)} at {self._target.name} meanwhile")

    def _left_behind(self) -> frozenset[int]:
        """Txns of syncs that did not end."""
        return frozenset(self._client.database.read(lambda connection: sync_txns(connection, self._policy)))

    def _plan(self, targets: Sequence[Target], left: frozenset[int]) -> None:
        self._seen = self._client.get_valid_txns()
        listings = []
        for target in targets:
            target.places = places_of(self._target, target.table)
            if target.table.is_partitioned and target.places.keys() - target.source.places.keys():
                self._client.pins.require_unpinned([target.name], _FEWER_PARTITIONS)
            everywhere = {p: target.place(p) for p in target.source.places}
            listings.append(list_places(self._files, everywhere))
        # After the listings: what was compacted is seen where the Cleaner has removed what it replaced.
        txns, lost = self._client.get_valid_txns(), dict[str, str]()
        for target, listed in zip(targets, listings, strict=True):
            for partition in target.source.places:
                new = target.bootstrapped or (partition not in target.places)
                view = ReplicaView(listed[partition], target.known, txns, left, is_new=new)
                try:
                    target.plans[partition] = plan(target.source.view(partition), view)
                except ReplicaDivergedError as error:
                    lost[target.name] = str(error)
        if lost:
            self._require_untouched(targets)  # what others did meanwhile may be why
            raise diverged(lost)

    # --- files -------------------------------------------------------------------------------------------------------

    def _staging(self, table: Table, attempt: str | None = None) -> str:
        return paths.join(table.location, staging_name(STAGING + (attempt or self._attempt)))

    def _take_over(self, before: SyncRecord | None, targets: Sequence[Target]) -> None:
        """What an attempt before has copied is ours now, and where it worked there is a file (R4)."""
        if before is None:
            return
        for target in targets:
            new = self._staging(target.table)
            # All of them: who took over may have been killed before it had a directory of its own.
            left = staging_of_syncs(self._target, target.table)
            left.sort(key=lambda uri: not uri.endswith(before.attempt))
            for old in left:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # it is fenced already
                    if old is left[0]:
                        self._files.rename_directory(old, new)
                    fence_staging(self._files, old, inside=target.table.location, note=f"taken over by {self._attempt}")

    def _copy(self, target: Target) -> None:
        """Everything into staging: files as they are, rows by Spark, bases without rows."""
        root = self._staging(target.table)
        files: list[FileCopy] = []
        carried = carried_bytes = jobs = 0
        for partition, found in target.plans.items():
            inside = paths.join(root, f"table-{target.source.table.id}", *([partition] if partition else []))
            at = target.source.places[partition]
            for one in found.copies:
                # By the source's name: two compactions of one write id are two directories.
                staged = f"{inside}/{one.source}"
                self._files.make_directory(staged)
                placed = one.placed()
                self._keep_only(staged, {rest for _, rest in placed})
                for file, rest in placed:
                    uri = f"{at}/{file.path}"
                    growing = uri in target.source.growing
                    files.append(FileCopy(uri, f"{staged}/{rest}", file.size, beginning=growing))
                target.arrivals.append((partition, one.arrival, staged))
            files += [FileCopy(f"{at}/{f.path}", f"{inside}/originals/{f.path}", f.size) for f in found.originals]
            if found.empty_base is not None:
                arrival = found.empty_base.arrival()
                staged = f"{inside}/{arrival.directory.name}"
                self._files.make_directory(staged)
                self._files.write_text(f"{staged}/{ACID_VERSION_FILE}", ACID_VERSION)
                target.arrivals.append((partition, arrival, staged))
            for rows in found.carries:
                self._step("carry")
                jobs += 1
                job = paths.join(root, f"carry-{jobs}")
                made = carry(self._source, self._target, target.source, partition, rows, job, root)
                carried += len(made)
                carried_bytes += sum(size for _, _, size in made)
                target.arrivals += [(partition, arrival, staged) for arrival, staged, _ in made]
        copied = copy(self._target, self._source.filesystem, self._files, files)
        target.report = TableReport(
            target.name, target.source.table.qualified_name, directories=len(target.arrivals), files=copied.files,
            bytes=copied.bytes + carried_bytes, carried=carried, bootstrapped=target.bootstrapped,
        )  # fmt: skip

    def _keep_only(self, staged: str, names: Collection[str]) -> None:
        """Of what an attempt before has copied, nothing stays that does not belong there now."""
        try:
            entries = self._files.list_files(staged, recursive=True)
        except FileNotFoundError:
            return  # an object store knows no directory without files
        for entry in entries:
            if not entry.is_dir and entry.relative not in names:
                self._files.delete(entry.path, inside=staged)

    def _tidy(self, before: SyncRecord | None, targets: Sequence[Target], left: frozenset[int]) -> None:
        """Remove what a killed sync had renamed into place; nobody sees it, and its txns are forgotten afterwards."""
        self.require_ours()
        self._require_untouched(targets)
        for target in targets:
            for partition, found in target.plans.items():
                place = target.place(partition)
                for name in found.leftovers:
                    self._files.delete(paths.join(place, name), inside=place)
        others = set() if before is None else set(before.tables) - set(self._tables.values())
        records = self._client.database.read(lambda connection: read_records(connection, self._policy))
        for table in self._client.catalog.find_tables(sorted(others)).values():
            record = records.get(table.id)
            known = _NOTHING_KNOWN if record is None else record.write_ids
            fence_syncs(self._target, table, f"taken over by {self._attempt}")
            remove_leftovers(self._target, table, known, left)

    def _open(self, state: SourceState, targets: Sequence[Target]) -> int:
        """The sync txn, as late as can be: readers that begin after it and look before the end are told to retry."""
        replica = self._client.replica(self._policy)
        sync_txn = replica.open_txns([-state.state_id])[0]
        places = [place for target in targets for place in target.mapped_places()]
        replica.name_places(sync_txn, places, lambda conn: require_attempt(conn, self._policy, self._attempt))
        keep_cleaner_away(self._target, sync_txn, [t.name for t in targets if t.source.places.keys() - t.places.keys()])
        return sync_txn

    def _publish(self, target: Target, sync_txn: int) -> None:
        """Rename into place: invisible, by write id or by the sync's txn."""
        self.require_ours()
        self._require_untouched([target])
        wanted = {p for p, _, _ in target.arrivals} | (target.source.places.keys() - target.places.keys())
        for partition in sorted(wanted):  # also of a partition without rows
            self._files.make_directory(target.place(partition))
        finals: list[str] = []
        for partition, arrival, staged in target.arrivals:
            place = target.place(partition)
            final = paths.join(place, arrival.name(sync_txn))
            finals.append(final)
            try:
                self._files.rename_directory(staged, final)
            except FileExistsError:
                raise PublishInterruptedError(
                    f"{final} exists already, and no sync that ended has made it; another sync of {self._policy!r} is "
                    "at work there. Run one at a time"
                ) from None
        for partition, found in target.plans.items():
            inside = paths.join(self._staging(target.table), f"table-{target.source.table.id}",
                                *([partition] if partition else []))  # fmt: skip
            for file in found.originals:
                final = paths.join(target.place(partition), file.path)
                self._files.make_directory(final.rpartition("/")[0])
                if not self._files.exists(final):  # renamed by an attempt before, whole
                    self._files.rename(f"{inside}/originals/{file.path}", final)
                finals.append(final)
        sync(self._client.settings, finals, target.table.location)

    # --- the end -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _dropped(targets: Sequence[Target]) -> bool:
        return any(t.places.keys() - t.source.places.keys() for t in targets if t.table.is_partitioned)

    def _advance(
        self, state: SourceState, targets: Sequence[Target], sync_txn: int,
        metadata: Callable[[Connection], object] | None,
    ) -> None:  # fmt: skip
        tables = tuple(t.advance() for t in targets)
        request = Advance(self._policy, self._attempt, state.state_id, sync_txn, tables, metadata, self._seen)

        def operation(connection: Connection) -> None:
            require_no_lease(self._target, connection, self._tables.values())  # R8: first of all
            advance(connection, self._client, request)

        self._client.database.run(operation, retry_duplicates=True)

    def _forget(self, txn_ids: Iterable[int]) -> None:
        """Abort the txns of syncs that were killed, now that nothing carries their ids any more (R4)."""

        def operation(connection: Connection, txn_id: int) -> None:
            abort_txn(connection, txn_id, self._client.database.features(connection), AbortReason.REPLICATION)
            forget_mapping(connection, txn_id)

        for txn_id in sorted(txn_ids):
            self._client.database.run(lambda connection, t=txn_id: operation(connection, t))  # type: ignore[misc]
