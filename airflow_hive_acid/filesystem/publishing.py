"""Publishing: what a job left in staging becomes directories of a write id that nobody can see yet (decision 2).

The job is not trusted. Its staging is listed and compared with its report, name by name and byte by byte; the
directories are renamed to places that the catalog, not the job, decides; and inside the commit the directories of the
write id are listed once more and compared with the manifest. Keeps R5 (one attempt counts) and, because the renames
start below the staging directory, works with the fence of R4.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import PublishError, PublishInterruptedError, WarehouseMissingError
from airflow_hive_acid.filesystem.listing import list_many
from airflow_hive_acid.filesystem.protocol import Upload
from airflow_hive_acid.filesystem.threads import in_threads
from airflow_hive_acid.filesystem.uploads import abort_left, complete_all, look_at_all
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import (
    ACID_VERSION,
    ACID_VERSION_FILE,
    METADATA_FILE,
    PLAIN_FILES,
    AcidDirectory,
    DirectoryKind,
    parse_bucket_file,
    parse_directory,
    parse_original_file,
)
from airflow_hive_acid.format.partitions import partition_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from typing_extensions import Self

    from airflow_hive_acid.filesystem.protocol import Filesystem, WholeUpload
    from airflow_hive_acid.format.jobs import JobResult, Uploads, WrittenDirectory

_DATA = "data"
#: What lies beside it belongs to no directory.
_BESIDE = "../"
_REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a job may publish, and under which ids.

    :param table: ``db.table``.
    :param location: URI of the table directory.
    :param partition_columns: names of the partition columns, empty for an unpartitioned table.
    :param partitions: locations of the partitions that the catalog knows, by partition name.
    :param write_id: write id of the directories; for a compaction the largest.
    :param statement_ids: statement ids the step was given; empty for a compaction.
    :param visibility_txn_id: the compaction txn, 0 for a writer.
    :param insert_only: its directories hold plain files.
    :param plain: the table has no transactions, and no such directories.
    """

    table: str
    location: str
    partition_columns: tuple[str, ...]
    partitions: Mapping[str, str]
    write_id: int
    statement_ids: tuple[int, ...] = ()
    visibility_txn_id: int = 0
    insert_only: bool = False
    plain: bool = False

    def place_of(self, partition: str) -> str:
        """URI of the directory that holds a partition's deltas; of a new partition, where Hive would put it."""
        if not self.partition_columns:
            return self.location.rstrip("/")
        return self.partitions.get(partition, "").rstrip("/") or self.place_by_name(partition)

    def place_by_name(self, partition: str) -> str:
        """URI of the directory where Hive would put a partition of this name."""
        return paths.join(self.location, partition) if self.partition_columns else self.location.rstrip("/")

    def owns(self, directory: AcidDirectory) -> bool:
        """Whether a directory name carries this write id (or compaction txn)."""
        if self.visibility_txn_id:
            return directory.visibility_txn_id == self.visibility_txn_id
        return directory.max_write_id == self.write_id and directory.visibility_txn_id == 0


