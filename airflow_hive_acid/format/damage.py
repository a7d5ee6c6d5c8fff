"""Damage that the listing of a full ACID table shows: files that no writer leaves as they are.

Only what nobody can have meant is damage. Hive 4.1 and we leave no directory for a statement without rows, and a bucket
without rows is no file, or one with a footer. A file of 0 bytes is right where a writer may have left it: in the delta
of a streaming batch (a transaction that flushed nothing), and among files without ACID columns, which Hive's plain ORC
writer closes without a byte when there was no row (``original_files`` leaves those out). Pure: a listing comes in.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from airflow_hive_acid.format.names import ACID_VERSION_FILE, DirectoryKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.format.acid_state import FileEntry, StateDirectory


class Damage(NamedTuple):
    """What is wrong with a directory.

    :param path: the file or directory, relative to the table or partition.
    :param text: what is wrong and what to do, to be read after the path.
    """

    path: str
    text: str


def is_batch(directory: StateDirectory) -> bool:
    """Whether it holds several write ids as they came: of a streaming batch, or of a compaction before Hive 4."""
    named = directory.directory
    return named.kind is not DirectoryKind.BASE and not directory.compacted and named.min_write_id < named.max_write_id


def damage_of(directory: StateDirectory) -> Damage | None:
    """What a listing shows to be wrong with one directory of a full ACID table that a snapshot reads."""
    buckets = directory.bucket_files()
    kind = directory.directory.kind
    if kind is DirectoryKind.DELETE_DELTA and not buckets:
        return Damage(
            directory.name,
            "holds no data file: its delete events are missing and deleted rows would come back; restore the directory",
        )
    if is_batch(directory):
        return None
    empty = next((entry for entry, _ in buckets if not entry.size), None)
    if empty is not None:
        lost = "deleted rows would come back" if kind is DirectoryKind.DELETE_DELTA else "rows would be lost"
        return Damage(
            empty.path,
            f"has 0 bytes, and no writer leaves such a file: {lost} without what was in it; restore it, or if it is "
            "certain that it never held anything, remove it",
        )
    names = {entry.path.rpartition("/")[2] for entry in directory.files}
    if kind is DirectoryKind.DELTA and not directory.compacted and names == {ACID_VERSION_FILE}:
        return Damage(
            directory.name,
            "holds no data file, and no statement leaves such a directory: its rows are missing; restore the "
            "directory, or if it is certain that it never held rows, remove it",
        )
    return None


class Suspect(NamedTuple):
    """A file that may be a copy of another statement's: its rows must carry the statement of its directory."""

    directory: StateDirectory
    entry: FileEntry


def suspected_copies(directories: Iterable[StateDirectory]) -> list[Suspect]:
    """Files of one write id and bucket in several statements that have the same size: one may be a copy of another.

    Rows carry the statement that wrote them, so a footer tells; such files are few.
    """
    alike: dict[tuple[int, int, int], list[Suspect]] = defaultdict(list)
    for directory in directories:
        named = directory.directory
        if named.kind is DirectoryKind.DELTA and named.min_write_id == named.max_write_id and not directory.compacted:
            for entry, bucket in directory.bucket_files():
                alike[named.max_write_id, bucket.bucket, entry.size].append(Suspect(directory, entry))
    return [
        suspect
        for group in alike.values()
        if len({suspect.directory.name for suspect in group}) > 1
        for suspect in group
    ]
