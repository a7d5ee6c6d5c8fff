"""What strangers can write, one target for each: files, rows, messages, names, fields of a form."""

from __future__ import annotations

import json
import struct
import tempfile
import zlib
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import cramjam

from airflow_hive_acid.engine.applications.spool import error_of
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.format import names, orc_tail, partitions
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.jobs.documents import result_from_json, spec_from_json, to_json
from airflow_hive_acid.format.orc_tail import EventCounts, damage_in, event_counts
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.hooks.connection import read_connection
from airflow_hive_acid.hooks.transactions import read_transaction
from airflow_hive_acid.maintenance.doctor.codecs import unpack
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.cache.events import OpenWrites, fold
from airflow_hive_acid.metastore.catalog.thrift.parser import parse_database, parse_partition, parse_table
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.urls import normalize_url, safe_url
from airflow_hive_acid.metastore.locks.interface import LockComponent, LockType, Operation
from airflow_hive_acid.metastore.names.objects import canonical_partition
from airflow_hive_acid.metastore.notifications.log import LoggedEvent
from airflow_hive_acid.plugins import cursors
from airflow_hive_acid.replication.dumps import dump
from airflow_hive_acid.replication.dumps.open_files import settled
from airflow_hive_acid.replication.events.decoder import decode_event
from airflow_hive_acid.replication.events.segments import Segment, decode_segment
from airflow_hive_acid.replication.policies.policy import read_policies
from airflow_hive_acid.spark.jobs.spool import unreadable
from airflow_hive_acid.sql.parsing.parser import parse_script

from . import seeds
from .fuzzing import Target
from .mutate import mutate_bytes, mutate_fields, mutate_json, mutate_text

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_NAME = 8_192
_LONGEST_WORDS = 1_000
_BATCH = "delta_0000001_0000002/bucket_00000"


def spec_documents(text: str) -> None:
    """A driver reads what somebody put into its spool; what cannot be read is answered."""
    try:
        spec = spec_from_json(text)
    except ValueError as error:
        to_json(unreadable(text, error, "app-1")).encode()
        return
    again = to_json(spec)
    again.encode()
    assert to_json(spec_from_json(again)) == again


def result_documents(text: str) -> None:
    """The control plane reads what a job, which runs users' code, says it did."""
    result = result_from_json(text)
    again = to_json(result)
    again.encode()
    assert result_from_json(again) == result
    if result.error is not None:
        assert isinstance(error_of(result.error), HiveAcidError)


def orc_tails(tail: bytes) -> None:
    """The control plane reads the footers of files that anybody may have left in a table."""
    assert len(damage_in(tail, len(tail), unpack) or "") < _LONGEST_WORDS
    found = event_counts(tail, unpack)
    assert found is None or (isinstance(found, EventCounts) and all(0 <= n < 1 << 63 for n in found))


_PACKERS: list[tuple[int, Callable[[bytes], bytes]]] = [
    (orc_tail.ZLIB, lambda text: zlib.compress(text)[2:-4]),
    (orc_tail.SNAPPY, lambda text: bytes(cramjam.snappy.compress_raw(text))),
    (orc_tail.LZ4, lambda text: bytes(cramjam.lz4.compress_block(text, store_size=False))),
    (orc_tail.ZSTD, lambda text: bytes(cramjam.zstd.compress(text))),
]


def _mutate_tail(rng: Any, good: bytes) -> bytes:
    """The file's bytes, or its footer: unpacked, changed, now and then much longer, and packed by one of the codecs."""
    if rng.randrange(4) == 0:
        return mutate_bytes(rng, good)
    footer = mutate_bytes(rng, orc_tail._footer(good, unpack))
    if rng.randrange(8) == 0:
        footer *= 1 + (rng.randrange(16) << 20) // (len(footer) or 1)
    codec, pack = rng.choice(_PACKERS)
    chunk = pack(footer)
    if rng.randrange(4) == 0:
        chunk = mutate_bytes(rng, chunk)
    stored = (len(chunk) << 1).to_bytes(3, "little") + chunk
    size = len(stored)
    length = bytes([(size & 127) | 128, (size >> 7 & 127) | 128, size >> 14 & 127])
    postscript = b"\x08" + length + bytes((0x10, codec)) + b"\x82\xf4\x03\x03ORC"
    return stored + postscript + bytes([len(postscript)])


class _Batch:
    """A directory with a file that a batch writes, and its side file."""

    def __init__(self, side: bytes) -> None:
        self._side = side

    def read_range(self, _: str, offset: int, length: int) -> bytes:
        return self._side[offset : offset + length]

    def list_files(self, _: str) -> list[Any]:
        return [SimpleNamespace(name="bucket_00000", size=1_000)]