@dataclass(frozen=True, slots=True)
class ManifestDirectory:
    """A directory that belongs to a write id.

    :param partition: partition name, empty for an unpartitioned table.
    :param values: partition values as the catalog holds them.
    :param place: URI of the directory it lies in: the table's or the partition's.
    :param name: its name.
    :param files: name and size of each file in it.
    :param staged: where files lie below staging that have not got their names yet, by name; not part of the document.
    :param uploads: files that are uploads still, by name; the document has their ids, for a fence.
    """

    partition: str
    values: tuple[str, ...]
    place: str
    name: str
    files: tuple[tuple[str, int], ...]
    staged: Mapping[str, str] = field(default_factory=dict, compare=False, hash=False)
    uploads: Mapping[str, WholeUpload] = field(default_factory=dict, compare=False, hash=False)

    @property
    def uri(self) -> str:
        """Where it is once it is published."""
        return f"{self.place}/{self.name}"

    def to_document(self) -> dict[str, Any]:
        """As plain values for JSON."""
        document: dict[str, Any] = {
            "partition": self.partition, "values": self.values, "place": self.place, "name": self.name,
            "files": self.files,
        }  # fmt: skip
        ids = {name: whole.upload.upload_id for name, whole in sorted(self.uploads.items())}
        return {**document, "uploads": ids} if ids else document


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything one job publishes; recorded before the first rename, checked inside the commit.

    :param replaces: URIs of directories that earlier jobs of its txn have published, and that make way for its own.
    """

    table: str
    job_id: str
    directories: tuple[ManifestDirectory, ...]
    replaces: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """As plain values for JSON."""
        document: dict[str, Any] = {
            "table": self.table,
            "job_id": self.job_id,
            "directories": tuple(directory.to_document() for directory in self.directories),
        }
        return {**document, "replaces": self.replaces} if self.replaces else document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The manifest that :meth:`to_document` made the document of, or JSON of that."""
        directories = tuple(
            ManifestDirectory(
                d["partition"],
                tuple(d["values"]),
                d["place"],
                d["name"],
                tuple((n, int(size)) for n, size in d["files"]),
            )
            for d in document["directories"]
        )
        return cls(document["table"], document["job_id"], directories, tuple(document.get("replaces", ())))

    def without(self, uris: Collection[str]) -> Manifest:
        """The same without some directories."""
        return replace(self, directories=tuple(d for d in self.directories if d.uri not in uris))


def read_staging(
    filesystem: Filesystem, staging: str, result: JobResult, target: Target, told: Uploads | None = None
) -> Manifest:
    """Compare what lies in staging with what the job reported.

    :param staging: URI of ``<table>/_tmp_<job id>``.
    :param told: where the job was told to upload files to; None: where the names of partitions say.
    :return: the manifest of what is to be published.
    :raises PublishError: for a file too many, too few or of another size, and for a directory that is not the step's.
    :raises PublishInterruptedError: when staging is gone or was fenced, or a partition was moved meanwhile.
    """
    listed = staged_files(filesystem, staging)
    is_empty = not listed
    unnamed = {} if filesystem.can_fence(staging) else _take_unnamed(listed)
    directories = []
    for written in result.directories:
        _check_name(written, target)
        if is_empty and any(not file.upload for file in written.files):
            raise _gone(staging, result.job_id)
        prefix = f"{written.partition}/{written.name}" if written.partition else written.name
        files = listed.pop(prefix, {})
        place = target.place_of(written.partition)
        staged = {file.name: file.staged for file in written.files if file.staged in unnamed}
        uploads = _uploads(filesystem, written, target, told)
        if staged or uploads:
            sizes = {name: whole.size for name, whole in uploads.items()}
            files = {**files, **{name: unnamed[where] for name, where in staged.items()}, **sizes}
            if not target.insert_only:
                files.setdefault(ACID_VERSION_FILE, len(ACID_VERSION))
        _check_files(written, files, f"{staging}/{_DATA}/{prefix}", plain=target.insert_only or target.plain)
        directories.append(
            ManifestDirectory(
                written.partition, written.values, place, written.name, tuple(sorted(files.items())), staged, uploads
            )
        )
    if listed:
        extra = sorted(f"{directory}/{file}" for directory, files in listed.items() for file in files)
        raise PublishError(
            f"job {result.job_id} on {target.table} left {len(extra)} files in {staging} that it did not report, "
            f"the first is {extra[0]}; nothing was published"
        )
    return Manifest(target.table, result.job_id, tuple(directories))


def _uploads(
    filesystem: Filesystem, written: WrittenDirectory, target: Target, told: Uploads | None
) -> dict[str, WholeUpload]:
    """The uploads that a directory's files are made of, as the store has them."""
    place = target.place_of(written.partition)
    uri = f"{place}/{written.name}"
    reported = {file.name: Upload(f"{uri}/{file.name}", file.upload) for file in written.files if file.upload}
    where = target.place_by_name(written.partition) if told is None else told.place_of(written.partition)
    if reported and place != where:
        moved = f"its files were uploaded to {where}" if where else "the job was not to upload its files"
        kind = PublishInterruptedError if where else PublishError
        raise kind(
            f"partition {written.partition} of {target.table} lies at {place}, and {moved}; nothing was published, "
            "run the statement again"
        )
    return look_at_all(filesystem, reported, target.table)


