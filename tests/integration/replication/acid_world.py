"""ACID tables at two sites, written by hand: each line of a data file is a row or a delete event."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.names import base_name, delete_delta_name, delta_name
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.metastore.catalog import delete_partitions, delete_storage, read_tables, read_whole_partitions
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.names import TableName
from airflow_hive_acid.metastore.protocol.hive_batches import read_position

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.metastore.protocol.transaction import Transaction
    from airflow_hive_acid.metastore.records import Owner
    from airflow_hive_acid.replication.site import Site

T = "default.t"
POSITION = "_meta.position.s"


def path_of(uri: str) -> Path:
    return Path(urlsplit(uri).path)


def create(site: Site, name: str = T, *, partitioned: bool = False, **properties: str) -> Table:
    keys = (Column("p", "string"),) if partitioned else ()
    db, table = name.split(".")
    definition = TableDefinition(db, table, (Column("a", "string"),), keys, properties)
    made = site.client.catalog.create_table(definition)
    path_of(made.location).mkdir(parents=True, exist_ok=True)
    return made


def put(site: Site, table: str, directory: str, lines: list[str], partition: str = "") -> Path:
    """A directory with one data file."""
    where = path_of(site.client.catalog.get_table(table).location) / partition / directory
    where.mkdir(parents=True)
    (where / "_orc_acid_version").write_text("2")
    insert_only = site.client.catalog.get_table(table).is_insert_only
    if lines:
        (where / ("000000_0" if insert_only else "bucket_00000")).write_text("\n".join(lines))
    return where


def write(site: Site, *rows: str, table: str = T, partition: str = "", deletes: tuple[str, ...] = ()) -> int:
    """A committed write; rows are named ``write id:text`` in the file."""
    with begin(site, table, update=bool(deletes), partition=partition) as transaction:
        return fill(site, transaction, *rows, table=table, partition=partition, deletes=deletes)


def write_at(site: Site, position: str, *rows: str, owner: Owner | None = None) -> None:
    """A committed write that moves the stream ``s`` to a position.

    :param owner: it is the micro-batch of this number, too.
    """
    client = site.client
    before = read_position(client, client.catalog.get_table(T).id, "s")
    with begin(site) as transaction:
        write_id = fill(site, transaction, *rows)
        if owner is not None:
            _commit_micro_batch(site, owner, int(position), transaction, write_id, len(rows))
        if client.catalog.get_table(T).is_partitioned:
            transaction.add_partitions(T, [])
        transaction.before_commit(lambda connection: before.moved(connection, position))


def micro_batch(site: Site, owner: Owner, number: int, *rows: str) -> None:
    """A committed micro-batch of a stream into the table."""
    with begin(site) as transaction:
        _commit_micro_batch(site, owner, number, transaction, fill(site, transaction, *rows), len(rows))


def _commit_micro_batch(
    site: Site, owner: Owner, number: int, transaction: Transaction, write_id: int, rows: int
) -> None:
    streams, attempt, txn_id = site.client.streams, f"attempt {number}", transaction.txn_id
    streams.begun(owner, attempt, [txn_id])
    transaction.before_commit(streams.at_commit(owner, attempt, number, txn_id, write_id, rows, 0, "{}"))


def run_stream(site: Site, who: str, table: str = T) -> Owner:
    """Become the process that runs the stream ``s``, with the checkpoint that it always has."""
    table_id = site.client.catalog.get_table(table).id
    return site.client.streams.open("s", table, "checkpoint", who, table_id=table_id, silent_ms=30_000)


def position_of(site: Site) -> str | None:
    """Where the stream ``s`` stands."""
    return site.client.catalog.get_table(T).property(POSITION)


def begin(site: Site, table: str = T, *, update: bool = False, partition: str = "") -> Transaction:
    partitioned = [table] if partition else None
    return site.client.begin({table: "update" if update else "insert"}, partitioned=partitioned)


def fill(site: Site, transaction: Transaction, *rows: str, table: str = T, partition: str = "", deletes=()) -> int:
    write_id = transaction.write_ids[table]
    if rows:
        put(site, table, delta_name(write_id, write_id, 0), [f"{write_id}:{r}" for r in rows], partition)
    if deletes:
        put(site, table, delete_delta_name(write_id, write_id, 1), [f"{write_id}-{d}" for d in deletes], partition)
    if partition:
        transaction.add_partitions(table, [partition])
        there = site.client.catalog.find_partitions(table, [partition])
        if not there:
            site.client.catalog.add_partitions(table, [partition])
    return write_id


def compact(site: Site, table: str = T, *, major: bool, partition: str = "", clean: bool = False) -> str:
    """What a compaction leaves behind, with or without its Cleaner."""
    client = site.client
    kind = CompactionType.MAJOR if major else CompactionType.MINOR
    client.compactions.enqueue(table, partition or None, type=kind)
    request = client.compactions.claim("worker")
    txn = client.open_txn(type=TxnType.COMPACTION)
    ids = client.get_valid_write_ids(table, client.get_valid_txns(txn))[table].for_compactor()
    place = path_of(client.catalog.get_table(table).location) / partition
    state = acid_state(listing(place), ids, client.get_valid_txns(txn))
    lines = _lines(place, state if major else replace(state, base=None, originals=()), ids)
    if major:
        gone = {x.split("-", 1)[1] for x in lines if "-" in x}
        made = base_name(ids.high_watermark, txn)
        put(site, table, made, [x for x in lines if ":" in x and x not in gone], partition)
    else:
        low = min(d.directory.min_write_id for d in state.deltas)
        made = delta_name(low, ids.high_watermark, None, txn)
        put(site, table, made, [x for x in lines if ":" in x], partition)
        if any("-" in x for x in lines):
            name = delete_delta_name(low, ids.high_watermark, None, txn)
            put(site, table, name, [x for x in lines if "-" in x], partition)
    client.compactions.update_state(request, highest_write_id=ids.high_watermark, txn_id=txn)
    client.compactions.mark_compacted(request, txn)
    client.commit_txn(txn)
    if clean:
        request = client.compactions.get(request.id)
        client.compactions.start_cleaning(request)
        for old in (*state.deltas, *((state.base,) if state.base else ())):
            if major or old in state.deltas:
                remove(place / old.name)
        client.compactions.mark_cleaned(request)
    return made


def rebalance(site: Site, table: str = T) -> str:
    """What a rebalancing compaction leaves behind: the ids of all rows are others, which are upper-case here."""
    client = site.client
    client.compactions.enqueue(table, type=CompactionType.REBALANCE)
    request = client.compactions.claim("worker")
    txn = client.open_txn(type=TxnType.REBALANCE_COMPACTION)
    ids = client.get_valid_write_ids(table, client.get_valid_txns(txn))[table]
    (seen,) = rows(site, table).values()
    made = base_name(ids.high_watermark, txn)
    put(site, table, made, sorted(row.upper() for row in seen))
    client.compactions.update_state(request, highest_write_id=ids.high_watermark, txn_id=txn)
    client.compactions.mark_compacted(request, txn)
    client.commit_txn(txn)
    return made


def drop_table(site: Site, table: str = T) -> None:
    """DROP TABLE with its files."""
    for location in site.client.catalog.drop_table(table).locations:
        site.filesystem.delete(location, inside=location.rpartition("/")[0])


def drop_partition(site: Site, partition: str, table: str = T) -> None:
    """DROP PARTITION as our engine does it."""
    site.client.catalog.drop_partitions(table, [partition], files=WarehouseFiles(site.client, site.filesystem))


def drop_partition_without_a_base(site: Site, partition: str, table: str = T) -> None:
    """DROP PARTITION of a Hive without ``hive.acid.droppartition.usebase``: the files are gone at once."""
    drop_partition(site, partition, table)
    for left in (path_of(site.client.catalog.get_table(table).location) / partition).iterdir():
        remove(left)


def make_partition_anew(site: Site, partition: str, table: str = T) -> None:
    """DROP PARTITION and ADD PARTITION of a Hive that takes no write id for them, and leaves no base."""
    client = site.client
    found = client.catalog.get_table(table)
    name = TableName(found.db, found.name)

    def change(connection: Connection) -> None:
        ids = [part.id for part in read_whole_partitions(connection, [(found.id, partition)]).values()]
        client.catalog.events.dropping_partitions(connection, read_tables(connection, [name])[name], ids)
        delete_storage(connection, delete_partitions(connection, ids))
        client.notifications.write(connection, [])

    client.database.run(change)
    remove_all(path_of(found.location) / partition)
    client.catalog.add_partitions(table, [partition])
    (path_of(found.location) / partition).mkdir()


def rename_partition(site: Site, partition: str, new: str, table: str = T) -> None:
    """ALTER TABLE … PARTITION … RENAME as our engine does it."""
    site.client.catalog.rename_partition(table, partition, new, files=WarehouseFiles(site.client, site.filesystem))


def remove(directory: Path) -> None:
    for file in directory.iterdir():
        file.unlink()
    directory.rmdir()


def remove_all(place: Path) -> None:
    """What a Cleaner leaves of a partition that was dropped."""
    shutil.rmtree(place)


def listing(place: Path) -> list[FileEntry]:
    if not place.exists():
        return []
    return [
        FileEntry(str(p.relative_to(place)), p.stat().st_size)
        for p in sorted(place.rglob("*"))
        if p.is_file() and not str(p.relative_to(place)).startswith(("_tmp", "p="))
    ]


def rows(site: Site, table: str = T) -> dict[str, set[str]]:
    """What a reader of now sees, by partition."""
    catalog, client = site.client.catalog, site.client
    found = catalog.get_table(table)
    with client.snapshot(table) as reader:
        ids, txns = reader.snapshot[table], reader.valid_txns
    places = (
        {p.name: p.location for p in catalog.list_partitions(table)} if found.is_partitioned else {"": found.location}
    )
    seen = {}
    for name, location in places.items():
        place = path_of(location)
        state = acid_state(listing(place), ids, txns)
        lines = _lines(place, state, ids)
        data = [x for x in lines if ":" in x]
        assert len(data) == len(set(data)), f"rows come twice: {data}"
        seen[name] = set(data) - {x.split("-", 1)[1] for x in lines if "-" in x}
    return seen


def _lines(place: Path, state, ids) -> list[str]:
    files = [f for d in (*state.inserts, *state.deletes) for f in d.files if not f.path.split("/")[-1].startswith("_")]
    lines = [x for f in files for x in (place / f.path).read_text().splitlines()]
    lines += [x for f in state.originals for x in (place / f.path).read_text().splitlines()]
    return [x for x in lines if ids.is_valid(int(x.replace("-", ":").split(":")[0]))]
