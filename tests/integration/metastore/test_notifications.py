"""The notification log: what txn verbs write there, in which order, and how it is read and purged."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import InvalidArgumentsError, WriteConflictError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.notifications.events import decode, encode, open_txn
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_SEQUENCE, SEQUENCE_TABLE
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

ON = {"hive.metastore.event.db.listener.on": "true"}


@pytest.fixture
def logging_client(metastore_url: str) -> Iterator[MetastoreClient]:
    with MetastoreClient(metastore_url, Settings({Source.CONNECTION: ON})) as client:
        yield client


def log(client: MetastoreClient) -> list[tuple[str, dict[str, Any]]]:
    """Types and messages without what every message has."""
    found = []
    for event in client.notifications.events_after(0):
        message = event.message()
        for key in ("server", "servicePrincipal", "timestamp"):
            assert key in message
            del message[key]
        found.append((event.type, {k: v for k, v in message.items() if v is not None}))
    return found


def test_every_txn_verb_writes_its_event(logging_client: MetastoreClient, rows: Any) -> None:
    with logging_client.transaction({"db.t": "insert", "db.u": "update"}):
        pass
    logging_client.begin({"db.t": "insert"}).abort()
    assert log(logging_client) == [
        ("OPEN_TXN", {"txnIds": [1], "fromTxnId": 1, "toTxnId": 1}),
        ("ALLOC_WRITE_ID_EVENT", {"dbName": "db", "tableName": "t", "txnIdList": [1], "writeIdList": [1]}),
        ("ALLOC_WRITE_ID_EVENT", {"dbName": "db", "tableName": "u", "txnIdList": [1], "writeIdList": [1]}),
        ("COMMIT_TXN", {"txnid": 1, "writeIds": [1], "databases": ["db"]}),
        ("OPEN_TXN", {"txnIds": [2], "fromTxnId": 2, "toTxnId": 2}),
        ("ALLOC_WRITE_ID_EVENT", {"dbName": "db", "tableName": "t", "txnIdList": [2], "writeIdList": [2]}),
        ("ABORT_TXN", {"txnid": 2, "dbsUpdated": ["db"], "writeIds": [2]}),
    ]
    assert rows.select("NOTIFICATION_LOG", "EVENT_ID", "NL_ID", "CAT_NAME", "DB_NAME", "TBL_NAME")[:2] == [
        (1, 1, None, None, None),
        (2, 2, "hive", "db", "t"),
    ]
    assert rows.select("NOTIFICATION_SEQUENCE", "NEXT_EVENT_ID") == [(8,)]
    assert rows.select("NOTIFICATION_LOG", "EVENT_TIME")[0][0] < 4_000_000_000  # seconds, not milliseconds
    assert logging_client.notifications.current_event_id() == 7
    assert logging_client.notifications.count(2, 5) == 3


@pytest.mark.hive4("a Hive 3 keeps no row of a committed txn")
def test_the_raw_verbs_write_the_same_events(logging_client: MetastoreClient) -> None:
    ids = logging_client.open_txns(3)
    logging_client.allocate_write_ids("db.t", ids[:2])
    logging_client.allocate_write_ids("db.t", ids[:2])  # nothing new, no event
    logging_client.commit_txn(1)
    logging_client.commit_txn(1)
    logging_client.abort_txns([2, 3])
    assert [
        (kind, message.get("txnIds") or message.get("txnIdList") or message["txnid"])
        for kind, message in log(logging_client)
    ] == [
        ("OPEN_TXN", [1, 2, 3]),
        ("ALLOC_WRITE_ID_EVENT", [1, 2]),
        ("COMMIT_TXN", 1),
        ("ABORT_TXN", 2),
        ("ABORT_TXN", 3),
    ]


def test_readers_are_not_announced(logging_client: MetastoreClient) -> None:
    with logging_client.snapshot(["db.t"]):
        pass
    assert log(logging_client) == []


def test_a_refused_commit_and_a_time_out_are_aborts(logging_client: MetastoreClient, rows: Any) -> None:
    first, second = logging_client.begin({"db.t": "update"}), logging_client.begin({"db.t": "update"})
    first.commit()
    with pytest.raises(WriteConflictError):
        second.commit()
    third = logging_client.open_txn()
    rows.age_txns(301_000)
    logging_client.housekeeping.perform_time_outs()
    assert [m["txnid"] for kind, m in log(logging_client) if kind == "ABORT_TXN"] == [second.txn_id, third]


@pytest.mark.hive4("its Hive compacts")
def test_a_compaction_announces_itself(logging_client: MetastoreClient, rows: Any) -> None:
    txn_id = logging_client.open_txn(type=TxnType.COMPACTION)
    rows.insert(
        "COMPACTION_QUEUE",
        CQ_ID=7,
        CQ_DATABASE="db",
        CQ_TABLE="t",
        CQ_PARTITION="p=1",
        CQ_STATE="r",
        CQ_TYPE="i",
        CQ_TXN_ID=txn_id,
    )
    logging_client.commit_txn(txn_id)
    assert log(logging_client)[-1] == (
        "COMMIT_COMPACTION_EVENT",
        {"txnid": txn_id, "compactionId": 7, "type": "MINOR", "dbname": "db", "tableName": "t", "partName": "p=1"},
    )


@pytest.mark.hive4("its Hive compacts")
def test_a_soft_delete_announces_its_first_request(logging_client: MetastoreClient, rows: Any) -> None:
    """A real Hive asks the queue for one request of the txn, whatever the txn's type."""
    txn_id = logging_client.open_txn(type=TxnType.SOFT_DELETE)
    for number in (8, 7, 9):
        rows.insert("COMPACTION_QUEUE", CQ_ID=number, CQ_DATABASE="db", CQ_TABLE="t", CQ_PARTITION=f"p={number}",
                    CQ_STATE="r", CQ_TYPE="a", CQ_TXN_ID=txn_id)  # fmt: skip
    logging_client.commit_txn(txn_id)
    assert [kind for kind, _ in log(logging_client)][-2:] == ["COMMIT_TXN", "COMMIT_COMPACTION_EVENT"]
    assert log(logging_client)[-1][1] == {
        "txnid": txn_id, "compactionId": 7, "type": "MAJOR", "dbname": "db", "tableName": "t", "partName": "p=7",
    }  # fmt: skip


