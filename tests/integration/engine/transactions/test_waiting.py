"""Statements whose locks are waited for in another process (R9). The Spark side is made up."""

import dataclasses
import threading

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine.locking.hive4 import Hive4Locking
from airflow_hive_acid.engine.locking.requests import NewTable
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import LocksPendingError
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.protocol.handover import Patience, hand_over
from airflow_hive_acid.metastore.setup.schema import TXNS

pytestmark = [pytest.mark.rule("R9"), pytest.mark.every_database]

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


def test_request_stays_in_the_queue_and_its_heartbeat_reaches_into_the_future(engine, client, holder):
    document = waits(engine)
    assert document["claim"]["unit"] == 1
    assert client.check_lock(document["lock_id"]).state.name == "WAITING"
    hand_over(client, document["txn_id"])
    assert -310_000 < silence(client, document["txn_id"]) < -250_000


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


def test_request_that_has_ended_meanwhile_is_made_anew(engine, other, client, holder, states):
    document = waits(engine)
    holder.abort()
    client.abort_txn(document["txn_id"], "somebody")
    (result,) = other.run(OVERWRITE, once=ONCE, patience=Patience(0, document))
    assert result.txn_id > document["txn_id"]


@pytest.mark.parametrize("version", [0, 2, None])
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


def test_next_try_fences_the_request_that_the_last_one_left(engine, other, client, holder, states):
    document = waits(engine)
    again = waits(other)
    assert states()[document["txn_id"]] == "ABORTED"
    assert states()[again["txn_id"]] == "OPEN"


def test_request_that_no_statement_takes_up_is_withdrawn(engine, other, client, holder, states):
    document = waits(engine)
    other.run("SELECT a FROM w.p", patience=Patience(0, document))
    assert states()[document["txn_id"]] == "ABORTED"


def test_locks_that_are_granted_within_the_patience_are_not_handed_over(engine, states):
    (result,) = engine.run(INSERT, once=ONCE, patience=Patience(0))
    assert states()[result.txn_id] == "COMMITTED"


def test_table_made_from_a_query_is_not_left_to_wait_elsewhere(engine, client, fake, monkeypatch):
    """
    t1  the table is made; somebody takes an exclusive lock on what is read
    t2  its INSERT waits here: a request that waits elsewhere would be for a table that is dropped again
    """
    fake.answer = [[1]]
    plan = Hive4Locking.plan
    timers = []

    def behind_somebody(self, wanted, **more):
        planned = plan(self, wanted, **more)
        if timers or not isinstance(wanted, NewTable):
            return planned
        lock = client.lock(LockComponent("w", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN))
        timers.append(threading.Timer(0.5, client.unlock, [lock.lock_id]))
        timers[0].start()
        # hive.txn.xlock.ctas=false; else a conflict is refused at once.
        return dataclasses.replace(planned, of_txn=dataclasses.replace(planned.of_txn, exclusive_ctas=False))

    monkeypatch.setattr(Hive4Locking, "plan", behind_somebody)
    script = "CREATE TABLE w.c STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT a FROM w.t"
    (result,) = engine.run(script, once=ONCE, patience=Patience(0))
    timers[0].join()
    assert result.write_ids == {"w.c": 1}
