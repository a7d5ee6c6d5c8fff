"""The record of a stream: one owner, one commit for each micro-batch (R14), and lost answers looked up (R17)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import ClaimLostError, InvalidArgumentsError, NoSuchObjectError, StreamBusyError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.rows.drop import delete_table
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.names import TableName
from airflow_hive_acid.metastore.records import StreamMark, read_marks, take_over_marks
from airflow_hive_acid.metastore.records.streams import NONE_YET, digest
from airflow_hive_acid.metastore.schema.hive_catalog import TBLS
from airflow_hive_acid.metastore.schema.streams import HIVE_ACID_STREAM

SILENT = 30_000


def opened(client, who="a", source="q1", name="s", table="w.t", table_id=1, **more):
    return client.streams.open(name, table, source, who, table_id=table_id, silent_ms=SILENT, **more)


def id_of(client, table):
    return client.catalog.get_table(table).id


@pytest.fixture
def catalog(client):
    """The tables w.t and w.u."""
    client.catalog.set_warehouse("file:/wh")
    for name in ("w", "v"):
        client.catalog.create_database(name)
    for name in ("t", "u"):
        make(client, "w", name)
    return client.catalog


def make(client, database, name, location=None):
    client.catalog.create_table(TableDefinition(database, name, (Column("a", "int"),), location=location))


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
    assert client.streams.open("s", "w.t", "q1", "c", table_id=1, silent_ms=0).token != third.token


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
        opened(client, table="w.other", table_id=2)
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
        client.streams.forget("s", silent_ms=SILENT)
    client.streams.leave(owner)
    client.streams.forget("s", silent_ms=SILENT)
    assert client.streams.all() == []
    with pytest.raises(NoSuchObjectError, match="there is no stream s"):
        client.streams.forget("s", silent_ms=SILENT)
    with pytest.raises(NoSuchObjectError, match="there is no stream s"):
        client.streams.find("s")


def test_the_stream_of_a_dead_process_is_forgotten_and_what_that_had_begun_commits_nothing(client):
    """t1  a begins a micro-batch, and is silent; t2  the stream is forgotten, and begun anew; t3  a commits: refused"""
    first = opened(client)
    client.streams.begun(first, "1", [7])
    client.streams.forget("s", silent_ms=0)
    assert opened(client, who="b").found.open_txns == ()
    with pytest.raises(ClaimLostError):
        client.database.run(client.streams.at_commit(first, "1", 0, 7, 3, 1, 0, None))


@pytest.mark.every_database
def test_a_stream_follows_its_table_to_another_name_and_is_forgotten_with_it(client, catalog):
    """What was committed is known under the new name; of a table that is made anew nothing was committed."""
    for stream, table in (("s", "w.t"), ("other", "w.u")):
        owner = opened(client, name=stream, table=table, table_id=id_of(client, table))
        commit(client, owner, 4)
        client.streams.leave(owner)
    catalog.rename_table("w.t", "v.r")
    make(client, "w", "t", "file:/wh/another")
    with pytest.raises(InvalidArgumentsError, match=r"writes v\.r, not w\.t; .*hive-acid stream forget s"):
        opened(client, table_id=id_of(client, "w.t"))
    assert opened(client, table="v.r", table_id=id_of(client, "v.r")).found.batch == 4
    catalog.drop_table("v.r")
    make(client, "v", "r")
    assert opened(client, table="v.r", table_id=id_of(client, "v.r")).found.batch == NONE_YET
    assert (client.streams.find("other").table, client.streams.find("other").batch) == ("w.u", 4)


def dropped_by_a_hive(client, table):
    """A Hive knows nothing of streams."""
    table_id = id_of(client, table)
    client.database.run(lambda connection: delete_table(connection, table_id))


def renamed_by_a_hive(client, table, name):
    renamed = sa.update(TBLS).where(TBLS.c.TBL_ID == id_of(client, table)).values(TBL_NAME=name)
    client.database.run(lambda connection: connection.execute(renamed))


@pytest.mark.every_database
def test_nothing_was_committed_to_a_table_that_a_hive_has_made_in_the_place_of_the_streams(client, catalog):
    """
    t1  stream s commits micro-batch 4, and begins another in txn 9
    t2  a Hive drops w.t and makes another
    t3  a new checkpoint writes the new table under the name: nothing of it is there, and txn 9 is ended first
    """
    owner = opened(client, table_id=id_of(client, "w.t"))
    commit(client, owner, 4)
    client.streams.begun(owner, "2", [9])
    dropped_by_a_hive(client, "w.t")
    make(client, "w", "t")
    again = opened(client, source="q2", table_id=id_of(client, "w.t"))
    assert (again.found.batch, again.found.open_txns) == (NONE_YET, (9,))
    found = client.streams.find("s")
    assert (found.batch, found.txn_id, found.write_id, found.batches, found.rows, found.offsets) == (
        NONE_YET, None, None, 0, 0, None,
    )  # fmt: skip
    commit(client, again, 0)
    assert client.streams.find("s").batches == 1


def test_what_an_older_release_has_noted_counts_for_the_table_of_that_name(client, catalog):
    """It did not note which table it was."""
    owner = opened(client, table_id=id_of(client, "w.t"))
    commit(client, owner, 4)
    older = sa.update(HIVE_ACID_STREAM).values(HSR_OFFSETS='{"sources": "{}"}')
    client.database.run(lambda connection: connection.execute(older))
    again = opened(client, table_id=id_of(client, "w.t"))
    assert (again.found.batch, again.found.table_id) == (4, None)
    with pytest.raises(InvalidArgumentsError, match=r"writes w\.t, not w\.u"):
        opened(client, table="w.u", table_id=id_of(client, "w.u"))
    commit(client, again, 5)
    assert client.streams.find("s").table_id == id_of(client, "w.t")


def test_a_stream_follows_its_table_when_a_hive_renames_it(client, catalog):
    """
    t1  stream s commits micro-batch 4 to w.t
    t2  a Hive calls that w.r, and w.u is called w.t
    t3  we drop the w.t of now: s belongs to w.r
    """
    owner = opened(client, table_id=id_of(client, "w.t"))
    commit(client, owner, 4)
    client.streams.leave(owner)
    renamed_by_a_hive(client, "w.t", "r")
    renamed_by_a_hive(client, "w.u", "t")
    with pytest.raises(InvalidArgumentsError, match=r"writes w\.r, not w\.t; .*hive-acid stream forget s"):
        opened(client, table_id=id_of(client, "w.t"))
    catalog.drop_table("w.t")
    assert opened(client, table="w.r", table_id=id_of(client, "w.r")).found.batch == 4
    assert client.streams.find("s").table == "w.r"


def test_what_streams_have_committed_is_taken_over_with_the_rows_of_their_tables(client, catalog):
    """Streams that are not wanted any more go, one of another table stays; whoever runs one commits nothing more."""
    table, other = TableName("w", "t"), TableName("w", "u")
    of_t = {"table_id": id_of(client, "w.t")}
    running = opened(client, name="moved", **of_t)
    commit(client, running, 3)
    commit(client, opened(client, name="gone", **of_t), 0)
    opened(client, name="begun", **of_t)
    commit(client, opened(client, name="others", table="x.y"), 1)
    found = client.database.read(lambda connection: read_marks(connection, [table, other]))
    assert {name: [mark.name for mark in marks] for name, marks in found.items()} == {
        table: ["gone", "moved"] if digest("gone") < digest("moved") else ["moved", "gone"],
        other: [],
    }
    moved = StreamMark("moved", "q9", 7, 12, 8, 80, 0, None, who="a far process")
    new = StreamMark("new", "q5", 2, 11, 3, 30, 1, '{"ends": {}}')
    wanted = {table: (moved,), other: (new, replace(moved, name="others"))}
    client.database.run(lambda connection: take_over_marks(connection, wanted))
    after = client.database.read(lambda connection: read_marks(connection, [table, other]))
    assert after == {table: (moved,), other: (new,)}
    assert {stream.name for stream in client.streams.all()} == {"moved", "new", "others"}
    assert client.streams.find("others").table == "x.y"
    with pytest.raises(ClaimLostError):
        commit(client, running, 8, "2")
    assert opened(client, who="b", source="q9", name="moved", **of_t).found.batch == 7
    assert client.streams.find("moved").table_id == of_t["table_id"]


def test_what_was_committed_to_a_table_that_a_hive_has_dropped_is_taken_over_by_nobody(client, catalog):
    table = TableName("w", "t")
    commit(client, opened(client, table_id=id_of(client, "w.t")), 4)
    dropped_by_a_hive(client, "w.t")
    make(client, "w", "t")
    assert client.database.read(lambda connection: read_marks(connection, [table])) == {table: ()}
