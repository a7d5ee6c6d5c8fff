"""A table as of a time: what the log does not know is refused, whatever else has been tidied up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import HistoryGoneError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.listing.history import read_history, shown_moment, write_ids_at
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.schema.hive_catalog import TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPLETED_TXN_COMPONENTS,
    NOTIFICATION_LOG,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
)
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from typing import Any

T, OTHER, KEY = "db.t", "other.t", table_name("db.t")
LOG = NOTIFICATION_LOG.c


def make(client: MetastoreClient) -> None:
    client.catalog.set_warehouse("file:/wh")
    for name in (T, OTHER):
        database, table = name.split(".")
        client.catalog.create_database(database)
        client.catalog.create_table(TableDefinition(database, table, (Column("id", "int"),)))


def write(client: MetastoreClient, table: str = T) -> int:
    """A committed write; its last event."""
    with client.begin({table: "insert"}):
        pass
    return client.notifications.current_event_id()


def change(client: MetastoreClient, *statements: Any) -> None:
    with client.database.transaction() as connection:
        for statement in statements:
            connection.execute(statement)


def aged(client: MetastoreClient, *ends: int) -> int:
    """Move events to seconds of their own: those up to the last of ``ends`` to 100 s ago, to the one before to 200 s.

    The tables are older than the log.

    :return: the time that it is.
    """
    with client.database.reading() as connection:
        now = int(connection.execute(sa.select(sa.func.max(LOG.EVENT_TIME))).scalar_one())
    ages = range(100, 100 * len(ends) + 1, 100)
    moved = [
        sa.update(NOTIFICATION_LOG).where(LOG.EVENT_ID <= end).values(EVENT_TIME=now - age)
        for age, end in zip(ages, reversed(ends), strict=True)
    ]
    change(client, *moved, sa.update(TBLS).values(CREATE_TIME=now - 4000))
    return now


def seen_at(client: MetastoreClient, moment: int) -> set[int]:
    """The write ids that are seen as of a time."""
    table, seen = client.catalog.get_table(T), client.get_valid_write_ids(T)[T]
    then = write_ids_at(client.database, client.notifications, table, KEY, seen, shown_moment(moment))
    return {w for w in range(1, seen.high_watermark + 1) if then.is_valid(w)}


def test_what_was_written_before_the_log_was_switched_on_has_no_time(metastore_url: str) -> None:
    """
    -      write id 1; nobody writes events
    200 s  the log begins
    100 s  write id 2
    """
    off = Settings({Source.CONNECTION: {"hive.metastore.event.db.listener.on": "false"}})
    with MetastoreClient(metastore_url, off) as silent:
        make(silent)
        write(silent)
    with MetastoreClient(metastore_url) as client:
        begun = write(client, OTHER)
        now = aged(client, begun, write(client))
        assert seen_at(client, now) == seen_at(client, now - 100) == {1, 2}
        assert seen_at(client, now - 150) == seen_at(client, now - 200) == {1}
        with pytest.raises(HistoryGoneError, match="the notification log knows commits from"):
            seen_at(client, now - 300)


@pytest.mark.every_database
@pytest.mark.parametrize("names_databases", [True, False], ids=["Hive 4.2", "Hive 4.1"])
def test_a_commit_whose_write_id_is_noted_nowhere_any_more_is_not_taken_for_an_older_one(
    client: MetastoreClient, names_databases: bool
) -> None:
    """
    300 s  a txn opens and gets write id 1 of the table; the log of then is purged
    200 s  others write
    100 s  it commits, and housekeeping forgets of which table it had a write id
    now    write id 2
    """
    make(client)
    early = client.begin({T: "insert"})
    purged = client.notifications.current_event_id()
    others = write(client, OTHER)
    early.commit()
    ended = client.notifications.current_event_id()
    write(client)
    now = aged(client, purged, others, ended)
    change(
        client,
        sa.delete(NOTIFICATION_LOG).where(LOG.EVENT_ID <= purged),
        sa.delete(TXN_TO_WRITE_ID).where(TXN_TO_WRITE_ID.c.T2W_TXNID == early.txn_id),
        sa.delete(COMPLETED_TXN_COMPONENTS).where(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID == early.txn_id),
    )
    if not names_databases:
        message = f'{{"txnid": {early.txn_id}, "databases": null, "writeIds": null}}'
        plain = {"MESSAGE": message, "MESSAGE_FORMAT": "json-0.2"}
        change(client, sa.update(NOTIFICATION_LOG).where(LOG.EVENT_ID == ended).values(plain))
    assert seen_at(client, now) == {1, 2}
    assert seen_at(client, now - 50) == seen_at(client, now - 100) == {1}
    with pytest.raises(HistoryGoneError, match="the notification log knows commits from"):
        seen_at(client, now - 150)


@pytest.mark.every_database
def test_a_commit_in_another_database_says_nothing_of_a_table(client: MetastoreClient) -> None:
    """A txn of before the log's beginning that cannot have written the table hides nothing of its history."""
    make(client)
    first = write(client)
    elsewhere = client.begin({OTHER: "insert"})
    purged = client.notifications.current_event_id()
    second = write(client)
    elsewhere.commit()
    ended = client.notifications.current_event_id()
    change(client, sa.delete(TXN_TO_WRITE_ID), sa.delete(COMPLETED_TXN_COMPONENTS))
    now = aged(client, first, purged, second, ended)
    change(client, sa.delete(NOTIFICATION_LOG).where(LOG.EVENT_ID <= purged))
    assert seen_at(client, now - 150) == {1, 2}


@pytest.mark.every_database
def test_an_aborted_write_that_the_metastore_has_forgotten_is_no_commit_without_a_time(client: MetastoreClient) -> None:
    """A Cleaner has removed what it had written, and its txn with that: its write id counts as committed since."""
    make(client)
    first = write(client)
    given_up = client.begin({T: "insert"})
    given_up.abort("no")
    now = aged(client, first, write(client))
    gone = given_up.txn_id
    change(
        client,
        sa.delete(TXN_COMPONENTS).where(TXN_COMPONENTS.c.TC_TXNID == gone),
        sa.delete(TXN_TO_WRITE_ID).where(TXN_TO_WRITE_ID.c.T2W_TXNID == gone),
        sa.delete(TXNS).where(TXNS.c.TXN_ID == gone),
    )
    assert {1, 3} <= seen_at(client, now - 100)
    assert 3 not in seen_at(client, now - 150)
    assert read_history(client.database, client.notifications, KEY).aborted == {2}


@pytest.mark.every_database
def test_a_commit_that_the_log_lacks_is_still_refused(client: MetastoreClient) -> None:
    make(client)
    first = write(client)
    silent = write(client)
    now = aged(client, first, silent, write(client))
    change(client, sa.update(NOTIFICATION_LOG).where(LOG.EVENT_ID == silent).values(EVENT_TYPE="ANOTHER"))
    with pytest.raises(HistoryGoneError, match=r"when write id 2 of db\.t was committed is not known"):
        seen_at(client, now - 250)