def _take_unnamed(listed: dict[str, dict[str, int]]) -> dict[str, int]:
    """Take out of a listing what tasks have written: files without their names, and what failed tasks left.

    :return: size of each such file, by where it lies below staging.
    """
    found: dict[str, int] = {}
    for place in [place for place in listed if place.startswith(_BESIDE)]:
        where = place.removeprefix(_BESIDE)
        if "/" in where:
            found[where] = next(iter(listed.pop(place).values()))
    return found


def publish(filesystem: Filesystem, staging: str, manifest: Manifest, location: str) -> None:
    """Rename every directory of a manifest to its place and remove the staging directory.

    What it replaces makes way first: bases of an INSERT OVERWRITE after which there is another.

    :param location: URI of the table directory; nothing outside it is removed.
    :raises PublishInterruptedError: when there is something in a place already, or staging is gone (fenced). What was
        renamed before stays: its write id will be aborted and cleaned.
    """
    make_places(filesystem, {d.place for d in manifest.directories}, manifest.table, location)

    numbers = {uri: number for number, uri in enumerate(manifest.replaces)}
    if numbers:
        filesystem.make_directory(f"{staging}/{_REPLACED}")

    def move(directory: ManifestDirectory) -> None:
        partition = f"{directory.partition}/" if directory.partition else ""
        try:
            if directory.uri in numbers:
                filesystem.rename_directory(directory.uri, f"{staging}/{_REPLACED}/{numbers[directory.uri]}")
            if directory.staged or directory.uploads:
                _name_files(filesystem, staging, directory, manifest.table)
                return
            filesystem.rename_directory(f"{staging}/{_DATA}/{partition}{directory.name}", directory.uri)
        except FileExistsError:
            raise PublishInterruptedError(
                f"{directory.uri} exists already: another attempt of this statement published it; "
                f"abort the txn of job {manifest.job_id} and run the statement again"
            ) from None
        except (FileNotFoundError, NotADirectoryError):
            raise _gone(staging, manifest.job_id) from None

    if any((directory.staged or directory.uploads) and _has_version(directory) for directory in manifest.directories):
        # Before any file gets its name: who is fenced before this finds none to name, and after it no version.
        filesystem.write_text(f"{staging}/{ACID_VERSION_FILE}", ACID_VERSION)
    in_threads(move, manifest.directories, "publish")
    if any(directory.uploads for directory in manifest.directories):
        # Of attempts of tasks that do not count.
        names = {directory.name for directory in manifest.directories}
        places = {directory.place for directory in manifest.directories if directory.uploads}
        abort_left(filesystem, location, lambda found: found.name in names, places)
    filesystem.delete(staging, inside=location)


def _gone(staging: str, job_id: str) -> PublishInterruptedError:
    return PublishInterruptedError(
        f"{staging} is gone: job {job_id} was fenced because its txn was given up; run the statement again"
    )


def _name_files(filesystem: Filesystem, staging: str, directory: ManifestDirectory, table: str) -> None:
    """Give the files of a directory their names and its place."""
    filesystem.gather(_sources(staging, directory), directory.uri)
    complete_all(filesystem, directory.uploads.values(), table)
    if _has_version(directory):
        # R4: out of staging, which a fence removes. Nothing stops who writes it anew, whenever he wakes up, and a base
        # with this file alone would hide all rows before it.
        filesystem.copy_file(f"{staging}/{ACID_VERSION_FILE}", f"{directory.uri}/{ACID_VERSION_FILE}")


def _has_version(directory: ManifestDirectory) -> bool:
    return any(name == ACID_VERSION_FILE for name, _ in directory.files)


def _sources(staging: str, directory: ManifestDirectory) -> dict[str, str]:
    """Where the data files of a directory lie in staging, by their names."""
    partition = f"{directory.partition}/" if directory.partition else ""
    named = f"{_DATA}/{partition}{directory.name}"
    return {
        name: f"{staging}/{directory.staged.get(name, f'{named}/{name}')}"
        for name, _ in directory.files
        if name != ACID_VERSION_FILE and name not in directory.uploads
    }


