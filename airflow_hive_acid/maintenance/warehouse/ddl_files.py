"""What DDL does to files while it holds its locks: fences dead jobs, moves directories, hides dropped partitions.

R4: a table or partition is dropped or renamed only when no job of a dead txn can write into it any more; what such a
job published later would become rows of the next table of that place. A dropped partition gets a base without rows
under the drop's write id, as Hive's ``hive.acid.droppartition.usebase`` does, and through a staging directory like
every other file of a write id, so that this process can be fenced, too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import uuid
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CommitStateUnknownError, HiveAcidError, InvalidArgumentsError, JobsAliveError
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.names import METADATA_FILE, base_name, staging_name
from airflow_hive_acid.maintenance.warehouse.conversion import name_originals
from airflow_hive_acid.maintenance.warehouse.ddl_work import (
    NO_TABLE,
    DdlManifest,
    Move,
    carry_out,
    clear,
    finish,
    give_up,
    left_of,
    parent_of,
    rights_needed,
)
from airflow_hive_acid.maintenance.warehouse.directories import DirectorySizes, entries
from airflow_hive_acid.maintenance.warehouse.fences import fence
from airflow_hive_acid.maintenance.warehouse.places import Places, require_target
from airflow_hive_acid.metastore.names import TableName, table_name
from airflow_hive_acid.metastore.txns import DDL_KIND, JobState, take_snapshot
from airflow_hive_acid.python_versions import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.acid_state import AcidState
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Partition, Table
    from airflow_hive_acid.metastore.protocol import DdlTransaction
    from airflow_hive_acid.metastore.txns import Job

log = logging.getLogger(__name__)

DROPPED = json.dumps({"thisFileVersion": "0", "dataFormat": "dropped"}, separators=(",", ":"))
"""``_metadata_acid`` of a base that stands for a dropped partition."""


class WarehouseFiles:
    """The files that DDL verbs of the catalog work on.

    :param tell: is told what a statement that has succeeded could not delete; it is in the log in any case.
    """

    def __init__(
        self, client: MetastoreClient, filesystem: Filesystem, tell: Callable[[str], object] | None = None
    ) -> None:
        self._client = client
        self._filesystem = filesystem
        self._tell = tell

    def fence(self, jobs: Sequence[Job]) -> None:
        """Fence jobs of dead txns that are left over on a table.

        :raises JobsAliveError: when one of them cannot be fenced, or its txn is open.
        """
        why = "its table is dropped or renamed"
        decided = self._client.give_up_txns({job.txn_id for job in jobs}, why, ended_only=True)
        report = fence(self._client, self._filesystem, decided.given_up, why)
        # A txn that has committed since the jobs were looked up has none that may still write.
        unfenced = [job for job in map(self._again, jobs) if job is not None and job.txn_id in decided.spared]
        alive = [*report.alive, *((job, f"txn {job.txn_id} is open; end it first") for job in unfenced)]
        if alive:
            job, problem = alive[0]
            raise JobsAliveError(
                f"job {job.job_id} of txn {job.txn_id} may still write into {job.table}: {problem}. Nothing was "
                "changed; stop it and try again"
            )

    def _again(self, job: Job) -> Job | None:
        """A job as it is now, if it may still write."""
        found = next((j for j in self._client.jobs.of_txn(job.txn_id) if j.job_id == job.job_id), None)
        return found if found is not None and found.state in (JobState.RUNNING, JobState.PUBLISHING) else None

    @contextlib.contextmanager
    def moving(self, txn_id: int, table: TableName, moves: Iterable[tuple[str, str]]) -> Iterator[None]:
        """Give directories other names, or take them away, before the block commits; back again when it does not.

        :param moves: source and target; an empty target for what is to be deleted. A directory that is not there is
            left out, as that of a table may not have been made yet.
        :raises WarehouseMissingError: when the place of one is not there (R17).
        """
        moves = list(moves)
        self._require_places(table, [source for source, _ in moves])
        wanted = [(source, target) for source, target in moves if self._filesystem.exists(source)]
        there = {source for source, _ in wanted}
        # Once more, behind the look: the disk may have gone in between.
        self._require_places(table, [source for source, _ in moves if source not in there])
        by_parent: dict[str, list[tuple[str, str]]] = {}
        for source, target in wanted:
            by_parent.setdefault(parent_of(source), []).append((source, target))
        with contextlib.ExitStack() as stack:
            for parent, those in by_parent.items():
                stack.enter_context(self._work(txn_id, table, parent, those))
            yield

    def _require_places(self, table: TableName, sources: Sequence[str]) -> None:
        """What is not found is gone, and what is found is the table's, only where its disk is."""
        # Of a database that is dropped each table was looked for before.
        if not sources or table.name == NO_TABLE:
            return
        found, places = self._client.catalog.get_table(str(table)), Places(self._client, self._filesystem)
        outside = [source for source in sources if not paths.is_inside(found.location, source)]
        for source in outside if len(outside) == len(sources) else [found.location, *outside]:
            places.require_place_of(found, source)

    @contextlib.contextmanager
    def making(self, txn_id: int, table: TableName, places: Iterable[str]) -> Iterator[None]:
        """Make directories of what the block commits; those that are empty go again when it does not."""
        job_id = self.make(txn_id, table, places)
        try:
            yield
        except CommitStateUnknownError:
            raise
        except BaseException as failure:
            if job_id is not None:
                self._give_up(job_id, failure)
            raise

    def make(self, txn_id: int, table: TableName, places: Iterable[str]) -> str | None:
        """Make directories of what the txn commits, on record.

        :return: id of the job that has; None when all were there.
        """
        wanted = list(dict.fromkeys(places))
        made = tuple(place for place in wanted if not self._filesystem.exists(place))
        for place in wanted:
            if place not in made:
                self._filesystem.make_directory(place)  # it may be a file
        if not made:
            return None
        job_id = self._start(txn_id, table, parent_of(made[0]), None)
        manifest = DdlManifest(made=made)
        try:
            self._client.jobs.record_manifest(job_id, manifest.to_document())
            carry_out(self._filesystem, manifest)
        except BaseException as failure:
            self._give_up(job_id, failure)
            raise
        return job_id

    @contextlib.contextmanager
    def lending(self, ddl: DdlTransaction, database: str, parent: str) -> Iterator[str]:
        """A staging directory that goes when the block ends, or with its txn when nobody is left to end it.

        :param parent: where it lies: a place of the database, whose disk is looked for before anything is said to be
            gone.
        """
        job_id = uuid.uuid4().hex
        staging = paths.join(parent, staging_name(job_id))
        self._start(ddl.txn_id, TableName(database, NO_TABLE), parent, staging, job_id=job_id)
        self._filesystem.make_directory(staging)
        with self._carried_out(job_id, DdlManifest()):
            yield staging
            ddl.commit(lambda _connection: None)

    def clear(self, txn_id: int) -> None:
        """What a txn that was given up has made since: empty directories, staging of its jobs."""
        for job in self._client.jobs.of_txn(txn_id):
            if job.kind == DDL_KIND and job.state is JobState.FENCED:
                clear(self._client, self._filesystem, job)

    @contextlib.contextmanager
    def emptying(self, txn_id: int, table: TableName, places: Iterable[str]) -> Iterator[None]:
        """Remove directories in which nothing lies, after the block has committed."""
        emptied = tuple(dict.fromkeys(places))
        job_id = self._start(txn_id, table, parent_of(emptied[0]), None, statement=-2)
        with self._carried_out(job_id, DdlManifest(emptied=emptied)):
            yield

    def _work(
        self, txn_id: int, table: TableName, parent: str, moves: Sequence[tuple[str, str]]
    ) -> AbstractContextManager[None]:  # fmt: skip
        if not self._filesystem.can_fence(parent):
            job_id = self._start(txn_id, table, parent, None)
            return self._carried_out(job_id, DdlManifest(tuple(Move(source, "", to) for source, to in moves)))
        job_id = uuid.uuid4().hex
        staging = paths.join(parent, staging_name(job_id))
        self._start(txn_id, table, parent, staging, job_id=job_id)
        # Before the manifest is recorded, which a job that was given up does not get any more: so the directory is not
        # made again once it was set aside.
        with rights_needed(moves[0][0]):
            self._filesystem.make_directory(staging)
        staged = tuple(Move(source, f"{staging}/{n}", to) for n, (source, to) in enumerate(moves))
        return self._carried_out(job_id, DdlManifest(staged))

    def _start(
        self, txn_id: int, table: TableName, parent: str, staging: str | None, *, job_id: str | None = None,
        statement: int = -1,
    ) -> str:  # fmt: skip
        """R4: on record before anything happens. Its statement is below all others, so it is undone after them."""
        started = self._client.jobs.start(
            job_id=job_id or uuid.uuid4().hex, txn_id=txn_id, table=str(table), write_id=None, statement=statement,
            kind=DDL_KIND, table_location=parent, staging=staging,
        )  # fmt: skip
        return started.job_id

    @contextlib.contextmanager
    def _carried_out(self, job_id: str, manifest: DdlManifest) -> Iterator[None]:
        """R17: a commit whose outcome is not known is neither undone nor finished; the reaper sees what it was."""
        jobs, filesystem = self._client.jobs, self._filesystem
        try:
            jobs.record_manifest(job_id, manifest.to_document())
            carry_out(filesystem, manifest)
            yield
        except CommitStateUnknownError:
            raise
        except BaseException as failure:
            self._give_up(job_id, failure)
            raise
        try:
            finish(self._client, filesystem, jobs.get(job_id))
        except (HiveAcidError, OSError) as problem:
            said = (
                f"files of {' and '.join(left_of(manifest))} could not be deleted "
                f"({type(problem).__name__}: {problem}); nobody reads them any more. The reaper tries again "
                "with each pass, 'hive-acid doctor --finish' at once"
            )
            log.warning("job %s: %s", job_id, said)
            if self._tell is not None:
                self._tell(said)

    def _give_up(self, job_id: str, failure: BaseException) -> None:
        """Undo it while the locks are held; what another process has fenced, that one has undone."""
        try:
            job = self._client.jobs.get(job_id)
            note = f"it failed: {type(failure).__name__}"
            # R17: only what cannot commit any more.
            given_up = bool(self._client.give_up_txns([job.txn_id], note).given_up)
            if given_up and job.state in (JobState.RUNNING, JobState.PUBLISHING):
                problem = give_up(self._client, self._filesystem, job, note, ours=True)
                if problem is not None:
                    add_note(failure, problem)
            elif job.state is JobState.FENCED:
                clear(self._client, self._filesystem, job)
        except (HiveAcidError, OSError) as second:
            add_note(failure, f"what it did to directories could not be undone; the reaper does: {second}")

    def name_originals(self, table: Table, places: Sequence[str]) -> None:
        """Give the files of a plain table names by which they can be files of an ACID table."""
        for renaming in name_originals(self._filesystem, table, places):
            log.info("%s: %s is now called %s", table.qualified_name, renaming.old, renaming.new)

    def hide(self, txn_id: int, write_id: int, table: Table, partitions: Sequence[Partition]) -> None:
        """Put a base without rows into partitions that are being dropped."""
        require_target(self._client, self._filesystem, table)  # R17
        self._require_places(table_name(table.qualified_name), [p.location for p in partitions])
        job_id = uuid.uuid4().hex
        staging = paths.join(table.location, staging_name(job_id))
        self._client.jobs.start(
            job_id=job_id, txn_id=txn_id, table=table.qualified_name, write_id=write_id, statement=0, kind="drop",
            table_location=table.location, staging=staging,
        )  # fmt: skip
        places = [p.location for p in partitions if self._filesystem.exists(p.location)]
        places += self._left_behind(table, partitions)
        staged = [paths.join(staging, "data", str(index), base_name(write_id)) for index in range(len(places))]
        for directory in staged:
            self._filesystem.make_directory(directory)
            self._filesystem.write_text(paths.join(directory, METADATA_FILE), DROPPED)
        manifest = {"directories": [paths.join(place, base_name(write_id)) for place in places]}
        self._client.jobs.record_manifest(job_id, manifest)
        for directory, target in zip(staged, manifest["directories"], strict=True):
            self._filesystem.rename_directory(directory, target)
        self._filesystem.delete(staging, inside=table.location)

    def _left_behind(self, table: Table, partitions: Sequence[Partition]) -> list[str]:
        """Directories in which partitions lay before SET LOCATION, and will lie when they are added again."""
        homes = {paths.join(table.location, p.name): p.location.rstrip("/") for p in partitions}
        moved = [home for home, place in homes.items() if place != home and self._filesystem.exists(home)]
        owned = self._client.catalog.owned_homes(table, moved) if moved else ()
        return [home for home in moved if home not in owned]

    def require_nothing_left(self, table: Table, partition: Partition) -> None:
        """Refuse to take a partition's name from the directory of that name while rows lie there that it has left at a
        SET LOCATION: the next partition of the name would show them.

        :raises InvalidArgumentsError: naming the directory.
        """
        for home in self._left_behind(table, [partition]):
            sizes = DirectorySizes.of(self._state(table, home)[0])
            if sizes.base_bytes or sizes.delta_bytes > sizes.delete_bytes:
                raise InvalidArgumentsError(
                    f"partition {partition.name} of {table.qualified_name} lies at {partition.location}, and the rows "
                    f"that it has left in {home} would be those of the next partition of that name; move that "
                    "directory away or remove it, then try again. Nothing was changed"
                )

    def _state(self, table: Table, place: str) -> tuple[AcidState, ValidWriteIdList]:
        """What a reader who begins now makes of a directory of a table, and its list."""
        key, gap = table_name(table.qualified_name), self._client.gap_timeout_ms
        listing = self._filesystem.list_files(place, True, descend=enter)
        seen = self._client.database.read(lambda connection: take_snapshot(connection, [key], 0, gap))
        write_ids = seen.write_ids[key]
        return acid_state(entries(listing), write_ids, seen.valid_txns), write_ids

    def leave(self, table: Table, place: str) -> None:
        """Remove what aborted txns have written into a directory that a partition leaves.

        It may come back to it, when the Cleaner has looked for that in the other directory and forgotten them (R4).

        :raises InvalidArgumentsError: when it lies among rows of others, in the delta of a transaction batch.
        """
        if not self._filesystem.exists(place):
            return
        state, write_ids = self._state(table, place)
        for found in state.deltas:
            low, high = found.directory.min_write_id, found.directory.max_write_id
            if not found.compacted and write_ids.aborted_ids.count_between(low, high):
                raise InvalidArgumentsError(
                    f"{paths.join(place, found.name)} holds rows of aborted transactions among others, which would be "
                    "seen when the partition came back there; COMPACT 'major' the partition first. Nothing was changed"
                )
        for found in state.aborted:
            self._filesystem.delete(paths.join(place, found.name), inside=place)
