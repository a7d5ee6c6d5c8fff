"""Dumps: what EXPORT leaves and IMPORT takes: the metadata document, the files with their checksums, the state id.

``_metadata`` is the document of Hive's EximUtil (version, replication scope and state, Thrift's JSON of the table and
its partitions); files lie in ``data/`` or a directory named like their partition, as Hive's do. Two files are ours:
``_file_list`` with length and checksum of every file, and ``_COMPLETE``, written last, which says what the other two
must be: without it a dump is truncated. Nothing a dump says is believed before it was checked: every path is a name
below the dump, and below the table.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from airflow_hive_acid.errors import CorruptDumpError, HiveAcidError, InvalidArgumentsError, UnsafePathError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import IMPORT_PREFIX, STAGING_PREFIX
from airflow_hive_acid.metastore.catalog import parse_partition, parse_table, partition_text, table_text
from airflow_hive_acid.metastore.names import TableName, table_name
from airflow_hive_acid.metastore.records import StreamMark
from airflow_hive_acid.replication.dumps.state_ids import STATE_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore.catalog import Table, WholePartition

METADATA, FILE_LIST, COMPLETE, DATA = "_metadata", "_file_list", "_COMPLETE", "data"
METADATA_VERSION = "0.2"
ACID_METADATA_VERSION = "1.0"
"""Of a dump with bases and deltas. Hive's IMPORT would put them below a delta of its own, where it reads nothing; of a
later major version it says "Not forward compatible" (EximUtil.checkCompatibility) and changes nothing."""
_READABLE = ("0.1", METADATA_VERSION, ACID_METADATA_VERSION)
_FORMAT = 1
_LONGEST_SOURCE = 128
"""Characters of what tells one checkpoint from another (HSR_SOURCE)."""
_WHOLE, _SHARED, _STREAMS = "hive.acid.whole.table", "hive.acid.shared.columns", "hive.acid.streams"


class Scope(Enum):
    """What a dump is for; the value is Hive's ``repl.scope``."""

    NONE = "none"
    ALL = "all"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class DumpFile:
    """A data file.

    :param partition: whose it is; empty in an unpartitioned table.
    :param path: below the directory of the table or partition, with ``/`` between parts.
    :param size: bytes.
    :param checksum: ``sha256:`` and 64 hex digits; None until it is copied.
    :param source: URI, when it does not lie in the dump itself.
    :param beginning: the source may go on behind ``size``: it is written by a transaction batch.
    """

    partition: str
    path: str
    size: int
    checksum: str | None = None
    source: str | None = None
    beginning: bool = False

    @property
    def place(self) -> str:
        """Where it lies below the dump."""
        return f"{self.partition or DATA}/{self.path}"


@dataclass(frozen=True, slots=True)
class Dump:
    """What an export says.

    :param table: None when the object did not exist any more (Hive's ``repl.noop``).
    :param state_id: event id of the source when the export was made; None outside of replication.
    :param event_id: of the event that asked for it, or any comment.
    :param whole_table: the table and all its partitions, not some partitions only.
    :param shared_columns: every partition has the columns of its table.
    :param write_ids: text of the ValidWriteIdList under which the files of an ACID table were listed; ids that were
        open are aborted in it: what they write later is not in this dump.
    :param missing: partitions that were asked for and do not exist any more.
    :param streams: of a whole ACID table, the micro-batches whose rows are in the dump.
    """

    table: Table | None
    scope: Scope = Scope.NONE
    state_id: int | None = None
    event_id: str | None = None
    partitions: tuple[WholePartition, ...] = ()
    whole_table: bool = True
    shared_columns: bool = False
    files: tuple[DumpFile, ...] = ()
    write_ids: str | None = None
    missing: tuple[str, ...] = ()
    streams: tuple[StreamMark, ...] = ()

    @property
    def is_noop(self) -> bool:
        """Whether there was nothing to export."""
        return self.table is None or (not self.whole_table and not self.partitions)

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.size for file in self.files)

    @property
    def name(self) -> TableName | None:
        """The table's name at the source."""
        return None if self.table is None else TableName(self.table.db, self.table.name)