def test_event_ids_are_in_commit_order_and_without_gaps(metastore_url: str, logging_client: MetastoreClient) -> None:
    """A transaction that is rolled back gives its ids back."""
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        with MetastoreClient(metastore_url, Settings({Source.CONNECTION: ON})) as client:
            barrier.wait(30)
            for _ in range(5):
                txn = client.begin({f"db.t{number % 2}": "insert"})
                if number == 3:
                    txn.abort()
                else:
                    txn.commit()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    found = logging_client.notifications.events_after(0)
    assert [e.event_id for e in found] == list(range(1, 61))
    assert logging_client.notifications.events_after(55, limit=3) == found[55:58]


def test_nothing_is_written_when_it_is_switched_off(metastore_url: str, rows: Any) -> None:
    off = Settings({Source.CONNECTION: {"hive.metastore.event.db.listener.on": "false"}})
    with MetastoreClient(metastore_url, off) as client, client.transaction({"db.t": "insert"}):
        pass
    assert rows.count("NOTIFICATION_LOG") == 0


@pytest.mark.hive4("no TXN_WRITE_NOTIFICATION_LOG")
def test_old_events_are_purged_in_batches(logging_client: MetastoreClient, rows: Any) -> None:
    for _ in range(5):
        logging_client.open_txn()
    rows.update("NOTIFICATION_LOG", {"EVENT_TIME": 1}, EVENT_ID=1)
    rows.update("NOTIFICATION_LOG", {"EVENT_TIME": 1}, EVENT_ID=3)
    rows.insert(
        "TXN_WRITE_NOTIFICATION_LOG",
        WNL_ID=1,
        WNL_TXNID=1,
        WNL_WRITEID=1,
        WNL_DATABASE="db",
        WNL_TABLE="t",
        WNL_PARTITION="",
        WNL_TABLE_OBJ="{}",
        WNL_EVENT_TIME=1,
    )
    assert logging_client.notifications.purge(batch=1) == 3
    assert [e.event_id for e in logging_client.notifications.events_after(0)] == [2, 4, 5]
    assert logging_client.notifications.purge(-1000) == 3


