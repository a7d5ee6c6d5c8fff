"""Tables for tests of exports and imports: files with any bytes, and what two sites hold of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select, update

from airflow_hive_acid.filesystem.uris import local_path
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.rows.reader import read_partitions_of, read_tables
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, TXNS
from airflow_hive_acid.replication.dumps.dump import Scope
from airflow_hive_acid.replication.dumps.exports import export_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from airflow_hive_acid.metastore.catalog.values.model import Table, WholePartition
    from airflow_hive_acid.replication.site import Site

COLUMNS = (Column("a", "int"), Column("b", "string"))
DS = (Column("ds", "string"),)
FILES = {"000000_0": b"1,one\n", "sub/000001_0": b"2,two\n"}
OF_A_SITE = ("repl.last.id", "hive.acid.repl.last.metadata.id", "transient_lastDdlTime", "COLUMN_STATS_ACCURATE")


def make_table(site: Site, name: str = "w.t", *, partitioned: bool = False, **more: object) -> None:
    db, table = name.split(".")
    if db not in site.client.catalog.list_databases():
        site.client.catalog.create_database(db)
    given = {"properties": {"transactional": "false"}, "stored_as": "text", **more}
    made = site.client.catalog.create_table(
        TableDefinition(db, table, COLUMNS, DS if partitioned else (), comments={"a": "first"}, **given)  # type: ignore[arg-type]
    )
    if made.location:
        site.filesystem.make_directory(made.location)


def write(site: Site, place: str, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        site.filesystem.make_directory(f"{place}/{path}".rpartition("/")[0])
        with site.filesystem.open_output(f"{place}/{path}") as stream:
            stream.write(content)


def location(site: Site, name: str = "w.t", partition: str | None = None) -> str:
    if partition is None:
        return site.client.catalog.get_table(name).location
    return site.client.catalog.get_partition(name, partition).location


def add_partition(site: Site, partition: str, files: Mapping[str, bytes], name: str = "w.t") -> None:
    site.client.catalog.add_partitions(name, [partition])
    write(site, location(site, name, partition), files)


def contents(site: Site, place: str) -> dict[str, bytes]:
    """Every file below a directory, hidden ones included."""
    try:
        listing = site.filesystem.list_files(place, recursive=True)
    except FileNotFoundError:
        return {}
    found = {}
    for info in listing:
        if not info.is_dir:
            with site.filesystem.open_input(info.path) as stream:
                found[info.relative] = stream.read()
    return found


def objects(site: Site, name: str = "w.t") -> tuple[Table | None, dict[str, WholePartition]]:
    """What the catalog holds of a table, value for value."""
    key = table_name(name)
    with site.client.database.transaction() as connection:
        table = read_tables(connection, [key]).get(key)
        return table, {} if table is None else read_partitions_of(connection, table.id)


def state_ids(site: Site, name: str = "w.t") -> dict[str, str | None]:
    """``repl.last.id`` of the table (empty name) and its partitions."""
    table, parts = objects(site, name)
    found = {"": None if table is None else table.properties.get("repl.last.id")}
    return found | {part: p.properties.get("repl.last.id") for part, p in parts.items()}


def whole(site: Site, name: str = "w.t") -> dict[str, object]:
    """What replication makes equal: columns, formats, parameters, partitions, files; and no hidden leftovers."""
    table, parts = objects(site, name)
    if table is None:
        return {}
    found: dict[str, object] = {"table": _shape(table)}
    found |= {part: _shape(p) for part, p in parts.items()}
    found["files"] = contents(site, str(table.storage.location))
    return found


def _shape(one: Table | WholePartition) -> tuple[object, ...]:
    storage = one.storage
    parameters = {k: v for k, v in one.properties.items() if k not in OF_A_SITE and not k.startswith("last_modified")}
    return (
        storage.columns, storage.input_format, storage.output_format, storage.serde, dict(storage.serde_properties),
        storage.bucket_columns, storage.bucket_count, parameters,
    )  # fmt: skip


def forget_txns(site: Site) -> None:
    """What a real Hive does with the txns of a process that was killed, at once: it knows of no jobs, and its locks go.

    An abort of ours would keep the locks until what was moved into plain tables is moved back.
    """
    with site.client.database.transaction() as connection:
        open_ids = list(connection.execute(select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == "o")).scalars())
        connection.execute(update(TXNS).where(TXNS.c.TXN_ID.in_(open_ids)).values(TXN_STATE="a"))
        connection.execute(delete(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_TXNID.in_(open_ids)))


def path_of(uri: str) -> Path:
    from pathlib import Path

    return Path(local_path(uri))


def exported(site: Site, uri: str, **more: object) -> None:
    export_table(site, "w.t", uri, scope=Scope.ALL, event_id="1", **more)  # type: ignore[arg-type]
