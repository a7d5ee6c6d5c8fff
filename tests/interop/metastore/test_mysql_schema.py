"""A metastore that Hive's own MySQL script has made, on MariaDB: accepted, given our tables, and worked with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.catalog.values.partition_alteration import PartitionAlteration
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.setup.schema import EXTENSION_TABLES, EXTENSION_VERSION, METADATA
from tests import hive_scripts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.interop

OURS = {table.name for table in EXTENSION_TABLES}

# Where Hive's MySQL script differs from its other ones in what only Hive itself uses, or leaves less room than ours.
ROOMIER = {
    ("MV_CREATION_METADATA", "TXN_LIST"), ("SCHEDULED_QUERIES", "ENABLED"), ("VERSION", "VERSION_COMMENT"),
    ("WM_POOL", "PATH"), ("WM_POOL", "SCHEDULING_POLICY"), ("WM_TRIGGER", "IS_IN_UNMANAGED"),
}  # fmt: skip

# Names of Hive's schema registry, as on PostgreSQL. No counter of ids has a key: in InnoDB the old values of a key that
# changes are locked by whoever looks for the new one, and forty clients then wait for each other in a circle.
STRICTER = {"I_SCHEMA", "SCHEMA_VERSION"}


def new_database(server: str, name: str) -> str:
    """An empty database on a MariaDB server; its URL."""
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.DDL(f"DROP DATABASE IF EXISTS `{name}`"))
        connection.execute(sa.DDL(f"CREATE DATABASE `{name}`"))
    return sa.make_url(server).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(params=["4.0.0", "4.1.0"])
def hives(request: pytest.FixtureRequest, mariadb_server: str) -> Iterator[MetastoreClient]:
    """A client of a metastore of Hive's own scripts, of each version."""
    url = new_database(mariadb_server, f"hives_{request.param[:3].replace('.', '_')}")
    hive_scripts.create(url, request.param)
    with MetastoreClient(url) as client:
        assert client.check_schema().version == request.param
        yield client


def rows_of(client: MetastoreClient, name: str) -> list[tuple[Any, ...]]:
    with client.database.reading() as connection:
        return [tuple(row) for row in connection.execute(sa.select(METADATA.tables[name]))]


def shape(client: MetastoreClient) -> dict[tuple[str, str], tuple[str, bool, str | None]]:
    """Type, nullability and default by table and column."""
    with client.database.reading() as connection:
        found = sa.inspect(connection)
        return {
            (table, column["name"]): (_type(column["type"]), column["nullable"], column["default"])
            for table in found.get_table_names()
            for column in found.get_columns(table)
            if table not in OURS
        }


def _type(type: Any) -> str:
    # Letter case counts in ours also where Hive forgot it: its p=A and p=a are one partition in the txn tables.
    return re.sub(r" (COLLATE|CHARACTER SET) \w+", "", str(type))


def unique(client: MetastoreClient) -> set[tuple[str, str]]:
    """What must be unique: table and columns."""
    with client.database.reading() as connection:
        found = sa.inspect(connection)
        tables = [table for table in found.get_table_names() if table not in OURS]
        keys = {(t, ",".join(sorted(found.get_pk_constraint(t)["constrained_columns"]))) for t in tables}
        return keys | {
            (t, ",".join(sorted(str(c) for c in index["column_names"])))
            for t in tables
            for index in found.get_indexes(t)
            if index["unique"]
        }


def test_what_we_create_is_what_hives_script_creates(hives: MetastoreClient, mariadb_server: str) -> None:
    with MetastoreClient(new_database(mariadb_server, "ours")) as client:
        client.create_schema()
        ours, ours_unique = shape(client), unique(client)
    if hives.check_schema().version == "4.1.0":
        theirs = shape(hives)
        assert ours.keys() == theirs.keys()
        assert {key: (ours[key], theirs[key]) for key in theirs.keys() - ROOMIER if ours[key] != theirs[key]} == {}
        assert unique(hives) <= ours_unique
        assert {table for table, _ in ours_unique - unique(hives)} == STRICTER
    else:
        assert ours.keys() < shape(hives).keys()


