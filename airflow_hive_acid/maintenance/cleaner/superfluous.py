"""What nobody needs of a table or partition after a compaction: found in one listing, as values.

Readers go by the same rules (``format/acid_state.py``), so nothing that one of them may choose is found here. What is
found goes no higher than the compaction's mark, and never what a pin reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import SnapshotTooOldError
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.names import source_of_flushed_copy
from airflow_hive_acid.maintenance.cleaner.pins import NOTHING_HELD
from airflow_hive_acid.maintenance.cleaner.trash import may_be_restored
from airflow_hive_acid.maintenance.warehouse.directories import entries

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from airflow_hive_acid.filesystem import FileInfo
    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.maintenance.cleaner.pins import HeldByPins


@dataclass(frozen=True, slots=True)
class Superfluous:
    """A directory or file that nobody needs any more.

    :param restorable: whether it may go to the trash: it holds nothing of aborted txns (R13).
    :param mixed: it holds rows of aborted txns among others.
    """

    entry: FileInfo
    restorable: bool = False
    mixed: bool = False


def find_superfluous(
    listing: Sequence[FileInfo], write_ids: ValidWriteIdList, txns: ValidTxnList, held: HeldByPins = NOTHING_HELD
) -> list[Superfluous]:
    """Directories and original files that these lists make obsolete or aborted, none above the compaction's mark.

    :param listing: of the table's or partition's directory.
    :param write_ids: up to the compaction's mark.
    :param held: what pins still read; it stays.
    """
    by_path = {info.relative: info for info in listing}
    try:
        state = acid_state(entries(listing), write_ids, txns)
    except SnapshotTooOldError:
        # A later compaction was cleaned up after first, and took with it what this one had replaced.
        return []
    highest = write_ids.high_watermark
    obsolete = [d for d in state.obsolete if d.directory.max_write_id <= highest]
    aborted = [d.name for d in state.aborted if d.directory.max_write_id <= highest]
    gone = {*(d.name for d in obsolete), *aborted}
    found = {d.name: may_be_restored(d, write_ids) for d in obsolete}
    found |= {file.path: True for file in state.obsolete_originals}
    found |= dict.fromkeys(aborted, False)
    kept = held.note(found, by_path)
    found = {path: restorable for path, restorable in found.items() if path not in kept}
    gone -= kept
    mixed = {path for path, restorable in found.items() if not restorable} - set(aborted)
    found |= {path: False for path in by_path if _is_left_over(path, by_path.keys() - gone)}
    there = {path: by_path[path] for path in found if path in by_path}
    return [Superfluous(entry, found[path], path in mixed) for path, entry in there.items()]


def is_below(info: FileInfo, gone: Set[str]) -> bool:
    """Whether an entry of a listing is one of those that are gone, or in one of them."""
    if not gone or info.path in gone:
        return bool(gone)
    root = info.path[: -len(info.relative)]
    parts = info.relative.split("/")
    return any(root + "/".join(parts[:depth]) in gone for depth in range(1, len(parts)))


def _is_left_over(path: str, staying: Set[str]) -> bool:
    """Whether a path is a copy that a reader made of a streaming delta, and the delta does not stay.

    Whoever may need the copy may need the delta, so it goes no earlier.
    """
    source = source_of_flushed_copy(path)
    return source is not None and source not in staying