def make_places(filesystem: Filesystem, places: Iterable[str], table: str, location: str) -> None:
    """Make the directories of a table's partitions.

    One that lies elsewhere was made with the partition. When it is not there its disk is away, and what was made in a
    mount point would be hidden by the mount (R17).

    :raises WarehouseMissingError: naming the directory.
    """
    wanted, home = sorted(set(places)), location.rstrip("/")
    for place in wanted:
        inside = f"{place}/".startswith(f"{home}/") or paths.is_inside(location, place)
        if not inside and filesystem.can_fence(place) and not filesystem.exists(place):
            raise WarehouseMissingError(
                f"the directory {place} of a partition of {table} is not there. Is its disk mounted here? It was not "
                "made anew, and nothing was published; mount it, or make the directory, and try again"
            )
    in_threads(filesystem.make_directory, wanted, "publish")


def add_to_published(filesystem: Filesystem, staging: str, manifest: Manifest, location: str) -> None:
    """Move the files of a manifest into directories that this transaction has published already.

    :raises PublishInterruptedError: when a name is taken, or staging is gone (fenced).
    """
    for directory in manifest.directories:
        try:
            for name, source in _sources(staging, directory).items():
                filesystem.rename(source, f"{directory.uri}/{name}")
        except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise PublishInterruptedError(
                f"{error}: job {manifest.job_id} cannot add to {directory.uri}, because its txn was given up or "
                "another attempt was faster; run the transaction again"
            ) from None
    filesystem.delete(staging, inside=location)


def check_published(filesystem: Filesystem, target: Target, manifests: Iterable[Manifest]) -> dict[str, int]:
    """Compare the directories of a write id with the manifests of the jobs that count (R5).

    Looks where a job of this txn has published; that is where another attempt of one of them would have.

    :return: bases of later write ids that lie there, by URI: committed, they hide what is published.
    :raises PublishInterruptedError: for a directory or file too many, missing, or of another size.
    """
    everything = [d for m in manifests for d in m.directories]
    # Several jobs may have put files into one base of their txn.
    expected: dict[str, dict[str, int]] = {}
    for written in everything:
        expected.setdefault(written.uri, {}).update(written.files)
    places = {d.place for d in everything}
    if not target.partition_columns:
        places.add(target.place_of(""))
    later: dict[str, int] = {}
    for place, entries in list_many(filesystem, sorted(places), recursive=False).items():
        for entry in entries or ():
            directory = parse_directory(entry.name)
            if directory is not None and _is_later_base(directory, target):
                later[f"{place}/{entry.name}"] = directory.max_write_id
            if directory is not None and target.owns(directory) and f"{place}/{entry.name}" not in expected:
                raise PublishInterruptedError(
                    f"{entry.path} belongs to write id {target.write_id} of {target.table} and to no job that counts: "
                    "another attempt wrote it. The txn is not committed; run it again"
                )
    for uri, entries in list_many(filesystem, expected).items():
        if entries is None:
            raise PublishInterruptedError(f"{uri} was published and is gone; the txn is not committed, run it again")
        found = tuple((e.relative, e.size) for e in entries if not e.is_dir and not _is_checksum(e.name))
        if found != tuple(sorted(expected[uri].items())):
            raise PublishInterruptedError(
                f"{uri} holds {len(found)} files with {sum(s for _, s in found)} bytes, not the "
                f"{len(expected[uri])} with {sum(expected[uri].values())} that were published; "
                "the txn is not committed, run it again"
            )
    return later


def _is_later_base(directory: AcidDirectory, target: Target) -> bool:
    """Whether a writer has left a base above what a target publishes; a compaction's ends below what is open."""
    is_base = directory.kind is DirectoryKind.BASE and not directory.visibility_txn_id
    return is_base and not target.visibility_txn_id and directory.max_write_id > target.write_id


def new_partitions(target: Target, manifests: Iterable[Manifest]) -> dict[str, tuple[str, ...]]:
    """Partitions that the catalog did not know, with their values, in order of their names."""
    found = {d.partition: d.values for m in manifests for d in m.directories if d.partition not in target.partitions}
    found.pop("", None)
    return dict(sorted(found.items()))


