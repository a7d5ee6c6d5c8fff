"""What a drop has left of a partition: removed beside whoever adds the partition again.

The lock that is held meanwhile does not keep out an INSERT of a Hive, or of ours with ``hive.txn.xlock.write``: it has
SHARED_READ alone, and its partition is in the catalog only when it ends. So nothing is removed by the directory's name:
what the drop covers goes, by its write id, and the directory when it is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.format.names import DirectoryKind, is_hidden, parse_directory
from airflow_hive_acid.maintenance.cleaner.staying import Hold
from airflow_hive_acid.metastore.database import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks import LockComponent
from airflow_hive_acid.metastore.txns import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore import MetastoreClient
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


class DroppedPartition:
    """The directory of one partition that was dropped.

    :param request: the drop, as the queue has it.
    :param owner: says who has the directory in which these lie now; None: nobody.
    :param root: the directory that contains it.
    :ivar removed: URIs of what is gone: the directory, or what of it went alone.
    """

    def __init__(
        self, client: MetastoreClient, filesystem: Filesystem, request: Compaction, location: str, root: str,
        owner: Callable[[Sequence[FileInfo]], str | None],
    ) -> None:  # fmt: skip
        self._client = client
        self._filesystem = filesystem
        self._request = request
        self._location = location
        self._root = root
        self._owner = owner
        self.removed: list[str] = []

    def remove(
        self, look: Callable[[], list[FileInfo]], hide_away: Callable[[Sequence[FileInfo]], Sequence[str]]
    ) -> str:  # fmt: skip
        """Remove what is the drop's.

        :param look: lists the directory.
        :param hide_away: moves to the trash what may be wanted back, if there is one; returns URIs of what has gone.
        :return: what stands in the way; empty: nothing, and what there was is removed.
        """
        resource = self._request.resource
        component = LockComponent(
            resource.database, resource.table, resource.partition, LockType.EXCL_WRITE, Operation.DELETE,
            transactional=False,
        )  # fmt: skip
        response = self._client.lock([component], agent_info=f"cleaning {self._request.id}")
        try:
            if response.state is not LockState.ACQUIRED:
                return "is locked"
            return self._remove(Hold(self._client, response.lock_id), look(), hide_away)
        finally:
            self._client.unlock(response.lock_id)

    def _remove(
        self, hold: Hold, listing: Sequence[FileInfo], hide_away: Callable[[Sequence[FileInfo]], Sequence[str]]
    ) -> str:  # fmt: skip
        name, gap = self._request.resource.table_name, self._client.gap_timeout_ms
        fresh = self._client.database.read(lambda connection: take_snapshot(connection, [name], 0, gap))
        # R3: asked again under the lock, and behind the snapshot; it may have been added in between.
        if not self._is_asked() or self._owner(listing) is not None:
            return "was added again or renamed meanwhile"
        found = judge_dropped(listing, self._request.highest_write_id or 0, fresh.write_ids[name])
        gone = set(hide_away(listing))
        self._delete(hold, [entry for entry in found.going if entry.path not in gone])
        if found.beginning:
            names = ", ".join(entry.name for entry in found.beginning[:3])
            return f"is written by txns that are open ({names})"
        if found.later:
            return ""
        self._delete(hold, found.hiding)
        # Not with what lies in it: somebody may have begun to write there since.
        emptied = self._filesystem.delete_empty(self._location, inside=self._root)
        if emptied or (listing and not self._filesystem.exists(self._location)):  # an object store has no directory
            self.removed = [self._location]
        return ""

    def _is_asked(self) -> bool:
        """Whether the request is what it was when it was read."""
        now = self._client.compactions.get(self._request.id)
        return now.queued and now.resource == self._request.resource

    def _delete(self, hold: Hold, entries: Sequence[FileInfo]) -> None:
        for entry in entries:
            hold.beat()
            self._filesystem.delete(entry.path, inside=self._location)
            self.removed.append(entry.path)


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