def metadata_text(dump: Dump) -> str:
    """``_metadata`` of a dump."""
    document: dict[str, Any] = {"version": METADATA_VERSION if dump.write_ids is None else ACID_METADATA_VERSION}
    if dump.scope is not Scope.NONE:
        document |= {
            "repl.scope": dump.scope.value, "repl.event.id": dump.event_id or "", STATE_ID: str(dump.state_id),
            "repl.noop": "true" if dump.is_noop else "false",
        }  # fmt: skip
    if dump.write_ids is not None:
        document["repl.valid.writeid.list"] = dump.write_ids
    document |= {_WHOLE: str(dump.whole_table).lower(), _SHARED: str(dump.shared_columns).lower()}
    if dump.streams:
        document[_STREAMS] = [asdict(mark) for mark in dump.streams]
    if dump.table is not None:
        document["table"] = table_text(dump.table)
        document["partitions"] = [partition_text(partition) for partition in dump.partitions]
    return json.dumps(document, ensure_ascii=False, indent=1)


def parse_metadata(text: str) -> Dump:
    """The dump that ``_metadata`` describes, without its files; also one that a Hive has written.

    :raises CorruptDumpError: naming what is missing or cannot be.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptDumpError(f"{METADATA} is no JSON ({error}); export again") from None
    if not isinstance(document, dict) or document.get("version") not in _READABLE:
        version = document.get("version") if isinstance(document, dict) else None
        raise CorruptDumpError(f"{METADATA} is of version {version!r}; {', '.join(_READABLE)} can be read")
    try:
        scope = Scope(document.get("repl.scope") or "none")
        state = document.get(STATE_ID)
        table = parse_table(document["table"]) if "table" in document else None
        listed = document.get("partitions") or []
        listed = json.loads(listed) if isinstance(listed, str) else listed
        partitions = () if table is None else tuple(parse_partition(p, table.partition_columns) for p in listed)
        dump = Dump(
            table=table, scope=scope, state_id=None if scope is Scope.NONE else int(str(state)),
            event_id=document.get("repl.event.id") or None, partitions=partitions,
            whole_table=document.get(_WHOLE, "true") == "true", shared_columns=document.get(_SHARED) == "true",
            write_ids=document.get("repl.valid.writeid.list"),
            streams=tuple(_mark(entry) for entry in document.get(_STREAMS, ())),
        )  # fmt: skip
    except (
        InvalidArgumentsError, KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        raise CorruptDumpError(f"{METADATA} cannot be read: {type(error).__name__}: {error}; export again") from None
    _check_texts(dump)
    if table is None and document.get("repl.noop") != "true":
        raise CorruptDumpError(f"{METADATA} holds no table; export again")
    if table is not None:
        _check_names(dump, table)
    return dump


def _mark(entry: dict[str, Any]) -> StreamMark:
    """How far a stream has come, as the dump says."""
    texts = [entry["name"], entry["source"], entry["who"], *([] if entry["offsets"] is None else [entry["offsets"]])]
    numbers = [entry["batch"], entry["batches"], entry["rows"], entry["quarantined"]]
    numbers += [] if entry["write_id"] is None else [entry["write_id"]]
    fits = all(isinstance(text, str) for text in texts) and len(entry["source"]) <= _LONGEST_SOURCE
    if not fits or not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        raise ValueError(f"{entry!r:.200} says of no stream how far it has come")
    if entry["offsets"] is not None and not isinstance(json.loads(entry["offsets"]), dict):
        raise ValueError(f"{entry['offsets']!r:.200} says of no sources how far they were read")
    return StreamMark(**entry)


def _check_texts(dump: Dump) -> None:
    """What must be text is text."""
    for what, value in (("repl.event.id", dump.event_id), ("repl.valid.writeid.list", dump.write_ids)):
        if value is not None and not isinstance(value, str):
            raise CorruptDumpError(f"{METADATA}: {what} must be text, not {value!r:.100}; export again")


def _check_names(dump: Dump, table: Table) -> None:
    try:
        name = table_name(f"{table.db}.{table.name}")
    except HiveAcidError as error:
        raise CorruptDumpError(f"{METADATA} names a table that cannot be: {error}") from None
    if tuple(name) != (table.db, table.name):
        raise CorruptDumpError(f"{METADATA} names the table {table.db}.{table.name}; names are lower-case")
    for part, count in Counter(partition.name for partition in dump.partitions).items():
        if count > 1:
            raise CorruptDumpError(f"{METADATA} names the partition {part} twice")
        require_name(part)


def file_list_text(files: Iterable[DumpFile]) -> str:
    """``_file_list``: a JSON document per line and file."""
    return "".join(
        json.dumps({"partition": f.partition, "path": f.path, "size": f.size, "checksum": f.checksum}) + "\n"
        for f in files
    )


def parse_file_list(text: str) -> tuple[DumpFile, ...]:
    """The files of ``_file_list``.

    :raises CorruptDumpError: naming the line.
    """
    files = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            entry = json.loads(line)
            file = DumpFile(str(entry["partition"]), str(entry["path"]), int(entry["size"]), entry["checksum"])
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise CorruptDumpError(f"line {number} of {FILE_LIST} cannot be read: {error}") from None
        if file.size < 0 or not (isinstance(file.checksum, str) and file.checksum.startswith("sha256:")):
            raise CorruptDumpError(f"line {number} of {FILE_LIST} has no size and checksum of {file.path}")
        files.append(file)
    return tuple(files)


def check_files(dump: Dump) -> None:
    """Refuse files that are not below the directory of their table or partition, or that nobody would read.

    :raises UnsafePathError: for a path that leads elsewhere.
    :raises CorruptDumpError: for a file of a partition that is not in the dump, or one that is named twice.
    """
    partitioned = dump.table is not None and bool(dump.table.partition_columns)
    known = {partition.name for partition in dump.partitions} if partitioned else {""}
    seen: set[str] = set()
    for file in dump.files:
        require_name(file.path)
        if file.path.startswith((STAGING_PREFIX, IMPORT_PREFIX)):
            raise UnsafePathError(f"the dump wants a file {file.path!r} where jobs stage theirs")
        if file.partition not in known:
            raise CorruptDumpError(f"file {file.path} belongs to the partition {file.partition!r}, which is not there")
        if file.place in seen:
            raise CorruptDumpError(f"{file.place} is in the list of files twice")
        seen.add(file.place)


def require_name(path: str) -> None:
    """Refuse what is no plain path below a directory: absolute, leading upwards, also in escaped spellings.

    :raises UnsafePathError: naming the path.
    """
    segments = path.split("/")
    # Hadoop has no names with a colon, and partition names escape it: it could only be a scheme.
    bad = not path or any(ord(c) < 0x20 or c in "\\:\x7f" for c in path)
    dots = (decoded for segment in segments for decoded in unquote(segment).split("/"))
    if bad or "" in segments or any(part in (".", "..") for part in dots):
        raise UnsafePathError(f"the dump holds the path {path!r}, which is no name below a directory; nothing was done")
    if paths.relative_to("/d", f"/d/{path}") != path:
        raise UnsafePathError(f"the dump holds the path {path!r}, which leads elsewhere; nothing was done")


@dataclass(frozen=True, slots=True)
class Mark:
    """What ``_COMPLETE`` says: checksums of the two documents, number and size of the files."""

    metadata: str
    file_list: str
    files: int
    bytes: int
    format: int = _FORMAT
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, metadata: str, files: str, dump: Dump, once: str | None = None) -> Mark:
        """The mark of documents that were just written.

        :param once: what the tries of the task have in common that has written them.
        """
        about = {"table": str(dump.name), "state_id": dump.state_id, "scope": dump.scope.value}
        if once is not None:
            about["once"] = once
        return cls(digest(metadata), digest(files), len(dump.files), dump.bytes, about=about)

    def text(self) -> str:
        """As JSON."""
        return json.dumps({
            "format": self.format, "metadata": self.metadata, "file_list": self.file_list, "files": self.files,
            "bytes": self.bytes, **self.about,
        })  # fmt: skip


def digest(text: str) -> str:
    """The checksum of a document."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def write_documents(filesystem: Filesystem, uri: str, dump: Dump, once: str | None = None) -> None:
    """Write the documents of a dump whose files are there; the mark last.

    :param once: what the tries of one task have in common, if it is one that is tried again (R14).
    """
    metadata, files = metadata_text(dump), file_list_text(dump.files)
    filesystem.write_text(f"{uri}/{METADATA}", metadata)
    filesystem.write_text(f"{uri}/{FILE_LIST}", files)
    filesystem.write_text(f"{uri}/{COMPLETE}", Mark.of(metadata, files, dump, once).text())


