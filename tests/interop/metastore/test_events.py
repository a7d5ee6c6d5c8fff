"""The notification log: Hive's own deserializer reads every event that we write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.rows.reader import read_partitions_by_id, read_tables_by_id, require_database
from airflow_hive_acid.metastore.catalog.thrift import messages
from airflow_hive_acid.metastore.catalog.thrift.write_events import Write
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.notifications.events import EventType
from airflow_hive_acid.metastore.schema.hive_catalog import DBS, TABLE_PARAMS
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from tests.interop.hive import Hive

pytestmark = pytest.mark.interop

COMMENT = 'quoted "\\" and \n é 😀'
TABLE = TableDefinition(
    "told",
    "t",
    (Column("id", "int"), Column("price", "decimal(10,2)")),
    (Column("day", "string"), Column("hour", "int")),
    properties={"note": COMMENT},
    comments={"id": "the id"},
    owner="somebody",
)
DELTA = "delta_0000001_0000001_0000"


def tell(client: MetastoreClient) -> None:
    """Everything that has an event."""
    catalog, log = client.catalog, client.catalog.events
    database = catalog.create_database("told", description=COMMENT)

    def alter_database(connection: sa.Connection) -> None:
        connection.execute(sa.update(DBS).where(DBS.c.DB_ID == database.id).values(OWNER_NAME="another"))
        log.database_altered(connection, database, require_database(connection, "told"))

    client.database.run(log.finishing(alter_database))
    table = catalog.create_table(TABLE)

    def alter_table(connection: sa.Connection) -> None:
        row = {"TBL_ID": table.id, "PARAM_KEY": "added", "PARAM_VALUE": "later"}
        connection.execute(sa.insert(TABLE_PARAMS), row)
        altered = read_tables_by_id(connection, [table.id])[table.id]
        event = messages.alter_table(table, altered, write_id=4, truncated=True)
        client.notifications.later(connection, [event])

    client.database.run(log.finishing(alter_table))
    catalog.add_partitions("told.t", [("a/b", "1"), ("c", "2")])
    ids = [p.id for p in catalog.list_partitions("told.t")]

    def alter_partitions(connection: sa.Connection) -> None:
        parts = list(read_partitions_by_id(connection, ids).values())
        client.notifications.later(connection, messages.alter_partitions(table, parts))
        log.partition_altered(connection, parts[0])

    client.database.run(log.finishing(alter_partitions))
    with client.transaction({"told.t": "insert"}, partitioned=["told.t"]) as txn:
        name = "day=c/hour=2"
        txn.add_partitions("told.t", [name])
        file = f"file:/wh/t/{name}/{DELTA}/bucket_00000"
        write = Write(TableName("told", "t"), txn.write_ids["told.t"], name, ((file, DELTA),))
        txn.before_commit(lambda connection: client.write_events.acid_written(connection, txn.txn_id, [write]))
    client.begin({"told.t": "insert"}, partitioned=["told.t"]).abort()
    compact(client)
    catalog.create_table(TableDefinition("told", "x", (Column("id", "int"),), external=True))
    client.write_events.inserted("told.x", ["file:/wh/x/1"], replace=True)
    catalog.drop_partition("told.t", ("c", "2"))
    catalog.drop_database("told", cascade=True)


def compact(client: MetastoreClient) -> None:
    txn_id = client.open_txn(type=TxnType.COMPACTION)
    row = {"CQ_ID": 77, "CQ_DATABASE": "told", "CQ_TABLE": "t", "CQ_PARTITION": "day=c/hour=2", "CQ_STATE": "w",
           "CQ_TYPE": "a", "CQ_TXN_ID": txn_id}  # fmt: skip
    with client.database.transaction() as connection:
        connection.execute(sa.insert(COMPACTION_QUEUE), row)
    client.commit_txn(txn_id)


@pytest.mark.parametrize("form", ["gzip(json-2.0)", "json-0.2"])
def test_hive_reads_every_event_that_we_write(hive: Hive, form: str) -> None:
    settings = Settings({Source.CONNECTION: {
        "hive.metastore.dml.events": "true", "hive.metastore.event.message.factory": form}})  # fmt: skip
    with MetastoreClient(hive.metastore_url, settings) as client:
        client.catalog.set_warehouse(f"file:{hive.warehouse}")
        before = client.notifications.current_event_id()
        tell(client)
        ours = client.events_after(before)
    found = hive.events_after(before)
    assert [e["type"] for e in found] == [e.type for e in ours]
    assert {e["type"] for e in found} == {kind.value for kind in EventType}
    by_type = {e["type"]: e["message"] for e in found}
    first = {e["type"]: e for e in reversed(found)}
    check_databases(by_type)
    check_tables({kind: event["message"] for kind, event in first.items()})
    check_partitions(by_type)
    (commit,) = [e for e in found if "writes" in e]
    assert "Table(tableName:t, dbName:told" in commit["writes"][0]["table"]
    assert "Partition(values:[c, 2], dbName:told" in commit["writes"][0]["partition"]
    assert commit["writes"][0]["files"] == f"file:/wh/t/day=c/hour=2/{DELTA}/bucket_00000###{DELTA}"
    assert commit["message"]["Databases"] == ["told"]
    assert by_type["COMMIT_COMPACTION_EVENT"]["CompactionId"] == 77


def check_databases(messages: dict[str, Any]) -> None:
    created = messages["CREATE_DATABASE"]["DatabaseObject"]
    assert created.startswith(f"Database(name:told, description:{COMMENT}, locationUri:file:")
    assert "ownerType:USER, catalogName:hive" in created
    altered = messages["ALTER_DATABASE"]
    assert "ownerName:another" not in altered["DbObjBefore"]
    assert "ownerName:another" in altered["DbObjAfter"]
    assert messages["DROP_DATABASE"]["DB"] == "told"


def check_tables(messages: dict[str, Any]) -> None:
    created = messages["CREATE_TABLE"]["TableObj"]
    assert created.startswith("Table(tableName:t, dbName:told, owner:somebody, createTime:")
    assert "cols:[FieldSchema(name:id, type:int, comment:the id), FieldSchema(name:price, " in created
    assert "partitionKeys:[FieldSchema(name:day, type:string, comment:null), FieldSchema(name:hour, " in created
    assert f"note={COMMENT}" in created
    altered = messages["ALTER_TABLE"]
    assert "added=later" not in altered["TableObjBefore"]
    assert "added=later" in altered["TableObjAfter"]
    assert (altered["WriteId"], altered["IsTruncateOp"]) == (4, True)
    inserted = messages["INSERT"]
    assert list(inserted["Files"]) == ["file:/wh/x/1###"]
    assert "tableName:x" in inserted["TableObj"]
    assert messages["DROP_TABLE"]["Table"] in ("t", "x")


def check_partitions(messages: dict[str, Any]) -> None:
    added = messages["ADD_PARTITION"]
    assert added["Partitions"] == [{"day": "a/b", "hour": "1"}, {"day": "c", "hour": "2"}]
    assert [text[:40] for text in added["PartitionObjs"]] == [
        "Partition(values:[a/b, 1], dbName:told, ", "Partition(values:[c, 2], dbName:told, ta"]  # fmt: skip
    altered = messages["ALTER_PARTITION"]
    assert altered["KeyValues"] == {"day": "a/b", "hour": "1"}
    assert altered["PtnObjBefore"] == altered["PtnObjAfter"]
    assert len(messages["ALTER_PARTITIONS"]["PartitionObjs"]) >= 1
    assert messages["DROP_PARTITION"]["Partitions"] == [{"day": "c", "hour": "2"}]
