"""R4 and R17: an abort that comes too late, or while the commit is on its way, touches nothing that is committed."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.statements import interventions
from airflow_hive_acid.engine.statements.interventions import Person
from airflow_hive_acid.errors import ActionRefusedError, HiveAcidError, NoSuchTxnError, TxnAbortedError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.reaper.reaper import run_reaper
from airflow_hive_acid.maintenance.warehouse.fences import end_txns
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.txns.withdrawals import GivenUp
from tests.integration.engine.conftest import FakeSpark

pytestmark = [pytest.mark.rule("R4"), pytest.mark.rule("R17")]

TABLES = """
CREATE EXTERNAL TABLE w.e (a INT) STORED AS PARQUET;
CREATE TABLE w.m (a INT) STORED AS TEXTFILE TBLPROPERTIES ('transactional'='false');
"""
STATEMENTS = ["INSERT INTO TABLE w.e VALUES (1)", "INSERT OVERWRITE TABLE w.m VALUES (1)"]
BOUND = 60.0


def by_sql(client, engine, txn_id):
    engine.run(f"ABORT TRANSACTIONS {txn_id}")


def by_page(client, engine, txn_id):
    interventions.abort_txn(client, AnyFilesystem(), txn_id, Person("op", "it hangs"))


def by_retry(client, engine, txn_id):
    end_txns(client, AnyFilesystem(), [txn_id], "a later try")


def by_reaper(client, engine, txn_id):
    silent = sa.update(TXNS).where(TXNS.c.TXN_ID == txn_id, TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1)
    client.database.run(lambda connection: connection.execute(silent))
    run_reaper(client, AnyFilesystem())


ABORTS = [by_sql, by_page, by_retry, by_reaper]


@pytest.fixture
def plain(engine):
    engine.run(TABLES)
    for statement in STATEMENTS:
        engine.run(statement.replace("OVERWRITE", "INTO"))
    return engine


@pytest.fixture
def second(client, metastore_url, warehouse):
    """Another process's engine."""
    with MetastoreClient(metastore_url) as own, Engine(own, FakeSpark(), warehouse, agent_info="other") as engine:
        yield own, engine


def files_of(client, statement):
    """Visible files of the table that a statement writes."""
    root = Path(client.catalog.get_table(statement.split()[3]).location.removeprefix("file:"))
    return sorted(p.name for p in root.iterdir() if not p.name.startswith((".", "_")))


def try_to(abort, client, engine, txn_id):
    try:
        abort(client, engine, txn_id)
    except (ActionRefusedError, NoSuchTxnError):
        return


@pytest.mark.parametrize("abort", ABORTS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_abort_of_a_committed_or_forgotten_txn_touches_nothing(plain, client, second, abort, statement):
    (result,) = plain.run(statement)
    there = files_of(client, statement)
    try_to(abort, *second, result.txn_id)
    assert files_of(client, statement) == there
    client.commit_txn(client.open_txn())
    client.database.run(lambda connection: connection.execute(sa.delete(TXNS).where(TXNS.c.TXN_ID == result.txn_id)))
    try_to(abort, *second, result.txn_id)
    assert files_of(client, statement) == there


@pytest.mark.every_database
@pytest.mark.parametrize("abort", [by_sql, by_page, by_retry])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_abort_while_the_commit_is_on_its_way_waits_and_finds_it_committed(
    plain, client, second, abort, statement, monkeypatch
):
    """
    t1  the commit has run its statements, COMMIT is not sent
    t2            somebody aborts the txn, and waits for its row
    t3  COMMIT
    t4            nothing is fenced, nothing is moved back
    """
    own, engine = second
    asked, threads, real = threading.Event(), [], client._all_hooks
    run = own.database.run

    def asking(*args, **kwargs):
        asked.set()
        return run(*args, **kwargs)

    monkeypatch.setattr(own.database, "run", asking)

    def stopping(*args):
        hooks = real(*args)

        def late(connection, facts):
            steps = hooks.events(connection, facts)
            if facts.type.name != "READ_ONLY" and not threads:
                threads.append(threading.Thread(target=try_to, args=(abort, own, engine, facts.txn_id)))
                threads[0].start()
                assert asked.wait(BOUND)
            return steps

        return dataclasses.replace(hooks, events=late)

    monkeypatch.setattr(client, "_all_hooks", stopping)
    (result,) = plain.run(statement)
    threads[0].join(BOUND)
    assert not threads[0].is_alive()
    assert any(name.endswith(str(result.txn_id)) for name in files_of(client, statement))
    assert client.show_locks() == []


@pytest.mark.parametrize("abort", ABORTS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_commit_after_the_decision_is_refused_and_nothing_of_it_is_left(
    plain, client, second, states, abort, statement, monkeypatch
):
    """
    t1  A is about to commit
    t2            somebody decides that it does not
    t3  A commits: refused, A moves its files back
    t4            he goes on
    """
    before, commit, decide = files_of(client, statement), client.commit_txn, second[0].give_up_txns
    go, errors = threading.Event(), []

    def deciding(*args, **kwargs):
        decision = decide(*args, **kwargs)
        go.set()
        return decision

    monkeypatch.setattr(second[0], "give_up_txns", deciding)

    def late(txn_id, **kwargs):
        monkeypatch.setattr(client, "commit_txn", commit)
        thread = threading.Thread(target=try_to, args=(abort, *second, txn_id))
        thread.start()
        assert go.wait(BOUND)
        try:
            commit(txn_id, **kwargs)
        except HiveAcidError as error:
            errors.append(error)
            raise
        finally:
            thread.join(BOUND)

    monkeypatch.setattr(client, "commit_txn", late)
    with pytest.raises(TxnAbortedError):
        plain.run(statement)
    assert len(errors) == 1
    run_reaper(client, AnyFilesystem())
    assert files_of(client, statement) == before
    assert client.show_locks() == []
    assert "OPEN" not in states().values()


@pytest.mark.every_database
def test_who_dies_after_the_decision_leaves_the_rest_to_the_reaper_and_the_locks_stay(plain, client, states):
    """
    t1  A has published, and B gives its txn up and dies
    t2            nobody gets the table meanwhile
    t3                      the reaper moves A's files back, then aborts
    """
    statement = STATEMENTS[1]
    before = files_of(client, statement)
    transaction = plain.begin({"w.m": "overwrite"})
    transaction.execute(statement)
    client.give_up_txns([transaction.txn_id], "a test")
    client.abort_txn(transaction.txn_id, "somebody who does not look")
    assert states()[transaction.txn_id] == "OPEN"
    assert [row.table for row in client.show_locks()] == ["m"]
    assert run_reaper(client, AnyFilesystem()).aborted == (transaction.txn_id,)
    assert files_of(client, statement) == before
    assert client.show_locks() == []


@pytest.mark.backends("sqlite")
def test_only_the_database_makes_the_proof_that_fencing_needs():
    with pytest.raises(AssertionError, match="only the database decides"):
        GivenUp(1, (), object())
