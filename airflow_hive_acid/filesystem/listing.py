"""Listing many directories at once: partitions of a table, candidates of an Initiator's look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem.threads import in_threads
from airflow_hive_acid.format.names import is_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.filesystem.protocol import FileInfo, Filesystem

DEFAULT_THREADS = 8


def enter(info: FileInfo) -> bool:
    """Whether a listing should go into a directory: not into staging, Hive's temporary files and the like."""
    return not is_hidden(info.name)


def list_many(
    filesystem: Filesystem,
    uris: Iterable[str],
    recursive: bool = True,
    *,
    descend: Callable[[FileInfo], bool] | None = None,
    threads: int = DEFAULT_THREADS,
) -> dict[str, list[FileInfo] | None]:
    """List several directories in parallel.

    :return: per URI its entries, or None where the directory does not exist. Any other failure is raised: an unknown
        listing must never look like an empty one (R17).
    """
    wanted = list(dict.fromkeys(uris))

    def one(uri: str) -> list[FileInfo] | None:
        try:
            return filesystem.list_files(uri, recursive, descend=descend)
        except FileNotFoundError:
            return None

    return dict(zip(wanted, in_threads(one, wanted, "listing", threads), strict=True))