def flush_lengths(side: bytes) -> None:
    """How much of an open file counts: the last whole number, if the file has as much."""
    directory: Any = _Batch(side)
    listing = [FileEntry(_BATCH, 1_000), FileEntry(_BATCH + names.FLUSH_LENGTH_SUFFIX, len(side))]
    found, cut = settled(directory, "file:/t", listing, ValidWriteIdList(2, frozenset({2})))
    whole = len(side) // 8 * 8
    last = struct.unpack(">q", side[whole - 8 : whole])[0] if whole else 0
    assert 0 <= last <= 1_000
    assert found == ([FileEntry(_BATCH, last)] if last else [])
    assert cut == (frozenset({_BATCH}) if last else frozenset())


def _mutate_event(rng: Any, good: tuple[str, ...]) -> tuple[str, ...]:
    if rng.randrange(4) == 0:
        return mutate_fields(rng, good)
    if good[4].startswith("gzip"):
        return (*good[:3], mutate_text(rng, good[3]), good[4])
    return (*good[:3], mutate_json(rng, good[3]), good[4])


def notification_messages(row: tuple[str, ...]) -> None:
    """A log is read whatever is in it: by replication, and by the cache."""
    # A database gives no halves of characters; those that a message escapes are there.
    kind, database, table, message, form = (text.encode("utf-8", "replace").decode() for text in row)
    logged = LoggedEvent(5, 0, kind, "hive", database, table, message, form)
    event = decode_event(logged)
    str(event).encode()
    changes = fold([logged], OpenWrites())
    for key, touch in changes.tables.items():
        assert isinstance(key.database, str)
        assert touch.last == 5


def thrift_objects(text: str) -> None:
    """Objects in messages and dumps."""
    kinds = (parse_database, parse_table, lambda t: parse_partition(t, ()))
    errors = []
    for read in kinds:
        try:
            str(read(text))  # type: ignore[operator]
        except HiveAcidError as error:
            errors.append(error)
    if len(errors) == len(kinds):
        raise errors[0]


class _Dump:
    """A dump whose mark fits its documents, and whose files are there."""

    def __init__(self, metadata: str, files: str) -> None:
        mark = dump.Mark(dump.digest(metadata), dump.digest(files), files.count("\n"), 0).text()
        self._texts = {dump.METADATA: metadata, dump.FILE_LIST: files, dump.COMPLETE: mark}
        self._files = files
        self._fit()

    def _fit(self) -> None:
        """What the mark counts is what the list holds, if it can be read."""
        try:
            listed = dump.parse_file_list(self._files)
        except HiveAcidError:
            listed = ()
        self._listed = [SimpleNamespace(relative=f.place, size=f.size, is_dir=False) for f in listed]
        said = json.loads(self._texts[dump.COMPLETE])
        said |= {"files": len(listed), "bytes": sum(f.size for f in listed)}
        self._texts[dump.COMPLETE] = json.dumps(said)

    def read_text(self, uri: str) -> str:
        return self._texts[uri.rpartition("/")[2]]

    def list_files(self, _: str, *, recursive: bool = False) -> list[Any]:
        assert recursive
        return self._listed


def _mutate_dump(rng: Any, good: tuple[str, ...]) -> tuple[str, ...]:
    if rng.randrange(2):
        return mutate_json(rng, good[0]), good[1]
    lines = good[1].splitlines()
    at = rng.randrange(len(lines))
    lines[at] = mutate_json(rng, lines[at])
    return good[0], "\n".join(lines) + "\n"


def dump_manifests(documents: tuple[str, ...]) -> None:
    """IMPORT and REPL LOAD read what lies in a directory; every file they take lies below it."""
    directory: Any = _Dump(*(text.encode("utf-8", "replace").decode() for text in documents))
    found = dump.read_dump(directory, "file:/d")
    if found.write_ids is not None:
        ValidWriteIdList.parse(found.write_ids)
    for file in found.files:
        assert file.source is not None
        assert file.source.startswith("file:/d/")
        assert ".." not in file.source.split("/")


def event_segments(content: bytes) -> None:
    """A copy of a log on a filesystem; its check sums are right, which anybody can see to."""
    lines = [line[9:] for line in content.split(b"\n")]
    right = b"".join(b"%08x %s\n" % (zlib.crc32(line), line) for line in lines if line)
    for text in (content, right):
        found = decode_segment(Segment(1, 8), text)
        assert [event.event_id for event in found] == list(range(1, len(found) + 1))
        for event in found:
            str(decode_event(event))


