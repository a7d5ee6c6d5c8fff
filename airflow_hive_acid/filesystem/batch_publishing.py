"""Publishing what a txn of a transaction batch has appended (decision 33).

The files of a batch are open: their bytes are no evidence of anything. What counts is a side file with flush lengths,
and each txn's is moved out of the txn's own staging: the fence of R4 works as it does for whole directories. A file's
first side file comes before the file, and the first file of a directory with the directory, in one rename; a later side
file takes the place of the one before in one step. So a reader always finds a length, and behind it a footer.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import PublishError, PublishInterruptedError
from airflow_hive_acid.filesystem.publishing import (
    Manifest,
    ManifestDirectory,
    make_places,
    partition_problem,
    staged_files,
)
from airflow_hive_acid.format.names import (
    ACID_VERSION_FILE,
    FLUSH_LENGTH_SUFFIX,
    DirectoryKind,
    parse_bucket_file,
    parse_directory,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_hive_acid.filesystem.protocol import Filesystem
    from airflow_hive_acid.filesystem.publishing import Target
    from airflow_hive_acid.format.jobs import JobResult

_LONG = 8


@dataclass(slots=True)
class PublishedFile:
    """A file of a batch that readers can see.

    :param flushes: how many lengths its side file holds; ``length`` is the last of them, in bytes.
    """

    flushes: int
    length: int


@dataclass(slots=True)
class PublishedBatch:
    """What a batch has published so far: its files by name, by the URI of their directory."""

    directories: dict[str, dict[str, PublishedFile]] = field(default_factory=dict)

    def flushes(self, uri: str, name: str) -> int:
        """Lengths in the side file of a file; 0 for one that is not there yet."""
        file = self.directories.get(uri, {}).get(name)
        return 0 if file is None else file.flushes


def read_batch_staging(
    filesystem: Filesystem, staging: str, result: JobResult, target: Target, name: str, before: PublishedBatch
) -> Manifest:
    """Compare what lies in the staging of a txn with what its job reported.

    :param name: of the batch's directories, ``delta_X_Y``.
    :return: the manifest; the size of a file is its new flush length.
    :raises PublishError: for a file too many, too few, or whose lengths are not those reported.
    """
    listed = staged_files(filesystem, staging)
    directories = []
    for written in result.directories:
        prefix = f"{written.partition}/{written.name}" if written.partition else written.name
        problem = "it is not the batch's" if written.name != name else partition_problem(written, target)
        if problem is not None:
            raise PublishError(f"the job reported the directory {prefix} for {target.table}: {problem}")
        place = target.place_of(written.partition)
        files, found = dict(listed.pop(prefix, {})), []
        is_new = f"{place}/{name}" not in before.directories
        if (files.pop(ACID_VERSION_FILE, None) is None) and is_new:
            raise PublishError(f"{staging}/data/{prefix} has no {ACID_VERSION_FILE}; nothing was published")
        for file in written.files:
            flushes = before.flushes(f"{place}/{name}", file.name)
            where = f"{staging}/data/{prefix}/{file.name}"
            _check_side_file(
                filesystem, where, files.pop(file.name + FLUSH_LENGTH_SUFFIX, None), flushes + 1, file.bytes
            )
            size = files.pop(file.name, None)
            if (
                parse_bucket_file(file.name) is None
                or (size is None) != (flushes > 0)
                or (size or file.bytes) < file.bytes
            ):
                raise PublishError(f"{where}: {file.bytes} bytes were reported, it has {size}; nothing was published")
            found.append((file.name, file.bytes))
        if files:
            raise PublishError(f"{staging}/data/{prefix}/{min(files)} was not reported; nothing was published")
        directories.append(ManifestDirectory(written.partition, written.values, place, name, tuple(found)))
    if listed:
        raise PublishError(f"{staging}: {min(listed)} was not reported; nothing was published")
    return Manifest(target.table, result.job_id, tuple(directories))


def _check_side_file(filesystem: Filesystem, file: str, size: int | None, flushes: int, length: int) -> None:
    side = file + FLUSH_LENGTH_SUFFIX
    if size != flushes * _LONG:
        raise PublishError(f"{side} has {size} bytes, not {flushes * _LONG}; nothing was published")
    (last,) = struct.unpack(">q", filesystem.read_range(side, size - _LONG, size))
    if last != length:
        raise PublishError(f"{side} says {last}, and the job reported {length}; nothing was published")


def publish_batch(
    filesystem: Filesystem, staging: str, manifest: Manifest, location: str, batch: PublishedBatch
) -> None:
    """Let readers find what a manifest names, and remove the staging directory.

    :param location: URI of the table directory.
    :param batch: what the batch has published; is brought up to date.
    :raises PublishInterruptedError: when staging is gone (fenced), or a name is taken.
    """
    try:
        for directory in manifest.directories:
            _publish(filesystem, staging, manifest, directory, location, batch)
    except FileExistsError as error:
        raise PublishInterruptedError(
            f"{error}: somebody else has written into the batch of job {manifest.job_id}"
        ) from None
    except (FileNotFoundError, NotADirectoryError):
        raise PublishInterruptedError(
            f"{staging} is gone: job {manifest.job_id} was fenced because its txn was given up; write it again"
        ) from None
    filesystem.delete(staging, inside=location)


def _publish(
    filesystem: Filesystem, staging: str, manifest: Manifest, directory: ManifestDirectory, location: str,
    batch: PublishedBatch,
) -> None:  # fmt: skip
    inside = f"{directory.partition}/" if directory.partition else ""
    source, files = f"{staging}/data/{inside}{directory.name}", dict(directory.files)
    known = batch.directories.get(directory.uri)
    if known is None:
        make_places(filesystem, [directory.place], manifest.table, location)
        filesystem.rename_directory(source, directory.uri)
    else:
        for name in files:
            side = name + FLUSH_LENGTH_SUFFIX
            filesystem.replace_file(f"{source}/{side}", f"{directory.uri}/{side}")
            if name not in known:
                filesystem.rename(f"{source}/{name}", f"{directory.uri}/{name}")
    now = batch.directories.setdefault(directory.uri, {})
    for name, length in files.items():
        now[name] = PublishedFile(batch.flushes(directory.uri, name) + 1, length)


def check_batch(filesystem: Filesystem, batch: PublishedBatch, uris: Mapping[str, object]) -> None:
    """Compare directories of a batch with what it has published (R5).

    :param uris: those to look at.
    :raises PublishError: for a file too many, too few, or shorter than what was flushed into it.
    """
    for uri in uris:
        try:
            listed = {e.name: e.size for e in filesystem.list_files(uri) if not e.name.startswith(".")}
        except (FileNotFoundError, NotADirectoryError):
            raise PublishError(f"{uri} was published and is gone; the txn is not committed") from None
        expected = batch.directories[uri]
        sides = {name + FLUSH_LENGTH_SUFFIX: file.flushes * _LONG for name, file in expected.items()}
        wrong = [name for name, size in sides.items() if listed.get(name) != size]
        wrong += [name for name, file in expected.items() if listed.get(name, -1) < file.length]
        wrong += [name for name in listed if name not in sides and name not in expected and name != ACID_VERSION_FILE]
        if wrong:
            raise PublishError(f"{uri}/{wrong[0]} is not as the batch has published it; the txn is not committed")


def check_not_hidden(filesystem: Filesystem, directories: Iterable[ManifestDirectory], high: int) -> None:
    """Refuse rows where a table was emptied, or a partition dropped, since the batch was opened.

    Where INSERT shares its lock with those (``hive.txn.xlock.write``), they do not wait for the batch. What they leave
    in the directory is a base of their own write id, which hides all that the batch writes there.

    :param high: the last write id of the batch.
    :raises PublishInterruptedError: naming the base.
    """
    for place in sorted({directory.place for directory in directories}):
        for entry in filesystem.list_files(place):
            named = parse_directory(entry.name) if entry.is_dir else None
            is_base = named is not None and named.kind is DirectoryKind.BASE and not named.visibility_txn_id
            if named is not None and is_base and named.max_write_id > high:
                raise PublishInterruptedError(
                    f"{place}/{entry.name} hides what the write ids up to {high} write: the partition was dropped, or "
                    "overwritten, since the batch was opened. The txn is not committed; write it again in another batch"
                )


def seal_batch(filesystem: Filesystem, batch: PublishedBatch) -> None:
    """The files are finished: remove the side files, as Hive's writer does.

    One that is found shorter than its last flush keeps its side file, which makes readers refuse it.
    """
    for uri, files in batch.directories.items():
        sizes = {entry.name: entry.size for entry in filesystem.list_files(uri)}
        for name, file in files.items():
            if sizes.get(name, -1) >= file.length:
                filesystem.delete(f"{uri}/{name}{FLUSH_LENGTH_SUFFIX}", inside=uri)
