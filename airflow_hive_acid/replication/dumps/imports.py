"""IMPORT: a dump becomes a table, or partitions of one, all of them or none.

Files are copied to a hidden staging directory of the table and verified while readers go on; then, under the table's
exclusive lock, they are put into place the way every write to a table without transactions is (decision 8): the
manifest is recorded first (R5), what they replace is moved aside, and the catalog changes inside the commit of the txn
that holds the lock. A crash anywhere before that commit is undone by the next import of the table, or by the reaper
(R4); what had been copied is taken over by it. A dump of metadata touches no file (:mod:`.metadata_imports`).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import uuid
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    CorruptDumpError,
    HiveAcidError,
    InvalidArgumentsError,
    UnsafePathError,
)
from airflow_hive_acid.filesystem import list_many
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.filesystem.plain_publishing import (
    MovedFile,
    PlainManifest,
    check_files,
    publish_files,
    undo,
    undo_fenced,
)
from airflow_hive_acid.filesystem.syncing import sync
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import (
    PLAIN_FILES,
    STAGING_PREFIX,
    DirectoryKind,
    import_name,
    is_hidden,
    parse_directory,
    parse_import,
    staging_name,
)
from airflow_hive_acid.format.table_kinds import is_transactional
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.catalog import (
    CatalogWriter,
    delete_partitions,
    delete_storage,
    forget_partitions,
    lock_places,
    read_owner_of,
    read_partitions_of,
    read_tables,
    read_whole_partitions,
    require_database,
    require_own_place,
)
from airflow_hive_acid.metastore.database import LockType, now_ms
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.protocol import ddl_transaction, table_lock, wait_until_granted
from airflow_hive_acid.metastore.records import bring_marks
from airflow_hive_acid.metastore.txns import seed_write_ids, take_snapshot
from airflow_hive_acid.replication.dumps.copiers import copy
from airflow_hive_acid.replication.dumps.copies import FileCopy
from airflow_hive_acid.replication.dumps.dropped_directories import bury, remove_dropped
from airflow_hive_acid.replication.dumps.dump import Dump, Scope, read_dump
from airflow_hive_acid.replication.dumps.dump import check_files as check_dump_files
from airflow_hive_acid.replication.dumps.fences import fence_dead_jobs_of
from airflow_hive_acid.replication.dumps.import_plan import Asked, Existing, ImportPlan, outline, plan_import, target_of
from airflow_hive_acid.replication.dumps.import_results import ImportResult, result_of, result_of_nothing
from airflow_hive_acid.replication.dumps.metadata_imports import import_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.filesystem import StreamingFilesystem
    from airflow_hive_acid.metastore.protocol import DdlTransaction
    from airflow_hive_acid.replication.site import Site

log = logging.getLogger(__name__)
_NOTHING = Asked()


def import_table(
    site: Site,
    uri: str,
    asked: Asked = _NOTHING,
    *,
    dump_filesystem: StreamingFilesystem | None = None,
    unmarked: bool = False,
    tell: Callable[[ImportResult], object] = bool,
) -> ImportResult:
    """Import a dump.

    :param uri: its directory.
    :param tell: called with the result when all that is left is to commit it.
    :param dump_filesystem: where it lies, if that is not the filesystem of the warehouse.
    :param unmarked: see :func:`~airflow_hive_acid.replication.dumps.dump.read_dump`.
    :raises NoSuchObjectError: when the database does not exist: it is never created (the seed's security rule).
    :raises CorruptDumpError: or UnsafePathError, when the dump is not whole or not to be trusted.
    """
    filesystem = dump_filesystem or site.filesystem
    dump = read_dump(filesystem, uri, unmarked=unmarked)
    return import_dump(site, dump, filesystem, replace(asked, dump_uri=uri.rstrip("/")), tell)


def import_dump(
    site: Site,
    dump: Dump,
    filesystem: StreamingFilesystem,
    asked: Asked = _NOTHING,
    tell: Callable[[ImportResult], object] = bool,
) -> ImportResult:
    """Import a dump that was read, or one that is still open at the source (``open_export``).

    :param filesystem: where its files lie.
    :param tell: called with the result when all that is left is to commit it.
    """
    if dump.is_noop:
        return result_of_nothing(dump, asked)
    if dump.scope is Scope.METADATA:
        return import_metadata(site, [dump], [asked.table], tell)[0]
    check_dump_files(dump)
    return _Import(site, dump, filesystem, asked, tell).run()


class _Import:
    """One import of a dump with data."""

    def __init__(
        self, site: Site, dump: Dump, source: StreamingFilesystem, asked: Asked, tell: Callable[[ImportResult], object]
    ) -> None:
        self._site = site
        self._tell = tell
        self._client = site.client
        self._filesystem = site.filesystem
        self._dump = dump
        self._source = source
        self._asked = asked
        self._rows = CatalogWriter(site.client.database, site.client.notifications, site.client.catalog.ids)
        name = target_of(dump, asked)
        if name is None:
            raise AssertionError("a dump without a table")
        self._name = table_name(str(name))
        self._state = ValidWriteIdList.parse(dump.write_ids) if dump.write_ids is not None else ValidWriteIdList(0)

    def run(self) -> ImportResult:
        """Plan, copy, put into place, commit."""
        plan = self._client.database.read(self._plan)
        if plan.is_noop:
            return result_of(plan, self._dump)
        self._rows.reserve(1, len(plan.partitions))
        agent = self._site.agent_info(f"import {self._name}")
        creates = plan.table is not None and plan.table.before is None
        with (
            self._aborted_txns(len(self._state.aborted) if creates else 0, agent) as aborted,
            # Keeps other imports and writers away, not readers.
            ddl_transaction(self._client, [table_lock(self._name, LockType.EXCL_WRITE)], agent_info=agent) as ddl,
        ):
            plan = self._client.database.read(self._plan)
            if plan.is_noop:
                return result_of(plan, self._dump)
            if plan.table is not None and plan.table.before is None:
                self._fence_dead(plan.location)
                self._require_free(plan)
            files = self._files(plan, ddl.txn_id)
            try:
                staged = self._copy(ddl, plan, files)
                response = self._client.lock(
                    [table_lock(self._name, LockType.EXCLUSIVE)], txn_id=ddl.txn_id, agent_info=agent
                )
                wait_until_granted(self._client, response, ddl.txn_id, f"exclusive lock of {self._name}")
                result = result_of(plan, self._dump, len(files), staged.bytes, staged.reused)
                self._tell(result)
                self._publish(ddl, plan, staged, aborted)
            except BaseException:
                self._leave(ddl.txn_id, plan.location)
                raise
        self._remove_dropped(plan)
        self._compact_aborted(plan)
        return result

    @contextlib.contextmanager
    def _aborted_txns(self, count: int, agent: str) -> Iterator[list[int]]:
        """Txns for write ids that are aborted at the source: open, kept alive, and aborted at the end."""
        txns: list[int] = []
        while len(txns) < count:  # hive.txn.max.open.batch at a time
            txns += self._client.open_txns(count - len(txns), agent_info=agent)
        for txn_id in txns:
            self._client.heartbeats.add(txn_id)
        try:
            yield txns
        finally:
            for txn_id in txns:
                self._client.heartbeats.remove(txn_id)
            with contextlib.suppress(HiveAcidError):
                self._client.abort_txns(txns)

    # --- planning -------------------------------------------------------------------------------------------------

    def _plan(self, connection: Connection, *, lock: bool = False) -> ImportPlan:
        database = require_database(connection, self._name.database)
        table = read_tables(connection, [self._name], lock=lock).get(self._name)
        if table is None:
            existing = Existing()
        elif self._dump.whole_table and table.partition_columns:
            existing = Existing(table, read_partitions_of(connection, table.id))
        else:
            found = read_whole_partitions(connection, [(table.id, p.name) for p in self._dump.partitions])
            existing = Existing(table, {name: stored for (_, name), stored in found.items()})
        if table is not None and is_transactional(table.properties):
            lists = take_snapshot(connection, [self._name], 0, self._client.gap_timeout_ms).write_ids
            existing = replace(existing, write_ids=lists[self._name])
        return plan_import(self._dump, self._asked, existing, database, now_ms(connection) // 1000)

    def _require_free(self, plan: ImportPlan) -> None:
        """A new table takes a directory that holds nothing, and that is nobody's."""
        owner = self._client.database.read(lambda connection: read_owner_of(connection, plan.location, around=True))
        if owner is not None:
            raise InvalidArgumentsError(f"{plan.location} would share files with {owner}; choose another LOCATION")
        if plan.in_place:
            return
        if plan.location and self._dump.state_id is not None:
            remove_dropped(self._site, plan.location, str(self._name))
            bury(self._site, plan.location, str(self._name))
        found = list_many(self._filesystem, [plan.location], descend=enter)
        there = [info for info in found[plan.location] or () if not is_hidden(info.name)]
        taken = [info.relative for info in there if not info.is_dir]
        if not taken and self._dump.write_ids is not None:
            # Directories alone are no rows: an import that was undone has left them. In an ACID table they would say
            # something, so they go, from below.
            for info in sorted(there, key=lambda info: -info.relative.count("/")):
                if not self._filesystem.delete_empty(info.path, inside=plan.location):
                    taken.append(info.relative)
        if taken:
            raise AlreadyExistsError(
                f"{plan.location} is not empty: it holds {taken[0]}, which would become rows of {self._name}; move it "
                "away, or choose another LOCATION"
            )

    def _files(self, plan: ImportPlan, txn_id: int) -> list[tuple[MovedFile, FileCopy]]:
        """What goes where: the file in its final place, and its copy below the staging directory.

        :param txn_id: in which it is put there.
        """
        places = dict(plan.places)
        found = []
        for file in self._dump.files:
            place = places.get(file.partition)
            if place is None:
                continue
            folder, _, name = file.path.rpartition("/")
            # The same for every attempt, and no name that anything in a table could have.
            key = hashlib.sha256(f"{file.partition}\0{folder}".encode()).hexdigest()[:16]
            if self._dump.write_ids is not None:
                folder = _as_merged(folder, txn_id, plan.write_ids)
            target = f"{place}/{folder}" if folder else place
            paths.require_inside(plan.location if paths.is_inside(plan.location, place) else place, f"{target}/{name}")
            moved = MovedFile(key, target, name, file.size)
            copied = FileCopy(
                str(file.source), f"data/{key}/{PLAIN_FILES}/{name}", file.size, file.checksum, file.beginning
            )
            found.append((moved, copied))
        return found

    # --- copying --------------------------------------------------------------------------------------------------

    def _copy(self, ddl: DdlTransaction, plan: ImportPlan, files: Sequence[tuple[MovedFile, FileCopy]]) -> _Staged:
        if not plan.places:
            if plan.location and not plan.in_place and plan.table is not None and plan.table.after.storage.location:
                self._filesystem.make_directory(plan.location)
            return _Staged(None)
        staging = f"{plan.location}/{import_name(ddl.txn_id)}"
        self._filesystem.make_directory(plan.location)
        self._take_over(plan.location, staging)
        copies = [replace(copied, target=f"{staging}/{copied.target}") for _, copied in files]
        self._filesystem.make_directory(staging)
        try:
            report = copy(self._site, self._source, self._filesystem, copies)
        except (CorruptDumpError, UnsafePathError):
            # Trying again would not help: nothing is kept for it.
            self._filesystem.delete(staging, inside=plan.location)
            raise
        return _Staged(staging, tuple(moved for moved, _ in files), report.bytes, report.reused)

    def _take_over(self, location: str, staging: str) -> None:
        """Go on with what an attempt before has copied: under our lock nobody else is copying.

        Renamed first: whoever was given up and is still running finds its directory no more. A file that is whole by
        its checksum afterwards has been written to its end by whoever still has it open.
        """
        taken = False
        for info in list_many(self._filesystem, [location], recursive=False)[location] or ():
            if not info.is_dir or parse_import(info.name) is None:
                continue
            if not taken and self._filesystem.can_fence(location):
                self._filesystem.rename_directory(info.path, staging)
                taken = True
            else:
                self._filesystem.delete(info.path, inside=location)

    def _leave(self, txn_id: int, location: str) -> None:
        """After a failure: what was copied is for the next try, unless that has begun and taken it already.

        Then the txn was ended by somebody else, and what was copied after that is of no use to anybody.
        """
        with contextlib.suppress(HiveAcidError, OSError):
            if self._client.give_up_txns([txn_id], "its import failed", ended_only=True).given_up:
                self._filesystem.delete(f"{location}/{import_name(txn_id)}", inside=location)

    # --- putting into place ---------------------------------------------------------------------------------------

    def _publish(self, ddl: DdlTransaction, plan: ImportPlan, staged: _Staged, aborted: Sequence[int]) -> None:
        self._fence_dead(plan.location)
        if staged.uri is None:
            return ddl.commit(lambda connection: self._change(connection, plan, None, ddl.txn_id, aborted))
        job_id = str(uuid.uuid4())
        staging = paths.join(plan.location, staging_name(job_id))
        self._client.jobs.start(
            job_id=job_id, txn_id=ddl.txn_id, table=str(self._name), write_id=None, statement=0, kind="insert",
            table_location=plan.location, staging=staging,
        )  # fmt: skip
        if staged.files:
            self._filesystem.rename_directory(staged.uri, staging)
        else:  # On an object store there is no directory without files.
            self._filesystem.delete(staged.uri, inside=plan.location)
            self._filesystem.make_directory(staging)
        manifest = PlainManifest(str(self._name), job_id, staged.files, self._replaced(plan))
        self._client.jobs.record_manifest(job_id, manifest.to_document())
        try:
            for _, place in plan.places:
                self._filesystem.make_directory(place)
            publish_files(self._filesystem, staging, manifest)
            sync(self._client.settings, [file.uri for file in manifest.files], plan.location)
            ddl.commit(lambda connection: self._change(connection, plan, manifest, ddl.txn_id, aborted))
        except CommitStateUnknownError:
            raise  # R17: it may have happened; the record of the job decides later.
        except BaseException:
            self._undo(ddl.txn_id, staging, manifest, plan.location)
            raise
        try:
            self._filesystem.delete(staging, inside=plan.location)
        except (HiveAcidError, OSError) as problem:
            log.warning("%s is not needed any more and could not be removed: %s", staging, problem)

    def _undo(self, txn_id: int, staging: str, manifest: PlainManifest, location: str) -> None:
        """After a failure, unless the commit went through before it (R17)."""
        why = "its import failed and was undone"
        if not self._client.give_up_txns([txn_id], why).given_up:
            return
        if not undo_fenced(self._filesystem, staging, manifest, location, why):
            undo(self._filesystem, staging, manifest, location)
        self._filesystem.delete(staging, inside=location)
        self._client.jobs.mark_fenced(manifest.job_id, why)

    def _replaced(self, plan: ImportPlan) -> tuple[str, ...]:
        """What lies where the new files go, and is not hidden."""
        existing = [place for _, place in plan.places]
        found: list[str] = []
        for entries in list_many(self._filesystem, existing, recursive=False).values():
            found += [entry.path for entry in entries or () if not is_hidden(entry.name)]
        return tuple(sorted(found))

    def _change(
        self, connection: Connection, plan: ImportPlan, manifest: PlainManifest | None, committing: int,
        aborted_txns: Sequence[int],
    ) -> None:  # fmt: skip
        """Inside the commit: the files are there, and the catalog changes as planned, or nothing does."""
        self._site.require_allowed(connection)
        if manifest is not None:
            check_files(self._filesystem, [manifest])
        now = self._plan(connection, lock=True)
        if outline(now) != outline(plan):
            raise InvalidArgumentsError(f"{self._name} was changed by somebody else while it was imported; try again")
        if now.table is not None and now.table.before is None and (place := now.table.after.storage.location):
            lock_places(connection)
            require_own_place(connection, f"table {self._name}", place)
        tables = self._rows.write_tables(connection, [] if now.table is None else [now.table])
        table = tables.get(self._name) or read_tables(connection, [self._name])[self._name]
        if now.partitions:
            self._rows.write_partitions(connection, [(table, now.partitions)])
        ids = [stored.id for stored in now.dropped]
        if ids:
            self._client.catalog.events.dropping_partitions(connection, table, ids)
            delete_storage(connection, delete_partitions(connection, ids))
            forget_partitions(connection, self._name, [stored.name for stored in now.dropped])
        if self._dump.write_ids is not None and now.table is not None and now.table.before is None:
            self._set_write_ids(connection, committing, aborted_txns)
            # R14: with the rows, what says which micro-batches they are of.
            if self._client.database.features(connection).replication:
                bring_marks(connection, self._name, self._dump.streams)

    def _set_write_ids(self, connection: Connection, committing: int, aborted_txns: Sequence[int]) -> None:
        """Write ids of the new table are the source's; those whose rows must not be seen are aborted."""
        features, held = self._client.database.features(connection), self._held()
        if not seed_write_ids(connection, self._name, self._state, aborted_txns, committing, features, held):
            raise InvalidArgumentsError(
                f"{self._name} has no table, but write ids: another engine is creating it; try again, or drop it first"
            )

    def _held(self) -> dict[int, set[str | None]]:
        """The partitions whose files may hold rows of aborted write ids among others: those of transaction batches."""
        tops = {(file.partition, file.path.split("/")[0]) for file in self._dump.files}
        found: dict[int, set[str | None]] = defaultdict(set)
        for partition, top in tops:
            named = parse_directory(top)
            if named is not None and named.kind is not DirectoryKind.BASE:
                for write_id in self._state.aborted_ids.between(named.min_write_id, named.max_write_id):
                    found[write_id].add(partition or None)
        return found

    # --- afterwards -----------------------------------------------------------------------------------------------

    def _remove_dropped(self, plan: ImportPlan) -> None:
        for stored in plan.dropped:
            place = stored.storage.location
            if place and paths.is_inside(plan.location, place):
                self._filesystem.delete(place, inside=plan.location)

    def _compact_aborted(self, plan: ImportPlan) -> None:
        """Files may hold rows of aborted write ids; a major compaction leaves them out."""
        if not self._state.aborted:
            return
        parts: list[str | None] = [w.after.name for w in plan.partitions]
        for part in parts or [None]:
            self._client.compactions.enqueue(str(self._name), part)

    def _fence_dead(self, location: str) -> None:
        """Undo what an import that was given up has put into place (R4): under our lock none is alive."""
        fence_dead_jobs_of(self._site, self._name)
        # Directories of jobs that have committed and were killed before they tidied up; fences are files.
        for info in list_many(self._filesystem, [location], recursive=False)[location] or ():
            if info.is_dir and info.name.startswith(STAGING_PREFIX):
                self._filesystem.delete(info.path, inside=location)


def _as_merged(folder: str, txn_id: int, here: ValidWriteIdList | None) -> str:
    """A directory of a dump as it is called here: a base as of a compaction, which the import stands for.

    What it has replaced has not come here, also of an INSERT OVERWRITE; so nobody may read the table as it was before.

    :param here: the write ids of a table that is there already: below an open one nothing counts as compacted.
    """
    top, slash, rest = folder.partition("/")
    named = parse_directory(top)
    if named is None or named.kind is not DirectoryKind.BASE or named.max_write_id < 1 or named.visibility_txn_id:
        return folder
    if here is not None and not here.is_valid_base(named.max_write_id):
        return folder
    return replace(named, visibility_txn_id=txn_id).name + slash + rest


@dataclass(frozen=True, slots=True)
class _Staged:
    """What was copied; without a directory there was nothing to copy."""

    uri: str | None
    files: tuple[MovedFile, ...] = ()
    bytes: int = 0
    reused: int = 0
