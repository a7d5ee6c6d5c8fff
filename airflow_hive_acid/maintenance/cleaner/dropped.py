"""Removing the directory of a dropped table or partition, once no older txn can read it.

That of a partition is removed beside whoever adds the partition again. The lock that is held meanwhile does not keep
out an INSERT of a Hive, or of ours with ``hive.txn.xlock.write``: it has SHARED_READ alone, and its partition is in the
catalog only when it ends. So nothing is removed by the directory's name: what the drop covers goes, by its write id,
and the directory when it is empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem.absence import list_or_prove
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import DirectoryKind, is_hidden, parse_directory
from airflow_hive_acid.maintenance.cleaner.endings import Ending
from airflow_hive_acid.maintenance.cleaner.removal import Removal
from airflow_hive_acid.maintenance.cleaner.replaced import Directory
from airflow_hive_acid.maintenance.cleaner.rules import Verdict
from airflow_hive_acid.maintenance.cleaner.staying import Hold
from airflow_hive_acid.maintenance.cleaner.superfluous import find_superfluous
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.compaction import Covered
from airflow_hive_acid.metastore.database import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks import LockComponent
from airflow_hive_acid.metastore.txns import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import ExitStack

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.maintenance.cleaner.endings import Account
    from airflow_hive_acid.maintenance.cleaner.look import Look
    from airflow_hive_acid.maintenance.cleaner.subject import Readers, Subject
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.compaction import Compaction


@dataclass(frozen=True, slots=True)
class DroppedFiles:
    """What lies in the directory of a partition that was dropped and is not in the catalog.

    :param going: what the drop has left.
    :param hiding: the base without rows that it has left there. It goes last, and only with everything: it hides the
        rest from a partition that is added again.
    :param beginning: what txns write there that are open, so that their partition is not in the catalog yet.
    :param later: what was committed after this drop. A later drop, of a Hive's, is cleaned up after for itself; of a
        partition that lies elsewhere by now (SET LOCATION) it is nobody's.
    """

    going: tuple[FileInfo, ...] = ()
    hiding: tuple[FileInfo, ...] = ()
    beginning: tuple[FileInfo, ...] = ()
    later: tuple[FileInfo, ...] = ()


def judge_dropped(listing: Iterable[FileInfo], highest: int, write_ids: ValidWriteIdList) -> DroppedFiles:
    """Who needs what lies in the directory of a dropped partition.

    :param highest: the drop's write id.
    :param write_ids: of the table, as of a moment after the listing.
    """
    found: dict[str, list[FileInfo]] = {"going": [], "hiding": [], "beginning": [], "later": []}
    for entry in listing:
        if "/" not in entry.relative:
            found[_kind_of_dropped(entry, highest, write_ids)].append(entry)
    return DroppedFiles(**{kind: tuple(those) for kind, those in found.items()})


def _kind_of_dropped(entry: FileInfo, highest: int, write_ids: ValidWriteIdList) -> str:
    directory = parse_directory(entry.name) if entry.is_dir else None
    if directory is None:
        # A Hive's staging lies here while it writes.
        staging = entry.is_dir and is_hidden(entry.name)
        return "beginning" if staging and write_ids.open else "going"
    is_base, high = directory.kind is DirectoryKind.BASE, directory.max_write_id
    if high <= highest:
        return "hiding" if is_base and high == highest else "going"
    low = high if is_base else directory.min_write_id
    if high > write_ids.high_watermark or write_ids.open_ids.count_between(low, high):
        return "beginning"
    return "going" if write_ids.is_range_aborted(low, high) else "later"


def remove_dropped(
    look: Look, request: Compaction, subject: Subject, readers: Readers, account: Account, locks: ExitStack
) -> Ending:  # fmt: skip
    """Remove a directory, unless somebody else has it by now, or the partition was added again in it.

    :param request: the drop, as the queue has it.
    :param locks: a lock that is taken joins them.
    """
    resource, location, decision = request.resource, str(request.soft_deleted_location), readers.decision
    if decision.verdict is Verdict.FAIL:
        return Ending(Kind.FAILED, f"{location} stays: the txn that dropped {resource} did not commit")
    if decision.verdict is Verdict.WAIT:
        account.kept = [location]
        return Ending(Kind.WAITING, decision.reason, decision.numbers, holders=decision.holders)
    dropped_by = request.txn_id or 0
    seeing = [p for p in readers.pins if p.sees(resource.partition) and not p.txns.is_valid(dropped_by)]
    if seeing:
        account.kept = [location]
        blockers = tuple(f"{p.pin} until {p.pin.until}" for p in seeing)
        return Ending(Kind.WAITING, f"held back by {', '.join(blockers)}", blocked_by=blockers)
    roots = look.client.catalog.roots(resource.database)
    root = next((root for root in roots if paths.is_inside(root, location)), None)
    if root is None:
        reason = f"{location} lies outside the warehouse and its database's directories; remove it by hand"
        return Ending(Kind.REFUSED, reason)
    table, partition = subject.table, subject.partition
    if table is not None and partition is not None and paths.relative_to(partition.location, location) == "":
        # The partition was added again, in the same place: what is in it now is judged like any other.
        again = Directory(look, request, subject, table, readers, account)
        return again.clean(locks)
    listing = None
    if not look.dry_run and (table is None or resource.partition is None):  # before it is asked whose it is
        proof = partial(look.places.require, resource.database, location)
        listing = list_or_prove(look.filesystem, [location], proof, recursive=False)[location]
    owner = look.owners.owner_of(resource, table, location)
    if owner is not None:
        return Ending(Kind.REFUSED, f"{location} belongs to {owner} now; nothing was removed")
    if look.dry_run:
        account.removed = [location]
        return Ending(Kind.CLEANED, f"the dropped directory {location} would be removed")
    if table is not None and resource.partition is not None:
        dropped = DroppedPartition(look, request, root, table, readers, account)
        problem = dropped.remove(locks)
    else:
        account.removed, problem = remove_listed(look.filesystem, location, listing, root)
    if problem:
        return Ending(Kind.WAITING, f"{resource} {problem}; looking again soon")
    # What a new table of that name has written since is not covered by this.
    covered = Covered.EVERYTHING if table is None else Covered.NOTHING
    return Ending(Kind.CLEANED, f"the dropped directory {location} was removed", covered=covered)


@dataclass(slots=True)
class DroppedPartition:
    """The directory of one partition that was dropped, of a table that is there.

    :param request: the drop, as the queue has it.
    :param root: the directory that contains it.
    """

    look: Look
    request: Compaction
    root: str
    table: Table
    readers: Readers
    account: Account
    _removed: list[str] = field(default_factory=list, init=False)

    @property
    def location(self) -> str:
        """Its URI."""
        return str(self.request.soft_deleted_location)

    def remove(self, locks: ExitStack) -> str:
        """Remove what is the drop's, under a lock on the partition.

        :return: what stands in the way; empty: nothing, and what there was is removed.
        """
        resource = self.request.resource
        component = LockComponent(
            resource.database, resource.table, resource.partition, LockType.EXCL_WRITE, Operation.DELETE,
            transactional=False,
        )  # fmt: skip
        response = self.look.client.lock([component], agent_info=f"cleaning {self.request.id}")
        locks.callback(self.look.client.unlock, response.lock_id)
        if response.state is not LockState.ACQUIRED:
            return "is locked"
        problem = self._remove(Hold(self.look.client, response.lock_id))
        self.account.removed = [*self.account.trashed, *self._removed]
        return problem

    def _remove(self, hold: Hold) -> str:
        listing = self.look.list_for(self.request, self.location)
        name, gap_ms = self.request.resource.table_name, self.look.client.gap_timeout_ms
        fresh = self.look.client.database.read(lambda connection: take_snapshot(connection, [name], 0, gap_ms))
        # R3: asked again under the lock, and behind the snapshot; it may have been added in between.
        owner = self.look.owners.owner_of(self.request.resource, self.table, self.location, listing)
        if not self._is_asked() or owner is not None:
            return "was added again or renamed meanwhile"
        found = judge_dropped(listing, self.request.highest_write_id or 0, fresh.write_ids[name])
        self._hide_away(listing)
        gone = set(self.account.removed)
        self._delete(hold, [entry for entry in found.going if entry.path not in gone])
        if found.beginning:
            names = ", ".join(entry.name for entry in found.beginning[:3])
            return f"is written by txns that are open ({names})"
        if found.later:
            return ""
        self._delete(hold, found.hiding)
        # Not with what lies in it: somebody may have begun to write there since.
        emptied = self.look.filesystem.delete_empty(self.location, inside=self.root)
        # An object store has no directory.
        if emptied or (listing and not self.look.filesystem.exists(self.location)):
            self._removed = [self.location]
        return ""

    def _hide_away(self, listing: Sequence[FileInfo]) -> None:
        """What the drop's base hides can be wanted back: it goes to the trash, if there is one (R13)."""
        if self.look.trash is None:
            return
        found = find_superfluous(listing, self.readers.write_ids, self.readers.txns)
        removal = Removal(self.look, self.request, self.location, self.table, self.account)
        missed = removal.missed(listing, found, self.readers)
        removal.remove([one for one in found if one.restorable], missed)

    def _is_asked(self) -> bool:
        """Whether the request is what it was when it was read."""
        now = self.look.client.compactions.get(self.request.id)
        return now.queued and now.resource == self.request.resource

    def _delete(self, hold: Hold, entries: Sequence[FileInfo]) -> None:
        for entry in entries:
            hold.beat()
            self.look.filesystem.delete(entry.path, inside=self.location)
            self._removed.append(entry.path)


def remove_listed(
    filesystem: Filesystem, location: str, listing: Sequence[FileInfo] | None, root: str
) -> tuple[list[str], str]:  # fmt: skip
    """Remove the directory of what was dropped, as far as it was listed: whoever was given it since keeps his files.

    :param listing: what lay in it before it was asked whose it is; None: there was none.
    :param root: the directory that contains it.
    :return: URIs of what is gone, and what stands in the way; empty: nothing.
    """
    for entry in listing or ():
        filesystem.delete(entry.path, inside=location)
    if listing is None or filesystem.delete_empty(location, inside=root) or not filesystem.exists(location):
        return [] if listing is None else [location], ""
    return [entry.path for entry in listing], "has files that have come since"
