"""Cleaning up after one finished compaction, or removing one dropped directory.

A directory is listed once, after the jobs of aborted txns have been fenced (R4), and each obsolete directory is one
delete, or one rename to the trash (R13). Only where aborted txns of somebody else are about to be forgotten, whose
programs nobody here can fence, it is listed again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.filesystem.absence import list_or_prove
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.partitions import is_escaped_twice, readings
from airflow_hive_acid.maintenance.cleaner.dropped import DroppedPartition, remove_listed
from airflow_hive_acid.maintenance.cleaner.owners import Owners
from airflow_hive_acid.maintenance.cleaner.pins import NOTHING_HELD, HeldByPins
from airflow_hive_acid.maintenance.cleaner.rules import TxnFate, Verdict, attempts, may_clean, retry_pause_ms
from airflow_hive_acid.maintenance.cleaner.staying import staying
from airflow_hive_acid.maintenance.cleaner.superfluous import find_superfluous, is_below
from airflow_hive_acid.maintenance.cleaner.trash import is_purged, lacking
from airflow_hive_acid.maintenance.decisions import CleaningOutcome, Kind
from airflow_hive_acid.maintenance.warehouse.directories import DirectorySizes, entries
from airflow_hive_acid.maintenance.warehouse.fences import FenceReport, fence_aborted
from airflow_hive_acid.maintenance.warehouse.places import Places
from airflow_hive_acid.metastore.compaction import Covered, read_aborted, read_horizon, read_registered
from airflow_hive_acid.metastore.database import TxnState
from airflow_hive_acid.metastore.names import known_reading
from airflow_hive_acid.metastore.protocol import pins_on
from airflow_hive_acid.metastore.txns import take_snapshot, txn_facts, valid_write_ids, was_committed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.maintenance.cleaner.rules import CleaningDecision
    from airflow_hive_acid.maintenance.cleaner.staying import Hold
    from airflow_hive_acid.maintenance.cleaner.superfluous import Superfluous
    from airflow_hive_acid.maintenance.cleaner.trash import Trash
    from airflow_hive_acid.maintenance.decisions import Number
    from airflow_hive_acid.maintenance.thresholds import CleanerThresholds
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Partition, Table
    from airflow_hive_acid.metastore.compaction import Compaction, Holder, Horizon
    from airflow_hive_acid.metastore.txns import PinnedTable

log = logging.getLogger(__name__)

_NO_CLEANUP = "no_cleanup"


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was found in the metastore before anything is deleted."""

    horizon: Horizon
    decision: CleaningDecision
    write_ids: ValidWriteIdList
    pins: tuple[PinnedTable, ...] = ()


