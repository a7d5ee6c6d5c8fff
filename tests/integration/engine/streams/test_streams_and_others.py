"""Streams beside others: who renames, replaces, empties or alters their table, fails over, or holds a lease on it."""

from __future__ import annotations

import shutil

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.errors import InvalidArgumentsError, LeaseEndedError, LockTimeoutError, TxnAbortedError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.rows.drop import delete_table
from airflow_hive_acid.metastore.replica import STATE_ID
from tests.integration.engine.conftest import FakeSpark

from .applications import TABLE, Application, visible


def test_a_stream_goes_on_at_a_new_primary_when_somebody_has_looked_what_is_there(client, table, process, fake):
    """
    t1  a replica has got w.t with rows of stream s, and becomes the primary; the record of s stays at the old one
    t2  the stream goes on there: micro-batches since the last sync are lost, and the one it begins with may be there
    """
    with Engine(client, fake, None) as engine:
        engine.run(f"ALTER TABLE w.t SET TBLPROPERTIES ('{STATE_ID}'='17')")
    app = Application(process().spool, fake).open()
    with pytest.raises(InvalidArgumentsError, match=r"micro-batch 7 of its checkpoint, and w\.t was brought .*on_gap="):
        app.batch(7)
    app.talk.close()
    assert visible(client, table) == []
    for stream, first, options in (("new", 0, {}), ("s", 7, {"on_gap": "ignore"})):
        app = Application(process().spool, fake, stream=stream, **options).open()
        assert [app.batch(number)["again"] for number in (first, first + 1)] == [False, False]
        app.talk.close()
    assert len(visible(client, table)) == 4


def swap(client, engine, table):
    """w.t is called w.before now, and another table w.t."""
    engine.run(f"{TABLE.format('w.other')}; ALTER TABLE w.t RENAME TO w.before; ALTER TABLE w.other RENAME TO w.t")


def replace_by_a_hive(client, engine, table):
    """Another w.t; a Hive that drops a table knows nothing of streams."""
    table_id = client.catalog.get_table("w.t").id
    client.database.run(lambda connection: delete_table(connection, table_id))
    shutil.rmtree(table)
    engine.run(TABLE.format("w.t"))


@pytest.mark.parametrize("change", [swap, replace_by_a_hive])
@pytest.mark.parametrize("when", ["between micro-batches", "before its locks"])
def test_a_stream_does_not_go_on_into_another_table_of_the_name(
    client, table, process, fake, warehouse, monkeypatch, change, when
):
    """
    t1  stream s commits micro-batch 0 to w.t
    t2  another table is called w.t, before or while micro-batch 1 waits for its locks
    t3  s is started again: it belongs to the table that was w.t, if there is still one
    """
    app = Application(process().spool, fake).open()
    app.batch(0)
    begin = StatementTransaction.begin

    def changed():
        with Engine(client, FakeSpark(), warehouse) as engine:
            change(client, engine, table)

    def late(*args, **more):
        changed()
        return begin(*args, **more)

    with monkeypatch.context() as patch:
        if when == "before its locks":
            patch.setattr(StatementTransaction, "begin", late)
        else:
            changed()
        with pytest.raises(InvalidArgumentsError, match=r"w\.t is not the table any more that stream s was"):
            app.batch(1)
    app.talk.close()
    assert visible(client, table) == []
    again = Application(process().spool, fake)
    if change is swap:
        with pytest.raises(InvalidArgumentsError, match=r"stream s writes w\.before, not w\.t"):
            again.open()
        again = Application(process().spool, fake, table="w.before")
    assert again.open().opened["batch"] == (0 if change is swap else -1)
    assert again.batch(1)["again"] is False
    again.talk.close()


@pytest.mark.crossing("streams x who empties the table")
@pytest.mark.parametrize("how", ["TRUNCATE TABLE w.t", "by an administrator"])
def test_a_micro_batch_in_flight_that_others_hide_or_abort_is_there_once_in_the_end(
    client, table, process, fake, warehouse, how
):
    """
    t1  micro-batch 1 is being written; with hive.txn.xlock.write an INSERT keeps no TRUNCATE out
    t2  the table is emptied, with a later write id; or the micro-batch's txn is aborted
    t3  it commits: it would be hidden, and is written again at once; or the query ends, and repeats it
    """
    app = Application(process(**{"hive.txn.xlock.write": "true"}).spool, fake).open()
    app.batch(0)
    written = app.write(app.begin(1))
    if how.startswith("TRUNCATE"):
        with Engine(client, FakeSpark(), warehouse) as engine:
            engine.run(how)
        again = app.talk.ask(written)
        assert app.talk.ask(app.write(again))["again"] is False
    else:
        (txn,) = [row for row in client.show_transactions() if row.state.name == "OPEN"]
        client.abort_txn(txn.txn_id, how)
        with pytest.raises(TxnAbortedError):
            app.talk.ask(written)
        app.talk.close()
        app = Application(process().spool, fake).open()
        assert app.batch(1)["again"] is False
    app.talk.close()
    hidden = 1 if how.startswith("TRUNCATE") else 0
    assert len(visible(client, table)) == 2
    assert len(list(table.glob("base_*"))) == hidden
    assert (client.streams.find("s").batch, client.streams.find("s").batches) == (1, 2)


@pytest.mark.rule("R6")
@pytest.mark.rule("R8")
def test_a_stream_under_a_lease_commits_only_while_it_is_held(client, table, process, fake):
    """
    t1  A grabs w.t, and begins a stream under that lease: its own lease is not in its way, another stream waits
    t2  somebody drops the lease by force
    t3  A's next micro-batch is refused, and the other stream goes on
    """
    once = {"hive.lock.numretries": "1", "hive.lock.sleep.between.retries": "1s"}
    lease = client.leases.grab_lease("w.t", 600, lease_type="x")
    app = Application(process(lease=lease, **once).spool, fake).open()
    assert app.batch(0)["again"] is False
    other = Application(process(who="other", **once).spool, fake, stream="other")
    with pytest.raises(LockTimeoutError):
        other.open().batch(0)
    other.talk.close()
    client.leases.force_drop_lease("w.t", "somebody", "a test")
    with pytest.raises(LeaseEndedError):
        app.batch(1)
    app.talk.close()
    free = Application(process(who="other", **once).spool, fake, stream="other").open()
    assert free.batch(0)["again"] is False
    free.talk.close()
    assert (len(visible(client, table)), client.streams.find("s").batch) == (2, 0)


def test_a_column_that_goes_while_a_micro_batch_waits_for_its_locks_is_added_before_the_next_try(
    client, table, process, fake, monkeypatch
):
    """
    t1  somebody renames column b; micro-batch 0 of a stream that has one waits for its locks behind that
    t2  under its locks the stream finds no b. Its own ALTER would wait for them: it lets go of them first
    """
    begin, renames = StatementTransaction.begin, [("b", Column("old_b", "string"))]

    def late(*args, **more):
        for before, after in renames:
            client.catalog.change_column("w.t", before, after)
        renames.clear()
        return begin(*args, **more)

    monkeypatch.setattr(StatementTransaction, "begin", late)
    once = {"hive.lock.numretries": "1", "hive.lock.sleep.between.retries": "1s"}
    app = Application(process(**once).spool, fake, on_new_column="add", on_missing_column="null").open()
    assert [app.batch(number)["again"] for number in (0, 1)] == [False, False]
    app.talk.close()
    assert [c.name for c in client.catalog.get_table("w.t").columns] == ["a", "old_b", "b"]
    assert (len(visible(client, table)), client.streams.find("s").batches) == (2, 2)
