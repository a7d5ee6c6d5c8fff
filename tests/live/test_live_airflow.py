"""Tasks in a real Airflow: scheduler with LocalExecutor, triggerer, DAG processor and API server, each a process.

They wait without a slot, survive a triggerer, and do what they do once although everything they consist of is killed
with ``kill -9``, one after the other.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from pyarrow import orc

from airflow_hive_acid.testing import assert_at_rest, assert_committed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.metastore.protocol.transaction import Transaction
    from airflow_hive_acid.testing import HiveAcidTestbed
    from tests.live.processes import LiveAirflow

WRITER = {"w.waited": "insert"}


@pytest.fixture
def writer(testbed: HiveAcidTestbed) -> Iterator[Transaction]:
    """Somebody who writes the table that the task wants to empty."""
    writer = testbed.client.begin(WRITER, agent_info="a writer")
    yield writer
    if any(row.txn_id == writer.txn_id for row in testbed.client.show_transactions()):
        writer.abort("the test has ended")


def who_waits(testbed: HiveAcidTestbed) -> list[str]:
    """Agents of the requests that wait in the queue."""
    return [str(row.agent_info) for row in testbed.client.show_locks() if row.state.name == "WAITING"]


def triggerer_of(airflow: LiveAirflow) -> int | None:
    """Which triggerer has the only trigger there is."""
    rows = rows_in(airflow, "SELECT triggerer_id FROM trigger")
    return rows[0][0] if len(rows) == 1 else None


@pytest.mark.rule("R9")
def test_a_deferred_wait_survives_kill_9_of_its_triggerer(
    airflow: LiveAirflow, testbed: HiveAcidTestbed, writer: Transaction
) -> None:
    """
    t1  a writer holds w.waited
    t2                            the task wants it to itself, and defers: no slot, its request stays in the queue
    t3                            kill -9 of the triggerer; another one takes over the wait
    t4  the writer ends
    t5                            the task goes on with the txn that has waited, and commits
    """
    run_id = airflow.run_dag("waits")
    airflow.wait_for_state("waits", run_id, "empty", "deferred")
    assert (
        airflow.xcom("waits", run_id, "has_no_database")
        == "Direct database access via the ORM is not allowed in Airflow 3.0"
    )
    assert who_waits(testbed) == [f"airflow/waits/{run_id}/empty#1"]
    (waiting,) = {row.txn_id for row in testbed.client.show_locks() if row.state.name == "WAITING"}

    airflow.wait_for(lambda: triggerer_of(airflow) is not None, "gives the trigger to a triggerer")
    first = triggerer_of(airflow)
    airflow.kill("triggerer")
    assert who_waits(testbed)
    airflow.spawn("triggerer", "--skip-serve-logs")
    airflow.wait_for(lambda: triggerer_of(airflow) not in (None, first), "gives the trigger to the other triggerer")
    assert airflow.task("waits", run_id, "empty")["state"] == "deferred"

    writer.abort("the test goes on")
    airflow.wait_for_state("waits", run_id, "empty", "success")
    result = airflow.xcom("waits", run_id, "empty")
    assert [statement["txn_id"] for statement in result["statements"]] == [waiting]
    assert_committed(testbed, result)
    assert_at_rest(testbed)


def test_marking_a_waiting_task_as_failed_withdraws_its_request(
    airflow: LiveAirflow, testbed: HiveAcidTestbed, writer: Transaction
) -> None:
    """
    t1  a writer holds w.waited
    t2                            the task waits in the triggerer
    t3                            somebody marks it as failed: no ghost stays in the queue
    """
    run_id = airflow.run_dag("waits")
    airflow.wait_for_state("waits", run_id, "empty", "deferred")
    airflow.wait_for(lambda: triggerer_of(airflow) is not None, "gives the trigger to a triggerer")
    path = f"dags/waits/dagRuns/{run_id}/taskInstances/empty"
    airflow.api("PATCH", path, {"new_state": "failed"})
    airflow.wait_for(lambda: not who_waits(testbed), "withdraws the request", lambda: str(who_waits(testbed)))
    assert [row.txn_id for row in testbed.client.show_transactions() if row.state.name == "OPEN"] == [writer.txn_id]


def test_sensors_wait_together_in_the_triggerer_until_a_writer_has_committed(
    airflow: LiveAirflow, testbed: HiveAcidTestbed, writer: Transaction
) -> None:
    sensors = ("commit", "lock", "txn")
    run_id = airflow.run_dag("senses", {"txn_id": writer.txn_id, "after": writer.write_ids["w.waited"] - 1})
    for sensor in sensors:
        airflow.wait_for_state("senses", run_id, sensor, "deferred")
    writer.commit()
    for sensor in sensors:
        airflow.wait_for_state("senses", run_id, sensor, "success")


@pytest.mark.rule("R9")
def test_a_transaction_across_tasks_is_kept_by_the_triggerer(
    airflow: LiveAirflow, testbed: HiveAcidTestbed, directory: Path
) -> None:
    """
    t1  a task of the group empties a table, another one takes its time; the keeper beats in the triggerer
    t2  the other one ends: commit, and the keeper has nothing left to do
    t3  a second run: somebody marks its keeper as failed, and its transaction is aborted at once
    """
    shared, sign = testbed.client.shared_txns, directory / "let_go"

    def begun() -> tuple[str, int]:
        run_id = airflow.run_dag("shared")
        airflow.wait_for_state("shared", run_id, "both.keeper", "deferred")
        airflow.wait_for_state("shared", run_id, "both.held", "running")
        txn_id = int(airflow.xcom("shared", run_id, "both.begin")["txn_id"])
        first = shared.get(txn_id).kept
        airflow.wait_for(lambda: shared.get(txn_id).kept not in (None, first), "beats for the transaction")
        return run_id, txn_id

    run_id, txn_id = begun()
    sign.touch()
    try:
        for name in ("commit", "keeper", "end"):
            airflow.wait_for_state("shared", run_id, f"both.{name}", "success")
    finally:
        sign.unlink()
    result = airflow.xcom("shared", run_id, "both.commit")
    assert [statement["txn_id"] for statement in result["statements"]] == [txn_id]
    assert_committed(testbed, result)

    run_id, txn_id = begun()
    airflow.api("PATCH", f"dags/shared/dagRuns/{run_id}/taskInstances/both.keeper", {"new_state": "failed"})
    airflow.wait_for(lambda: shared.get(txn_id).state.name == "ABORTED", "gives the transaction up")
    sign.touch()
    airflow.wait_for_state("shared", run_id, "both.commit", "failed")
    airflow.wait_for_state("shared", run_id, "both.end", "success")
    assert "its keeper was ended" in airflow.xcom("shared", run_id, "both.end")["reason"]
    assert_at_rest(testbed)


@pytest.fixture
def driver_of(airflow: LiveAirflow, directory: Path) -> Iterator[object]:
    """Waits for the next driver that has begun, and returns it; whatever a try has started is gone afterwards."""
    seen: dict[int, psutil.Process] = {}
    started: list[psutil.Process] = []

    def begun() -> bool:
        for path in directory.glob("driver-*"):
            pid = int(path.name.partition("-")[2])
            if pid not in seen:
                seen[pid] = psutil.Process(pid)
                started.extend([seen[pid], seen[pid].parent()])
                return True
        return False

    def next_driver() -> psutil.Process:
        airflow.wait_for(begun, "starts the job", lambda: airflow.log_of("killed", "*", "load"))
        return list(seen.values())[-1]

    yield next_driver
    for process in started:
        if process.is_running():
            process.kill()


@pytest.mark.rule("R4")
@pytest.mark.rule("R14")
def test_a_task_whose_every_process_is_killed_once_is_applied_once(
    airflow: LiveAirflow, testbed: HiveAcidTestbed, directory: Path, driver_of
) -> None:
    """
    try 1  kill -9 of the task's process: its driver and spark-submit live on, orphaned
    try 2  kill -9 of its supervisor: the task itself lives on, with its driver
    try 3  kill -9 of spark-submit
    try 4  kill -9 of the driver
    try 5  everybody may go on, the orphans of tries 1 and 2 as well: only what this one does becomes visible
    """
    run_id = airflow.run_dag("killed")
    orphans: dict[str, psutil.Process] = {}
    for number, victim in enumerate(("task", "supervisor", "spark-submit", "driver"), 1):
        driver = driver_of()
        submit = driver.parent()
        task = submit.parent()
        processes = {"task": task, "supervisor": task.parent(), "spark-submit": submit, "driver": driver}
        assert "java" in submit.name()
        assert airflow.task("killed", run_id, "load")["try_number"] == number
        processes[victim].kill()
        orphans |= {"task": {"driver": driver}, "supervisor": {"task": task}}.get(victim, {})
    last = driver_of()
    assert [is_alive(process) for process in orphans.values()] == [True, True]
    assert states_of_tries(testbed, run_id) == ["ABORTED"] * 4 + ["OPEN"]

    (directory / "go-on").touch()
    airflow.wait_for_state("killed", run_id, "load", "success")
    result = airflow.xcom("killed", run_id, "load")
    assert (result["inserted"], result["returned"]) == (7, last.pid)
    assert airflow.task("killed", run_id, "load")["try_number"] == 5
    assert_committed(testbed, result)
    airflow.wait_for((directory / f"done-{orphans['driver'].pid}").exists, "sees the end of the first orphan's job")
    airflow.wait_for(lambda: not is_alive(orphans["task"]), "sees the orphaned task give up")
    assert_at_rest(testbed)
    assert rows_of(testbed) == list(range(7))


def test_commits_run_the_dag_that_watches_once_each_also_while_the_triggerer_is_dead(
    airflow: LiveAirflow, testbed: HiveAcidTestbed
) -> None:
    """
    t1  the DAG is switched on: its watcher keeps where the log ends
    t2  a commit: a run of the DAG is told of it
    t3  kill -9 of the triggerer; a second commit
    t4  another triggerer: a run is told of the second commit, and nobody anew of the first
    """
    airflow.wait_for(lambda: airflow.knows("follows"), "knows the DAG follows")
    airflow.api("PATCH", "dags/follows", {"is_paused": False})
    try:
        airflow.wait_for(lambda: watermark(airflow) is not None, "keeps a watermark")
        with testbed.client.begin({"w.watched": "insert"}) as first:
            pass
        airflow.wait_for(lambda: first.txn_id in runs_told(airflow), "tells of the first commit")
        airflow.wait_for(lambda: is_settled(watermark(airflow)), "moves the watermark", lambda: str(watermark(airflow)))
        airflow.kill("triggerer")
        with testbed.client.begin({"w.watched": "insert"}) as second:
            pass
        airflow.spawn("triggerer", "--skip-serve-logs")
        airflow.wait_for(lambda: second.txn_id in runs_told(airflow), "tells of the second commit")
        airflow.wait_for(lambda: is_settled(watermark(airflow)), "moves the watermark", lambda: str(watermark(airflow)))
        events = rows_in(airflow, "SELECT extra FROM asset_event ORDER BY id")
        payloads = [json.loads(extra)["payload"] for (extra,) in events]
        assert [(p["txn_id"], p["write_id"], p["redelivered"]) for p in payloads] == [
            (first.txn_id, 1, False),
            (second.txn_id, 2, False),
        ]
        assert runs_told(airflow) == [first.txn_id, second.txn_id]
    finally:
        airflow.api("PATCH", "dags/follows", {"is_paused": True})


def watermark(airflow: LiveAirflow) -> dict[str, int] | None:
    """What the only watcher has kept in Airflow's store."""
    rows = rows_in(airflow, "SELECT value FROM asset_state_store")
    return dict(json.loads(rows[0][0])) if rows else None


