"""Statements whose locks are waited for in another process (R9). The Spark side is made up."""

import dataclasses
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine.locking.hive4 import Hive4Locking
from airflow_hive_acid.engine.locking.requests import NewTable
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import LocksPendingError
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.protocol.ddl import ddl_transaction
from airflow_hive_acid.metastore.protocol.handover import Patience, hand_over, patiently
from airflow_hive_acid.metastore.setup.schema import TXNS

pytestmark = pytest.mark.rule("R9")

INSERT = "INSERT INTO w.t VALUES (1, 'x')"
OVERWRITE = "INSERT OVERWRITE TABLE w.t VALUES (2, 'y')"
ONCE = Once(("dag", "run", "task", "-1"))


@pytest.fixture
def holder(client, engine):
    """Somebody who overwrites w.t: others who want to do so wait."""
    with client.transaction(tables={"w.t": "overwrite"}) as txn:
        yield txn


def waits(engine, script=OVERWRITE, resumed=None):
    with pytest.raises(LocksPendingError) as pending:
        engine.run(script, once=ONCE, patience=Patience(0, resumed))
    return pending.value.document


def silence(client, txn_id):
    """Milliseconds since the last heartbeat, by the database's clock; negative when it lies in the future."""
    beat = sa.select(TXNS.c.TXN_LAST_HEARTBEAT).where(TXNS.c.TXN_ID == txn_id, TXNS.c.TXN_STATE == "o")
    with client.database.reading() as connection:
        return now_ms(connection) - connection.execute(beat).scalar_one()


@pytest.mark.every_database
def test_request_stays_in_the_queue_and_its_heartbeat_reaches_into_the_future(engine, client, holder):
    document = waits(engine)
    assert document["claim"]["unit"] == 1
    assert client.check_lock(document["lock_id"]).state.name == "WAITING"
    hand_over(client, document["txn_id"])
    assert -310_000 < silence(client, document["txn_id"]) < -250_000


@pytest.mark.every_database
def test_other_process_goes_on_with_the_txn_that_waited(engine, other, client, holder, states, listing):
    document = waits(engine)
    holder.abort()
    assert client.check_lock(document["lock_id"]).state.name == "ACQUIRED"
    hand_over(client, document["txn_id"])
    (result,) = other.run(OVERWRITE, once=ONCE, patience=Patience(0, document))
    assert result.txn_id == document["txn_id"]
    assert states()[result.txn_id] == "COMMITTED"
    assert [name for name in listing("w.t") if "/" not in name] == ["base_0000002"]


def test_statements_before_the_one_that_waits_are_not_applied_again(engine, other, fake, client, states):
    with client.transaction(tables={"w.p": "overwrite"}, partitioned=["w.p"]) as holder:
        script = "; ".join([INSERT, "INSERT OVERWRITE TABLE w.p PARTITION (k = 'a') VALUES (1)"])
        document = waits(engine, script)
        assert document["claim"]["unit"] == 2
        holder.abort()
    results = other.run(script, once=ONCE, patience=Patience(0, document))
    assert len(fake.specs) == 1
    assert len(other.fake.specs) == 1
    assert results[1].txn_id == document["txn_id"]


def test_what_still_waits_is_left_again(engine, other, client, holder):
    document = waits(engine)
    again = waits(other, resumed=document)
    assert (again["txn_id"], again["lock_id"]) == (document["txn_id"], document["lock_id"])


@pytest.mark.every_database
def test_request_that_has_ended_meanwhile_is_made_anew(engine, other, client, holder, states):
    document = waits(engine)
    holder.abort()
    client.abort_txn(document["txn_id"], "somebody")
    (result,) = other.run(OVERWRITE, once=ONCE, patience=Patience(0, document))
    assert result.txn_id > document["txn_id"]