class Cleaning:
    """Cleans up after one request that is ready for cleaning.

    :param trash: where obsolete directories go; None: they are deleted.
    :param dry_run: change nothing, say what would be done.
    :param places: of this pass of the Cleaner, which looks once whether a warehouse is there.
    :param owners: of this pass as well, which asks once for many dropped partitions.
    """

    def __init__(
        self,
        client: MetastoreClient,
        filesystem: Filesystem,
        thresholds: CleanerThresholds,
        request: Compaction,
        *,
        trash: Trash | None = None,
        dry_run: bool = False,
        places: Places | None = None,
        owners: Owners | None = None,
    ) -> None:
        self._client = client
        self._filesystem = filesystem
        self._thresholds = thresholds
        self._request = request
        self._trash = trash
        self._dry_run = dry_run
        self._places = places or Places(client, filesystem)
        self._owners = owners or Owners(client, filesystem)
        self._removed: list[str] = []
        self._trashed: list[str] = []
        self._kept: list[str] = []
        self._hold: Hold | None = None

    def outcome(self) -> CleaningOutcome:
        """Do it, and say what was done; a failure is recorded for a later try and stops nobody else's clean-up."""
        try:
            if self._request.soft_deleted_location is not None:
                return self._remove_dropped(self._request.soft_deleted_location)
            return self._clean()
        except Exception as error:
            if not isinstance(error, HiveAcidError | OSError):
                log.exception("clean-up of compaction %d failed", self._request.id)
            return self._failed(error)

    def _change(self, verb: Callable[[], object]) -> None:
        """Change the queue, unless this is only to say what would be done."""
        if not self._dry_run:
            verb()

    # --- after a compaction ---------------------------------------------------------------------------------------

    def _clean(self) -> CleaningOutcome:
        table, partition = self._find()
        resource = self._request.resource
        if table is None or (resource.partition is not None and partition is None):
            # Of a partition that is unknown no aborted txn is forgotten here: what the Cleaner does about aborted
            # writes looks for their directories wherever they may be.
            fenced = None if table is None else ()
            self._change(lambda: self._client.compactions.mark_cleaned(self._request, Covered.EVERYTHING, fenced))
            return self._outcome(Kind.CLEANED, "the table or partition is gone, and its files with it")
        if table.is_partitioned and partition is None:
            reason = "a partitioned table is compacted partition by partition; nothing was replaced"
            self._change(lambda: self._client.compactions.mark_failed(self._request, reason))
            return self._outcome(Kind.FAILED, reason)
        if self._is_disabled(table):
            reason = f"the table or partition has {_NO_CLEANUP}=true; its files stay"
            self._change(lambda: self._client.compactions.mark_refused(self._request, reason))
            return self._outcome(Kind.REFUSED, reason)
        looked = self._client.database.read(self._look)
        location = table.location if partition is None else partition.location
        if looked.decision.verdict is Verdict.WAIT:
            if self._dry_run:
                self._kept = self._replaced(location)
            return self._decided(Kind.WAITING, looked.decision)
        if looked.decision.verdict is Verdict.FAIL:
            self._change(lambda: self._client.compactions.mark_failed(self._request, looked.decision.reason))
            return self._decided(Kind.FAILED, looked.decision)
        return self._delete_staying(location, looked, table, partition)

    def _delete_staying(
        self, location: str, looked: _Looked, table: Table, partition: Partition | None
    ) -> CleaningOutcome:  # fmt: skip
        """Delete under a lock that keeps the table or partition in its place."""
        if self._dry_run:
            return self._delete(location, looked, table)
        with staying(self._client, f"cleaning {self._request.id}", table, partition, self._find) as hold:
            if hold.problem:
                return self._outcome(Kind.WAITING, f"{self._request.resource} {hold.problem}; looking again soon")
            self._hold = hold
            self._client.compactions.start_cleaning(self._request)
            return self._delete(location, looked, table)

    def _find(self) -> tuple[Table | None, Partition | None]:
        resource = self._request.resource
        name = str(resource.table_name)
        table = self._client.catalog.find_tables([name]).get(name)
        if table is None or resource.partition is None or not table.is_partitioned:
            return table, None
        found = self._client.catalog.find_partitions(name, readings(resource.partition))
        known = known_reading(resource.partition, found)
        return table, None if known is None else found[known]

    def _is_disabled(self, table: Table) -> bool:
        own: dict[str, str] = {}
        if self._request.resource.partition is not None:
            own = self._client.catalog.partition_properties(table.qualified_name, self._request.resource.partition)
        everywhere = [*own.items(), *table.properties.items()]
        return any(key.lower() == _NO_CLEANUP and value.lower() == "true" for key, value in everywhere)

    def _look(self, connection: Connection) -> _Looked:
        """Everything the decision needs, in one consistent view."""
        request = self._request
        name = request.resource.table_name
        features = self._client.database.features(connection)
        horizon = read_horizon(connection, features, self._client.gap_timeout_ms)
        registered = read_registered(connection, features, name)
        decision = may_clean(request, horizon, self._fate(connection), registered)
        lists = valid_write_ids(connection, [name], horizon.txns())
        pins = tuple(pins_on(connection, name)) if features.pins else ()
        return _Looked(horizon, decision, lists[name].for_cleaner(request.highest_write_id or 0), pins)

    def _fate(self, connection: Connection) -> TxnFate:
        txn_id = self._request.txn_id
        if txn_id is None:
            return TxnFate.FORGOTTEN
        facts = txn_facts(connection, [txn_id]).get(txn_id)
        if facts is None:
            return TxnFate.COMMITTED if was_committed(connection, txn_id) else TxnFate.FORGOTTEN
        return {
            TxnState.OPEN: TxnFate.OPEN, TxnState.COMMITTED: TxnFate.COMMITTED, TxnState.ABORTED: TxnFate.ABORTED,
        }[facts.state]  # fmt: skip

    def _delete(self, location: str, looked: _Looked, table: Table | None) -> CleaningOutcome:
        """Fence, list, delete, judge what is left, forget (R4)."""
        request = self._request
        if not self._dry_run:
            # R17: on a wrong disk there is nothing of an aborted txn either.
            place = location if table is None else table.location
            self._places.require(self._request.resource.database, place, again=False)
        aborted, fences, must_look_again = self._fence_aborted()
        listing = self._list(location)
        held = HeldByPins.of(looked.pins, request.resource, listing)
        superfluous = find_superfluous(listing, looked.write_ids, looked.horizon.txns(), held)
        self._dispose(location, superfluous, table, self._lacking(listing, superfluous, looked, held))
        gone = set(self._removed)
        if must_look_again and not self._dry_run:
            listing, gone = self._list(location), set()
        left = self._left([info for info in listing if not is_below(info, gone)], held)
        self._kept = [found.entry.path for found in left] + held.paths
        numbers = {**looked.decision.numbers, "removed": len(self._removed), "left": len(left)}
        if held.paths:
            numbers |= {"held_by_pins": len(held.paths), "held_bytes": held.bytes}
        kept = not looked.pins or self._dry_run or self._client.pins.note_held(request, held.of_pin)
        if self._trashed:
            numbers["trashed"] = len(self._trashed)
        if fences.alive:
            self._stop()
            jobs = tuple(f"job {job.job_id} of txn {job.txn_id}" for job, _ in fences.alive)
            return self._outcome(Kind.KEPT, "jobs of aborted txns may still write here", numbers, jobs)
        if not kept:
            self._stop()
            return self._outcome(Kind.KEPT, "a pin ended meanwhile; looking again soon", numbers)
        if left:
            self._stop()
            shown = ", ".join(found.entry.name for found in left[:5])
            return self._outcome(
                Kind.KEPT, f"{len(left)} more can go when later txns have ended: {shown}", numbers,
                held.blockers, holders=looked.horizon.holders,
            )  # fmt: skip
        # What only pins hold back is cleaned up after again when they end; later compactions need not wait for it.
        self._change(lambda: self._client.compactions.mark_cleaned(request, fenced=aborted))
        return self._outcome(Kind.CLEANED, f"{self._done()}{held}", numbers, held.blockers)

    def _stop(self) -> None:
        """The Cleaner will come back to it. Once something was removed, the note that it has begun stays: what the
        compaction had replaced is not complete any more, and a replication must not go by it."""
        if not self._removed and self._request.cleaner_start is None:
            self._change(lambda: self._client.compactions.stop_cleaning(self._request))

    def _done(self) -> str:
        verb = "would be" if self._dry_run else "were"
        text = f"{len(self._removed)} obsolete or aborted directories and files {verb} removed"
        return f"{text}, {len(self._trashed)} of them to the trash" if self._trashed else text

    def _fence_aborted(self) -> tuple[list[int], FenceReport, bool]:
        """Fence the jobs of the aborted txns that are about to be forgotten, compaction txns among them.

        :return: the txns, what was fenced, and whether there are some without jobs: somebody else's, who may still
            write.
        """
        request = self._request
        if self._dry_run:
            return [], FenceReport(), False
        aborted = self._client.database.read(lambda connection: read_aborted(connection, request.resource))
        ids = [txn.txn_id for txn in aborted]
        report, known = fence_aborted(self._client, self._filesystem, ids)
        # By a name with two meanings a Hive may have meant another partition, whose files were not looked at.
        return [] if is_escaped_twice(request.resource.partition or "") else ids, report, not known

    def _list(self, location: str) -> list[FileInfo]:
        proof = partial(self._require_place, location)
        return list_or_prove(self._filesystem, [location], proof, descend=enter)[location] or []

    def _require_place(self, location: str) -> None:
        """Nothing follows from a directory that is not found, unless its warehouse, and its table, are there (R17)."""
        table = self._find()[0]
        if table is not None and self._request.soft_deleted_location is None:
            self._places.require_table(table)
        resource = self._request.resource
        dropped = self._request.soft_deleted_location is not None and resource.partition is not None
        owner_of = partial(self._owners.owner_of, resource, table) if dropped else None
        self._places.require_absent(resource.database, location, owner_of)

    def _lacking(
        self, listing: Sequence[FileInfo], found: Sequence[Superfluous], looked: _Looked, held: HeldByPins
    ) -> list[FileInfo]:
        """What a batch will lack, if there is a trash."""
        if self._trash is None:
            return []
        others = held.names | {one.entry.relative for one in found if one.mixed}
        going = [one.entry.relative for one in found if one.restorable]
        return lacking(listing, going, others, looked.write_ids, looked.horizon.txns())

    def _dispose(
        self, location: str, superfluous: Sequence[Superfluous], table: Table | None, lacks: Sequence[FileInfo]
    ) -> None:
        """Delete what nobody needs; move to the trash what may be wanted back.

        :param lacks: what stays, or is deleted, of the same rows.
        """
        kept = not is_purged(table) and "ifPurge" not in self._request.properties
        trash = self._trash if kept and self._trash is not None and self._trash.takes_from(location) else None
        wanted = [found.entry for found in superfluous if trash is not None and found.restorable]
        if self._dry_run:
            self._trashed = [entry.path for entry in wanted]
            self._removed = [found.entry.path for found in superfluous]
            return
        if trash is not None and wanted:
            self._trashed = trash.move(self._request, location, wanted, lacks, table=table)
            self._removed += self._trashed
        for found in superfluous:
            if found.entry not in wanted:
                if self._hold is not None:
                    self._hold.beat()
                self._filesystem.delete(found.entry.path, inside=location)
                self._removed.append(found.entry.path)

    def _left(self, listing: Sequence[FileInfo], held: HeldByPins = NOTHING_HELD) -> list[Superfluous]:
        """What is superfluous up to the compaction's mark by lists that are taken now."""
        name = self._request.resource.table_name
        gap = self._client.gap_timeout_ms
        fresh = self._client.database.read(lambda connection: take_snapshot(connection, [name], 0, gap))
        if not self._dry_run:
            self._note_sizes(listing, fresh.write_ids[name].for_compactor(), fresh.valid_txns)
        write_ids = fresh.write_ids[name].for_cleaner(self._request.highest_write_id or 0)
        return find_superfluous(listing, write_ids, fresh.valid_txns, held)

    def _note_sizes(self, listing: Sequence[FileInfo], write_ids: ValidWriteIdList, txns: ValidTxnList) -> None:
        """Note how large it is now; a record that cannot be written keeps nothing from being cleaned."""
        try:
            sizes = DirectorySizes.of(acid_state(entries(listing), write_ids, txns))
            self._client.measures.store([(self._request.resource, sizes.measure())])
        except HiveAcidError as error:
            log.warning("the size of %s was not noted: %s", self._request.resource, error)

    def _replaced(self, location: str) -> list[str]:
        """What could go if nobody needed it."""
        return [found.entry.path for found in self._left(self._list(location))]

    # --- dropped tables and partitions ----------------------------------------------------------------------------

    def _remove_dropped(self, location: str) -> CleaningOutcome:
        """Remove the directory of a soft-deleted table or partition, once no older txn can read it."""
        request, resource = self._request, self._request.resource
        looked = self._client.database.read(self._look)
        if looked.decision.verdict is Verdict.FAIL:
            reason = f"{location} stays: the txn that dropped {resource} did not commit"
            self._change(lambda: self._client.compactions.mark_failed(request, reason))
            return self._outcome(Kind.FAILED, reason)
        if looked.decision.verdict is Verdict.WAIT:
            self._kept = [location]
            return self._decided(Kind.WAITING, looked.decision)
        dropped_by = request.txn_id or 0
        seeing = [p for p in looked.pins if p.sees(resource.partition) and not p.txns.is_valid(dropped_by)]
        if seeing:
            self._kept = [location]
            blockers = tuple(f"{p.pin} until {p.pin.until}" for p in seeing)
            return self._outcome(Kind.WAITING, f"held back by {', '.join(blockers)}", blocked_by=blockers)
        root = self._root_of(location)
        if root is None:
            reason = f"{location} lies outside the warehouse and its database's directories; remove it by hand"
            self._change(lambda: self._client.compactions.mark_refused(request, reason))
            return self._outcome(Kind.REFUSED, reason)
        table, partition = self._find()
        if table is not None and partition is not None and paths.relative_to(partition.location, location) == "":
            # The partition was added again, in the same place: what is in it now is judged like any other.
            return self._delete_staying(location, looked, table, partition)
        is_partition = table is not None and resource.partition is not None
        whole = None if is_partition or self._dry_run else self._list_whole(location)  # before it is asked whose it is
        owner = self._owners.owner_of(resource, table, location)
        if owner is not None:
            reason = f"{location} belongs to {owner} now; nothing was removed"
            self._change(lambda: self._client.compactions.mark_refused(request, reason))
            return self._outcome(Kind.REFUSED, reason)
        if self._dry_run:
            self._removed = [location]
            return self._outcome(Kind.CLEANED, f"the dropped directory {location} would be removed")
        if is_partition and table is not None:
            owned = partial(self._owners.owner_of, resource, table, location)
            dropped = DroppedPartition(self._client, self._filesystem, request, location, root, owned)
            problem = dropped.remove(
                lambda: self._list(location), lambda listing: self._hide_away(location, listing, looked, table)
            )
            self._removed = [*self._trashed, *dropped.removed]
        else:
            self._removed, problem = remove_listed(self._filesystem, location, whole, root)
        if problem:
            return self._outcome(Kind.WAITING, f"{resource} {problem}; looking again soon")
        # What a new table of that name has written since is not covered by this.
        self._client.compactions.mark_cleaned(request, Covered.EVERYTHING if table is None else Covered.NOTHING)
        return self._outcome(Kind.CLEANED, f"the dropped directory {location} was removed")

    def _hide_away(self, location: str, listing: Sequence[FileInfo], looked: _Looked, table: Table) -> list[str]:
        """What the drop's base hides can be wanted back: it goes to the trash if there is one, the rest for good (R13).

        :return: URIs of what has gone.
        """
        if self._trash is not None:
            found = find_superfluous(listing, looked.write_ids, looked.horizon.txns())
            lacks = self._lacking(listing, found, looked, NOTHING_HELD)
            self._dispose(location, [one for one in found if one.restorable], table, lacks)
        return self._removed

    def _list_whole(self, location: str) -> list[FileInfo] | None:
        proof = partial(self._places.require, self._request.resource.database, location)
        return list_or_prove(self._filesystem, [location], proof, recursive=False)[location]

    def _root_of(self, location: str) -> str | None:
        """The warehouse or database directory that contains a location."""
        roots = self._client.catalog.roots(self._request.resource.database)
        return next((root for root in roots if paths.is_inside(root, location)), None)

    # --- saying so ------------------------------------------------------------------------------------------------

    def _failed(self, error: Exception) -> CleaningOutcome:
        """Try again later with growing pauses, and give up in the end (K14)."""
        reason = f"{type(error).__name__}: {error}"
        request, first = self._request, self._thresholds.retry_pause_ms
        failed = attempts(request.retry_retention, first)
        numbers: dict[str, Number] = {"failed_attempts": failed + 1, "removed": len(self._removed)}
        if self._dry_run:
            return self._outcome(Kind.ERROR, reason, numbers)
        try:
            if failed >= self._thresholds.max_attempts:
                self._client.compactions.mark_failed(request, reason)
                return self._outcome(Kind.FAILED, reason, numbers)
            pause = retry_pause_ms(request.retry_retention, first)
            self._client.compactions.retry_cleaning(request, reason, pause)
        except HiveAcidError as problem:
            log.warning("the failed clean-up of compaction %d could not be recorded: %s", request.id, problem)
            return self._outcome(Kind.ERROR, reason, numbers)
        return self._outcome(Kind.ERROR, f"{reason}; trying again in {pause // 1000} s", numbers)

    def _decided(self, kind: Kind, decision: CleaningDecision) -> CleaningOutcome:
        return self._outcome(kind, decision.reason, decision.numbers, holders=decision.holders)

    def _outcome(
        self,
        kind: Kind,
        reason: str,
        numbers: dict[str, Number] | None = None,
        blocked_by: tuple[str, ...] = (),
        holders: tuple[Holder, ...] = (),
    ) -> CleaningOutcome:
        return CleaningOutcome(
            self._request.resource, kind, reason, numbers or {}, tuple(self._removed),
            (*blocked_by, *map(str, holders)), self._request.id, holders, tuple(self._trashed), tuple(self._kept),
        )  # fmt: skip
