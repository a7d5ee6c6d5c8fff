"""EXPORT … [FOR [METADATA] REPLICATION('id')]: a table, or some of its partitions, as a dump.

The state id is the source's latest event, read before anything else: whatever the dump holds is at least that new. The
table is locked for reading while its files are listed and copied, and an ACID table is exported under one snapshot:
the bases and deltas which that reads, without the visibility txn ids of compactions, which are the source's own (R4).
A dump of metadata alone needs no files and no lock. Source: HiveReplicationDevelopment, and Hive's TableExport.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, NoSuchObjectError, UnsafePathError
from airflow_hive_acid.filesystem import list_many
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.names import DirectoryKind, is_hidden
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION, parse_partition_name
from airflow_hive_acid.format.table_kinds import is_transactional
from airflow_hive_acid.metastore.catalog import (
    Table,
    check_location,
    no_such_table,
    read_owner_of,
    read_partitions_of,
    read_tables,
    read_whole_partitions,
    sharing_columns,
)
from airflow_hive_acid.metastore.names import Spellings, TableName, as_stored, table_name
from airflow_hive_acid.metastore.records import StreamMark, read_marks
from airflow_hive_acid.metastore.txns import moves_with_commits, take_snapshot
from airflow_hive_acid.replication.dumps.copiers import copy
from airflow_hive_acid.replication.dumps.copies import FileCopy
from airflow_hive_acid.replication.dumps.dump import Dump, DumpFile, Scope, write_documents
from airflow_hive_acid.replication.dumps.export_places import ExportPlace
from airflow_hive_acid.replication.dumps.open_files import settled
from airflow_hive_acid.replication.dumps.parameters import OF_A_SITE
from airflow_hive_acid.replication.dumps.state_ids import STATE_ID
from airflow_hive_acid.replication.presence import require_listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.filesystem import FileInfo
    from airflow_hive_acid.format.acid_state import StateDirectory
    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.metastore.catalog import PartitionSpec, Table, WholePartition
    from airflow_hive_acid.metastore.txns import Snapshot
    from airflow_hive_acid.replication.site import Site

MATERIALIZED_VIEW = "MATERIALIZED_VIEW"


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export has left.

    :param state_id: of the dump; None outside of replication.
    :param reused: files that an attempt before had copied.
    :param noop: why there was nothing to export; None when there was.
    """

    uri: str
    table: str
    state_id: int | None
    partitions: int
    files: int
    bytes: int
    reused: int = 0
    noop: str | None = None


def export_metadata(
    site: Site,
    tables: Sequence[tuple[str, Sequence[PartitionSpec] | None]],
    *,
    event_ids: Sequence[str] = (),
) -> list[Dump]:
    """Dumps of metadata in memory, for replication, read together.

    :param tables: ``db.table``, and which partitions; None for the table without its partitions.
    :param event_ids: of the events that asked for them, one for each, or none.
    """
    state = site.client.notifications.current_event_id()
    asked = event_ids or [""] * len(tables)

    def operation(connection: Connection) -> list[Dump]:
        names = [table_name(table) for table, _ in tables]
        found = read_tables(connection, names)
        partitioned = [table.id for table in found.values() if table.partition_columns]
        known = _Known(
            sharing_columns(connection, partitioned),
            read_whole_partitions(connection, _wanted(names, tables, found)),
        )
        dumps = []
        for name, (_, specs), event_id in zip(names, tables, asked, strict=True):
            dump = Dump(found.get(name), Scope.METADATA, state, event_id or None, whole_table=specs is None)
            if dump.table is not None:
                dump = _with_partitions(connection, dump, dump.table, specs, known)
            dumps.append(tagged(dump))
        return dumps

    return site.client.database.read(operation)


