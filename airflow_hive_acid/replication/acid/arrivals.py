"""What travels to one table or partition of a replica, as values: directories, rows out of directories, files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from airflow_hive_acid.format.names import AcidDirectory, DirectoryKind

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_hive_acid.format.acid_state import FileEntry


@dataclass(frozen=True, slots=True)
class Arrival:
    """A directory as it will be at the replica.

    :param directory: its name without a visibility txn.
    :param is_mapped: it gets the visibility txn id of the sync.
    """

    directory: AcidDirectory
    is_mapped: bool

    def name(self, sync_txn: int) -> str:
        """Its name at the replica."""
        return replace(self.directory, visibility_txn_id=sync_txn if self.is_mapped else 0).name


@dataclass(frozen=True, slots=True)
class Copy:
    """A directory that travels as it is, or several that become one.

    :param source: its name at the source; of several, a name that none has.
    :param files: paths relative to the table or partition, with sizes.
    """

    source: str
    arrival: Arrival
    files: tuple[FileEntry, ...]
    of_several: bool = False

    def placed(self) -> tuple[tuple[FileEntry, str], ...]:
        """Each file with its path inside the directory: of several directories, files of one name become copies."""
        if not self.of_several:
            return tuple((file, file.path.split("/", 1)[1]) for file in self.files)
        taken: set[str] = set()
        found = []
        for file in self.files:
            path = file.path.rpartition("/")[2]
            if path in taken:
                path = _copy_name(path, taken)
            taken.add(path)
            found.append((file, path))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Carry:
    """Rows and delete events of the write ids ``low``..``high`` out of directories that hold others as well.

    :param sources: names of the directories at the source; rows of open and aborted ids among them stay behind.
    :param hidden_txns: compactions that must be looked behind to find the sources.
    """

    low: int
    high: int
    sources: tuple[str, ...]
    hidden_txns: frozenset[int] = frozenset()

    def arrivals(self) -> tuple[Arrival, Arrival]:
        """The delta and the delete delta that come of it; one without rows is left out (R18: both of one range)."""
        return tuple(  # type: ignore[return-value]
            Arrival(AcidDirectory(kind, self.low, self.high), True)
            for kind in (DirectoryKind.DELTA, DirectoryKind.DELETE_DELTA)
        )


@dataclass(frozen=True, slots=True)
class EmptyBase:
    """The source was emptied without a write id: a base without rows hides what the replica has."""

    write_id: int

    def arrival(self) -> Arrival:
        """The base that comes of it."""
        return Arrival(AcidDirectory(DirectoryKind.BASE, 0, self.write_id), True)


@dataclass(frozen=True, slots=True)
class Plan:
    """What travels to one table or partition of the replica.

    :param originals: files without write ids, of a table that was converted; only where nobody can read yet.
    :param leftovers: names of directories that a killed sync left: nobody sees them, and they make way.
    :param reasons: why, one sentence per decision, for the report.
    """

    copies: tuple[Copy, ...] = ()
    carries: tuple[Carry, ...] = ()
    empty_base: EmptyBase | None = None
    originals: tuple[FileEntry, ...] = ()
    leftovers: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the replica has everything."""
        return not (self.copies or self.carries or self.empty_base or self.originals)

    @property
    def needs_spark(self) -> bool:
        """Whether rows are to be carried, not files."""
        return bool(self.carries)

    @property
    def changes_rows(self) -> bool:
        """Whether rows that the replica has are deleted or hidden (CTC_UPDATE_DELETE)."""
        deletes = any(c.arrival.directory.kind is not DirectoryKind.DELTA for c in self.copies)
        return deletes or self.needs_spark or self.empty_base is not None


def _copy_name(name: str, taken: Collection[str]) -> str:
    """A name that no other file has, and that says the same bucket."""
    stem, dot, kind = name.partition(".")
    stem = stem.partition("_copy_")[0]
    return next(new for n in count(1) if (new := f"{stem}_copy_{n}{dot}{kind}") not in taken)
