"""What the page shows, and that its API keeps what its description promises."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid import __version__
from airflow_hive_acid.format.services import Caller, ServiceState
from airflow_hive_acid.metastore.compaction.measures import Measure
from airflow_hive_acid.metastore.compaction.model import Resource
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks import legacy_lock_manager
from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.plugins.routes.services import Pulses
from airflow_hive_acid.replication.policies.state import KeptEvent, ObjectState, Phase, PolicyRecord
from airflow_hive_acid.settings_table import DUMMY_TXN_MANAGER
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.backends("sqlite")

CONN = "hive_acid_default"
BASE = f"/api/v1/connections/{CONN}"
HEADER = {"X-Hive-Acid": "1"}
ROLES = ("anonymous", "viewer", "user", "op", "admin")


def lock(client: MetastoreClient, txn_id: int = 0, place: str = "t", type: LockType = LockType.EXCLUSIVE) -> int:
    return client.lock(LockComponent("db", place, None, type, Operation.NO_TXN), txn_id=txn_id).lock_id


def test_a_txn_leads_to_its_task_and_says_whom_it_waits_for(
    metastore: MetastoreClient, ask: Callable[..., Any]
) -> None:
    holder = metastore.open_txn()
    waiter = metastore.open_txn(agent_info="airflow/sales/manual__2026/load[3]#2")
    lock(metastore, holder)
    lock(metastore, waiter)
    found = ask(f"/transactions/{waiter}").json()
    assert found["txn"]["task"]["log_url"] == "dags/sales/runs/manual__2026/tasks/load/mapped/3?try_number=2"
    edge = {"source": f"txn:{waiter}", "target": f"txn:{holder}", "object": "db.t", "in_cycle": False}
    assert (found["waits_for"], found["waited_by"]) == ([edge], [])
    assert found["sentence"] == f"txn {waiter} waits for db.t behind txn {holder}"
    assert ask(f"/transactions/{holder}").json()["waited_by"] == [edge]
    graph = ask("/locks/graph?database=db&table=t&limit=1").json()
    assert (graph["total_nodes"], graph["waiters"], graph["truncated"], len(graph["nodes"])) == (2, 1, True, 1)
    assert ask("/locks/graph?database=other").json()["nodes"] == []


def test_with_dummy_txn_manager_the_page_shows_the_locks_of_the_hive_concurrency_model(
    metastore: MetastoreClient, monkeypatch: pytest.MonkeyPatch, ask: Callable[..., Any]
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_TXN_MANAGER", DUMMY_TXN_MANAGER)
    manager = legacy_lock_manager(metastore.database, metastore.settings)
    for place in ("k=a", "k=b"):
        part = LockComponent("db", "t", place, LockType.EXCLUSIVE, Operation.NO_TXN, transactional=False)
        manager.lock(LockRequest((part,), "ann", "host", agent_info="airflow/sales/manual__2026/load#1"))
    first = ask("/locks?database=db&table=t&limit=3").json()
    assert [(one["object"], one["type"]) for one in first["items"]] == [
        ("db.t", "shared_read"), ("db.t/k=a", "exclusive"), ("db.t", "shared_read"),
    ]  # fmt: skip
    assert first["total"] == 4
    assert first["items"][0]["task"]["dag_id"] == "sales"
    assert [one["can_withdraw"] for one in first["items"]] == [False] * 3
    rest = ask(f"/locks?database=db&table=t&limit=3&cursor={first['next']}").json()
    assert [one["object"] for one in rest["items"]] == ["db.t/k=b"]
    assert len(ask("/locks?type=exclusive&user=ann").json()["items"]) == 2
    assert ask("/locks?state=waiting").json()["items"] == []


def test_the_page_says_how_far_a_replica_is_behind_and_what_was_kept(
    metastore: MetastoreClient, ask: Callable[..., Any]
) -> None:
    record = PolicyRecord(metastore.database, "sales")
    epoch = record.begin("berlin", "airflow/replication").epoch
    now = metastore.database.read(now_ms)
    record.change(epoch, phase=Phase.INCREMENTAL, position=42, as_of=now - 90_000)
    record.note(epoch, [ObjectState("sales.a", "copy.a", 42, now, 0, 10, 2, "2 directories arrived")])
    record.note(epoch, [ObjectState("sales.b", "copy.b", 41, now, error="the disk is full")])
    record.keep(epoch, [KeptEvent(7, 1_700_000_000, "MAKE_TEA", "sales", None, "unknown", "{}")])
    record.end(epoch, {"events": 5, "bytes": 10, "seconds": 0.5}, None)
    (found,) = ask("/replications").json()["items"]
    assert 90 <= found.pop("lag_seconds") < 150
    assert (found["policy"], found["source"], found["phase"], found["position"]) == ("sales", "berlin", "following", 42)
    assert (found["tables"], found["kept_events"], found["events"], found["running"]) == (2, 1, 5, False)
    tables = ask("/replications/tables?policy=sales").json()["items"]
    assert [(t["table"], t["error"]) for t in tables] == [("copy.b", "the disk is full"), ("copy.a", None)]
    assert ask("/replications/tables?policy=other").json()["items"] == []
    (event,) = ask("/replications/events").json()["items"]
    assert (event["type"], event["object"], event["time"]) == ("MAKE_TEA", "sales", 1_700_000_000_000)
    reading = next(r for r in ask("/overview").json()["findings"] if r["name"] == "replication_num_kept_events")
    assert reading["view"] == "replication"


def test_the_overview_names_what_is_wrong_and_where_to_look(
    metastore: MetastoreClient, ask: Callable[..., Any]
) -> None:
    txn = metastore.open_txn()
    with metastore.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_ID == txn).values(TXN_STARTED=1))
    lock(metastore, txn)
    lock(metastore)
    failed = metastore.compactions.enqueue("db.t")
    metastore.compactions.claim("w")
    metastore.compactions.mark_failed(metastore.compactions.get(failed.id), "no space")
    metastore.compactions.enqueue("db.u", pool="etl")
    metastore.leases.grab_lease("db.v", 600)
    found = ask("/overview").json()
    assert found["oldest_txn"]["txn_id"] == txn
    assert [one["state"] for one in found["waiting_locks"]] == ["waiting"]
    assert [(one["id"], one["error"]) for one in found["failures"]] == [(failed.id, "no space")]
    assert [(one["pool"], one["state"], one["count"]) for one in found["queue"]] == [("etl", "initiated", 1)]
    assert [one["object"] for one in found["leases"]] == ["db.v"]
    wrong = {one["name"]: one for one in found["findings"]}
    assert wrong["oldest_open_non_repl_txn_age_in_sec"]["level"] == "error"
    assert wrong["oldest_open_non_repl_txn_age_in_sec"]["advice"]


def test_a_table_shows_its_size_over_time_and_why_it_is_not_compacted(
    metastore: MetastoreClient, ask: Callable[..., Any]
) -> None:
    metastore.measures.store([(Resource("db", "t"), Measure(3, 2, 1, 60, 40, 25))])
    (row,) = ask("/tables?database=db").json()["items"]
    assert (row["object"], row["transactional"], row["deltas"], row["delete_ratio"]) == ("db.t", "full", 2, 0.25)
    series = ask("/tables/series?database=db&table=t").json()
    assert [(point["deltas"], point["base_bytes"]) for point in series["points"]] == [(2, 60)]
    detail = ask("/tables/detail?database=DB&table=T").json()
    assert (detail["row"], detail["properties"]["transactional"]) == (row, "true")
    told = ask("/tables/explain?database=db&table=t").json()
    assert (told["object"], told["writes"], told["decision"]["kind"]) == ("db.t", 0, "nothing to do")


def test_pages_follow_each_other_by_their_cursors(metastore: MetastoreClient, ask: Callable[..., Any]) -> None:
    ids = metastore.open_txns(5)
    found, cursor = [], ""
    while cursor is not None:
        answer = ask(f"/transactions?limit=2{cursor and f'&cursor={cursor}'}").json()
        assert answer["total"] == (None if cursor else 5)
        found += [one["txn_id"] for one in answer["items"]]
        cursor = answer["next"]
    assert found == ids


def test_the_page_for_plain_browsers_and_its_files_need_no_login(page: TestClient) -> None:
    shell = page.get("/")
    assert (shell.status_code, shell.headers["content-type"]) == (200, "text/html; charset=utf-8")
    script = page.get("/static/page.js")
    assert script.status_code == 200
    assert script.headers["cache-control"] == "no-cache"
    assert page.get("/static/page.js", headers={"If-None-Match": script.headers["etag"]}).status_code == 304
    for path in ("/static/../application.py", "/static/%2e%2e/application.py", "/static//etc/passwd"):
        assert page.get(path).status_code == 404


def test_the_api_keeps_what_its_description_promises(
    application: FastAPI, metastore: MetastoreClient, tokens: dict[str, str]
) -> None:
    """Random requests made from the OpenAPI document: no answer is a 500, every answer is of a documented shape."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis.checks import not_a_server_error, response_schema_conformance, status_code_conformance

    metastore.open_txn()
    metastore.compactions.enqueue("db.t")
    metastore.leases.grab_lease("db.t", 600)
    document = application.openapi()
    schema = schemathesis.openapi.from_dict(document)
    schema.app = application
    headers = {"Authorization": f"Bearer {tokens['op']}", **HEADER}
    checked = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=examples(12), deadline=None, database=None, derandomize=True, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def check(case: Any) -> None:
            if "conn_id" in (case.path_parameters or {}):
                case.path_parameters["conn_id"] = CONN
            response = case.call(app=application, headers=headers)
            case.validate_response(
                response, checks=(not_a_server_error, status_code_conformance, response_schema_conformance)
            )

        check()
        checked += 1
    assert checked == sum(len(verbs) for verbs in document["paths"].values()) >= 22


