"""What the catalog's verbs write to the notification log, with the objects as they are in the catalog's rows."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, NoSuchObjectError, WriteConflictError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.rows.reader import read_partitions_by_id, read_tables_by_id
from airflow_hive_acid.metastore.catalog.thrift.messages import alter_partitions
from airflow_hive_acid.metastore.catalog.thrift.text import partition_text, table_text
from airflow_hive_acid.metastore.catalog.thrift.write_events import Write
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES = Path(__file__).parents[3] / "fixtures"
ID, DAY = Column("id", "int"), Column("day", "string")
PARTITIONED = TableDefinition("d", "t", (ID,), (DAY,), owner="me")


def events(client: MetastoreClient, after: int = 0) -> list[tuple[str, str | None, str | None]]:
    return [(e.type, e.database, e.table) for e in client.notifications.events_after(after)]


def messages(client: MetastoreClient, kind: str) -> list[dict[str, Any]]:
    return [e.message() for e in client.notifications.events_after(0) if e.type == kind]


@pytest.fixture
def catalog_client(client: MetastoreClient) -> MetastoreClient:
    client.catalog.set_warehouse("file:/wh")
    client.catalog.create_database("d", description="ours")
    return client


def test_every_verb_writes_its_event(catalog_client: MetastoreClient) -> None:
    catalog = catalog_client.catalog
    catalog.create_table(PARTITIONED)
    assert catalog.add_partitions("d.t", ["day=a", "day=b/c".replace("/", "%2F")]) == ["day=a", "day=b%2Fc"]
    catalog.drop_partition("d.t", "day=a")
    catalog.drop_table("d.t")
    catalog.create_table(PARTITIONED)
    catalog.drop_database("d", cascade=True)
    assert events(catalog_client) == [
        ("CREATE_DATABASE", "d", None), ("CREATE_TABLE", "d", "t"), ("ADD_PARTITION", "d", "t"),
        ("DROP_PARTITION", "d", "t"), ("DROP_TABLE", "d", "t"), ("CREATE_TABLE", "d", "t"), ("DROP_TABLE", "d", "t"),
        ("DROP_DATABASE", "d", None),
    ]  # fmt: skip
    assert [e.event_id for e in catalog_client.notifications.events_after(0)] == list(range(1, 9))


@pytest.mark.every_database
@pytest.mark.hive4("no WRITE_ID in the catalog")
def test_the_objects_are_those_of_the_catalog(catalog_client: MetastoreClient) -> None:
    catalog = catalog_client.catalog
    table = catalog.create_table(PARTITIONED)
    catalog.add_partitions("d.t", ["day=a%2Fb"])
    catalog.drop_partition("d.t", "day=a%2Fb")
    database = json.loads(messages(catalog_client, "CREATE_DATABASE")[0]["dbJson"])
    assert (database["1"], database["2"], database["10"]) == ({"str": "d"}, {"str": "ours"}, {"str": "file:/wh/d.db"})
    created = json.loads(messages(catalog_client, "CREATE_TABLE")[0]["tableObjJson"])
    assert (created["1"], created["2"], created["3"]) == ({"str": "t"}, {"str": "d"}, {"str": "me"})
    assert created["7"]["rec"]["1"] == {"lst": ["rec", 1, {"1": {"str": "id"}, "2": {"str": "int"}}]}
    assert created["7"]["rec"]["2"] == {"str": "file:/wh/d.db/t"}
    assert created["8"] == {"lst": ["rec", 1, {"1": {"str": "day"}, "2": {"str": "string"}}]}
    assert created["9"]["map"][3]["transactional"] == "true"
    assert created["25"] == {"i64": table.id}
    added = messages(catalog_client, "ADD_PARTITION")[0]
    assert (added["partitions"], added["partitionFiles"]) == (
        [{"day": "a/b"}], [{"partitionName": "day=a%2Fb", "files": []}])  # fmt: skip
    assert json.loads(added["partitionListJson"][0])["6"]["rec"]["2"] == {"str": "file:/wh/d.db/t/day=a%2Fb"}
    assert messages(catalog_client, "DROP_PARTITION")[0]["partitions"] == [{"day": "a/b"}]


def test_what_changes_nothing_is_no_event(catalog_client: MetastoreClient) -> None:
    catalog = catalog_client.catalog
    catalog.create_table(PARTITIONED)
    catalog.add_partitions("d.t", ["day=a"])
    before = catalog_client.notifications.current_event_id()
    catalog.create_database("d", if_not_exists=True)
    catalog.create_table(PARTITIONED, if_not_exists=True)
    catalog.add_partitions("d.t", ["day=a"])
    catalog.drop_partition("d.t", "day=x", if_exists=True)
    catalog.drop_table("d.nothing", if_exists=True)
    catalog.drop_database("nothing", if_exists=True)
    with pytest.raises(AlreadyExistsError):
        catalog.add_partitions("d.t", ["day=a", "day=b"], if_not_exists=False)
    with pytest.raises(AlreadyExistsError):
        catalog.create_table(PARTITIONED)
    assert catalog_client.notifications.current_event_id() == before


@pytest.mark.every_database
def test_nothing_is_written_when_it_is_switched_off(metastore_url: str) -> None:
    off = Settings({Source.CONNECTION: {"hive.metastore.event.db.listener.on": "false"}})
    with MetastoreClient(metastore_url, off) as client:
        client.catalog.set_warehouse("file:/wh")
        client.catalog.create_database("d")
        client.catalog.create_table(PARTITIONED)
        client.catalog.add_partitions("d.t", ["day=a"])
        client.catalog.drop_database("d", cascade=True)
        assert client.notifications.current_event_id() == 0


@pytest.mark.hive4("no WRITE_ID in the catalog")
def test_partitions_of_a_commit_are_told_before_it(catalog_client: MetastoreClient) -> None:
    client = catalog_client
    client.catalog.create_table(PARTITIONED)
    with client.transaction({"d.t": "insert"}, partitioned=["d.t"]) as txn:
        txn.add_partitions("d.t", ["day=a"])
        txn.before_commit(lambda connection: _add(client, connection, txn.write_ids["d.t"]))
    assert [kind for kind, _, _ in events(client)][-3:] == ["ALLOC_WRITE_ID_EVENT", "ADD_PARTITION", "COMMIT_TXN"]
    assert json.loads(messages(client, "ADD_PARTITION")[0]["partitionListJson"][0])["10"] == {"i64": 1}


def _add(client: MetastoreClient, connection: Any, write_id: int) -> None:
    client.catalog.add_partitions_in(connection, TableName("d", "t"), ["day=a"], write_id=write_id)


def test_partitions_of_a_refused_commit_are_not_told(catalog_client: MetastoreClient) -> None:
    """The conflict undoes the partition, and its event with it.

    ::

        t1  A and B begin to update day=b
        t2  A commits
        t3  B adds day=a and commits: refused
    """
    client = catalog_client
    client.catalog.create_table(PARTITIONED)
    client.catalog.add_partitions("d.t", ["day=b"])
    first, second = (client.begin({"d.t": "update"}, partitioned=["d.t"]) for _ in range(2))
    for txn in (first, second):
        txn.add_partitions("d.t", ["day=b"])
    second.before_commit(lambda connection: _add(client, connection, second.write_ids["d.t"]))
    first.commit()
    with pytest.raises(WriteConflictError):
        second.commit()
    assert [p.name for p in client.catalog.list_partitions("d.t")] == ["day=b"]
    assert len(messages(client, "ADD_PARTITION")) == 1
    assert events(client)[-1][0] == "ABORT_TXN"


def test_changes_are_told_with_what_was_and_what_is(catalog_client: MetastoreClient) -> None:
    client, log = catalog_client, catalog_client.catalog.events
    database, table = client.catalog.get_database("d"), client.catalog.create_table(PARTITIONED)
    client.catalog.add_partitions("d.t", ["day=a", "day=b"])
    ids = [p.id for p in client.catalog.list_partitions("d.t")]

    def change(connection: Any) -> None:
        log.database_altered(connection, database, database)
        log.table_altered(connection, table, replace(table, properties={}), write_id=3)
        parts = list(read_partitions_by_id(connection, ids).values())
        log.partition_altered(connection, parts[0])
        told = [parts[0], replace(parts[1], write_id=7)]
        client.notifications.later(connection, alter_partitions(table, told))

    client.database.run(log.finishing(change))
    kinds = ["ALTER_DATABASE", "ALTER_TABLE", "ALTER_PARTITION", "ALTER_PARTITIONS", "ALTER_PARTITIONS"]
    assert [kind for kind, _, _ in events(client)][-5:] == kinds
    altered = messages(client, "ALTER_TABLE")[0]
    assert (altered["writeId"], altered["isTruncateOp"]) == (3, "false")
    before, after = (json.loads(altered[f"tableObj{when}Json"]) for when in ("Before", "After"))
    assert before.pop("9") == json.loads(table_text(table))["9"]
    assert after.pop("9") == {"map": ["str", "str", 0, {}]}
    assert before == after
    assert messages(client, "ALTER_PARTITION")[0]["keyValues"] == {"day": "a"}
    # One for each write id: Hive refuses to read one with several.
    assert [(m["partitions"], m["writeId"]) for m in messages(client, "ALTER_PARTITIONS")] == [
        ([{"day": "a"}], 0), ([{"day": "b"}], 7)]  # fmt: skip


def test_telling_a_change_reads_no_table_again(catalog_client: MetastoreClient) -> None:
    """A verb reads its table before its txn, under the row's lock, and after; the event is made of these."""
    client, reads = catalog_client, 0

    def count(*arguments: Any) -> None:
        nonlocal reads
        reads += arguments[2].startswith("SELECT") and "VIEW_EXPANDED_TEXT" in arguments[2]

    client.catalog.create_table(PARTITIONED)
    sa.event.listen(client.database.engine, "before_cursor_execute", count)
    client.catalog.touch("d.t")
    assert reads == 3
    client.catalog.drop_table("d.t")
    assert reads == 4
    kinds = [kind for kind, _, _ in events(client)]
    assert [kind for kind in kinds if kind.endswith("_TABLE")][-2:] == ["ALTER_TABLE", "DROP_TABLE"]


