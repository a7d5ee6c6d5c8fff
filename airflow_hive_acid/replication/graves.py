"""Where directories of what is dropped wait to be deleted: beside them, hidden, one for each name.

They go there in one step, just before the catalog forgets whose they are. So a kill leaves nothing in the place where
the next table of that name goes, and whoever deletes late deletes nothing of that one (R17).
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import staging_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.replication.site import Site


def grave_of(location: str, name: str) -> str:
    """The directory to which one goes that is dropped.

    :param name: ``db.table``, of a partition with its name behind it.
    """
    number = hashlib.sha256(name.encode()).hexdigest()[:32]
    return paths.join(location.rstrip("/").rpartition("/")[0], staging_name(f"repl-dropped-{number}"))


def bury(site: Site, location: str, name: str) -> None:
    """Delete what a killed drop has left."""
    grave = grave_of(location, name)
    site.filesystem.delete(grave, inside=grave.rpartition("/")[0])


class Graves:
    """Directories that one drop takes away.

    On an object store they stay where they are to the end: there is no moving them in one step.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._moved: dict[str, str] = {}
        self._kept: set[str] = set()

    def take(self, items: Iterable[tuple[str, str]]) -> None:
        """Move directories away; what is not there was moved before.

        :param items: location and name of each, see :func:`grave_of`.
        """
        for location, name in items:
            if len(paths.parse_location(location).segments) < 2:
                continue  # a whole bucket or disk is nobody's table
            if not self._site.filesystem.can_fence(location):
                self._kept.add(location)
                continue
            with contextlib.suppress(FileNotFoundError):
                grave = grave_of(location, name)
                self._site.filesystem.rename_directory(location, grave)
                self._moved[location] = grave

    def give_back(self) -> None:
        """The drop did not happen."""
        for location, grave in self._moved.items():
            with contextlib.suppress(FileNotFoundError):
                self._site.filesystem.rename_directory(grave, location)
        self._moved.clear()
        self._kept.clear()

    def clear(self) -> None:
        """The drop happened."""
        for location in sorted({*self._moved.values(), *self._kept}):
            self._site.filesystem.delete(location, inside=location.rstrip("/").rpartition("/")[0])