@contextlib.contextmanager
def open_export(
    site: Site,
    table: str,
    partitions: Sequence[PartitionSpec] | None = None,
    *,
    scope: Scope = Scope.ALL,
    event_id: str | None = None,
) -> Iterator[Dump]:
    """A dump whose files lie where they are, at the source; they stay there until this ends.

    :param partitions: names, values, or values by column, also of some columns only; None: the table with all.
    :raises NoSuchObjectError: when there is no such table or partition; for replication that is an empty dump instead.
    """
    if scope is Scope.METADATA:
        yield export_metadata(site, [(table, partitions)], event_ids=[event_id] if event_id else ())[0]
        return
    name = table_name(table)
    # R3: read first; everything that is read after it is at least as new.
    state = site.client.notifications.current_event_id()
    known = site.client.catalog.find_tables([table]).get(str(name))
    if known is None:
        if scope is Scope.NONE:
            site.client.catalog.get_table(table)
        yield Dump(None, scope, state, event_id, whole_table=partitions is None)
        return
    plain = [] if known.is_transactional else [table]
    agent = f"export {name}"
    with site.client.open_snapshot([table], plain=plain, agent_info=agent):
        empty = Dump(None, scope, state, event_id, whole_table=partitions is None)
        dump, seen = _read(site, name, partitions, empty)
        if dump.table is not None and is_transactional(dump.table.properties) != known.is_transactional:
            raise InvalidArgumentsError(f"{name} was made anew or converted just now; export again")
        if dump.table is not None:
            lists = seen.write_ids[name] if known.is_transactional else None
            dump = replace(
                dump,
                files=_list_files(site, dump, lists, seen.valid_txns),
                write_ids=None if lists is None else str(_settled(lists)),
            )
        yield tagged(dump if partitions is None else _without_positions(dump))


def export_table(
    site: Site,
    table: str,
    uri: str,
    partitions: Sequence[PartitionSpec] | None = None,
    *,
    scope: Scope = Scope.NONE,
    event_id: str | None = None,
    once: str | None = None,
) -> ExportResult:
    """Write a dump to a directory.

    An export that was interrupted is gone on with: files that are whole are kept.

    :param uri: a directory that does not exist, is empty, or holds a dump of this table that was begun and not ended.
    :param scope: NONE for a dump for anybody, else for replication.
    :param once: what the tries of one task have in common: a dump that one of them has completed is the result of all.
    :raises AlreadyExistsError: when there is something else.
    :raises UnsafePathError: when it is the directory of a table, around or inside of one.
    """
    uri = check_location(uri)
    _require_own_place(site, uri)
    place = ExportPlace(site, uri, table, scope, once)
    done = place.finished()
    if done is None:
        try:
            with open_export(site, table, partitions, scope=scope, event_id=event_id) as dump, place.taken() as work:
                dump, reused = _fill(site, work, dump, once)
        except AlreadyExistsError:
            done = place.finished()
            if done is None:
                raise
    if done is not None:
        dump, reused = done, len(done.files)
    return _exported(uri, table, dump, reused)


def _fill(site: Site, work: str, dump: Dump, once: str | None) -> tuple[Dump, int]:
    """Copy the files of a dump and write its documents.

    :return: the dump as it was written, and how many files an attempt before had copied.
    """
    copies = [FileCopy(str(f.source), f"{work}/{f.place}", f.size, beginning=f.beginning) for f in dump.files]
    report = copy(site, site.filesystem, site.filesystem, copies)
    files = [
        replace(f, checksum=report.checksums[f"{work}/{f.place}"], source=None, beginning=False) for f in dump.files
    ]
    dump = replace(dump, files=tuple(files))
    _remove_strays(site, work, dump)
    write_documents(site.filesystem, work, dump, once)
    return dump, report.reused


