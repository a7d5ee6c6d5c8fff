"""The catalog: what we create there is what Hive would have written, and each side works with the other's objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.catalog import Catalog
from airflow_hive_acid.metastore.catalog.changes import CatalogChanges
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.database import Database
from airflow_hive_acid.metastore.schema.types import METADATA
from tests.interop.hive import RowId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.hive import Hive

pytestmark = pytest.mark.interop

ID = Column("id", "int")
NAME = Column("name", "varchar(20)")
PRICE = Column("price", "decimal(10,2)")
TAGS = Column("tags", "map<string,array<struct<a:int,b:date>>>")
DAY = Column("day", "date")
HOUR = Column("hour", "int")

DEFINITIONS = {
    "plain": (
        TableDefinition("ours", "plain", (ID, NAME, PRICE, TAGS), properties={"transactional": "true"}),
        """create table theirs.plain (id int, name varchar(20), price decimal(10,2),
             tags map<string,array<struct<a:int,b:date>>>) stored as orc tblproperties ('transactional'='true')""",
    ),
    "partitioned": (
        TableDefinition("ours", "partitioned", (ID, NAME), (DAY, HOUR), properties={"transactional": "true"}),
        """create table theirs.partitioned (id int, name varchar(20)) partitioned by (day date, hour int)
             stored as orc tblproperties ('transactional'='true')""",
    ),
    "bucketed": (
        TableDefinition(
            "ours",
            "bucketed",
            (ID, NAME),
            properties={"transactional": "true", "no_auto_compaction": "true"},
            bucket_columns=("id",),
            bucket_count=4,
            comments={"name": "what it is called"},
        ),
        """create table theirs.bucketed (id int, name varchar(20) comment 'what it is called')
             clustered by (id) into 4 buckets stored as orc
             tblproperties ('transactional'='true', 'no_auto_compaction'='true')""",
    ),
}

# TBL_PRIVS: Hive's client asks for grants to the owner; they matter only where Hive's own authorization is switched on.
ELSEWHERE = {"TBLS", "SDS", "SERDES", "CDS", "PARTITIONS", "TBL_PRIVS"}
VOLATILE = re.compile(r"_ID(_\d)?$|^CREATE_TIME$")


@pytest.fixture(scope="module")
def catalog(hive: Hive) -> Iterator[Catalog]:
    """Our catalog on Hive's metastore, with a database of ours and one of Hive's."""
    database = Database(hive.metastore_url)
    catalog = Catalog(CatalogChanges(database))
    hive.run("create database theirs")
    catalog.create_database("ours")
    for ours, theirs in DEFINITIONS.values():
        hive.run(theirs)
        catalog.create_table(ours)
    yield catalog
    database.close()


def rows(url: str, statement: sa.Select[Any]) -> list[dict[str, Any]]:
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def stored(url: str, table: str) -> dict[str, Any]:
    """Everything the metastore holds about ``db.t`` and its partitions, without ids, times and the database's name."""
    t = METADATA.tables
    tbls, sds, serdes = t["TBLS"], t["SDS"], t["SERDES"]
    database, name = table.split(".")
    chosen = (
        sa.select(tbls, sds, serdes)
        .join(t["DBS"], t["DBS"].c.DB_ID == tbls.c.DB_ID)
        .join(sds, sds.c.SD_ID == tbls.c.SD_ID)
        .join(serdes, serdes.c.SERDE_ID == sds.c.SERDE_ID)
        .where(t["DBS"].c.NAME == database, tbls.c.TBL_NAME == name)
    )
    (row,) = rows(url, chosen)
    found: dict[str, Any] = {"TBLS": row}
    keys = ("SD_ID", "SERDE_ID", "CD_ID", "TBL_ID")
    for other in METADATA.sorted_tables:
        key = next((k for k in keys if k in other.c), None)
        if key is not None and other.name not in ELSEWHERE:
            found[other.name] = sorted(rows(url, sa.select(other).where(other.c[key] == row[key])), key=str)
    parts = t["PARTITIONS"]
    partitions = sa.select(parts, sds, serdes).select_from(parts.join(sds).join(serdes)).order_by(parts.c.PART_NAME)
    found["PARTITIONS"] = rows(url, partitions.where(parts.c.TBL_ID == row["TBL_ID"]))
    for partition in found["PARTITIONS"]:
        for other in ("PARTITION_PARAMS", "PARTITION_KEY_VALS"):
            of_partition = sa.select(t[other]).where(t[other].c.PART_ID == partition["PART_ID"])
            partition[other] = sorted(map(cleaned, rows(url, of_partition)), key=str)
    return {key: cleaned(value) for key, value in found.items()}


