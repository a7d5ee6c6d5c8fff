"""``hive-acid compaction``: on each database, without Spark."""

import json

import pytest
from sqlalchemy import insert
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance import run_initiator
from airflow_hive_acid.maintenance.measures.health import findings, read_health
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.codes import LockType, Operation, TxnType
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.hive_catalog import CTLGS, DBS, TABLE_PARAMS, TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.settings import Settings, Source


@pytest.fixture
def call(metastore_url):
    def call(*arguments, code=0):
        done = CliRunner().invoke(app, ["--metastore-url", metastore_url, *arguments, "--format", "json"])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)

    return call


@pytest.fixture
def write(client, warehouse):
    """Commits deltas to a table: ``write("w.t", 12)``, ``write("w.p", 1, "k=a")``."""
    client.catalog.set_warehouse(warehouse)
    client.catalog.create_database("w")
    for name, keys in (("t", ()), ("quiet", ()), ("p", (Column("k", "string"),))):
        properties = {"transactional": "true", **({"no_auto_compaction": "true"} if name == "quiet" else {})}
        client.catalog.create_table(TableDefinition("w", name, (Column("a", "int"),), keys, properties=properties))

    def write(table, count, partition=None):
        for _ in range(count):
            with client.transaction({table: "insert"}, partitioned=[table] if partition else []) as txn:
                place = client.catalog.get_table(table).location
                if partition:
                    txn.add_partitions(table, [partition])
                    client.catalog.add_partitions(table, [partition])
                    place += f"/{partition}"
                write_id = txn.write_ids[table]
                AnyFilesystem().make_directory(f"{place}/delta_{write_id:07d}_{write_id:07d}_0000")
                AnyFilesystem().write_text(f"{place}/delta_{write_id:07d}_{write_id:07d}_0000/bucket_00000", "rows")

    return write


def test_the_plan_of_a_warehouse_changes_nothing(call, client, write):
    write("w.t", 11)
    write("w.quiet", 11)
    write("w.p", 11, "k=a")
    write("w.p", 1, "k=b")
    planned = call("compaction", "plan")
    assert [(r["table"], r["partition"], r["outcome"]) for r in planned] == [
        ("w.p", "k=a", "major compaction"), ("w.t", "", "major compaction"),
    ]  # fmt: skip
    assert planned[1]["rule"] == "hive.compactor.delta.num.threshold"
    assert json.loads(planned[1]["numbers"])["deltas"] == 11
    everything = call("compaction", "plan", "--all")
    assert [(r["table"], r["partition"], r["outcome"], r["rule"]) for r in everything] == [
        ("w.p", "k=a", "major compaction", "hive.compactor.delta.num.threshold"),
        ("w.p", "k=b", "nothing to do", "no threshold reached"),
        ("w.quiet", "", "left alone", "no_auto_compaction"),
        ("w.t", "", "major compaction", "hive.compactor.delta.num.threshold"),
    ]  # fmt: skip
    assert [r["partition"] for r in call("compaction", "explain", "w.p")] == ["k=a", "k=b"]
    assert client.compactions.show() == []
    assert call("compaction", "explain", "w.t")[1:] == []


def test_an_explanation_goes_from_the_decision_to_the_cleaning(call, client, write):
    """
    t1  a reader opens and stays
    t2  eleven deltas: the Initiator asks, a worker compacts
    t3  one more delta is written; explain: now, before, the request, and what the Cleaner keeps for the reader
    """
    reader = client.open_txn(agent_info="dag1/run1/task1")
    write("w.t", 11)
    (decision,) = run_initiator(client, AnyFilesystem())
    request = client.compactions.claim("host1-w")
    txn = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(request, highest_write_id=11, txn_id=txn)
    client.compactions.mark_compacted(request)
    client.commit_txn(txn)
    write("w.t", 1)
    told = call("compaction", "explain", "w.t")
    assert [row["what"] for row in told] == ["now", "decided (1x)", "request", "cleaning now"]
    now, before, queued, cleaning = told
    assert (now["outcome"], json.loads(now["numbers"])["deltas"]) == ("major compaction", 12)
    assert (before["outcome"], before["request"], before["since"]) == (
        "major compaction", decision.request_id, before["until"])  # fmt: skip
    assert (queued["outcome"], queued["request"]) == ("major: ready for cleaning", decision.request_id)
    assert cleaning["outcome"] == "waiting"
    assert f"txn {reader}" in cleaning["blocked_by"]
    assert "dag1/run1/task1" in cleaning["blocked_by"]
    assert call("compaction", "explain", "w.p") == []
    done = CliRunner().invoke(app, ["--metastore-url", str(client.database.url), "compaction", "explain", "w.p", "j=1"])
    assert done.exit_code == 1


def numbers(client):
    return {reading.name: reading.value for reading in read_health(client) if not reading.labels}


