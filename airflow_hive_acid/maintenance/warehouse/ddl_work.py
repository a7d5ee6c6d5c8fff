"""What a DDL txn does to directories: recorded before it is done, so that anybody can undo or finish it (decision 40).

A directory never goes from one name to another in one step. It goes through a staging directory of this txn beside it
(``<parent>/_tmp_<job>/<number>``), and stays there when it is to be deleted. Whoever gives the txn up sets that staging
aside first: then neither step can happen any more, whenever the one who was about to take it wakes up (R4). What is
deleted after the commit is deleted by the job's id, never by the table's name, which may be another table's by then.
On object stores nothing can be set aside: there directories are renamed at once, and deleted after the commit.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import AlreadyExistsError, ConfigurationError, StorageUnavailableError
from airflow_hive_acid.filesystem import list_many
from airflow_hive_acid.filesystem.absence import delete_or_prove
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import PLACE_MARKER
from airflow_hive_acid.maintenance.warehouse.places import Places, require_directory
from airflow_hive_acid.metastore.catalog import check_location
from airflow_hive_acid.metastore.database import chunks
from airflow_hive_acid.metastore.txns import DDL_KIND, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.txns import Job

log = logging.getLogger(__name__)

NO_TABLE = "_"
"""Stands for a table in the record of a job that belongs to a database."""
_SET_ASIDE = ".undo"
_ASKED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Move:
    """A directory that gets another name, or goes.

    :param staged: its place below the staging directory; empty on an object store.
    :param target: its new name; empty when it is deleted after the commit.
    """

    source: str
    staged: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class DdlManifest:
    """What one job of a DDL txn does.

    :param made: directories of what does not exist before the commit.
    :param emptied: directories that go after the commit, if nothing lies in them.
    """

    moves: tuple[Move, ...] = ()
    made: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {"kind": DDL_KIND, **asdict(self)}


def manifest_of(job: Job) -> DdlManifest | None:
    """The manifest of a job of DDL; None before it is recorded."""
    document = job.manifest
    if document is None:
        return None
    moves = tuple(Move(**move) for move in document["moves"])
    return DdlManifest(moves, tuple(document["made"]), tuple(document["emptied"]))


def left_of(manifest: DdlManifest) -> list[str]:
    """Of what there are files to delete after the commit: directories by the names that they had."""
    return [*(move.source for move in manifest.moves if not move.target), *manifest.emptied]


def places_left(job: Job) -> tuple[str, ...]:
    """Where files may lie that a committed txn dropped or replaced; empty when it only made something.

    :return: URIs of directories.
    """
    if job.staging is not None:
        # An INSERT that replaced nothing, and whose staging was not removed, is told from one that did by looking.
        return (job.staging,)
    return tuple(left_of(manifest_of(job) or DdlManifest())) if job.kind == DDL_KIND else ()


def is_of_others(client: MetastoreClient, place: str) -> bool:
    """Whether a directory that was dropped by its name has become another table's or database's since."""
    owner = client.catalog.owner_of_location(place, around=False)
    return owner is not None or client.catalog.home_in(place) is not None


def what_of(job: Job) -> str:
    """What a job worked on, as people say it: a table, or a database and the tables in it."""
    database, _, name = job.table.partition(".")
    return f"database {database}" if name == NO_TABLE else job.table


def carry_out(filesystem: Filesystem, manifest: DdlManifest) -> None:
    """Do what is recorded, up to the commit.

    :raises ConfigurationError: when a directory may not be moved; it is where it was.
    :raises FileNotFoundError: when the txn was given up meanwhile; nothing of its name was touched then.
    :raises AlreadyExistsError: when there is something of the new name.
    """
    for place in manifest.made:
        filesystem.make_directory(place)
    for move in manifest.moves:
        if move.staged:
            with rights_needed(move.source):
                filesystem.rename_directory(move.source, move.staged)
        if move.target:
            filesystem.make_directory(parent_of(move.target))
            try:
                filesystem.rename_directory(move.staged or move.source, move.target)
            except FileExistsError:
                raise AlreadyExistsError(
                    f"{move.source} cannot become {move.target}, where there are files already; move them away, or "
                    "choose another name"
                ) from None


@contextlib.contextmanager
def rights_needed(place: str) -> Iterator[None]:
    """Say in words what the system's "permission denied" means for a statement that has changed nothing yet.

    :raises ConfigurationError: naming the directory, and who must be allowed what.
    """
    try:
        yield
    except PermissionError as error:
        raise ConfigurationError(
            f"{place} cannot be moved out of the way ({error}); nothing was changed. Let the user of this process "
            f"write in {parent_of(place)} and in the directory itself, then run the statement again"
        ) from error


def finish(client: MetastoreClient, filesystem: Filesystem, job: Job) -> bool:
    """After the commit, as often as it takes: what was replaced or dropped goes.

    :return: whether something was there to delete.
    """
    manifest, found = manifest_of(job) or DdlManifest(), False
    if job.staging is not None:
        inside = parent_of(job.staging)
        found = delete_or_prove(
            filesystem, job.staging, inside=inside, proof=lambda: _require_there(client, filesystem, job)
        )  # fmt: skip
    found = _delete_by_name(client, filesystem, manifest) or found
    for place in manifest.emptied:
        _wait_for_tables(client, filesystem, job, place)
        found = _delete_home(client, filesystem, place) or found
    return found


def _delete_by_name(client: MetastoreClient, filesystem: Filesystem, manifest: DdlManifest) -> bool:
    """On an object store: what nobody has a table, a partition or a database in again.

    One look at the catalog is for many. It serves a directory that holds nothing but what was listed before the look:
    who was given the directory since may have files in it.
    """
    going = [move.source for move in manifest.moves if not move.staged and not move.target]
    found = False
    for some in chunks(going, _ASKED_AT_ONCE):
        first, *later = some
        listed = list_many(filesystem, later)
        taken = client.catalog.taken_places(some, homes=True)
        for source in (each for each in some if each not in taken):
            is_as_listed = source == first or list_many(filesystem, [source])[source] == listed[source]
            if is_as_listed or not client.catalog.taken_places([source], homes=True):
                found = filesystem.delete(source, inside=parent_of(source)) or found
    return found


def _wait_for_tables(client: MetastoreClient, filesystem: Filesystem, job: Job, place: str) -> None:
    """Keep the directory of a dropped database on record while files of its tables cannot be deleted.

    :raises StorageUnavailableError: while there are some.
    """
    for other in client.jobs.of_txn(job.txn_id):
        for left in places_left(other) if other.job_id != job.job_id else ():
            if paths.is_inside(place, left) and filesystem.exists(left):
                raise StorageUnavailableError(f"{place} goes when {left} is deleted, which lies in it")


def _delete_home(client: MetastoreClient, filesystem: Filesystem, place: str) -> bool:
    """Delete the directory of a dropped database, if nothing but the marker of the place lies in it.

    It is another one's if a database of that place was made since.
    """
    if client.catalog.home_in(place) is not None:
        return False
    try:
        names = [entry.name for entry in filesystem.list_files(place)]
    except FileNotFoundError:
        names = []
    if names == [PLACE_MARKER]:
        filesystem.delete(paths.join(place, PLACE_MARKER), inside=place)
    deleted = filesystem.delete_empty(place, inside=parent_of(place))
    if deleted:
        client.places.forget(place)
    return deleted


def _require_there(client: MetastoreClient, filesystem: Filesystem, job: Job) -> None:
    """R17: what is not found is gone only where the warehouse is.

    :raises WarehouseMissingError: when its disk is not there.
    """
    place, database = check_location(job.table_location), job.table.partition(".")[0]
    root = client.places.root_of(database, place)
    if root != place or client.places.find(root) is not None:
        Places(client, filesystem).require(database, place)
    else:
        require_directory(filesystem, job.table, place)  # an external table's, which has no marker


def give_up(
    client: MetastoreClient, filesystem: Filesystem, job: Job, note: str, *, ours: bool = False
) -> str | None:  # fmt: skip
    """Undo what a job of a txn did that is not committed, and keep it from doing more (R4).

    :param ours: this process runs the job: it does nothing else meanwhile.
    :return: why that cannot be done; None when it is.
    """
    _require_there(client, filesystem, job)
    manifest = manifest_of(job)
    if manifest is None:
        # Marked by its record: it gets no manifest any more, and without one it touches nothing.
        _drop_staging(filesystem, job)
        if not client.jobs.mark_fenced_unless_publishing(job.job_id, note):
            return give_up(client, filesystem, client.jobs.get(job.job_id), note, ours=ours)
        _drop_staging(filesystem, job)
        return None
    problem = _undo_moves(client, filesystem, job, manifest, ours=ours) or _undo_made(client, filesystem, job, manifest)
    if problem is None:
        # A disk that went away meanwhile would have hidden what is to be undone.
        _require_there(client, filesystem, job)
        client.jobs.mark_fenced(job.job_id, note)
    return problem


def clear(client: MetastoreClient, filesystem: Filesystem, job: Job) -> None:
    """What a job that was fenced before has made since: empty directories."""
    _drop_empty_staging(filesystem, job)
    manifest = manifest_of(job) or DdlManifest()
    for other in client.jobs.of_txn(job.txn_id):
        place = other.table_location
        if other.state is JobState.FENCED and other.kind != DDL_KIND and place in manifest.made:
            # A fence may have gone with the directory, and this one has written on.
            _drop_staging_of(filesystem, other)
    _undo_made(client, filesystem, job, manifest)


def _drop_empty_staging(filesystem: Filesystem, job: Job) -> None:
    if job.staging is not None:
        filesystem.delete_empty(job.staging, inside=parent_of(job.staging))


def _drop_staging(filesystem: Filesystem, job: Job) -> None:
    if job.staging is not None:
        filesystem.delete(job.staging, inside=parent_of(job.staging))


def _undo_moves(
    client: MetastoreClient, filesystem: Filesystem, job: Job, manifest: DdlManifest, *, ours: bool
) -> str | None:
    """The last move first; does nothing for what has not happened, or was undone already."""
    aside = None
    if job.staging is not None:
        aside = f"{job.staging}{_SET_ASIDE}"
        with contextlib.suppress(FileNotFoundError):
            filesystem.rename_directory(job.staging, aside)
    for move in reversed(manifest.moves):
        problem = _undo_move(client, filesystem, move, aside, ours=ours)
        if problem is not None:
            return problem
    if aside is not None:
        filesystem.delete(aside, inside=parent_of(aside))
    return None


def _undo_move(
    client: MetastoreClient, filesystem: Filesystem, move: Move, aside: str | None, *, ours: bool
) -> str | None:
    if aside is None and not ours:
        if not move.target:
            return None  # it is deleted after the commit, which did not happen
        return (
            f"a file does not fence on this storage, and it may be moving {move.source} to {move.target}; make sure "
            "that its process is dead, move what lies there back, and mark it as fenced"
        )
    place = None if aside is None else f"{aside}/{move.staged.rpartition('/')[2]}"
    if place is not None and filesystem.exists(place):
        if filesystem.exists(move.source) and filesystem.delete_empty(place, inside=str(aside)):
            return None  # it was about to take the step: its name was claimed, and nothing moved
        return _bring_back(filesystem, place, move.source)
    if not move.target or filesystem.exists(move.source) or not filesystem.exists(move.target):
        return None
    owner = client.catalog.owner_of_location(move.target, around=False)
    if owner is not None:
        return f"{move.source} was moved to {move.target}, where {owner} lies by now; move it back by hand"
    return _bring_back(filesystem, move.target, move.source)


def _bring_back(filesystem: Filesystem, place: str, source: str) -> str | None:
    try:
        filesystem.rename_directory(place, source)
    except FileExistsError:
        return f"{source} was moved to {place}, and there is another directory in its place; move it back by hand"
    return None


def _undo_made(client: MetastoreClient, filesystem: Filesystem, job: Job, manifest: DdlManifest) -> str | None:
    """Remove directories of what never came to be, and what this txn's other jobs have published there.

    They are done with before: jobs of one txn are fenced in the order of their statements, the last one first.
    """
    taken = client.catalog.taken_places(manifest.made)
    made = [place for place in manifest.made if place not in taken]
    if not made:
        return None
    for other in client.jobs.of_txn(job.txn_id):
        place = other.table_location
        if other.kind == DDL_KIND or place not in made:
            continue
        if other.state is not JobState.FENCED:
            return f"job {other.job_id} of the same txn may still write into {place}"
        for published in _published(other.manifest or {}):
            if paths.is_inside(place, published):
                filesystem.delete(published, inside=place)
                _delete_empty_parents(filesystem, published, place)
        _drop_staging_of(filesystem, other)
    for place in sorted(made, reverse=True):
        filesystem.delete_empty(place, inside=parent_of(place))
    return None


def _drop_staging_of(filesystem: Filesystem, job: Job) -> None:
    """The fence in its place goes, too: its record fences it, as it gets no manifest any more."""
    if job.staging is not None:
        filesystem.delete(job.staging, inside=job.table_location)


def _published(manifest: Mapping[str, Any]) -> Iterable[str]:
    """URIs of directories of a write id, or of files of a plain table, that a manifest names."""
    for directory in manifest.get("directories", ()):
        if isinstance(directory, str):
            yield directory
        else:
            yield f"{directory['place']}/{directory['name']}"
    for file in manifest.get("files", ()):
        yield f"{file['place']}/{file['name']}"


def _delete_empty_parents(filesystem: Filesystem, uri: str, location: str) -> None:
    parent = parent_of(uri)
    while paths.is_inside(location, parent) and parent != location:
        if not filesystem.delete_empty(parent, inside=location):
            return
        parent = parent_of(parent)


def parent_of(location: str) -> str:
    """The directory in which a directory lies."""
    parent = location.rstrip("/").rpartition("/")[0]
    paths.require_inside(parent, location)
    return parent