def test_many_partitions_are_told_in_several_events(catalog_client: MetastoreClient) -> None:
    catalog_client.catalog.create_table(PARTITIONED)
    catalog_client.catalog.add_partitions("d.t", [f"day={n:04d}" for n in range(1001)])
    assert [len(m["partitions"]) for m in messages(catalog_client, "ADD_PARTITION")] == [1000, 1]


@pytest.mark.hive4("no WRITE_ID in the catalog")
def test_a_first_write_tells_that_statistics_are_no_longer_exact(catalog_client: MetastoreClient) -> None:
    """What is told last of the table and its partition is what the catalog's rows are then."""
    client = catalog_client
    client.catalog.create_table(PARTITIONED)
    client.catalog.create_table(TableDefinition("d", "u", (ID,), owner="me"))
    client.catalog.add_partitions("d.t", ["day=a", "day=b"])
    for _ in range(2):
        with client.transaction({"d.t": "insert", "d.u": "insert"}, partitioned=["d.t"]) as txn:
            txn.add_partitions("d.t", ["day=a", "day=b"])
    told = [e for e in events(client) if e[0].startswith("ALTER")]
    assert told == [("ALTER_TABLE", "d", "u"), ("ALTER_PARTITIONS", "d", "t")]
    altered, parts = messages(client, "ALTER_TABLE")[0], messages(client, "ALTER_PARTITIONS")[0]
    assert (altered["writeId"], parts["writeId"], altered["isTruncateOp"]) == (1, 1, "false")
    assert "COLUMN_STATS_ACCURATE" in altered["tableObjBeforeJson"]
    with client.database.reading() as connection:
        table = client.catalog.get_table("d.u")
        assert json.loads(altered["tableObjAfterJson"]) == json.loads(
            table_text(read_tables_by_id(connection, [table.id])[table.id]))  # fmt: skip
        found = read_partitions_by_id(connection, [p.id for p in client.catalog.list_partitions("d.t")])
        assert [json.loads(text) for text in parts["partitionListJson"]] == [
            json.loads(partition_text(p)) for p in found.values()]  # fmt: skip
    kinds = [kind for kind, _, _ in events(client)]
    assert kinds.index("ALTER_PARTITIONS") < kinds.index("COMMIT_TXN")