def read_dump(filesystem: Filesystem, uri: str, *, unmarked: bool = False) -> Dump:
    """Read and check a dump; its files are compared with a listing, their checksums when they are copied.

    :param unmarked: take one without our two files, as a Hive's EXPORT leaves it; then nobody can tell whether it is
        complete.
    :raises CorruptDumpError: when it is truncated or was changed.
    :raises UnsafePathError: when it names a path outside of itself.
    """
    uri = uri.rstrip("/")
    mark = _text(filesystem, f"{uri}/{COMPLETE}")
    metadata = _text(filesystem, f"{uri}/{METADATA}")
    if mark is None and not (unmarked and metadata is not None):
        what = "no dump" if metadata is None else "truncated: its export has not ended, or was not one of ours"
        raise CorruptDumpError(
            f"{uri} is {what} ({COMPLETE} is missing); export again"
            + ("" if metadata is None else ", or say that it is whole (unmarked) if a Hive has written it")
        )
    if metadata is None:
        raise CorruptDumpError(f"{uri}/{METADATA} is missing; export again")
    dump = parse_metadata(metadata)
    if mark is None:
        dump = replace(dump, files=_listed_files(filesystem, uri, dump))
    else:
        files = _text(filesystem, f"{uri}/{FILE_LIST}")
        dump = replace(dump, files=_checked_files(uri, mark, metadata, files))
    check_files(dump)
    _check_listing(filesystem, uri, dump)
    return replace(dump, files=tuple(replace(f, source=f"{uri}/{f.place}") for f in dump.files))


