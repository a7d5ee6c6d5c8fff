"""ACID tables at the source, as one snapshot sees them: lists of write ids, partitions and listings.

The snapshot is that of a reader: SHARED_READ locks, registered and kept alive, so that no Cleaner, also not that of a
real Hive, removes what is listed (R10, R16). The id of the latest event is read before it: what an event up to there
tells of is in the snapshot.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.filesystem import list_many
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.format.acid_state import FileEntry
from airflow_hive_acid.metastore.compaction import Resource
from airflow_hive_acid.metastore.names import TableName, table_name
from airflow_hive_acid.metastore.records import read_marks
from airflow_hive_acid.metastore.replica import newest_rebalance_seen, txns_of, uncleaned_compactions
from airflow_hive_acid.metastore.txns import take_snapshot
from airflow_hive_acid.replication.acid.plan import SourceView
from airflow_hive_acid.replication.dumps.open_files import settled
from airflow_hive_acid.replication.presence import require_listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.metastore.catalog import Partition, Table
    from airflow_hive_acid.metastore.protocol import ReaderSnapshot
    from airflow_hive_acid.metastore.records import StreamMark
    from airflow_hive_acid.metastore.txns import Snapshot
    from airflow_hive_acid.replication.site import Site

UNPARTITIONED = ""
_Look: TypeAlias = "tuple[Snapshot, list[Table], dict[TableName, tuple[StreamMark, ...]], dict[TableName, int]]"


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table at the source.

    :param places: locations by partition name; of an unpartitioned table its own under ``""``.
    :param listings: what lies there.
    :param uncleaned: per partition, the compactions after which nothing was removed.
    :param open_txns: txns of write ids that are open.
    :param growing: URIs of files of which only the listed number of bytes counts.
    :param altered: by partition name, the write id that has written or altered it last, where the catalog knows it.
    :param streams: how far its streams have come; None where the metastore does not say.
    :param rebalanced: the newest compaction that has given rows other ids; 0: none.
    """

    table: Table
    write_ids: ValidWriteIdList
    txns: ValidTxnList
    places: Mapping[str, str]
    listings: Mapping[str, list[FileEntry]]
    uncleaned: Mapping[str, frozenset[int]]
    open_txns: Mapping[int, int]
    growing: frozenset[str] = frozenset()
    altered: Mapping[str, int] = field(default_factory=dict)
    streams: tuple[StreamMark, ...] | None = None
    rebalanced: int = 0

    def view(self, partition: str) -> SourceView:
        """One partition, for the planner."""
        return SourceView(
            self.listings[partition], self.write_ids, self.txns, self.uncleaned.get(partition, frozenset()),
            has_row_ids=not self.table.is_insert_only,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceState:
    """All tables of a sync at one moment.

    :param state_id: the latest event whose effects are all in it.
    :param reader: keeps what is seen from being removed; its own lists may be a little older.
    """

    state_id: int
    reader: ReaderSnapshot
    tables: Mapping[str, SourceTable]


@contextlib.contextmanager
def source_state(
    site: Site, tables: Iterable[str], check: Callable[[ValidTxnList], object] = lambda _txns: None
) -> Iterator[SourceState]:
    """Look at tables; while the block runs nothing that was listed is removed.

    :param tables: ``db.table`` of transactional tables that exist.
    :param check: told which txns the snapshot sees, before anything is listed; what it raises ends it there.
    :raises NoSuchObjectError: when one does not exist.
    :raises InvalidArgumentsError: when one has no transactions.
    """
    client = site.client
    names = [str(table_name(t)) for t in tables]
    state_id = client.notifications.current_event_id()
    plain = [t.qualified_name for t in client.catalog.get_tables(names) if not t.is_transactional]
    if plain:
        raise InvalidArgumentsError(
            f"{', '.join(plain)} of {site.name} have no transactions; they are replicated by export and import"
        )
    keys = [table_name(name) for name in names]
    with client.snapshot(names, agent_info="replication") as reader:

        def look(connection: Connection) -> _Look:
            # One view (R11): where streams stand is as of the commits that the lists show, no earlier and no later.
            # The lists are of now; those of a txn end at its own id.
            seen = take_snapshot(connection, keys, 0, client.gap_timeout_ms)
            streams = read_marks(connection, keys) if client.database.features(connection).replication else {}
            rebalanced = {key: newest_rebalance_seen(connection, key, seen.valid_txns) for key in keys}
            # Under the lock: a table that was dropped and made again meanwhile is the new one.
            return seen, client.catalog.get_tables_in(connection, keys), streams, rebalanced

        seen, found, streams, rebalanced = client.database.read(look)
        check(seen.valid_txns)
        states = (
            replace(_look(site, t, seen), streams=streams.get(name), rebalanced=rebalanced[name])
            for t in found for name in [TableName(t.db, t.name)]
        )  # fmt: skip
        yield SourceState(state_id, reader, {state.table.qualified_name: state for state in states})


def listing_of(found: Iterable[FileInfo] | None) -> list[FileEntry]:
    """A listing as the rules of directories take it."""
    return [FileEntry(e.relative + ("/" if e.is_dir else ""), e.size) for e in found or ()]


def list_places(filesystem: Filesystem, places: Mapping[str, str]) -> dict[str, list[FileEntry]]:
    """What lies at each place; nothing where there is no directory: who calls this knows that its table has one."""
    found = list_many(filesystem, places.values(), descend=enter)
    return {name: listing_of(found[place]) for name, place in places.items()}


def places_of(site: Site, table: Table) -> dict[str, str]:
    """The directories of a table's data, by partition name."""
    if not table.is_partitioned:
        return {UNPARTITIONED: table.location.rstrip("/")}
    return {p.name: p.location.rstrip("/") for p in _partitions(site, table)}


def _partitions(site: Site, table: Table) -> list[Partition]:
    return site.client.catalog.list_partitions(table.qualified_name) if table.is_partitioned else []


def _look(site: Site, table: Table, seen: Snapshot) -> SourceTable:
    client, name = site.client, TableName(table.db, table.name)
    write_ids = seen.write_ids[name]
    partitions = _partitions(site, table)
    places = {p.name: p.location.rstrip("/") for p in partitions} if table.is_partitioned else places_of(site, table)
    found = list_many(site.filesystem, places.values(), descend=enter)
    require_listed(site.filesystem, table.qualified_name, table.location, found, places.values(), descend=enter)
    listings = {partition: listing_of(found[place]) for partition, place in places.items()}
    growing: set[str] = set()
    if not table.is_insert_only:  # streams write no other tables
        for partition, place in places.items():
            listings[partition], cut = settled(site.filesystem, place, listings[partition], write_ids)
            growing |= {f"{place}/{path}" for path in cut}
    # After the listing: what is said to be complete now was complete then.
    uncleaned = client.database.read(lambda connection: uncleaned_compactions(connection, name))
    noted = not client.database.layout().lacks("PARTITIONS", "WRITE_ID")  # a Hive 3 does not
    open_txns = (
        client.database.read(lambda connection: txns_of(connection, name, write_ids.open)) if write_ids.open else {}
    )
    return SourceTable(
        table, write_ids, seen.valid_txns, places, listings,
        {p: uncleaned.get(Resource(*name, p or None), frozenset()) for p in places}, open_txns,
        frozenset(growing), {p.name: p.write_id for p in partitions} if noted else {},
    )  # fmt: skip
