"""A plain ORC table becomes transactional: its files stay, those whose names say no bucket get names that do.

Hive numbers the rows of such files by their names, ``000000_0`` and ``000000_0_copy_1``: it takes the bucket from them
and refuses all others (TransactionalValidationListener). Spark's ``part-…`` and any other names become
``<bucket>_<digits>``; the digits are made of the old name, so that a conversion that was interrupted between the copy
and the removal of a rename (object stores; local links) knows its own work again, and nothing is lost or counted twice.
The caller holds the table for itself.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.buckets import MAX_BUCKET
from airflow_hive_acid.format.names import is_hidden, parse_directory, parse_original_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.metastore.catalog import Table


class Renaming(NamedTuple):
    """A file that needs another name, both relative to the listed directory.

    :param copied: whether a file of the new name is there, from an attempt that was interrupted.
    """

    old: str
    new: str
    copied: bool = False


def name_originals(filesystem: Filesystem, table: Table, places: Sequence[str]) -> list[Renaming]:
    """Give the files of a plain table names that Hive takes for original files.

    :param places: the directories of its partitions, or its own.
    :return: what was renamed.
    :raises InvalidArgumentsError: when something there can belong to no ACID table; nothing was renamed.
    """
    planned = [(place, plan_names(_listed(filesystem, place), table, place)) for place in places]
    for place, renamings in planned:
        for renaming in renamings:
            source, target = f"{place}/{renaming.old}", f"{place}/{renaming.new}"
            if renaming.copied:
                # Only an earlier attempt gives that name, and the whole file is still at its old one.
                filesystem.delete(target, inside=place)
            filesystem.rename(source, target)
    return [renaming for _, renamings in planned for renaming in renamings]


def plan_names(files: Sequence[FileInfo], table: Table, place: str) -> list[Renaming]:
    """Which files of one directory of a plain table need which names.

    :param files: all entries below it, recursively.
    :raises InvalidArgumentsError: when it cannot become part of an ACID table; names the file and the remedy.
    """
    visible = [f for f in files if not any(is_hidden(part) for part in f.relative.split("/"))]
    for entry in visible:
        if entry.is_dir and parse_directory(entry.name) is not None:
            raise InvalidArgumentsError(
                f"{place}/{entry.relative} is named like a directory of an ACID table and would be read as one; "
                f"move it away before {table.qualified_name} becomes transactional"
            )
    data = [f for f in visible if not f.is_dir]
    known = {f.relative: parse_original_file(f.name) for f in data}
    foreign = sorted(relative for relative, original in known.items() if original is None)
    _check_buckets(table, place, {relative: o.bucket for relative, o in known.items() if o is not None}, foreign)
    copies = {_place_and_digits(f.relative): f.relative for f in sorted(data, key=lambda f: f.relative, reverse=True)}
    free = 1 + max((o.bucket for o in known.values() if o is not None), default=-1)
    renamings = []
    for number, old in enumerate(foreign):
        digits = int.from_bytes(hashlib.sha256(old.encode()).digest()[:6], "big")
        folder, _, _ = old.rpartition("/")
        earlier = copies.get((folder, str(digits)))
        bucket = (free + number) % (MAX_BUCKET + 1)
        new = earlier or f"{folder}/{bucket:06d}_{digits}".lstrip("/")
        renamings.append(Renaming(old, new, copied=earlier is not None))
    return renamings


def _place_and_digits(relative: str) -> tuple[str, str]:
    """Of a file: its directory, and what stands behind the last ``_`` of its name."""
    folder, _, name = relative.rpartition("/")
    return folder, name.rpartition("_")[2]


def _check_buckets(table: Table, place: str, buckets: dict[str, int], foreign: Sequence[str]) -> None:
    if table.bucket_columns and foreign:
        raise InvalidArgumentsError(
            f"{table.qualified_name} is bucketed, and {place}/{foreign[0]} does not say which bucket it is; its rows "
            "would not be found. Copy the table with INSERT … SELECT"
        )
    limit = table.bucket_count if table.bucket_columns else MAX_BUCKET + 1
    for relative, bucket in sorted(buckets.items()):
        if bucket >= limit:
            raise InvalidArgumentsError(
                f"{place}/{relative} is bucket {bucket}, and {table.qualified_name} has the buckets 0 to {limit - 1}; "
                "copy the table with INSERT … SELECT"
            )


def _listed(filesystem: Filesystem, place: str) -> list[FileInfo]:
    try:
        return filesystem.list_files(place, recursive=True)
    except FileNotFoundError:
        return []  # a partition that was added and never written
