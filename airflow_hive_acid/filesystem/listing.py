"""Listing many directories at once: partitions of a table, candidates of an Initiator's look."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.filesystem.protocol import FileInfo, Filesystem

DEFAULT_THREADS = 8


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

    if len(wanted) < 2:
        return {uri: one(uri) for uri in wanted}
    with ThreadPoolExecutor(min(threads, len(wanted)), thread_name_prefix="listing") as pool:
        return dict(zip(wanted, pool.map(one, wanted), strict=True))
