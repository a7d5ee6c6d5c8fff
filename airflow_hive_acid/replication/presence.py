"""What is not there must not be replicated as empty (R17): a disk that is not mounted looks like a table without rows.

A table of the catalog has a directory, and a partition without one was never written when it lies inside of it
(decision 39). Object stores have no directories; there nothing can be told. A replica's table may
lose its own for a moment, when a sync that drops it is killed; then its warehouse has to be there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import WarehouseMissingError
from airflow_hive_acid.filesystem import list_many
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import PLACE_MARKER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.replication.site import Site


def require_listed(
    filesystem: Filesystem, table: str, location: str, listings: dict[str, list[FileInfo] | None],
    places: Iterable[str], *, descend: Callable[[FileInfo], bool] | None = None,
) -> None:  # fmt: skip
    """Refuse to take a directory that was not found for one without rows, and list it once more behind the proof.

    :param table: whose directories were listed, as messages call it.
    :param location: of the table.
    :param listings: what was found; what was not and is there gets its listing.
    :param places: those of the listings that are the table's.
    :raises WarehouseMissingError: naming the directory.
    """
    missing = [place for place in places if listings[place] is None]
    if not missing:
        return
    _require_directory(filesystem, table, location)
    for place in missing:
        if not paths.is_inside(location, place):
            _require_directory(filesystem, table, place)
    listings |= list_many(filesystem, missing, descend=descend)


def require_place(site: Site, table: Table, location: str | None = None) -> None:
    """Refuse to conclude anything from a replica's table directory that was not found, when its warehouse is not there.

    :param location: one of its directories, that is to be deleted: elsewhere than in a warehouse it has to be there,
        and may be empty.
    :raises WarehouseMissingError: naming it.
    """
    filesystem, places = site.filesystem, site.client.places
    if location is not None and location != table.location and not paths.is_inside(table.location, location):
        _require_directory(filesystem, table.qualified_name, location)
    if not filesystem.can_fence(table.location):
        return
    root = places.root_of(table.db, table.location)
    if root == table.location.rstrip("/"):
        _require_directory(filesystem, table.qualified_name, root)
    record = places.find(root)
    if record is None and location is not None and root == table.location.rstrip("/"):
        return
    if not (_has_entries(filesystem, root) if record is None else _marker(filesystem, root) == record):
        raise WarehouseMissingError(
            f"{root} of {site.name} is not there, or is another disk than its metastore knows: {table.qualified_name} "
            "was not found in it. Is it mounted on this machine? Nothing was replicated; mount it and try again"
        )


def _has_entries(filesystem: Filesystem, root: str) -> bool:
    try:
        return bool(filesystem.list_files(root))
    except FileNotFoundError:
        return False


def _marker(filesystem: Filesystem, root: str) -> str | None:
    try:
        return str(json.loads(filesystem.read_text(paths.join(root, PLACE_MARKER)))["id"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def _require_directory(filesystem: Filesystem, table: str, location: str) -> None:
    if filesystem.can_fence(location) and not filesystem.exists(location):
        raise WarehouseMissingError(
            f"the directory {location} of {table} is not there, and the catalog says that the table was not dropped. "
            "Is its disk mounted here? It was not replicated as an empty one; restore the directory, or drop the table"
        )
