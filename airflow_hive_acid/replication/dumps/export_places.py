"""Where an export works: a hidden directory beside that of the dump, which gets its name in one step, at the end (R4).

Each try has a directory of its own. It takes over what tries before have copied, by renaming it first: whoever was
given up and wakes up later finds its directory no more, and can change nothing in a dump that is complete. Where a file
does not fence (on an object store) a rename is no step, and the dump is written where it is to be.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import AlreadyExistsError, CopyFailedError, CorruptDumpError, HiveAcidError
from airflow_hive_acid.filesystem.syncing import sync
from airflow_hive_acid.format.names import DUMP_BEGUN, EXPORT_PREFIX
from airflow_hive_acid.replication.dumps.dump import COMPLETE, read_dump

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.replication.dumps.dump import Dump, Scope
    from airflow_hive_acid.replication.site import Site


class ExportPlace:
    """The directory of one try of an export.

    :param uri: of the dump.
    :param once: what the tries of one task have in common; None for an export of nobody's.
    """

    def __init__(self, site: Site, uri: str, table: str, scope: Scope, once: str | None) -> None:
        self._filesystem, self._settings = site.filesystem, site.settings
        self._uri, self._table, self._once = uri.rstrip("/"), table, once
        self._says = json.dumps({"table": table, "scope": scope.value})
        self._moves = site.filesystem.can_fence(uri)
        self._parent = self._uri.rpartition("/")[0]
        number = hashlib.sha256(f"{self._uri}\0{self._says}".encode()).hexdigest()[:24]
        self._prefix = f"{EXPORT_PREFIX}{number}-"
        self._work = f"{self._parent}/{self._prefix}{uuid.uuid4().hex[:8]}" if self._moves else self._uri

    def finished(self) -> Dump | None:
        """The dump, when a try before of the same task has completed it (R14).

        :raises AlreadyExistsError: when somebody else has.
        """
        try:
            mark = self._filesystem.read_text(f"{self._uri}/{COMPLETE}")
        except FileNotFoundError:
            return None
        with contextlib.suppress(ValueError, AttributeError, CorruptDumpError):
            if self._once is not None and json.loads(mark).get("once") == self._once:
                return read_dump(self._filesystem, self._uri)
        raise AlreadyExistsError(f"{self._uri} holds a dump already; choose another directory, or remove it")

    @contextlib.contextmanager
    def taken(self) -> Iterator[str]:
        """Take the directory for a block that writes a dump into it, and give that its name at the end.

        After a failure, what was copied is for the next try, unless another one has completed the dump.

        :return: its URI; what an export of the same table has begun lies in it.
        :raises AlreadyExistsError: when there is something else.
        :raises CopyFailedError: when another try has taken it over.
        """
        try:
            self._begin()
            yield self._work
            self._publish()
        except (FileNotFoundError, NotADirectoryError) as error:
            self._clean_up()
            raise CopyFailedError(
                f"another try of this export has taken over {self._work}; look for its dump in {self._uri}"
            ) from error
        except BaseException:
            self._clean_up()
            raise

    def _begin(self) -> None:
        filesystem = self._filesystem
        try:
            names = {info.name for info in filesystem.list_files(self._uri)}
        except FileNotFoundError:
            names = set()
        if names and not (DUMP_BEGUN in names and filesystem.read_text(f"{self._uri}/{DUMP_BEGUN}") == self._says):
            raise AlreadyExistsError(
                f"{self._uri} holds something that no export of {self._table} has begun; choose another directory"
            )
        if self._moves:
            # One that was begun in the place itself is of a release before.
            for before in [*self._begun(), *([self._uri] if names else [])]:
                with contextlib.suppress(FileNotFoundError, FileExistsError):
                    filesystem.rename_directory(before, self._work)
        filesystem.make_directory(self._work)
        filesystem.delete(f"{self._work}/{COMPLETE}", inside=self._work)
        filesystem.write_text(f"{self._work}/{DUMP_BEGUN}", self._says)

    def _publish(self) -> None:
        filesystem = self._filesystem
        filesystem.delete(f"{self._work}/{DUMP_BEGUN}", inside=self._work)
        if not self._moves:
            return
        sync(self._settings, [self._work], self._work)
        filesystem.delete_empty(self._uri, inside=self._parent)
        try:
            filesystem.rename_directory(self._work, self._uri)
        except FileExistsError as error:
            raise AlreadyExistsError(f"{error}: {self._uri} was made while {self._table} was exported") from None
        sync(self._settings, [f"{self._uri}/{COMPLETE}"], self._uri)
        self._remove_others()

    def _clean_up(self) -> None:
        with contextlib.suppress(HiveAcidError, OSError):
            if self._moves and self._filesystem.exists(f"{self._uri}/{COMPLETE}"):
                self._filesystem.delete(self._work, inside=self._parent)

    def _remove_others(self) -> None:
        """What tries that were given up have made since it was taken from them."""
        with contextlib.suppress(HiveAcidError, OSError):
            for other in self._begun():
                self._filesystem.delete(other, inside=self._parent)

    def _begun(self) -> list[str]:
        try:
            listing = self._filesystem.list_files(self._parent)
        except FileNotFoundError:
            return []
        return [info.path for info in listing if info.is_dir and info.name.startswith(self._prefix)]