def listings(text: str) -> None:
    """A directory holds whatever anybody put there."""
    lines = text.split("\n")
    for line in lines:
        for segment in line.split("/"):
            directory = names.parse_directory(segment)
            if directory is not None:
                assert names.parse_directory(directory.name) == directory
            names.parse_bucket_file(segment)
            names.parse_original_file(segment)
    state = acid_state([FileEntry(line, 10) for line in lines], ValidWriteIdList(5), ValidTxnList(9))
    assert not {d.name for d in state.deltas} & {d.name for d in state.aborted}


def partition_names(name: str) -> None:
    """Names of partitions in statements, leases, listings and rows of other engines."""
    if len(name) > _LONGEST_NAME:
        name = name[:_LONGEST_NAME]  # a path or a column holds no more
    readings = partitions.readings(name)
    for reading in readings:
        assert partitions.partition_name(partitions.parse_partition_name(reading)) == reading
    partitions.may_be_same(name, partitions.from_lock_name(name))
    canonical = canonical_partition(name)
    assert canonical_partition(canonical) == canonical
    values = partitions.PartitionValues.of(name)
    assert partitions.PartitionValues.of(values.name) == values
    assert values.covers(values)
    assert partitions.from_lock_name(partitions.escaped_twice(canonical)) == canonical


def id_lists(text: str) -> None:
    """Snapshots in dumps, records and specs."""
    for kind in (ValidTxnList, ValidWriteIdList):
        found = kind.parse(text)
        assert str(kind.parse(str(found))) == str(found)


def connection_fields(fields: tuple[str, ...]) -> None:
    """A connection, as whoever may edit one fills it in; nothing is connected."""
    from airflow.sdk import Connection

    host, schema, login, password, extra = fields
    connection = Connection(
        conn_id="c", conn_type="hive_acid", host=host, schema=schema, login=login, password=password, extra=extra
    )
    found = read_connection(connection)
    url = normalize_url(found.metastore_url)
    if len(password) > 6 and password.isalnum() and password not in f"{host}{schema}{login}{extra}":
        assert password not in safe_url(url)


def metastore_urls(url: str) -> None:
    """A URL on a command line or in a setting."""
    safe_url(normalize_url(url)).encode()


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def clean_up() -> None:
    """Remove what targets have made; a process that forks calls it in the child."""
    while _KEPT:
        _KEPT.pop().cleanup()


@cache
def _metastore() -> MetastoreClient:
    """A metastore of this process, in memory where there is such a place."""
    home = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a directory of our own is made in it
    directory = tempfile.TemporaryDirectory(prefix="fuzz-", dir=home)
    path = Path(directory.name, "metastore.db")
    _KEPT.append(directory)
    client = MetastoreClient(f"sqlite:///{path}")
    client.create_schema()
    client.catalog.create_database("default", "file:/w")
    return client


def metastore_names(fields: tuple[str, ...]) -> None:
    """Names of tables, partitions, columns, users and hosts on their way into a database, and back."""
    database, table, partition, user, host, reason, _ = fields
    client = _metastore()
    refused: list[HiveAcidError] = []

    def attempt(work: Any) -> Any:
        try:
            return work()
        except HiveAcidError as error:
            str(error).encode("utf-8", "backslashreplace")
            refused.append(error)
            return None

    txn = attempt(lambda: client.open_txn(user=user, host=host, agent_info=reason))
    if txn is not None:
        attempt(lambda: client.allocate_write_ids(f"{database}.{table}", txn))
        attempt(lambda: client.add_partitions(txn, f"{database}.{table}", [partition]))
        attempt(
            lambda: client.lock(
                LockComponent(database, table, partition, LockType.SHARED_READ, Operation.SELECT), txn_id=txn
            )
        )
        attempt(lambda: client.show_locks(f"{database}.{table}", partition))
        attempt(lambda: client.abort_txns([txn], reason))
    lease = attempt(lambda: client.leases.grab_lease(f"{database}.{table}", 60, user=user))
    if lease is not None:
        assert client.leases.list_lease(f"{database}.{table}")
        attempt(lambda: client.leases.force_drop_lease(f"{database}.{table}", host, reason))
    _catalog_names(client, attempt, fields)
    if refused:
        raise refused[0]


def _catalog_names(client: MetastoreClient, attempt: Any, fields: tuple[str, ...]) -> None:
    from airflow_hive_acid.format.jobs import Column

    database, table, partition, user, host, reason, column = fields
    attempt(lambda: client.catalog.create_database(database))
    definition = TableDefinition(
        database, table, (Column(column, host),), (Column("p", "string"),), {reason: user}, owner=user,
        comments={column: reason},
    )  # fmt: skip
    made = attempt(lambda: client.catalog.create_table(definition))
    if made is not None:
        name = f"{made.db}.{made.name}"
        assert client.catalog.get_table(name).name == made.name
        for added in attempt(lambda: client.catalog.add_partitions(name, [partition, {"p": host}])) or ():
            assert client.catalog.get_partition(name, added).name == added
        attempt(lambda: client.catalog.drop_table(name))


