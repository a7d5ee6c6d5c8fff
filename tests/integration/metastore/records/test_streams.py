"""The record of a stream: one owner, one commit for each micro-batch (R14), and lost answers looked up (R17)."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import ClaimLostError, InvalidArgumentsError, NoSuchObjectError, StreamBusyError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.records.streams import NONE_YET

SILENT = 30_000


def opened(client, who="a", source="q1", name="s", table="w.t", **more):
    return client.streams.open(name, table, source, who, silent_ms=SILENT, **more)


def commit(client, owner, batch, attempt="1", txn_id=7, rows=10):
    client.streams.begun(owner, attempt, [txn_id])
    mark = client.streams.at_commit(owner, attempt, batch, txn_id, 3, rows, 1, '{"sources": "{}"}')
    client.database.run(mark)


def test_a_micro_batch_is_committed_once_and_the_record_says_what_was(client):
    owner = opened(client)
    assert owner.found.batch == NONE_YET
    commit(client, owner, 0)
    with pytest.raises(ClaimLostError):
        commit(client, owner, 0, "2")
    commit(client, owner, 1, "3", txn_id=8)
    found = client.streams.find("s")
    assert (found.batch, found.txn_id, found.write_id, found.batches) == (1, 8, 3, 2)
    assert (found.rows, found.quarantined, found.offsets, found.open_txns) == (20, 2, '{"sources": "{}"}', ())


def test_a_second_process_is_refused_while_the_first_one_lives(client):
    opened(client)
    with pytest.raises(StreamBusyError, match=r"stream s is run by a, .*Two streams into one table need two names"):
        opened(client, who="b")
    assert opened(client, who="b", name="s2").found.batch == NONE_YET


def test_whoever_is_silent_or_has_left_or_is_an_earlier_try_is_taken_over(client):
    """The earlier owner's attempt is found, and its commit refused:

    t1  a begins micro-batch 0 in txn 7
    t2           a's second try opens: finds txn 7
    t3  a's first try commits: refused
    """
    first = opened(client)
    client.streams.begun(first, "1", [7])
    second = opened(client)
    assert second.found.open_txns == (7,)
    with pytest.raises(ClaimLostError, match="taken over by another process"):
        client.database.run(client.streams.at_commit(first, "1", 0, 7, 3, 1, 0, None))
    with pytest.raises(ClaimLostError):
        client.streams.beat(first)
    client.streams.leave(second)
    third = opened(client, who="b")
    assert client.streams.open("s", "w.t", "q1", "c", silent_ms=0).token != third.token


def test_a_lost_answer_is_looked_up_and_a_commit_on_its_way_comes_too_late(client):
    owner = opened(client)
    commit(client, owner, 0)
    assert client.streams.settle(owner, 0).batch == 0
    client.streams.begun(owner, "2", [9])
    late = client.streams.at_commit(owner, "2", 1, 9, 4, 1, 0, None)
    assert client.streams.settle(owner, 1) is None
    with pytest.raises(ClaimLostError):
        client.database.run(late)
    assert client.streams.find("s").batch == 0
    opened(client)
    with pytest.raises(ClaimLostError):
        client.streams.settle(owner, 1)


def test_another_table_or_checkpoint_under_the_same_name_is_refused(client):
    owner = opened(client)
    commit(client, owner, 4)
    client.streams.leave(owner)
    with pytest.raises(InvalidArgumentsError, match=r"stream s writes w\.t, not w\.other"):
        opened(client, table="w.other")
    with pytest.raises(InvalidArgumentsError, match=r"committed micro-batch 4 of another checkpoint \(q1, not q2\)"):
        opened(client, source="q2")
    again = opened(client, source="q2", start_over=True)
    assert again.found.batch == NONE_YET
    commit(client, again, 0)
    assert client.streams.find("s").source == "q2"


def test_streams_are_listed_and_forgotten_when_they_have_ended(client):
    owner = opened(client)
    assert [(s.name, s.running) for s in client.streams.all()] == [("s", True)]
    with pytest.raises(StreamBusyError, match="end it first"):
        client.streams.forget("s")
    client.streams.leave(owner)
    assert client.streams.forget("s")
    assert client.streams.all() == []
    with pytest.raises(NoSuchObjectError, match="there is no stream s"):
        client.streams.find("s")


def test_a_stream_follows_its_table_to_another_name_and_is_forgotten_with_it(client):
    """What was committed is known under the new name; of a table that is made anew nothing was committed."""
    catalog = client.catalog
    catalog.set_warehouse("file:/wh")
    for name in ("w", "v"):
        catalog.create_database(name)
    for name in ("t", "u"):
        catalog.create_table(TableDefinition("w", name, (Column("a", "int"),)))
    for stream, table in (("s", "w.t"), ("other", "w.u")):
        owner = opened(client, name=stream, table=table)
        commit(client, owner, 4)
        client.streams.leave(owner)
    catalog.rename_table("w.t", "v.r")
    with pytest.raises(InvalidArgumentsError, match=r"writes v\.r, not w\.t; .*hive-acid stream forget s"):
        opened(client)
    assert opened(client, table="v.r").found.batch == 4
    catalog.drop_table("v.r")
    catalog.create_table(TableDefinition("v", "r", (Column("a", "int"),)))
    assert opened(client, table="v.r").found.batch == NONE_YET
    assert (client.streams.find("other").table, client.streams.find("other").batch) == ("w.u", 4)
