"""Files of transaction batches that are written while a copy of them is made: how much of each counts.

A file of a batch grows behind the length that its side file vouches for (``bucket_N_flush_length``), and what is
behind it may belong to a txn that never commits. So never the whole of such a file is copied, but its beginning, which
ends in a footer of its own, and no side file: at the copy nobody is writing, and a file with one would be taken for
the file of a batch that is not closed. Source: Hive's OrcAcidUtils.getLastFlushLength and
AcidUtils.getLogicalLength.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CorruptTableError
from airflow_hive_acid.format.acid_state import FileEntry
from airflow_hive_acid.format.names import FLUSH_LENGTH_SUFFIX, DirectoryKind, parse_bucket_file, parse_directory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.write_ids import ValidWriteIdList

_LONG = 8
_PIECE = 1 << 20


def settled(
    filesystem: Filesystem, place: str, listing: Iterable[FileEntry], write_ids: ValidWriteIdList
) -> tuple[list[FileEntry], frozenset[str]]:
    """A listing in which files of batches have the sizes that count, without side files.

    :param place: the table or partition that was listed, after the snapshot was taken.
    :param write_ids: of the snapshot. A file whose txns have all ended has a side file in the listing or none; one that
        is open may have got its first meanwhile.
    :return: the listing, and the paths in it of which only so many bytes are to be read.
    :raises CorruptTableError: when a file is shorter than what was flushed into it, or that is no length.
    """
    known = list(listing)
    names = {entry.path for entry in known}
    found: list[FileEntry] = []
    cut: set[str] = set()
    for entry in known:
        folder, _, name = entry.path.rpartition("/")
        named = parse_directory(folder.split("/")[0]) if folder else None
        if (
            named is None or named.kind is DirectoryKind.BASE or named.visibility_txn_id
            or named.min_write_id == named.max_write_id
        ):  # fmt: skip
            found.append(entry)
            continue
        if name.endswith(FLUSH_LENGTH_SUFFIX):
            continue
        side = entry.path + FLUSH_LENGTH_SUFFIX
        is_open = any(named.min_write_id <= w <= named.max_write_id for w in write_ids.open)
        if parse_bucket_file(name) is None or not (side in names or is_open):
            found.append(entry)
            continue
        length = _flushed(filesystem, f"{place}/{side}")
        size = _size(filesystem, f"{place}/{folder}", name)
        if size is None:
            continue  # it is gone with its directory, and who copies the directory is told
        if length is None:
            found.append(FileEntry(entry.path, size))  # closed, or closed meanwhile: longer than it was listed
            continue
        if length < 0:
            raise CorruptTableError(
                f"{place}/{side} says that {length} bytes were flushed; restore the file, or that of the table"
            )
        if length > size:
            raise CorruptTableError(
                f"{place}/{entry.path} has {size} bytes, and {length} were flushed into it: rows of committed "
                "transactions are missing; restore the file"
            )
        if length:
            cut.add(entry.path)
            found.append(FileEntry(entry.path, length))
    return found, frozenset(cut)


def _flushed(filesystem: Filesystem, uri: str) -> int | None:
    """The last whole length in a side file; None without one, 0 when nothing was flushed."""
    # Hive appends a length for each flush and never reads but the last.
    last, at = b"", 0
    while True:
        try:
            piece = filesystem.read_range(uri, at, _PIECE)
        except FileNotFoundError:
            return None
        whole = len(piece) // _LONG * _LONG
        last = piece[whole - _LONG : whole] if whole else last
        if len(piece) < _PIECE:
            return int(struct.unpack(">q", last)[0]) if last else 0
        at += _PIECE


def _size(filesystem: Filesystem, directory: str, name: str) -> int | None:
    """How long a file is now; asked after its side file, because files only grow."""
    try:
        entries = filesystem.list_files(directory)
    except FileNotFoundError:
        return None
    return next((entry.size for entry in entries if entry.name == name), None)
