"""Publishing into a table without transactions: files are moved one by one, and can be moved back.

Nothing hides what lies in such a table's directory, so whoever publishes holds its exclusive lock. The manifest is
recorded before the first move (R5). An overwrite moves the old files into its staging directory, where they stay until
the txn has committed; giving up moves back what was moved in, and brings back what was moved out, from any point and as
often as it takes. Names of an import are those of its dump, so the next try of it has the same: once all is undone the
staging directory is gone, and whoever comes late with the same intent finds nothing to move to or from (R4).
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import PublishInterruptedError, UnsafePathError
from airflow_hive_acid.filesystem.absence import is_absent
from airflow_hive_acid.filesystem.listing import list_many
from airflow_hive_acid.filesystem.publishing import make_places
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import PLAIN_FILES, is_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_hive_acid.filesystem.protocol import FileInfo, Filesystem
    from airflow_hive_acid.filesystem.publishing import Manifest

PLAIN = "plain"
"""Kind of the manifest, by which it is told from one of write ids."""
_REPLACED = "replaced"
_SET_ASIDE = ".undo"


@dataclass(frozen=True, slots=True)
class MovedFile:
    """A file that is put into place.

    :param partition: partition name, empty for an unpartitioned table.
    :param place: URI of the directory it goes to: the table's or the partition's.
    """

    partition: str
    place: str
    name: str
    size: int

    @property
    def uri(self) -> str:
        """Where it is once it is published."""
        return f"{self.place}/{self.name}"


@dataclass(frozen=True, slots=True)
class PlainManifest:
    """What one job does to a table: files that come, and those that go for an overwrite."""

    table: str
    job_id: str
    files: tuple[MovedFile, ...]
    replaced: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {"kind": PLAIN, **asdict(self)}


def from_document(document: Mapping[str, Any]) -> PlainManifest | None:
    """The manifest of a recorded job; None when it is one of write ids, whose files the Cleaner removes."""
    if document.get("kind") != PLAIN:
        return None
    files = tuple(MovedFile(**file) for file in document["files"])
    return PlainManifest(document["table"], document["job_id"], files, tuple(document["replaced"]))


def plan_moves(filesystem: Filesystem, staged: Manifest, *, overwrite: bool) -> PlainManifest:
    """What is to be done with the files of a job, by the directories as they are.

    :param staged: what ``read_staging`` found.
    """
    files = tuple(MovedFile(d.partition, d.place, name, size) for d in staged.directories for name, size in d.files)
    replaced: list[str] = []
    if overwrite:
        places = sorted({d.place for d in staged.directories})
        for entries in list_many(filesystem, places, recursive=False).values():
            replaced += [entry.path for entry in entries or () if not is_hidden(entry.name)]
    return PlainManifest(staged.table, staged.job_id, files, tuple(sorted(replaced)))


def publish_files(filesystem: Filesystem, staging: str, manifest: PlainManifest) -> None:
    """Move what is replaced out and the new files in; the manifest is recorded already.

    :raises PublishInterruptedError: when a name is taken, or staging is gone (fenced). The caller undoes what was done.
    """
    if manifest.replaced:
        filesystem.make_directory(f"{staging}/{_REPLACED}")
    try:
        for number, uri in enumerate(manifest.replaced):
            filesystem.rename(uri, f"{staging}/{_REPLACED}/{number}")
        make_places(filesystem, {file.place for file in manifest.files}, manifest.table, staging.rpartition("/")[0])
        for file in manifest.files:
            filesystem.rename(_staged(staging, file), file.uri)
    except FileExistsError as error:
        raise PublishInterruptedError(
            f"{error}: somebody writes into {manifest.table} without its lock, or another attempt of this statement "
            "did. Nothing was changed; run the statement again"
        ) from None
    except (FileNotFoundError, NotADirectoryError) as error:
        raise PublishInterruptedError(
            f"{error}: job {manifest.job_id} was fenced because its txn was given up, or somebody changes "
            f"{manifest.table} without its lock; run the statement again"
        ) from None


def check_files(filesystem: Filesystem, manifests: Iterable[PlainManifest]) -> None:
    """Whether what was published is there, right before the commit.

    :raises PublishInterruptedError: for a file that is missing or of another size.
    """
    expected = {file.uri: file for manifest in manifests for file in manifest.files}
    places = sorted({file.place for file in expected.values()})
    found: dict[str, FileInfo] = {}
    for entries in list_many(filesystem, places, recursive=False).values():
        found |= {entry.path: entry for entry in entries or ()}
    for uri, file in expected.items():
        entry = found.get(uri)
        if entry is None or entry.size != file.size:
            raise PublishInterruptedError(
                f"{uri} was published with {file.size} bytes and is not there any more as it was; the txn is not "
                "committed, run it again"
            )


def undo(filesystem: Filesystem, aside: str, manifest: PlainManifest, location: str) -> None:
    """Move back what came and bring back what went; does nothing for what has not happened, or was undone already.

    As long as not all has been moved out, nothing has been moved in: a file of a name that was to come is an old one
    then, which an import replaces by one of the same name. Where a file fences, what came is moved, not deleted: of
    two who undo the same job, one may fall asleep here until the other has finished and the next try has committed.

    :param aside: URI of the job's staging directory, wherever it is by now.
    :param location: URI of the table directory.
    """
    kept = {f"{aside}/{_REPLACED}/{number}": uri for number, uri in enumerate(manifest.replaced)}
    there = [place for place in kept if filesystem.exists(place)]
    if len(there) == len(kept):
        for file in manifest.files:
            if filesystem.can_fence(aside):
                _move_back(filesystem, file, _staged(aside, file), aside)
            else:
                inside = location if paths.is_inside(location, file.uri) else file.place
                filesystem.delete(file.uri, inside=inside)
    for place in there:
        try:
            _bring_back(filesystem, place, kept[place], manifest, location)
        except FileNotFoundError:
            if filesystem.exists(place):
                raise


def _bring_back(filesystem: Filesystem, place: str, uri: str, manifest: PlainManifest, location: str) -> None:
    """What went comes back; the empty directories of what had come there go first."""
    try:
        filesystem.rename(place, uri)
    except FileExistsError:
        inside = location if paths.is_inside(location, uri) else uri.rpartition("/")[0]
        for made in sorted(_made(uri, manifest), key=len, reverse=True):
            filesystem.delete_empty(made, inside=inside)
        filesystem.rename(place, uri)


def _made(uri: str, manifest: PlainManifest) -> set[str]:
    """A directory, and those below it that files of a job lie in or under."""
    found = {uri}
    for directory in {file.place for file in manifest.files}:
        below = directory
        while paths.is_inside(uri, below):
            found.add(below)
            below = below.rpartition("/")[0]
    return found


def _move_back(filesystem: Filesystem, file: MovedFile, staged: str, aside: str) -> None:
    """Back to where a file was staged; if that is gone, the job was undone to its end, and the file is the next one's.

    :param aside: URI of the job's staging directory.
    """
    for _ in range(2):
        try:
            return filesystem.rename(file.uri, staged)
        except FileExistsError:
            # A move that was stopped half way has left two names of one file.
            filesystem.delete(staged, inside=aside)
        except (FileNotFoundError, NotADirectoryError):
            if filesystem.exists(file.uri) and filesystem.exists(aside):
                raise
            return None
    raise PublishInterruptedError(
        f"{file.uri} could not be moved back to {staged}, which is made again and again; try again"
    )


def undo_fenced(
    filesystem: Filesystem,
    staging: str,
    manifest: PlainManifest,
    location: str,
    note: str,
    absent: Callable[[], None] | None = None,
) -> bool:
    """Fence a job that may still be publishing, then undo what it did (R4).

    The staging directory goes to another name first: from then on the job can neither move files out of it nor
    into it.

    :param absent: as for :func:`~airflow_hive_acid.filesystem.fencing.fence_staging`.
    :return: False where a file does not fence; then nothing was undone, and the application must be dead first.
    """
    if not filesystem.can_fence(staging):
        return False
    aside = f"{staging.rstrip('/')}{_SET_ASIDE}"
    if absent is not None and not filesystem.exists(staging):
        absent()
    # Set aside, or fenced, in an earlier pass: go on from there. A fence is a file, which this does not move.
    with contextlib.suppress(FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError):
        if not _is_file(filesystem, staging):
            filesystem.rename_directory(staging, aside)
    try:
        filesystem.create_file(staging, note + "\n")
    except FileExistsError:
        if not _is_file(filesystem, staging):
            raise UnsafePathError(f"{staging} was created again while it was fenced; is its driver running?") from None
    if is_absent(filesystem, aside, absent or _nothing):
        return True  # undone to the end before, and what is in place now is the next one's
    undo(filesystem, aside, manifest, location)
    filesystem.delete(aside, inside=location)
    return True


def _nothing() -> None:
    """Who gives no proof knows the place to be there."""


def _staged(staging: str, file: MovedFile) -> str:
    partition = f"{file.partition}/" if file.partition else ""
    return f"{staging}/data/{partition}{PLAIN_FILES}/{file.name}"


def _is_file(filesystem: Filesystem, uri: str) -> bool:
    try:
        filesystem.list_files(uri)
    except NotADirectoryError:
        return True
    except FileNotFoundError:
        return False
    return False