WRITES = Settings({Source.CONNECTION: {"hive.metastore.dml.events": "true"}})


@pytest.mark.every_database
@pytest.mark.hive4("no TXN_WRITE_NOTIFICATION_LOG")
def test_a_commit_records_the_files_it_brings(catalog_client: MetastoreClient, stored: Any, metastore_url: str) -> None:
    catalog_client.catalog.create_table(PARTITIONED)
    catalog_client.catalog.add_partitions("d.t", ["day=a"])
    key = TableName("d", "t")
    delta = "delta_0000001_0000001_0000"
    writes = [Write(key, 1, "day=a", ((f"file:/wh/d.db/t/day=a/{delta}/bucket_0000{n}", delta),)) for n in range(2)]
    with MetastoreClient(metastore_url, WRITES) as client:
        for brought in (writes, writes[:1]):
            with client.transaction({"d.t": "insert"}, partitioned=["d.t"]) as txn:
                txn.add_partitions("d.t", ["day=a"])
                for write in brought:
                    txn.before_commit(partial(client.write_events.acid_written, txn_id=txn.txn_id, writes=[write]))
        client.database.run(lambda connection: client.write_events.acid_written(connection, 9, [Write(key, 9, "", ())]))
        with pytest.raises(NoSuchObjectError):
            client.database.run(
                lambda connection: client.write_events.acid_written(connection, 9, [Write(key, 9, "day=z", ())])
            )
    rows = stored("TXN_WRITE_NOTIFICATION_LOG")
    one, two = (f"file:/wh/d.db/t/day=a/{delta}/bucket_0000{n}###{delta}" for n in range(2))
    assert [(r["WNL_ID"], r["WNL_TXNID"], r["WNL_PARTITION"], r["WNL_FILES"]) for r in rows] == [
        (1, 1, "day=a", f"{one}]{two}"), (2, 2, "day=a", one), (3, 9, "", "")]  # fmt: skip
    assert json.loads(rows[0]["WNL_TABLE_OBJ"])["1"] == {"str": "t"}
    assert json.loads(rows[0]["WNL_PARTITION_OBJ"])["1"] == {"lst": ["str", 1, "a"]}
    assert rows[2]["WNL_PARTITION_OBJ"] is None
    assert rows[0]["WNL_EVENT_TIME"] < 4_000_000_000


