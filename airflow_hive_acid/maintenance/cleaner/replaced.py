"""Removing what a compaction has replaced, once nobody needs it.

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
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.partitions import is_escaped_twice
from airflow_hive_acid.maintenance.cleaner.endings import Ending
from airflow_hive_acid.maintenance.cleaner.pins import NOTHING_HELD, HeldByPins
from airflow_hive_acid.maintenance.cleaner.removal import Removal
from airflow_hive_acid.maintenance.cleaner.rules import Verdict
from airflow_hive_acid.maintenance.cleaner.staying import staying
from airflow_hive_acid.maintenance.cleaner.subject import find_subject, is_kept_by_property
from airflow_hive_acid.maintenance.cleaner.superfluous import find_superfluous, is_below
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.directories import DirectorySizes, entries
from airflow_hive_acid.maintenance.warehouse.fences import FenceReport, fence_aborted
from airflow_hive_acid.metastore.compaction import Covered, read_aborted
from airflow_hive_acid.metastore.txns import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from airflow_hive_acid.filesystem import FileInfo
    from airflow_hive_acid.maintenance.cleaner.endings import Account
    from airflow_hive_acid.maintenance.cleaner.look import Look
    from airflow_hive_acid.maintenance.cleaner.staying import Hold
    from airflow_hive_acid.maintenance.cleaner.subject import Readers, Subject
    from airflow_hive_acid.maintenance.cleaner.superfluous import Superfluous
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.compaction import Compaction

log = logging.getLogger(__name__)


def remove_replaced(
    look: Look, request: Compaction, subject: Subject, readers: Readers, account: Account, locks: ExitStack
) -> Ending:  # fmt: skip
    """Clean up after one compaction: may it be, and is what it was of still there?

    :param locks: a lock that is taken joins them.
    """
    table = subject.table
    if table is None or subject.is_gone(request.resource):
        # Of a partition that is unknown no aborted txn is forgotten here: what the Cleaner does about aborted
        # writes looks for their directories wherever they may be.
        reason = "the table or partition is gone, and its files with it"
        return Ending(Kind.CLEANED, reason, covered=Covered.EVERYTHING, fenced=None if table is None else ())
    if table.is_partitioned and subject.partition is None:
        reason = "a partitioned table is compacted partition by partition; nothing was replaced"
        return Ending(Kind.FAILED, reason)
    if is_kept_by_property(look.client, table, request.resource):
        return Ending(Kind.REFUSED, "the table or partition has no_cleanup=true; its files stay")
    decision = readers.decision
    if decision.verdict is Verdict.FAIL:
        return Ending(Kind.FAILED, decision.reason, decision.numbers, holders=decision.holders)
    directory = Directory(look, request, subject, table, readers, account)
    if decision.verdict is Verdict.WAIT:
        if look.dry_run:
            account.kept = directory.replaced()
        return Ending(Kind.WAITING, decision.reason, decision.numbers, holders=decision.holders)
    return directory.clean(locks)


@dataclass(frozen=True, slots=True)
class Directory:
    """The directory of a table or partition of the catalog, which is cleaned up to a request's mark."""

    look: Look
    request: Compaction
    subject: Subject
    table: Table
    readers: Readers
    account: Account

    @property
    def location(self) -> str:
        """Its URI."""
        return (self.subject.partition or self.table).location

    def clean(self, locks: ExitStack) -> Ending:
        """Clean it, under a lock that keeps the table or partition in its place."""
        request = self.request
        if self.look.dry_run:
            return self._clean(None)
        find = partial(find_subject, self.look.client, request.resource)
        staying_there = staying(self.look.client, f"cleaning {request.id}", self.table, self.subject, find)
        hold = locks.enter_context(staying_there)
        if hold.problem:
            return Ending(Kind.WAITING, f"{request.resource} {hold.problem}; looking again soon")
        self.look.client.compactions.start_cleaning(request)
        return self._clean(hold)

    def replaced(self) -> list[str]:
        """URIs of what could go if nobody needed it."""
        return [found.entry.path for found in self._left(self.look.list_for(self.request, self.location))]

    def _clean(self, hold: Hold | None) -> Ending:
        """Fence, list, remove, judge what is left (R4).

        :param hold: the lock; None in a dry run.
        """
        request, look, readers, account = self.request, self.look, self.readers, self.account
        if not look.dry_run:
            # R17: on a wrong disk there is nothing of an aborted txn either.
            look.places.require(request.resource.database, self.table.location, again=False)
        aborted, fences, must_look_again = self._fence()
        listing = look.list_for(request, self.location)
        held = HeldByPins.of(readers.pins, request.resource, listing)
        superfluous = find_superfluous(listing, readers.write_ids, readers.txns, held)
        removal = Removal(look, request, self.location, self.table, account)
        removal.remove(superfluous, removal.missed(listing, superfluous, readers, held), hold)
        gone = set(account.removed)
        if must_look_again and not look.dry_run:
            listing, gone = look.list_for(request, self.location), set()
        left = self._left([info for info in listing if not is_below(info, gone)], held)
        account.kept = [found.entry.path for found in left] + held.paths
        return self._ending(aborted, fences, held, left)

    def _fence(self) -> tuple[list[int], FenceReport, bool]:
        """Fence the jobs of the aborted txns that are about to be forgotten, compaction txns among them.

        :return: the txns, what was fenced, and whether there are some without jobs: somebody else's, who may still
            write.
        """
        if self.look.dry_run:
            return [], FenceReport(), False
        resource = self.request.resource
        aborted = self.look.client.database.read(lambda connection: read_aborted(connection, resource))
        ids = [txn.txn_id for txn in aborted]
        report, known = fence_aborted(self.look.client, self.look.filesystem, ids)
        # By a name with two meanings a Hive may have meant another partition, whose files were not looked at.
        return [] if is_escaped_twice(resource.partition or "") else ids, report, not known

    def _left(self, listing: Sequence[FileInfo], held: HeldByPins = NOTHING_HELD) -> list[Superfluous]:
        """What is superfluous up to the request's mark by lists that are taken now."""
        name, gap_ms = self.request.resource.table_name, self.look.client.gap_timeout_ms
        fresh = self.look.client.database.read(lambda connection: take_snapshot(connection, [name], 0, gap_ms))
        write_ids = fresh.write_ids[name]
        if not self.look.dry_run:
            try:
                sizes = DirectorySizes.of(acid_state(entries(listing), write_ids.for_compactor(), fresh.valid_txns))
                self.look.client.measures.store([(self.request.resource, sizes.measure())])
            except HiveAcidError as error:
                # A record that cannot be written keeps nothing from being cleaned.
                log.warning("the size of %s was not noted: %s", self.request.resource, error)
        marked = write_ids.for_cleaner(self.request.highest_write_id or 0)
        return find_superfluous(listing, marked, fresh.valid_txns, held)

    def _ending(
        self, aborted: list[int], fences: FenceReport, held: HeldByPins, left: Sequence[Superfluous]
    ) -> Ending:  # fmt: skip
        """What the compaction covered is forgotten if nothing of it is left and nothing can come back."""
        look, readers, account = self.look, self.readers, self.account
        numbers = {**readers.decision.numbers, "removed": len(account.removed), "left": len(left)}
        if held.paths:
            numbers |= {"held_by_pins": len(held.paths), "held_bytes": held.bytes}
        if account.trashed:
            numbers["trashed"] = len(account.trashed)
        is_held = not readers.pins or look.dry_run or self.look.client.pins.note_held(self.request, held.of_pin)
        if fences.alive:
            jobs = tuple(f"job {job.job_id} of txn {job.txn_id}" for job, _ in fences.alive)
            return Ending(Kind.KEPT, "jobs of aborted txns may still write here", numbers, jobs)
        if not is_held:
            return Ending(Kind.KEPT, "a pin ended meanwhile; looking again soon", numbers)
        if left:
            shown = ", ".join(found.entry.name for found in left[:5])
            reason = f"{len(left)} more can go when later txns have ended: {shown}"
            return Ending(Kind.KEPT, reason, numbers, held.blockers, readers.horizon.holders)
        # What only pins hold back is cleaned up after again when they end; later compactions need not wait for it.
        verb = "would be" if look.dry_run else "were"
        reason = f"{len(account.removed)} obsolete or aborted directories and files {verb} removed"
        if account.trashed:
            reason += f", {len(account.trashed)} of them to the trash"
        return Ending(Kind.CLEANED, f"{reason}{held}", numbers, held.blockers, fenced=aborted)
