"""Directory listings of tables as the maintenance services see them: sizes, counts, names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.format.acid_state import AcidState, FileEntry
from airflow_hive_acid.format.names import DirectoryKind
from airflow_hive_acid.metastore.compaction import Measure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.filesystem import FileInfo
    from airflow_hive_acid.format.acid_state import StateDirectory


@dataclass(frozen=True, slots=True)
class DirectorySizes:
    """What a compactor's snapshot makes of a table or partition.

    :param base_bytes: size of the base, or of the original files while there is none.
    :param deltas: number of current deltas and delete deltas.
    :param obsolete_bases: bases that a later one has replaced.
    :param hidden_deltas: deltas that reach beyond the snapshot's high-water mark, so that they are not counted.
    :param files: data files of what is current, and ``delete_deltas`` and ``delete_bytes`` the part of delete deltas.
    :param base_files: of these files those of the base, or the original ones.
    :param base_write_id: of the base; 0: there is none.
    :param newest_compaction: the newest txn of a compaction that wrote one of these directories; 0: none did.
    """

    base_bytes: int
    delta_bytes: int
    deltas: int
    obsolete_bases: int = 0
    hidden_deltas: int = 0
    files: int = 0
    delete_deltas: int = 0
    delete_bytes: int = 0
    base_files: int = 0
    base_write_id: int = 0
    newest_compaction: int = 0

    @classmethod
    def of(cls, state: AcidState) -> DirectorySizes:
        """Measure what is current; obsolete and aborted directories do not count."""
        base = state.base.files if state.base is not None else state.originals
        current = (*state.deltas, *(() if state.base is None else (state.base,)))
        deletes = [delta for delta in state.deltas if delta.directory.kind is DirectoryKind.DELETE_DELTA]
        return cls(
            base_bytes=_bytes(base),
            delta_bytes=sum(_bytes(delta.files) for delta in state.deltas),
            deltas=len(state.deltas),
            obsolete_bases=sum(d.directory.kind is DirectoryKind.BASE for d in state.obsolete),
            files=_files(base) + sum(_files(delta.files) for delta in state.deltas),
            delete_deltas=len(deletes),
            delete_bytes=sum(_bytes(delta.files) for delta in deletes),
            base_files=_files(base),
            base_write_id=0 if state.base is None else state.base.directory.max_write_id,
            newest_compaction=max((d.directory.visibility_txn_id for d in current), default=0),
        )

    def measure(self) -> Measure:
        """The same for the record."""
        return Measure(
            self.files, self.deltas, self.delete_deltas, self.base_bytes, self.delta_bytes, self.delete_bytes
        )

    def hiding(self, deltas: int) -> DirectorySizes:
        """The same with so many deltas beyond the mark."""
        return replace(self, hidden_deltas=deltas) if deltas else self


def entries(listing: Iterable[FileInfo]) -> list[FileEntry]:
    """A listing in the form the table format reads: directories end in a slash."""
    return [FileEntry(f"{i.relative}/" if i.is_dir else i.relative, i.size) for i in listing]


def names(directories: Iterable[StateDirectory]) -> list[str]:
    """Names of directories, for messages."""
    return [directory.name for directory in directories]


def _bytes(files: Iterable[FileEntry]) -> int:
    return sum(file.size for file in files if _holds_data(file))


def _files(files: Iterable[FileEntry]) -> int:
    return sum(_holds_data(file) for file in files)


def _holds_data(file: FileEntry) -> bool:
    return not file.path.rsplit("/", 1)[-1].startswith("_")