def cleaned(value: Any) -> Any:
    """Without what may differ: ids, times, and which of the two databases it is."""
    if isinstance(value, list):
        return [item for item in map(cleaned, value) if item.get("PARAM_KEY") != "transient_lastDdlTime"]
    if isinstance(value, dict):
        return {k: cleaned(v) for k, v in value.items() if not VOLATILE.search(k)}
    if isinstance(value, str):
        return value.replace("/theirs.db/", "/ours.db/").replace("///", "/").replace(":/", ":///", 1)
    return value


def test_a_database_of_ours_is_stored_as_hive_stores_it(hive: Hive, catalog: Catalog) -> None:
    dbs = METADATA.tables["DBS"]

    def database(name: str) -> list[dict[str, str]]:
        found = cleaned(rows(hive.metastore_url, sa.select(dbs).where(dbs.c.NAME == name)))
        return [{key: str(value).replace(name, "NAME") for key, value in row.items()} for row in found]

    assert database("ours") == database("theirs")
    assert len(database("ours")) == 1


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_a_table_of_ours_is_stored_as_hive_stores_it(hive: Hive, catalog: Catalog, kind: str) -> None:
    assert stored(hive.metastore_url, f"ours.{kind}") == stored(hive.metastore_url, f"theirs.{kind}")


def test_a_partition_of_ours_is_stored_as_hive_stores_it(hive: Hive, catalog: Catalog) -> None:
    catalog.add_partitions("ours.partitioned", [["2024-02-29", "7"]])
    hive.run("alter table theirs.partitioned add partition (day='2024-02-29', hour=7)")
    ours = stored(hive.metastore_url, "ours.partitioned")["PARTITIONS"]
    assert ours == stored(hive.metastore_url, "theirs.partitioned")["PARTITIONS"]
    assert [row["PART_NAME"] for row in ours] == ["day=2024-02-29/hour=7"]


def test_hive_describes_our_table_as_it_describes_its_own(hive: Hive, catalog: Catalog) -> None:
    def described(table: str) -> list[tuple[Any, ...]]:
        volatile = ("Database:", "Location:", "CreateTime:", "transient_lastDdlTime")
        found = hive.run(f"describe formatted {table}")
        return [row for row in found if not any(str(cell).startswith(volatile) for cell in row)]

    assert described("ours.bucketed") == described("theirs.bucketed")


def test_hive_writes_to_and_drops_our_objects(hive: Hive, catalog: Catalog) -> None:
    hive.run("insert into ours.plain (id, name) values (1, 'tea')")
    assert hive.row_ids("ours.plain", "id, name") == {RowId(1, 536870912, 0): (1, "tea")}
    hive.run("insert into ours.partitioned values (1, 'tea', date '2024-03-01', 8)")
    assert [p.name for p in catalog.list_partitions("ours.partitioned", {"hour": "8"})] == ["day=2024-03-01/hour=8"]
    hive.run("drop table ours.plain")
    with pytest.raises(NoSuchObjectError):
        catalog.get_table("ours.plain")


def test_we_read_and_drop_hives_objects(hive: Hive, catalog: Catalog) -> None:
    table = catalog.get_table("theirs.bucketed")
    assert (table.columns, table.bucket_columns, table.bucket_count) == ((ID, NAME), ("id",), 4)
    assert table.location == catalog.get_table("ours.bucketed").location.replace("/ours.db/", "/theirs.db/")
    assert table.comments == {"name": "what it is called"}
    assert table.is_transactional
    catalog.drop_table("theirs.bucketed")
    assert "bucketed" not in {row[0] for row in hive.run("show tables in theirs")}
    for partition in catalog.list_partitions("theirs.partitioned"):
        catalog.drop_partition("theirs.partitioned", partition.name)
    assert hive.run("show partitions theirs.partitioned") == []