@pytest.mark.parametrize("version", [0, 1, 3, None])
def test_request_that_another_release_handed_over_is_withdrawn_and_made_anew(
    engine, other, client, holder, states, version
):
    """An Airflow that is upgraded while its tasks wait: their triggers and XComs are of the release before."""
    document = waits(engine)
    holder.abort()
    older = {**{k: v for k, v in document.items() if k in ("txn_id", "lock_id", "claim")}, "version": version}
    (result,) = other.run(OVERWRITE, once=ONCE, patience=Patience(0, older))
    assert result.txn_id > document["txn_id"]
    assert states()[document["txn_id"]] == "ABORTED"


@pytest.mark.every_database
def test_next_try_fences_the_request_that_the_last_one_left(engine, other, client, holder, states):
    document = waits(engine)
    again = waits(other)
    assert states()[document["txn_id"]] == "ABORTED"
    assert states()[again["txn_id"]] == "OPEN"


def test_request_that_no_statement_takes_up_is_withdrawn(engine, other, client, holder, states):
    document = waits(engine)
    other.run("SELECT a FROM w.p", patience=Patience(0, document))
    assert states()[document["txn_id"]] == "ABORTED"


@pytest.mark.every_database
def test_locks_that_are_granted_within_the_patience_are_not_handed_over(engine, states):
    (result,) = engine.run(INSERT, once=ONCE, patience=Patience(0))
    assert states()[result.txn_id] == "COMMITTED"


@pytest.fixture
def excluded(client, engine):
    """Somebody who has w.t to himself: others wait even to read it."""
    return client.lock(LockComponent("w", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN))


REPLACED = "CREATE TABLE w.r (c0 INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
CREATE_AS = "CREATE TABLE w.c STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT a FROM w.t"
READERS = {
    "a query": "SELECT a FROM w.t",
    "a table made from a query": CREATE_AS,
    "a table replaced by a query": "CREATE OR REPLACE TABLE w.r STORED AS ORC TBLPROPERTIES ('transactional'='true') "
    "AS SELECT a FROM w.t",
    "a temporary table": "CREATE TEMPORARY TABLE s AS SELECT a FROM w.t",
    "files outside of the warehouse": "INSERT OVERWRITE DIRECTORY '{elsewhere}/made' SELECT a FROM w.t",
    "a view": "CREATE VIEW w.v AS SELECT a FROM w.t",
}


@pytest.mark.parametrize("what", READERS)
def test_what_reads_a_table_that_somebody_has_to_himself_waits_elsewhere(
    engine, other, fake, client, excluded, states, tmp_path, what
):
    """
    t1  it asks for the lock of a reader, and its task leaves
    t2  the holder goes; the task goes on with the txn that waited
    """
    script = READERS[what].replace("{elsewhere}", tmp_path.as_uri())
    engine.run(REPLACED)
    fake.answer = other.fake.answer = [[1]]
    document = waits(engine, script)
    assert document["reads"]
    assert document["statement"] == 1
    assert fake.specs == []
    client.unlock(excluded.lock_id)
    (result,) = other.run(script, once=ONCE, patience=Patience(0, document))
    assert result.kind
    assert states()[document["txn_id"]] == "COMMITTED"
    assert set(states().values()) == {"COMMITTED"}
    assert client.show_locks() == []


MOVE = (
    "CREATE TEMPORARY TABLE x AS SELECT a FROM w.t; DELETE FROM w.t WHERE a = 1; "
    "INSERT OVERWRITE TABLE w.p PARTITION (k = 'n') SELECT c0 FROM x"
)