def test_inserts_into_other_tables_are_events_when_they_are_asked_for(
    catalog_client: MetastoreClient, metastore_url: str
) -> None:
    catalog_client.catalog.create_table(PARTITIONED)
    plain_table = TableDefinition("d", "x", (ID,), (DAY,), external=True, owner="me")
    catalog_client.catalog.create_table(plain_table)
    catalog_client.catalog.add_partitions("d.x", ["day=a"])
    catalog_client.write_events.inserted("d.x", ["file:/e/1"], partition="day=a")
    assert messages(catalog_client, "INSERT") == []
    with MetastoreClient(metastore_url, WRITES) as client:
        client.write_events.inserted("d.x", ["file:/e/1"], partition="day=a", replace=True)
        (told,) = messages(client, "INSERT")
        assert (told["files"], told["replace"], told["tableType"]) == (["file:/e/1###"], "true", "EXTERNAL_TABLE")
        assert json.loads(told["ptnObjJson"])["1"] == {"lst": ["str", 1, "a"]}
        with pytest.raises(InvalidArgumentsError, match="transactional"):
            client.write_events.inserted("d.t", [])
        with pytest.raises(NoSuchObjectError, match="did you mean"):
            client.write_events.inserted("d.xx", [])
        (told_last,) = client.events_after(client.notifications.current_event_id() - 1)
        assert (told_last.type, told_last.message()["table"]) == ("INSERT", "x")