def _checked_files(uri: str, mark: str, metadata: str, files: str | None) -> tuple[DumpFile, ...]:
    try:
        says = json.loads(mark)
        expected = (says["metadata"], says["file_list"], says["files"], says["bytes"])
        known = says["format"] == _FORMAT
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CorruptDumpError(f"{uri}/{COMPLETE} cannot be read ({error}); export again") from None
    if not known:
        raise CorruptDumpError(f"{uri} is a dump of format {says['format']!r}; this release reads {_FORMAT}")
    if files is None or digest(metadata) != expected[0] or digest(files) != expected[1]:
        raise CorruptDumpError(
            f"{uri}: {METADATA} and {FILE_LIST} are not what {COMPLETE} says: they were changed, or copied in part; "
            "copy the dump again"
        )
    listed = parse_file_list(files)
    if (len(listed), sum(f.size for f in listed)) != expected[2:]:
        raise CorruptDumpError(f"{uri}/{FILE_LIST} does not hold the {expected[2]} files that {COMPLETE} counts")
    return listed


def _listed_files(filesystem: Filesystem, uri: str, dump: Dump) -> tuple[DumpFile, ...]:
    """The data files of a dump that has no list."""
    if dump.table is None or dump.scope is Scope.METADATA:
        return ()
    owners = [p.name for p in dump.partitions] if dump.table.partition_columns else [""]
    found = []
    for owner in owners:
        try:
            entries = filesystem.list_files(f"{uri}/{owner or DATA}", recursive=True)
        except FileNotFoundError:
            continue
        found += [DumpFile(owner, e.relative, e.size) for e in entries if not e.is_dir]
    return tuple(found)


def _check_listing(filesystem: Filesystem, uri: str, dump: Dump) -> None:
    if not dump.files:
        return
    # Listings do not follow links: what lies behind one is not in them.
    there = {e.relative: e.size for e in filesystem.list_files(uri, recursive=True) if not e.is_dir}
    for file in dump.files:
        if file.place not in there:
            raise CorruptDumpError(f"{uri}/{file.place} is missing, or behind a link; copy the dump again")
        if there[file.place] != file.size:
            raise CorruptDumpError(
                f"{uri}/{file.place} has {there[file.place]} bytes instead of {file.size}; copy the dump again"
            )


def _text(filesystem: Filesystem, uri: str) -> str | None:
    try:
        return filesystem.read_text(uri)
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CorruptDumpError(f"{uri} is no text ({error}); copy the dump again") from None
