"""What lies in a table's directory, in a few lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.dag_factories.demo.story import table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.filesystem import Filesystem


@dataclass(frozen=True, slots=True)
class DirectoryLine:
    """One directory of rows: its path below the table, its data files and their bytes."""

    path: str
    files: int
    bytes: int


def directories(filesystem: Filesystem, location: str) -> list[DirectoryLine]:
    """The directories of a table that hold data files, by path."""
    found: dict[str, list[int]] = {}
    for entry in filesystem.list_files(location, recursive=True):
        parent, _, name = entry.relative.rpartition("/")
        if not entry.is_dir and not name.startswith(("_", ".")):
            found.setdefault(parent, []).append(entry.size)
    return [DirectoryLine(path, len(sizes), sum(sizes)) for path, sizes in sorted(found.items())]


def describe(lines: Iterable[DirectoryLine], shown: str) -> str:
    """The directories below one partition, and one line about all others.

    :param shown: the partition whose directories are listed.
    """
    lines = list(lines)
    inside = [line for line in lines if line.path.startswith(f"{shown}/")]
    others = [line for line in lines if line not in inside]
    rows = [(line.path, line.files, round(line.bytes / 1024)) for line in inside]
    rows.append(
        (f"{len(others)} more directories", sum(x.files for x in others), round(sum(x.bytes for x in others) / 1024))
    )
    return table(("directory", "files", "KiB"), rows)