def test_spark_services_are_shown_with_callers_and_with_why_one_is_not_used(
    metastore: MetastoreClient, ask: Callable[..., Any], application: FastAPI, tmp_path: Path, monkeypatch
) -> None:
    """Of a service elsewhere only the beat tells whether it lives: one that stands still is gone."""
    monkeypatch.setenv("HIVE_ACID_CACHE", str(tmp_path))
    assert ask("/spark-services").json() | {"now": 0} == {
        "items": [], "at": f"file://{tmp_path}/services", "shared": False, "now": 0,
    }  # fmt: skip
    elsewhere = ServiceState(
        incarnation="one", beat=1, application_id="app-1", package=__version__,
        python=f"{sys.version_info[0]}.{sys.version_info[1]}", spark="4.3.0", place="elsewhere", pid=1, started=5,
        places=2, max_callers=3, idle_seconds=0.0,
        callers=(Caller("dag/run/a", "INSERT"), Caller("dag/run/b", "UPDATE", True), Caller("ann")),
    )  # fmt: skip
    for name, state in {"etl": elsewhere, "old": replace(elsewhere, package="0.1", callers=())}.items():
        (tmp_path / "services" / name).mkdir(parents=True)
        (tmp_path / "services" / name / "state.json").write_text(state.to_json())
    now = [0.0]
    application.state.pulses = Pulses(clock=lambda: now[0])
    etl, old = ask("/spark-services").json()["items"]
    assert (etl["problem"], etl["running"], etl["waiting"], len(etl["callers"])) == (None, 1, 1, 3)
    assert etl["callers"][1] == {"who": "dag/run/b", "running": "UPDATE", "waits": True}
    assert old["problem"].startswith("it is of airflow-hive-acid 0.1")
    now[0] = 11.0
    assert ask("/spark-services").json()["items"][0]["problem"] == "it has given no sign of life for 10 s"
    (tmp_path / "services" / "etl" / "state.json").write_text(replace(elsewhere, beat=2).to_json())
    assert ask("/spark-services").json()["items"][0]["problem"] is None
    assert ask("/spark-services", "anonymous").status_code == 401


def test_mirrors_say_how_far_they_are_and_what_went_wrong(ask: Callable[..., Any], client: MetastoreClient) -> None:
    assert ask("/mirrors").json()["items"] == []
    targets = ("iceberg:ice.db.t", "delta:/lake/t")
    for target in targets:
        client.mirrors.register("db.t", target, "me")
    client.mirrors.note_state("db.t", targets[0], 1, 0, "{}", ("bootstrap", "there is nothing yet"))
    client.mirrors.note_verified("db.t", targets[0], 0, [])
    client.mirrors.note_failure("db.t", targets[1], "no such bucket")
    failed, good = ask("/mirrors?table=db.t").json()["items"]
    assert (failed["target"], failed["error"], failed["looked"]) == (targets[1], "no such bucket", None)
    assert (good["target"], good["last"], good["error"]) == (targets[0], "bootstrap: there is nothing yet", None)
    assert (good["differ"], good["primary"]) == (0, None)
    assert good["verified"] is not None
    assert good["behind"] == failed["behind"]
    assert ask("/mirrors?table=db.other").json()["items"] == []