def _exported(uri: str, table: str, dump: Dump, reused: int) -> ExportResult:
    noop = None
    if dump.is_noop:
        noop = f"{table} does not exist any more" if dump.table is None else "the partitions do not exist any more"
    return ExportResult(
        uri, table, dump.state_id, len(dump.partitions), len(dump.files), dump.bytes, reused, noop
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read for several tables together.

    :param sharing: ids of the tables whose partitions have the columns of their table.
    """

    sharing: set[int]
    partitions: Mapping[tuple[int, str], WholePartition]


def _wanted(
    names: Sequence[TableName],
    tables: Sequence[tuple[str, Sequence[PartitionSpec] | None]],
    found: Mapping[TableName, Table],
) -> list[tuple[int, str]]:
    """Table id and name of the partitions that are asked for by all of their values."""
    return [
        (table.id, part)
        for name, (_, specs) in zip(names, tables, strict=True)
        if specs and (table := found.get(name)) is not None and table.partition_columns
        for spelled in _partition_names(table, specs)[0]
        for part in spelled.names
    ]


def _read(site: Site, name: TableName, partitions: Sequence[PartitionSpec] | None, dump: Dump) -> tuple[Dump, Snapshot]:
    """The table, and which of its rows there are now: in one view, so that a stream stands where they end (R11)."""
    client = site.client

    def operation(connection: Connection) -> tuple[Dump, Snapshot]:
        seen = take_snapshot(connection, [name], 0, client.gap_timeout_ms)
        table = read_tables(connection, [name]).get(name)
        if table is None:
            if dump.scope is Scope.NONE:
                raise no_such_table(connection, *name)
            return dump, seen
        wanted = _wanted([name], [(str(name), partitions)], {name: table})
        known = _Known(sharing_columns(connection, [table.id]), read_whole_partitions(connection, wanted))
        found = replace(dump, table=table)
        if partitions is None:
            found = replace(found, streams=_streams(site, connection, table))
        return _with_partitions(connection, found, table, partitions, known), seen

    return client.database.read(operation)


def _streams(site: Site, connection: Connection, table: Table) -> tuple[StreamMark, ...]:
    """Which micro-batches are in an ACID table (R14)."""
    if not (is_transactional(table.properties) and site.client.database.features(connection).replication):
        return ()
    name = TableName(table.db, table.name)
    return read_marks(connection, [name])[name]


def _without_positions(dump: Dump) -> Dump:
    """Some partitions of a table: where its streams stand, rows have gone into others as well."""
    if dump.table is None:
        return dump
    properties = {k: v for k, v in dump.table.properties.items() if not moves_with_commits(k)}
    return replace(dump, table=replace(dump.table, properties=properties))


def _with_partitions(
    connection: Connection,
    dump: Dump,
    table: Table,
    specs: Sequence[PartitionSpec] | None,
    known: _Known,
) -> Dump:
    if table.type == MATERIALIZED_VIEW:
        raise InvalidArgumentsError(
            f"{table.db}.{table.name} is a materialized view, which is made of other tables; export those"
        )
    if not table.partition_columns:
        if specs:
            raise InvalidArgumentsError(f"{table.db}.{table.name} is not partitioned; export it without PARTITION")
        return dump
    shared = table.id in known.sharing
    if specs is None:
        if dump.scope is Scope.METADATA:
            return replace(dump, shared_columns=shared)
        found = read_partitions_of(connection, table.id)
        return replace(dump, shared_columns=shared, partitions=_sorted(found.values()))
    spelled, partial = _partition_names(table, specs)
    there = {n for each in spelled for n in each.names if (table.id, n) in known.partitions}
    complete = list(dict.fromkeys(each.choose(f"{table.db}.{table.name}", there) for each in spelled))
    found = {n: known.partitions[table.id, n] for n in complete if (table.id, n) in known.partitions}
    missing = tuple(n for n in complete if n not in found)
    if partial:
        everything = read_partitions_of(connection, table.id)
        for wanted in partial:
            matching = {n: p for n, p in everything.items() if wanted.items() <= _values(table, n).items()}
            found |= matching
            missing += () if matching else (json.dumps(wanted),)
    if missing and dump.scope is Scope.NONE:
        raise NoSuchObjectError(f"{table.db}.{table.name} has no partition {missing[0]}")
    partitions = _sorted(found.values())
    return replace(dump, shared_columns=shared, partitions=partitions, missing=missing)


def _sorted(partitions: Iterable[WholePartition]) -> tuple[WholePartition, ...]:
    return tuple(sorted(partitions, key=lambda partition: partition.name))


def _values(table: Table, partition: str) -> dict[str, str]:
    """The values of a partition as a Hive stores them, those of CHAR columns with all their blanks."""
    types = {column.name: column.type for column in table.partition_columns}
    return {key: as_stored(types[key], value) for key, value in parse_partition_name(partition)}


def _partition_names(table: Table, specs: Sequence[PartitionSpec]) -> tuple[list[Spellings], list[dict[str, str]]]:
    """What names may be those of the partitions that are specified completely, and the values of those that are not."""
    complete: list[Spellings] = []
    partial: list[dict[str, str]] = []
    for spec in specs:
        if isinstance(spec, Mapping) and len(spec) < len(table.partition_columns):
            types = {column.name: column.type for column in table.partition_columns}
            values = {
                key.lower(): as_stored(types.get(key.lower(), ""), value) if value else DEFAULT_PARTITION
                for key, value in spec.items()
            }
            if unknown := values.keys() - {c.name for c in table.partition_columns}:
                raise InvalidArgumentsError(f"{min(unknown)} is no partition column of {table.db}.{table.name}")
            partial.append(values)
        else:
            complete.append(table.spellings(spec))
    return complete, partial


def tagged(dump: Dump) -> Dump:
    """The objects with the state id as a parameter, as Hive's exports have it, and without any other one."""
    if dump.table is None:
        return dump
    tags = {STATE_ID: str(dump.state_id)} if dump.scope is Scope.ALL else {}

    def clean(parameters: Mapping[str, str]) -> dict[str, str]:
        return {k: v for k, v in parameters.items() if k not in OF_A_SITE} | tags

    return replace(
        dump,
        table=replace(dump.table, properties=clean(dump.table.properties)),
        partitions=tuple(replace(p, properties=clean(p.properties)) for p in dump.partitions),
    )


def _settled(lists: ValidWriteIdList) -> ValidWriteIdList:
    """The list with open ids aborted: their rows are not in the dump, and will not come by it."""
    return replace(lists, open=frozenset(), aborted=frozenset(lists.exceptions), min_open=None)


def _list_files(site: Site, dump: Dump, lists: ValidWriteIdList | None, txns: ValidTxnList) -> tuple[DumpFile, ...]:
    table = dump.table
    if table is None or not table.storage.location:
        return ()
    if table.partition_columns:
        places = [(p.name, p.storage.location) for p in dump.partitions if p.storage.location]
    else:
        places = [("", table.storage.location)]
    listings = list_many(site.filesystem, [place for _, place in places], descend=enter)
    name, location = f"{table.db}.{table.name}", table.storage.location
    require_listed(
        site.filesystem, name, location, listings, [place for _, place in places],
        descend=enter,
    )  # fmt: skip
    files: list[DumpFile] = []
    for partition, place in places:
        listing = listings[place] or []
        chosen, cut = plain_files(listing), frozenset[str]()
        if lists is not None:
            entries = [FileEntry(f"{i.relative}/" if i.is_dir else i.relative, i.size) for i in listing]
            chosen, cut = _acid_files(site, place, entries, lists, txns)
        files += [
            DumpFile(partition, path, size, source=f"{place}/{found}", beginning=found in cut)
            for path, found, size in chosen
        ]
    return tuple(files)


def plain_files(listing: Sequence[FileInfo]) -> list[tuple[str, str, int]]:
    """Files of a table without transactions: path in the dump, path at the source, bytes."""
    return [
        (info.relative, info.relative, info.size)
        for info in listing
        if not info.is_dir and not any(is_hidden(part) for part in info.relative.split("/"))
    ]


def _acid_files(
    site: Site, place: str, entries: Sequence[FileEntry], lists: ValidWriteIdList, txns: ValidTxnList
) -> tuple[list[tuple[str, str, int]], frozenset[str]]:
    """What a snapshot reads: path in the dump, path at the source, bytes; and the latter of files that grow."""
    listing, cut = settled(site.filesystem, place, entries, lists)
    state = acid_state(listing, lists, txns)
    found = [(entry.path, entry.path, entry.size) for entry in state.originals]
    for directory in (*state.inserts, *state.deletes):
        stripped = _name_in_dump(directory, lists)
        for entry in directory.files if stripped is not None else ():
            if not entry.path.endswith("/"):
                below = entry.path.removeprefix(f"{directory.name}/")
                found.append((f"{stripped}/{below}", entry.path, entry.size))
    return found, cut


def _name_in_dump(found: StateDirectory, lists: ValidWriteIdList) -> str | None:
    """The name of a directory without the visibility txn id of a compaction.

    Without that a base counts as one of INSERT OVERWRITE, which nobody sees if its write id is aborted; that of a
    compaction may end with such an id. It gets the last one below whose rows it holds.

    :return: None when there is none: it holds no row.
    """
    named = replace(found.directory, visibility_txn_id=0)
    if named.kind is not DirectoryKind.BASE or not found.compacted or named.max_write_id < 1:
        return named.name
    last = next((w for w in range(named.max_write_id, 0, -1) if lists.is_valid(w)), None)
    return None if last is None else replace(named, max_write_id=last).name


def _require_own_place(site: Site, uri: str) -> None:
    if len(paths.parse_location(uri).segments) < 2:
        raise UnsafePathError(f"{uri!r} is no directory below another one; nothing was exported")
    owner = site.client.database.read(lambda connection: read_owner_of(connection, uri, around=True))
    if owner is not None:
        raise UnsafePathError(f"{uri} would share files with table {owner}; choose a directory of its own")


def _remove_strays(site: Site, uri: str, dump: Dump) -> None:
    """Files that an attempt before has copied and that are not part of the table any more, and their directories."""
    wanted = {file.place for file in dump.files}
    listed = site.filesystem.list_files(uri, recursive=True)
    for info in listed:
        if not info.is_dir and "/" in info.relative and info.relative not in wanted:
            site.filesystem.delete(info.path, inside=uri)
    for info in sorted(listed, key=lambda info: -info.relative.count("/")):
        if info.is_dir and not any(place.startswith(f"{info.relative}/") for place in wanted):
            site.filesystem.delete_empty(info.path, inside=uri)