def test_hives_metastore_is_upgraded_and_keeps_its_version(hives: MetastoreClient) -> None:
    version = rows_of(hives, "VERSION")
    assert hives.check_schema().extension_version is None
    assert hives.upgrade_schema().before is None
    assert hives.upgrade_schema().done == ()
    assert hives.check_schema().extension_version == EXTENSION_VERSION
    assert rows_of(hives, "VERSION") == version


@pytest.mark.parametrize(
    "prepare", [lambda client: None, lambda client: client.upgrade_schema()], ids=["as it is", "upgraded"]
)
def test_a_life_of_transactions_on_hives_metastore(
    hives: MetastoreClient, prepare: Callable[[MetastoreClient], Any]
) -> None:
    """
    t1  A and B update p/k=a; A commits, B conflicts
    t2  C inserts, D aborts; a compaction is asked for, claimed and given up
    t3  housekeeping; the table is renamed, altered and dropped
    """
    client, catalog = hives, hives.catalog
    prepare(client)
    catalog.set_warehouse("file:/warehouse")
    catalog.create_database("shop", description="ünï 'quoted'")
    catalog.create_table(
        TableDefinition("shop", "p", (Column("id", "int"), Column("v", "string")), (Column("k", "string"),),
                        comments={"v": "it's"}, properties={"note": "a\\b"})
    )  # fmt: skip
    catalog.add_partitions("shop.p", [("a",), ("A",), ("b",)])
    assert [p.name for p in catalog.list_partitions("shop.p", {"k": "A"})] == ["k=A"]

    first = client.begin({"shop.p": "update"}, partitioned=["shop.p"])
    second = client.begin({"shop.p": "update"}, partitioned=["shop.p"])
    for txn in (first, second):
        txn.add_partitions("shop.p", ["k=a"])
    first.commit()
    with pytest.raises(WriteConflictError, match=r"shop/p/k=a"):
        second.commit()
    with client.transaction({"shop.p": "insert"}, partitioned=["shop.p"]) as txn:
        txn.add_partitions("shop.p", ["k=A"])
        assert txn.snapshot["shop.p"].is_aborted(2)
    client.begin({"shop.p": "insert"}, partitioned=["shop.p"]).abort("a test")
    lock = client.lock([LockComponent("shop", "p", None, LockType.EXCLUSIVE, Operation.NO_TXN)])
    assert [row.table for row in client.show_locks()] == ["p"]
    client.unlock(lock.lock_id)

    client.compactions.enqueue("shop.p", "k=a")
    claimed = client.compactions.claim("host-1")
    assert claimed is not None
    client.compactions.mark_failed(claimed, "a test")
    client.housekeeping.run_house_keeper()
    client.housekeeping.run_txn_cleaner()

    catalog.alter_partition("shop.p", "k=b", PartitionAlteration(properties={"x": "y"}, location="file:/elsewhere"))
    catalog.add_columns("shop.p", [Column("w", "decimal(10,2)")])
    renamed = catalog.rename_table("shop.p", "shop.q")
    assert [c.name for c in renamed.columns] == ["id", "v", "w"]
    assert client.get_valid_write_ids("shop.q")["shop.q"].high_watermark == renamed.write_id
    catalog.drop_database("shop", cascade=True)
    for name in ("TBLS", "PARTITIONS", "SDS", "CDS", "SERDES", "TABLE_PARAMS", "NEXT_WRITE_ID", "HIVE_LOCKS"):
        assert rows_of(client, name) == [], name
    events = [event.type for event in client.events_after(0)]
    assert {"CREATE_TABLE", "ADD_PARTITION", "ALTER_PARTITION", "ALTER_TABLE", "DROP_TABLE"} <= set(events)