@pytest.mark.rule("R14")
def test_what_reads_a_temporary_table_waits_here_once_something_was_applied_beside_it(engine, client, fake, states):
    """
    t1  rows go into a temporary table, and are deleted from the table they were in
    t2  the INSERT of them waits: another process would fill the temporary table anew, from what is left
    t3  the holder goes; the statement goes on where it is
    """
    with (
        client.transaction(tables={"w.p": "overwrite"}, partitioned=["w.p"]) as holder,
        ThreadPoolExecutor(1) as pool,
    ):
        found = pool.submit(engine.run, MOVE, once=ONCE, patience=Patience(0))
        deadline = time.monotonic() + 60
        while not found.done() and not any(row.state.name == "WAITING" for row in client.show_locks()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        holder.abort()
        results = found.result(60)
    assert [result.kind for result in results][1:] == ["delete", "insert"]
    # The temporary table itself, and what nothing was applied before, may be waited for elsewhere (READERS).
    assert sum(type(spec.step).__name__ == "Export" for spec in fake.specs) == 1
    assert client.show_locks() == []


CHANGES = {
    "a column more": ("ALTER TABLE w.t ADD COLUMNS (c INT)", "w.t"),
    "a rename": ("ALTER TABLE w.t RENAME TO w.u", "w.u"),
    "a drop": ("DROP TABLE w.t", None),
    "a drop of the database": ("DROP DATABASE w CASCADE", None),
    "a table made anew": (
        "CREATE OR REPLACE TABLE w.t (a INT, b STRING, c INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')",
        "w.t",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_ddl_waits_elsewhere_and_goes_on_with_its_txn(engine, other, client, holder, states, what):
    """
    t1  it asks for the table, which somebody overwrites, and its task leaves
    t2  the holder goes; the task goes on with the txn that waited, and the change is made once
    """
    script, left = CHANGES[what]
    document = waits(engine, script)
    assert document["claim"]["unit"] == document["statement"] == 1
    assert not document["reads"]
    holder.abort()
    (result,) = other.run(script, once=ONCE, patience=Patience(0, document))
    assert states()[document["txn_id"]] == "COMMITTED"
    assert "OPEN" not in states().values()
    assert max(states()) == document["txn_id"]
    assert client.catalog.find_tables(["w.t", "w.u"]).keys() == ({left} if left else set())
    if left == "w.t":
        table = client.catalog.get_table(left)
        assert [column.name for column in table.columns] == ["a", "b", "c"]
    again = other.run(script, once=ONCE, patience=Patience(0, document))
    assert [r.kind for r in again] == [result.kind]
    assert max(states()) == document["txn_id"]


def test_ddl_that_waits_when_its_task_is_tried_again_is_fenced(engine, other, client, holder, states):
    document = waits(engine, CHANGES["a drop"][0])
    again = waits(other, CHANGES["a drop"][0])
    assert states()[document["txn_id"]] == "ABORTED"
    assert states()[again["txn_id"]] == "OPEN"
    assert [row.txn_id for row in client.show_locks() if row.state.name == "WAITING"] == [again["txn_id"]] * 2


@pytest.mark.every_database
def test_ddl_whose_wait_has_ended_elsewhere_asks_anew(engine, other, client, holder, states):
    document = waits(engine, CHANGES["a drop"][0])
    holder.abort()
    client.abort_txn(document["txn_id"], "somebody")
    other.run(CHANGES["a drop"][0], once=ONCE, patience=Patience(0, document))
    assert client.catalog.find_tables(["w.t"]) == {}
    assert "OPEN" not in states().values()


def test_only_the_first_txn_of_a_statement_waits_elsewhere(engine, client):
    """What it had done before would be done again."""
    locks = [LockComponent("w", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN)]
    with patiently(Patience(0)):
        with ddl_transaction(client, []):
            pass
        other = client.lock(locks)
        timer = threading.Timer(0.3, client.unlock, [other.lock_id])
        timer.start()
        with ddl_transaction(client, locks) as ddl:
            timer.join()
            assert client.check_lock(client.show_locks()[0].lock_id).state.name == "ACQUIRED"
            assert ddl.txn_id


def test_a_request_of_another_txn_inside_of_ddl_ends_the_ddl(client, states):
    """Only its own request waits on elsewhere; else its txn and locks would stay, and its heartbeats with them."""
    locks = [LockComponent("w", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN)]
    with pytest.raises(LocksPendingError), ddl_transaction(client, locks) as ddl:
        raise LocksPendingError("another request waits", {"txn_id": ddl.txn_id + 1})
    assert states()[ddl.txn_id] == "ABORTED"
    assert client.show_locks() == []


def test_queries_in_front_of_what_waited_are_run_again_and_leave_its_request_alone(
    engine, other, client, holder, states
):
    script = "; ".join(["SELECT a FROM w.p", OVERWRITE])
    document = waits(engine, script)
    assert document["statement"] == 2
    holder.abort()
    results = other.run(script, once=ONCE, patience=Patience(0, document))
    assert results[1].txn_id == document["txn_id"]
    assert results[0].txn_id > document["txn_id"]
    assert "OPEN" not in states().values()


def test_a_look_at_columns_leaves_the_request_of_its_statement_alone(engine, other, fake, client, states):
    """CREATE OR REPLACE … AS asks which columns its query has, and then for the table."""
    script = READERS["a table replaced by a query"]
    engine.run(REPLACED)
    fake.answer = other.fake.answer = [[1]]
    with client.transaction(tables={"w.r": "overwrite"}) as holder:
        document = waits(engine, script)
        assert not document["reads"]
        holder.abort()
    (result,) = other.run(script, once=ONCE, patience=Patience(0, document))
    assert result.txn_id == document["txn_id"]
    assert "OPEN" not in states().values()


def test_a_request_that_its_statement_does_not_take_up_is_withdrawn_before_the_next_one_asks(
    engine, other, client, holder, states
):
    """
    t1  the OVERWRITE waits, and its task leaves
    t2  another try applies it
    t3  the task goes on: the OVERWRITE is applied, the next statement does not wait for what was asked for it
    """
    document = waits(engine)
    holder.abort()
    client.abort_txn(document["txn_id"], "somebody")
    other.run(OVERWRITE, once=ONCE)
    waiting = client.start({"w.t": "overwrite"})
    stale = {**document, "txn_id": waiting.txn_id, "lock_id": waiting.response.lock_id}
    script = "; ".join([OVERWRITE, "INSERT OVERWRITE TABLE w.t VALUES (3, 'z')"])
    other.run(script, once=ONCE, patience=Patience(0, stale))
    assert states()[waiting.txn_id] == "ABORTED"


def test_a_table_made_from_a_query_waits_elsewhere_for_what_it_reads_a_second_time(
    engine, other, fake, client, states, monkeypatch
):
    """
    t1  the columns of the query are known; somebody takes what it reads to himself
    t2  its txn asks for the same, and its task leaves
    t3  the task goes on with that txn: nothing of the table was there before
    """
    fake.answer = other.fake.answer = [[1]]
    plan, held = Hive4Locking.plan, []

    def behind_somebody(self, wanted, **more):
        planned = plan(self, wanted, **more)
        if isinstance(wanted, NewTable) and not held:
            held.append(client.lock(LockComponent("w", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN)))
        # hive.txn.xlock.ctas=false; else a conflict is refused at once.
        return dataclasses.replace(planned, of_txn=dataclasses.replace(planned.of_txn, exclusive_ctas=False))

    monkeypatch.setattr(Hive4Locking, "plan", behind_somebody)
    document = waits(engine, CREATE_AS)
    assert client.catalog.find_tables(["w.c"]) == {}
    client.unlock(held[0].lock_id)
    (result,) = other.run(CREATE_AS, once=ONCE, patience=Patience(0, document))
    assert result.txn_id == document["txn_id"]
    assert result.write_ids == {"w.c": 1}


def test_table_that_is_replaced_by_its_own_rows_is_not_in_its_own_way(engine, other, client, fake, states):
    """
    t1  somebody writes the table; who replaces it by a query over it has looked at the columns, and waits elsewhere
    t2  the lock is granted, to itself: the look at the columns is taken under it, and the txn that waited goes on
    """
    fake.answer = other.fake.answer = [[1]]
    engine.run("CREATE TABLE w.own (c0 INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    script = (
        "CREATE OR REPLACE TABLE w.own STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT c0 FROM w.own"
    )
    with client.transaction(tables={"w.own": "insert"}) as holder:
        document = waits(engine, script)
        holder.abort()
    assert client.check_lock(document["lock_id"]).state.name == "ACQUIRED"
    (result,) = other.run(script, once=ONCE, patience=Patience(0, document))
    assert result.txn_id == document["txn_id"]
    assert states()[result.txn_id] == "COMMITTED"
