"""Where the directory of a dropped table or partition waits to be deleted: beside it, hidden, one for each name.

Before the drop commits the directory gets a mark, after it the directory goes to its grave in one step and is deleted
there. So a kill leaves what is known to be nobody's, and whoever deletes late sees that what lies in the old place has
no mark: it is that of the next table of that name (R17). Whoever tries the drop again ends it, too.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import DROP_MARK, DROPPED_PREFIX

if TYPE_CHECKING:
    from airflow_hive_acid.replication.site import Site


def grave_of(location: str, name: str) -> str:
    """The directory to which that of a dropped table or partition goes.

    :param name: ``db.table``, or ``db.table/partition``.
    """
    number = hashlib.sha256(name.encode()).hexdigest()[:32]
    return paths.join(location.rstrip("/").rpartition("/")[0], DROPPED_PREFIX + number)


def bury(site: Site, location: str, name: str) -> None:
    """Delete what a killed drop has left in the grave."""
    grave = grave_of(location, name)
    site.filesystem.delete(grave, inside=grave.rpartition("/")[0])


def mark_dropped(site: Site, location: str, note: str) -> None:
    """Say in a directory that its table is being dropped; under the table's exclusive lock.

    A mark without a drop, after a kill, means nothing: who drops next writes it again.
    """
    with contextlib.suppress(FileNotFoundError):  # the directory is gone already
        site.filesystem.write_text(f"{location}/{DROP_MARK}", note + "\n")


def unmark(site: Site, location: str) -> None:
    """The drop did not happen."""
    site.filesystem.delete(f"{location}/{DROP_MARK}", inside=location)


def finish_drop(site: Site, location: str, name: str) -> None:
    """Delete what a drop has left that was killed behind its commit, unless a table or partition is there again.

    :param name: of what is not in the catalog any more: ``db.table``, or that and a partition.
    """
    remove_dropped(site, location, name)
    bury(site, location, name)


def remove_dropped(site: Site, location: str, name: str) -> bool:
    """Delete the directory of a table or partition that no catalog has any more, if it has the mark.

    :param name: of the table or partition.
    :return: whether it had, and is gone.
    """
    if len(paths.parse_location(location).segments) < 2:
        return False  # a whole bucket or disk is nobody's table
    if not site.filesystem.exists(f"{location}/{DROP_MARK}") or _is_owned(site, location):
        return False
    parent = location.rstrip("/").rpartition("/")[0]
    if not site.filesystem.can_fence(location):
        return site.filesystem.delete(location, inside=parent)
    grave = grave_of(location, name)
    bury(site, location, name)
    try:
        site.filesystem.rename_directory(location, grave)
    except FileNotFoundError:
        return not site.filesystem.exists(location)  # a rename that HDFS refuses says no more than this
    # What has become the next table's in between goes back.
    if _is_owned(site, location) or not site.filesystem.exists(f"{grave}/{DROP_MARK}"):
        site.filesystem.rename_directory(grave, location)
        unmark(site, location)
        return False
    site.filesystem.delete(grave, inside=parent)
    return True


def _is_owned(site: Site, location: str) -> bool:
    return site.client.catalog.owner_of_location(location, around=False) is not None