def test_the_sequence_of_row_ids_appears_on_first_use(logging_client: MetastoreClient, rows: Any) -> None:
    rows.delete("SEQUENCE_TABLE")
    logging_client.open_txns(2)
    logging_client.open_txn()
    assert rows.select("NOTIFICATION_LOG", "NL_ID") == [(1,), (2,)]
    assert rows.select("SEQUENCE_TABLE", "NEXT_VAL") == [(3,)]


def test_two_who_are_first_at_once_make_one_sequence_of_row_ids(
    metastore_url: str, logging_client: MetastoreClient, rows: Any
) -> None:
    """
    t1  A writes the first event ever, and makes the sequence
    t2                  B finds no sequence, and waits
    t3  A commits
    t4                  B finds A's sequence, and goes on in it
    """
    rows.delete("SEQUENCE_TABLE")

    def work() -> list[int]:
        with MetastoreClient(metastore_url, Settings({Source.CONNECTION: ON})) as other:
            return other.open_txns(1)

    with ThreadPoolExecutor(1) as pool:
        with logging_client.database.transaction() as connection:
            logging_client.notifications.write(connection, [open_txn([77]), open_txn([78])])
            second = pool.submit(work)
            assert not wait([second], timeout=0.5).done
        opened = second.result(30)
    assert [(e.event_id, e.message()["txnIds"]) for e in logging_client.notifications.events_after(0)] == [
        (1, [77]), (2, [78]), (3, opened),
    ]  # fmt: skip
    assert rows.select("NOTIFICATION_LOG", "NL_ID") == [(1,), (2,), (3,)]


def test_messages_are_hives_gzip_or_plain_json() -> None:
    text = encode({"txnid": 5}, "gzip(json-2.0)")
    assert json.loads(gzip.decompress(base64.b64decode(text)))["txnid"] == 5
    assert decode(text, "gzip(json-2.0)")["txnid"] == 5
    assert json.loads(encode({"dbName": "db"}, "json-0.2"))["dbName"] == "db"
    for message, kind in (("{", "json-0.2"), ("not base64!", "gzip(json-2.0)"), ("[]", None)):
        with pytest.raises(InvalidArgumentsError):
            decode(message, kind)
    with pytest.raises(InvalidArgumentsError, match="no message format"):
        encode({}, "xml")


@pytest.mark.backends("postgresql")
@pytest.mark.rule("R15")
@pytest.mark.parametrize("large", ["NOTIFICATION_SEQUENCE", "SEQUENCE_TABLE"])
def test_the_counters_are_locked_in_one_order_whatever_the_plan_is(
    logging_client: MetastoreClient, metastore_url: str, large: str
) -> None:
    """Parts of one statement run in the order of its plan, which follows what the server believes of the tables.

    t1  A has the row of event ids
    t2                               B writes an event and waits for that row
    t3  A gets the row of row ids: B may not have it, or each would wait for the other
    """
    logging_client.open_txn()
    engine = sa.create_engine(metastore_url, poolclass=sa.pool.NullPool)
    believed = sa.table("pg_class", *map(sa.column, ("relname", "reltuples", "relpages")))
    with engine.begin() as connection:
        connection.execute(
            sa.update(believed).where(believed.c.relname == large).values(reltuples=10_000_000, relpages=1)
        )
    blocked = sa.table("pg_locks", sa.column("granted")).select().where(sa.column("granted").is_(sa.false()))
    with MetastoreClient(metastore_url, Settings({Source.CONNECTION: ON})) as other, engine.connect() as connection:
        connection.execute(sa.select(NOTIFICATION_SEQUENCE).with_for_update())
        with ThreadPoolExecutor(1) as pool:
            writer = pool.submit(other.open_txn)
            try:
                while not connection.execute(blocked).all():
                    assert not writer.done()
                connection.execute(sa.select(SEQUENCE_TABLE).with_for_update(nowait=True))
            finally:
                connection.rollback()
        assert writer.result() == 2
    engine.dispose()
    assert [event.type for event in logging_client.notifications.events_after(0)] == ["OPEN_TXN", "OPEN_TXN"]
