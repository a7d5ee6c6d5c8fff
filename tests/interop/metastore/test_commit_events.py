"""Commits of a real Hive fire our watchers, with what Hive's own records say of them.

This Hive writes no notification log: its listener is in a jar that Maven Central does not have. So the event of a
commit is written here, as bare as a Hive before 4.2 writes it; logs that Hive wrote itself are in the fixtures.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore.listing.commit_log import CommitLog
from airflow_hive_acid.metastore.notifications.events import Event, EventType
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.triggers import commits as watching
from airflow_hive_acid.triggers.commits import HiveAcidCommitTrigger

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient
    from tests.interop.hive import Hive

pytestmark = pytest.mark.interop

ACID = "stored as orc tblproperties ('transactional'='true')"


def run(hive: Hive, client: MetastoreClient, sql: str) -> None:
    """A statement of Hive, and the events of the txns that it has committed."""
    ids = sa.select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == "c")
    before = set(client.database.read(lambda connection: list(connection.execute(ids).scalars())))
    hive.run(sql)
    after = set(client.database.read(lambda connection: list(connection.execute(ids).scalars())))
    committed = [Event(EventType.COMMIT_TXN, {"txnid": txn_id}) for txn_id in sorted(after - before)]
    client.database.run(lambda connection: client.notifications.write(connection, committed))


def told(client: MetastoreClient, after: int) -> list[tuple[Any, ...]]:
    page = CommitLog(client.database, client.notifications).read(after)
    assert page.missed == ()
    assert all(commit.user for commit in page.commits)
    assert all(commit.volume is None for commit in page.commits), "Hive does not say how many rows"
    return [(c.table.name, c.write_id, c.operations, c.partitions) for c in page.commits]


def test_every_statement_of_hive_is_one_commit_with_its_partitions(
    hive: Hive, client: MetastoreClient, hive_database: str
) -> None:
    database = hive_database
    hive.run(f"create table {database}.p (id int, v string) partitioned by (k string) {ACID}")
    hive.run(f"create table {database}.u (id int, v string) {ACID}")
    after = client.notifications.current_event_id()
    for sql in (
        "insert into {d}.p partition (k) values (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'a/b')",
        "insert into {d}.p partition (k = 'x') values (4, 'd')",
        "update {d}.p set v = 'e' where id = 2",
        "delete from {d}.p where id = 1",
        "insert into {d}.u values (1, 'a'), (5, 'e')",
        "merge into {d}.p t using {d}.u s on t.id = s.id when matched then update set v = s.v "
        "when not matched then insert values (s.id, s.v, 'z')",
        "select count(*) from {d}.p",
        "update {d}.p set v = 'e' where id = 99",
    ):
        run(hive, client, sql.format(d=database))
    found = told(client, after)
    assert found[:2] == [("p", 1, ("insert",), ("k=a%2Fb", "k=x", "k=y")), ("p", 2, ("insert",), ("k=x",))]
    # To Hive an UPDATE is a delete and an insert.
    assert [(*row[:2], *row[3:]) for row in found[2:4]] == [("p", 3, ("k=y",)), ("p", 4, ("k=x",))]
    assert all("change" in operations for _, _, operations, _ in found[2:4])
    assert found[4] == ("u", 1, ("insert",), ())
    table, write_id, operations, partitions = found[5]
    assert (table, write_id, "insert" in operations, "k=z" in partitions) == ("p", 5, True, True)
    assert len(found) == 6, "what was only read, or matched no row, is no commit"


def test_commit_of_hive_fires_the_watcher(
    hive: Hive, client: MetastoreClient, hive_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"{hive_database}.w"
    hive.run(f"create table {table} (id int) partitioned by (k int) {ACID}")
    url = client.database.url.render_as_string(hide_password=False)
    monkeypatch.setenv("AIRFLOW_CONN_HIVE", json.dumps({"conn_type": "hive_acid", "extra": {"metastore_url": url}}))
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.1)

    async def story() -> list[dict[str, Any]]:
        trigger = HiveAcidCommitTrigger(table, "k=1", ["insert"], "hive")
        running = trigger.run()
        first = asyncio.ensure_future(anext(running))
        while trigger._position is None:
            await asyncio.sleep(0.05)
        for statement in (
            f"insert into {table} partition (k = 2) values (1)",
            f"insert into {table} partition (k = 1) values (1), (2)",
            f"insert into {table} partition (k = 1) values (3)",
        ):
            await asyncio.to_thread(run, hive, client, statement)
        found = [(await asyncio.wait_for(first, 60)).payload, (await asyncio.wait_for(anext(running), 60)).payload]
        await running.aclose()
        return found

    first, second = asyncio.run(story())
    assert (first["write_id"], first["partitions"], first["operations"]) == (2, ["k=1"], ["insert"])
    assert (second["write_id"], second["partitions"], second["operations"]) == (3, ["k=1"], ["insert"])
    assert (first["table"], first["conn_id"], first["redelivered"]) == (table, "hive", False)