def is_settled(kept: dict[str, int] | None) -> bool:
    """Airflow has everything that was told."""
    return kept is not None and kept["upto"] == kept["telling"]


def runs_told(airflow: LiveAirflow) -> list[int]:
    """Txns of which runs of the DAG were told, in the order of the runs."""
    runs = airflow.api("GET", "dags/follows/dagRuns?order_by=id")["dag_runs"]
    ended = [run["dag_run_id"] for run in runs if run["state"] == "success"]
    return [commit["txn_id"] for run_id in ended for commit in airflow.xcom("follows", run_id, "told")]


def rows_in(airflow: LiveAirflow, query: str) -> list[tuple[Any, ...]]:
    """Rows of Airflow's own database."""
    with closing(sqlite3.connect(f"file:{airflow.home / 'airflow.db'}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs; one that nobody has buried yet does not."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def states_of_tries(testbed: HiveAcidTestbed, run_id: str) -> list[str]:
    """States of the txns that each try has opened, in order of the tries."""
    found = {t.agent_info: t.state.name for t in testbed.client.show_transactions()}
    return [found[agent] for agent in sorted(found) if agent.startswith(f"airflow/killed/{run_id}/load#")]


def rows_of(testbed: HiveAcidTestbed) -> list[int]:
    """All rows in the table's files, whoever may see them."""
    table = Path(testbed.client.catalog.get_table("w.killed").location.removeprefix("file:"))
    files = [path for path in table.rglob("bucket_*") if path.is_file()]
    return sorted(row["a"] for path in files for row in orc.ORCFile(path).read().column("row").to_pylist())
