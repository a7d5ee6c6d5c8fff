"""Whether a warehouse is there, before anything is concluded from what was not found in it (R17).

A warehouse that is not mounted is an empty directory, or none. So each has a marker file, ``_hive_acid_place``, with an
id that the metastore has, too: it is looked for whenever something was "not found" and a job would count as fenced, an
aborted txn as cleaned, or a directory as gone. Readers, Hive's too, skip files whose names begin with ``_``.

A place is the warehouse, a database directory outside of it, or a managed table's own directory outside of both. It is
seen for the first time when it holds what the catalog says: then it is marked. What cannot be marked (no permission, a
metastore without our table of places) is judged by that alone, each time. Directories of external tables elsewhere
belong to somebody else and get no marker, unless it is asked for (:meth:`Places.accept`); they have to be there.
"""

from __future__ import annotations

import json
import logging
import uuid
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, StorageUnavailableError, WarehouseMissingError
from airflow_hive_acid.format.names import PLACE_MARKER
from airflow_hive_acid.format.paths import is_inside, join
from airflow_hive_acid.metastore.catalog import MANAGED_TABLE, check_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table

log = logging.getLogger(__name__)

_LOOKED_FOR = 50
"""Table directories that are looked for in a place without a marker."""
_NOTE = "By this file hive-acid sees that this directory is there, and not an empty mount point."
_ACCEPT = "'hive-acid doctor --accept-place {root}'"


class Verdict(Enum):
    """What a place is."""

    HERE = "here"
    UNMARKED = "unmarked"
    """Seen for the first time: it holds what the catalog says, and is to be marked."""
    ADOPTED = "adopted"
    """Seen for the first time by this metastore, and marked already."""
    MISSING = "missing"
    OTHER = "other"


def judge(marker: str | None, record: str | None, *, holds_tables: bool) -> Verdict:
    """What a place is.

    :param marker: the id in its marker file, None without one.
    :param record: the id that the metastore has seen it with, None when it never has.
    :param holds_tables: whether a directory is there that the catalog says is there.
    """
    if record is not None:
        if marker is None:
            return Verdict.MISSING
        return Verdict.HERE if marker == record else Verdict.OTHER
    if not holds_tables:
        return Verdict.MISSING if marker is None else Verdict.OTHER
    return Verdict.UNMARKED if marker is None else Verdict.ADOPTED