def page_cursors(text: str) -> None:
    """What a browser sends back."""
    for shape in ((int,), (str, int), (str, str, int)):
        try:
            found = cursors.decode(text, *shape)
        except HiveAcidError:
            continue
        assert cursors.decode(cursors.encode(found), *shape) == found


def transaction_documents(text: str) -> None:
    """What a template renders."""
    assert isinstance(read_transaction(text), int)


def policy_files(text: str) -> None:
    """A file of replication policies."""
    read_policies(text, "the file")


def sql_scripts(text: str) -> None:
    """What tasks run: parsed, or an error that says where."""
    parse_script(text)


def _cursor_seeds() -> list[str]:
    return [str(cursors.encode(key)) for key in ((1,), ("a", 2), ("db", "t", 3))]


def _connections() -> list[tuple[str, ...]]:
    extra = {"dialect": "postgresql", "warehouse": "/w", "hive.txn.timeout": "300s", "spark.master": "local[2]"}
    url = {"metastore_url": "mysql://u:p@h/db?charset=utf8mb4&ssl_ca=/ca", "warehouse": "s3a://b/w", "spool": "file:/s"}
    return [
        ("db.example.com", "metastore", "hive", "secretpw", json.dumps(extra)),
        ("/w/metastore.db", "", "", "", json.dumps({"warehouse": "file:///w"})),
        ("", "", "hive", "secretpw", json.dumps(url)),
    ]


def _mutate_connection(rng: Any, good: tuple[str, ...]) -> tuple[str, ...]:
    return (*good[:4], mutate_json(rng, good[4])) if rng.randrange(2) else mutate_fields(rng, good)


_URLS = [
    "sqlite:////w/metastore.db", "postgresql://u:p%40@h:5432/db?sslmode=require&options=-csearch_path%3Dx",
    "mysql+pymysql://u:p@[::1]:3306/db?charset=utf8mb4",
]  # fmt: skip
_NAMES = [
    ("db", "t", "p=1", "user", "host", "because", "a"),
    ("Default", "T_2", "p=a%2Fb", "u\u00e9", "int", "x" * 200, "Col"),
    ("default", "t", "p=__HIVE_DEFAULT_PARTITION__", "", "string", "", "order"),
]
_TRANSACTION = json.dumps({"version": 1, "txn_id": 7, "tables": {"db.t": "i"}, "write_ids": {"db.t": 1}})
_POLICIES = [
    json.dumps([{"name": "p", "source": "a", "target": "b", "databases": ["db"]}]),
    '[[policy]]\nname = "p"\nsource = "a"\ntarget = "b"\n',
]


def targets() -> list[Target[Any]]:
    """All of them."""
    documents = (
        HiveAcidError,
        ValueError,
    )  # as format/jobs/documents.py says; whoever calls it makes one of ours of it
    return [
        Target("spec documents", seeds.specs, mutate_json, spec_documents),
        Target("result documents", seeds.results, mutate_json, result_documents, documents),
        Target("ORC tails", seeds.orc_tails, _mutate_tail, orc_tails),
        Target("flush lengths", seeds.flush_lengths, mutate_bytes, flush_lengths),
        Target("notification messages", seeds.events, _mutate_event, notification_messages),
        Target("Thrift objects", seeds.thrift, mutate_json, thrift_objects),
        Target("dump manifests", seeds.dumps, _mutate_dump, dump_manifests),
        Target("event segments", seeds.segments, mutate_bytes, event_segments),
        Target("listings", seeds.listings, mutate_text, listings),
        Target("partition names", seeds.partitions, mutate_text, partition_names),
        Target("lists of ids", seeds.id_lists, mutate_text, id_lists),
        Target("connection fields", _connections, _mutate_connection, connection_fields),
        Target("metastore URLs", lambda: _URLS, mutate_text, metastore_urls),
        Target("names in the metastore", lambda: _NAMES, mutate_fields, metastore_names),
        Target("page cursors", _cursor_seeds, mutate_text, page_cursors),
        Target("transaction documents", lambda: [_TRANSACTION], mutate_json, transaction_documents),
        Target("policy files", lambda: _POLICIES, _mutate_policy, policy_files),
        Target("SQL scripts", seeds.scripts, mutate_text, sql_scripts),
    ]


def _mutate_policy(rng: Any, good: str) -> str:
    return mutate_json(rng, good) if good.startswith("[{") else mutate_text(rng, good)