def test_two_clients_write_events_without_gaps_and_without_waiting_for_ever(metastore_url: str) -> None:
    """DDL and txns of two clients at once: the sequence is the last lock of each, so that no circle can arise (R15)."""
    barrier = threading.Barrier(2)

    def work(number: int) -> None:
        with MetastoreClient(metastore_url) as client:
            barrier.wait(30)
            for turn in range(5):
                client.catalog.create_table(TableDefinition("d", f"t{number}_{turn}", (ID,), (DAY,)))
                client.catalog.add_partitions(f"d.t{number}_{turn}", ["day=a"])
                with client.transaction({"d.shared": "insert"}):
                    pass
                client.catalog.drop_table(f"d.t{number}_{turn}")

    with MetastoreClient(metastore_url) as client:
        client.catalog.set_warehouse("file:/wh")
        client.catalog.create_database("d")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(2)))
        found = client.notifications.events_after(0)
        assert [e.event_id for e in found] == list(range(1, 2 * 5 * 6 + 2))


@pytest.mark.hive4("no WRITE_ID in the catalog")
@pytest.mark.parametrize(
    ("stage", "kind", "table"),
    [
        ("part_dyn/3_add_drop", "DROP_PARTITION", "t"),
        ("evolve/4_compacted", "ALTER_PARTITIONS", "p"),
        ("unpart_dml/4_merge", "ALTER_TABLE", "t"),
    ],
)
def test_rows_that_hive_wrote_give_the_objects_hive_wrote(
    client: MetastoreClient, load: Callable[[str], None], stage: str, kind: str, table: str
) -> None:
    """The last event about a table shows it as its rows are now."""
    load((FIXTURES / stage / "metastore.sql").read_text().replace("@WH@", "/warehouse"))
    hive = next(m for m in reversed(messages(client, kind)) if m["table"] == table)
    name = client.catalog.get_table(f"default.{table}")
    partitions = client.catalog.list_partitions(f"default.{table}") if name.is_partitioned else []
    with client.database.reading() as connection:
        ours = table_text(read_tables_by_id(connection, [name.id])[name.id])
        ours_of_parts = {p.name: partition_text(p) for p in read_partitions_by_id(
            connection, [p.id for p in partitions]).values()}  # fmt: skip
    assert plain(ours) == plain(hive.get("tableObjAfterJson") or hive["tableObjJson"])
    shown = {tuple(json.loads(text)["1"]["lst"][2:]): text for text in hive.get("partitionListJson", ())}
    for partition in partitions:
        if partition.values in shown:
            assert plain(ours_of_parts[partition.name]) == plain(shown[partition.values])


def plain(text: str) -> dict[str, Any]:
    """An object without what only Hive's clients add, and wherever the warehouse is."""
    fields: dict[str, Any] = json.loads(text)
    storage = fields["7"]["rec"] if "rec" in fields["7"] else fields["6"]["rec"]
    storage["2"]["str"] = re.sub(r"^file:(/warehouse|.*/wh_[a-z_]+)", "", storage["2"]["str"])
    # Hive does not load the parameters of every serde; that one line it would have.
    storage["7"]["rec"]["3"]["map"] = None
    for number in ("13", "14", "20", "22", "27", "28") if "25" in fields else ():
        fields.pop(number, None)
    return fields