class Places:
    """Looks whether places are there.

    :param filesystem: as this process sees it: another machine may have it mounted.
    """

    def __init__(self, client: MetastoreClient, filesystem: Filesystem) -> None:
        self._client = client
        self._filesystem = filesystem
        self._seen: set[str] = set()

    def require(
        self, database: str, location: str, *, again: bool = True, holds: Callable[[str], bool] | None = None
    ) -> str:  # fmt: skip
        """Refuse to go on when the place of a location is not there.

        :param again: also when it was seen by this object before; off, for what does not follow from an absence.
        :param holds: whether a place without a record is there; by default when a directory of a table is.
        :return: the place.
        :raises WarehouseMissingError: naming it, and what to do.
        """
        root = self._client.places.root_of(database, location)
        if not again and root in self._seen:
            return root
        marker, record = self._marker(root), self._client.places.find(root)
        held = record is None and (holds or self._holds_tables)(root)
        verdict = judge(marker, record, holds_tables=held)
        if verdict in (Verdict.MISSING, Verdict.OTHER):
            raise WarehouseMissingError(_missing(root, verdict, marker, record))
        if verdict is Verdict.UNMARKED and self._is_ours(root, location):
            self._mark(root)
        elif verdict is Verdict.ADOPTED and marker is not None and self._client.places.is_kept():
            self._client.places.note(root, marker)
        self._seen.add(root)
        return root

    def require_table(self, table: Table) -> None:
        """Refuse to go on when a table of the catalog has no directory: it was not dropped.

        :raises WarehouseMissingError: naming it.
        """
        self.require(table.db, table.location)
        require_directory(self._filesystem, table.qualified_name, table.location)

    def require_place_of(self, table: Table, location: str) -> None:
        """Refuse to move or delete a directory of a table when its place is not there, or is another.

        :param location: the table's directory, or a partition's.
        :raises WarehouseMissingError: naming it.
        """
        own = check_location(table.location)
        inside = check_location(location) == own or is_inside(own, location)
        home = own if inside else check_location(location)
        root = self._client.places.root_of(table.db, home)
        if root != home or self._client.places.find(root) is not None or (inside and table.type == MANAGED_TABLE):
            self.require(table.db, home, again=False)
        else:
            require_directory(self._filesystem, table.qualified_name, home)  # somebody else's: it has no marker

    def require_trash(self, database: str, root: str) -> None:
        """Refuse to conclude anything from what was not found in the trash.

        :param root: of the trash: a place of its own unless it lies in the warehouse.
        :raises WarehouseMissingError: naming it.
        """
        self.require(database, root, holds=self._holds_files)

    def open_trash(self, database: str, root: str) -> None:
        """Make the trash, or refuse when it is known and is not there: it would be made anew, on another disk.

        :raises WarehouseMissingError: naming it.
        """
        place = self._client.places.root_of(database, root)
        if place != check_location(root):
            self.require(database, root, again=False)
        elif self._client.places.find(place) is not None:
            self.require_trash(database, root)
        else:
            self._filesystem.make_directory(place)
            self.created(database, place)

    def require_absent(
        self, database: str, location: str, owner_of: Callable[[str], str | None] | None = None
    ) -> None:  # fmt: skip
        """Return when a directory may be absent: its place is there, and the catalog has no table for it.

        :param owner_of: who has it, for whoever asks about many.
        :raises WarehouseMissingError: otherwise.
        """
        self.require(database, location)
        ask = owner_of or partial(self._client.catalog.owner_of_location, around=False)
        owner = ask(location)
        if owner is not None:
            require_directory(self._filesystem, owner, location)

    def before_create(self, database: str, location: str) -> None:
        """Refuse to make a directory in a place that is known and is not there: it would lie on another disk.

        :raises WarehouseMissingError: naming the place.
        """
        root = self._client.places.root_of(database, location)
        marker, record = self._marker(root), self._client.places.find(root)
        if record is None and marker is None and self._filesystem.can_fence(root):
            # Known by its tables alone: a new directory would make an empty mount point a place of ours.
            if self._client.places.tables_in(root, 1) and not self._holds_tables(root):
                raise WarehouseMissingError(_missing(root, Verdict.MISSING, None, None))
        elif record is not None and marker != record and self._client.places.tables_in(root, 1):
            raise WarehouseMissingError(_missing(root, judge(marker, record, holds_tables=False), marker, record))

    def created(self, database: str, location: str) -> None:
        """Mark the place of a directory of ours that was made just now, if it is not marked yet."""
        if not self._client.places.is_kept():
            return
        root = self._client.places.root_of(database, location)
        marker, record = self._marker(root), self._client.places.find(root)
        if record is None or marker != record:
            self._mark(root, instead_of=record, marker=marker)

    def accept(self, location: str) -> str:
        """Take a place as it is for the one that the catalog means: it was moved, restored, or lost its marker.

        :return: its id.
        :raises InvalidArgumentsError: when there is no such directory, or the metastore keeps no places.
        """
        root = check_location(location)
        if not self._client.places.is_kept():
            raise InvalidArgumentsError("this metastore has no table of places: run 'hive-acid schema upgrade' first")
        if self._filesystem.can_fence(root) and not self._filesystem.exists(root):
            raise InvalidArgumentsError(f"{root} is not there; mount it first, or say where it is")
        marker = self._marker(root)
        return self._mark(root, instead_of=self._client.places.find(root), marker=marker)

    def _mark(self, root: str, *, instead_of: str | None = None, marker: str | None = None) -> str:
        """Write a marker, and then that it was written; a place that cannot be written stays without."""
        wanted = marker or uuid.uuid4().hex
        try:
            if marker is None:
                self._write(root, wanted)
        except OSError as error:
            log.warning("%s gets no marker (%s); it is known by the directories of its tables alone", root, error)
            return wanted
        if not self._client.places.is_kept():
            return wanted
        held = self._client.places.note(root, wanted, instead_of=instead_of)
        if held != wanted:  # somebody else has marked it meanwhile
            self._write(root, held)
        return held

    def _write(self, root: str, place_id: str) -> None:
        self._filesystem.write_text(join(root, PLACE_MARKER), json.dumps({"id": place_id, "note": _NOTE}) + "\n")

    def _marker(self, root: str) -> str | None:
        try:
            text = self._filesystem.read_text(join(root, PLACE_MARKER))
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StorageUnavailableError(
                f"{join(root, PLACE_MARKER)} is no marker of a place ({text[:40]!r}); restore it, or remove it and run "
                f"{_ACCEPT.format(root=root)}"
            ) from None

    def _holds_tables(self, root: str) -> bool:
        for location in self._client.places.tables_in(root, _LOOKED_FOR):
            if location == root:
                if self._holds_files(root):
                    return True
            elif self._filesystem.exists(location):
                return True
        return False

    def _holds_files(self, root: str) -> bool:
        try:
            return bool(self._filesystem.list_files(root))
        except FileNotFoundError:
            return False

    def _is_ours(self, root: str, location: str) -> bool:
        """Whether a marker may be written: not into an external table's own directory."""
        if root != check_location(location):
            return True
        owner = self._client.catalog.owner_of_location(root, around=False)
        table = None if owner is None else self._client.catalog.find_tables([owner]).get(owner)
        return table is not None and table.type == MANAGED_TABLE