def test_metrics_are_counted_in_the_metastore(call, client, write):
    write("w.t", 3)
    write("w.quiet", 2)
    client.begin({"w.t": "insert"}).abort("a test")
    client.begin({"w.t": "insert"})
    client.compactions.enqueue("w.t", pool="night")
    client.compactions.did_not_initiate(client.compactions.active()[0].resource, "a test")
    client.leases.grab_lease(["w.quiet", "w.p"], 60, mirror=False)
    found = numbers(client)
    assert {name: found[name] for name in (
        "num_open_non_repl_transactions", "num_aborted_transactions", "tables_with_x_aborted_transactions",
        "compaction_num_completed_txn_components", "compaction_num_txn_to_writeid", "num_locks",
        "num_writes_to_disabled_compaction_table", "compaction_num_did_not_initiate", "compaction_num_initiated",
        "compaction_initiator_failure_counter", "num_leases", "num_lease_waiters", "num_waiting_lock_requests",
        "num_silent_transactions", "num_open_transactions",
    )} == {
        "num_open_non_repl_transactions": 1, "num_aborted_transactions": 1, "tables_with_x_aborted_transactions": 0,
        "compaction_num_completed_txn_components": 5, "compaction_num_txn_to_writeid": 7, "num_locks": 1,
        "num_writes_to_disabled_compaction_table": 2, "compaction_num_did_not_initiate": 1,
        "compaction_num_initiated": 0, "compaction_initiator_failure_counter": 1, "num_leases": 1,
        "num_lease_waiters": 0, "num_waiting_lock_requests": 0, "num_silent_transactions": 0,
        "num_open_transactions": 1,
    }  # fmt: skip
    shown = {row["metric"]: row for row in call("show", "metrics") if not row["labels"]}
    assert shown["num_writes_to_disabled_compaction_table"]["level"] == "warning"
    assert shown["num_locks"]["value"] == 1
    alarms = [row["metric"] for row in call("compaction", "metrics", "--alarms")]
    assert alarms == ["num_writes_to_disabled_compaction_table", "compaction_failed_ratio"]
    client.catalog.alter_database("w", {"NO_AUTO_COMPACTION": "false"})
    assert numbers(client)["num_writes_to_disabled_compaction_table"] == 0


def test_what_another_catalog_says_of_its_tables_is_not_of_ours(client, write):
    write("w.t", 3)
    with client.database.transaction() as connection:
        connection.execute(insert(CTLGS).values(CTLG_ID=9, NAME="other", LOCATION_URI="file:/o"))
        connection.execute(insert(DBS).values(DB_ID=99, DB_LOCATION_URI="file:/o", NAME="w", CTLG_NAME="other"))
        connection.execute(insert(TBLS).values(
            TBL_ID=99, DB_ID=99, TBL_NAME="t", CREATE_TIME=0, LAST_ACCESS_TIME=0, RETENTION=0
        ))  # fmt: skip
        connection.execute(insert(TABLE_PARAMS).values(
            TBL_ID=99, PARAM_KEY="no_auto_compaction", PARAM_VALUE="true"
        ))  # fmt: skip
    assert numbers(client)["num_writes_to_disabled_compaction_table"] == 0


def test_health_tells_of_deltas_of_silence_and_of_those_who_wait(client, write):
    """
    t1  100 deltas, and an Initiator that is told not to bother before there are 1000
    t2  two txns want one table; the second waits, and both fall silent
    t3  somebody waits for a lease
    """
    write("w.t", 100)
    lazy = MetastoreClient(
        client.database.url, Settings({Source.REQUEST: {"hive.compactor.delta.num.threshold": "1000"}})
    )
    assert run_initiator(lazy, AnyFilesystem())
    lazy.close()
    wanted = [LockComponent("w", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN)]
    first, second = client.open_txns(2)
    client.lock(wanted, txn_id=first)
    client.lock(wanted, txn_id=second)
    with client.database.transaction() as connection:
        silence = 7_200_000
        long_ago = {name: TXNS.c[name] - silence for name in ("TXN_STARTED", "TXN_LAST_HEARTBEAT")}
        connection.execute(TXNS.update().where(TXNS.c.TXN_ID.in_([first, second])).values(long_ago))
    client.leases.grab_lease("w.q", 60, mirror=False)
    waiting = client.leases.waiting_grab("w.q", 60, mirror=False)
    assert waiting.look() is None
    found = numbers(client)
    assert (found["num_waiting_lock_requests"], found["num_silent_transactions"], found["num_lease_waiters"]) == (
        1,
        2,
        1,
    )
    assert found["oldest_waiting_txn_age_in_sec"] >= 7200
    wrong = {reading.name: reading for reading in findings(read_health(client))}
    assert set(wrong) == {
        "num_silent_transactions", "oldest_waiting_txn_age_in_sec", "compaction_num_active_deltas"}  # fmt: skip
    assert (wrong["compaction_num_active_deltas"].value, wrong["compaction_num_active_deltas"].labels) == (
        100, {"table": "w.t"})  # fmt: skip


def test_cancel_says_what_became_of_each_and_fails_when_one_was_not(client):
    client.compactions.enqueue("w.t")
    client.compactions.enqueue("w.u")
    url = str(client.database.url)
    done = CliRunner().invoke(app, ["--metastore-url", url, "compaction", "cancel", "1", "99", "--reason", "no need"])
    assert done.exit_code == 1
    assert "compaction 1: Successfully aborted compaction" in done.stderr
    assert "compaction 99: No compaction request with id 99 is in the queue" in done.stderr
    assert client.compactions.get(1).error == f"cancelled by {client.user}: no need"
    assert CliRunner().invoke(app, ["--metastore-url", url, "compaction", "cancel", "2"]).exit_code == 0