def staged_files(filesystem: Filesystem, staging: str) -> dict[str, dict[str, int]]:
    """Sizes by file name by directory, the directory relative to ``data``."""
    try:
        entries = filesystem.list_files(staging, recursive=True)
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        raise PublishInterruptedError(
            f"{staging} is a file: this attempt was fenced because its txn was given up; run the statement again"
        ) from None
    files: dict[str, dict[str, int]] = defaultdict(dict)
    for entry in entries:
        if entry.is_dir or _is_checksum(entry.name):
            continue
        head, _, rest = entry.relative.partition("/")
        directory, _, name = rest.rpartition("/")
        # A file beside data/ belongs to no directory; it stays under its full path and so is one too many.
        files[directory if head == _DATA else f"{_BESIDE}{entry.relative}"][name] = entry.size
    return files


def _check_name(written: WrittenDirectory, target: Target) -> None:
    """Refuse a directory whose name or partition is not the step's."""
    problem = _name_problem(written.name, target) or partition_problem(written, target)
    where = f"{written.partition}/{written.name}" if written.partition else written.name
    if problem is not None:
        raise PublishError(
            f"the job reported the directory {where} for {target.table}: {problem}; nothing was published"
        )
    place = target.place_of(written.partition)
    paths.require_inside(place, f"{place}/{written.name}")


def _name_problem(name: str, target: Target) -> str | None:
    if target.plain:
        return None if name == PLAIN_FILES else f"files of a plain table are staged below {PLAIN_FILES}"
    directory = parse_directory(name)
    if directory is None or directory.name != name or not target.owns(directory):
        return f"its name does not carry write id {target.write_id}"
    # The base of an INSERT OVERWRITE carries no statement id.
    of_a_statement = directory.kind is not DirectoryKind.BASE and target.statement_ids
    if of_a_statement and directory.statement_id not in target.statement_ids:
        return f"its statement id is none of {list(target.statement_ids)}"
    return None


def partition_problem(written: WrittenDirectory, target: Target) -> str | None:
    if not target.partition_columns:
        return "the table has no partitions" if written.partition or written.values else None
    if len(written.values) != len(target.partition_columns):
        return f"the table has {len(target.partition_columns)} partition columns, it names {len(written.values)} values"
    expected = partition_name(zip(target.partition_columns, written.values, strict=True))
    return None if expected == written.partition else f"its values make the partition {expected}"


def _check_files(written: WrittenDirectory, files: Mapping[str, int], where: str, *, plain: bool) -> None:
    reported = {f.name: f.bytes for f in written.files}
    found = {name: size for name, size in files.items() if name != ACID_VERSION_FILE}
    if found != reported:
        differing = sorted({n for n in found.keys() | reported.keys() if found.get(n) != reported.get(n)})
        first = differing[0]
        raise PublishError(
            f"{where}/{first}: the job reported {_size(reported, first)}, the listing says {_size(found, first)}; "
            "nothing was published"
        )
    if len(reported) != len(written.files):
        raise PublishError(f"{where}: the job reported a file twice; nothing was published")
    if set(found) == {METADATA_FILE}:
        return  # the base of a TRUNCATE, which holds nothing else
    if not plain and ACID_VERSION_FILE not in files:
        raise PublishError(f"{where} has no {ACID_VERSION_FILE}, without which Hive would not read it as we wrote it")
    for name in found:
        if (parse_original_file(name) if plain else parse_bucket_file(name)) is None:
            kind = "named like a file of an insert-only table (000000_0)" if plain else "a bucket file"
            raise PublishError(f"{where}/{name} is not {kind}; Hive would not read it. Nothing was published")


def _size(files: Mapping[str, int], name: str) -> str:
    return f"{files[name]} bytes" if name in files else "no such file"


def _is_checksum(name: str) -> bool:
    """Hadoop's local file system leaves ``.name.crc`` beside each file; every reader skips them."""
    return name.startswith(".") and name.endswith(".crc")