def absence_of(client: MetastoreClient, filesystem: Filesystem, table: str, location: str) -> Callable[[], None]:
    """What raises unless nothing in a table's directory is an answer: for ``fence_staging``."""
    return lambda: Places(client, filesystem).require_absent(table.partition(".")[0], location)


def require_written(client: MetastoreClient, filesystem: Filesystem, table: Table, location: str) -> None:
    """Return when a directory of a table that was not found is a partition that was never written.

    :raises WarehouseMissingError: when the table itself is not there, or the partition lies outside of it.
    """
    Places(client, filesystem).require_table(table)
    if not is_inside(table.location, location):
        require_directory(filesystem, table.qualified_name, location)


def require_target(client: MetastoreClient, filesystem: Filesystem, table: Table) -> None:
    """Refuse to write into a table whose directory is not there: what lies in a mount point is lost with the mount.

    A table that is a place of its own is known by its marker; any other by its directory: that is one look, and no
    question to the metastore.

    :raises WarehouseMissingError: naming it.
    """
    require_directory(filesystem, table.qualified_name, table.location)
    if client.places.of_table(table) is not None:
        Places(client, filesystem).require(table.db, table.location)


def require_directory(filesystem: Filesystem, table: str, location: str) -> None:
    """Refuse to go on when a table of the catalog has no directory. An object store has none.

    :raises WarehouseMissingError: naming it.
    """
    if filesystem.can_fence(location) and not filesystem.exists(location):
        raise WarehouseMissingError(
            f"the directory {location} of {table} is not there, and the catalog says that the table was not dropped. "
            "Is its disk mounted here? Nothing was concluded from that, and nothing changed. Restore the directory; "
            "if its rows are meant to be gone, make it anew or drop the table"
        )


def _missing(root: str, verdict: Verdict, marker: str | None, record: str | None) -> str:
    remedy = f"If this is the place all the same (moved, restored), run {_ACCEPT.format(root=root)}"
    if verdict is Verdict.OTHER:
        return (
            f"{root} is another place than this metastore knows: its {PLACE_MARKER} says {marker}, expected is "
            f"{record or 'a place with the tables of the catalog'}. Is a wrong disk mounted? Nothing was concluded "
            f"from what it holds, and nothing was changed. {remedy}"
        )
    lacks = f"no {PLACE_MARKER} was" if record is not None else "no marker and none of its tables' directories was"
    return (
        f"{root} is not there: {lacks} found. Is it mounted on this machine? Nothing was concluded from what was "
        f"not found in it, and nothing was changed; mount it and try again. {remedy}"
    )
