"""The pure parts behind the page: links to tasks, cursors, what is shown of URLs, the description of the API."""

from __future__ import annotations

import ast
import sys
import types
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from airflow_hive_acid.errors import (
    ActionRefusedError,
    InvalidArgumentsError,
    MetastoreUnavailableError,
    NoSuchTxnError,
    WriteConflictError,
)
from airflow_hive_acid.hooks.tasks import agent_info, worker_id
from airflow_hive_acid.plugins import cursors, description
from airflow_hive_acid.plugins.access import _Bucket
from airflow_hive_acid.plugins.application import STATIC
from airflow_hive_acid.plugins.failures import failure_of
from airflow_hive_acid.plugins.shaping import properties, public_uri
from airflow_hive_acid.plugins.task_links import TaskOf, compaction_of, task_of

RUN = "manual__2026-11-22T09:00:00.123456+00:00_aB3"


def context(**changes: Any) -> dict[str, Any]:
    fields = {"dag_id": "sales.daily", "run_id": RUN, "task_id": "group.load-all", "map_index": -1, "try_number": 2}
    return {"ti": types.SimpleNamespace(**{**fields, **changes})}


@pytest.mark.parametrize("index", [None, 7])
def test_agent_information_leads_back_to_the_try_of_the_task(index: int | None) -> None:
    given = agent_info(context(map_index=-1 if index is None else index))
    assert task_of(given) == TaskOf("sales.daily", RUN, "group.load-all", index, 2)


def test_a_run_may_have_slashes_in_its_name() -> None:
    assert task_of(agent_info(context(run_id="a/b#c"))) == TaskOf("sales.daily", "a/b#c", "group.load-all", None, 2)


def test_of_what_was_cut_off_the_dag_is_known() -> None:
    assert task_of(agent_info(context(task_id="t" * 200))) == TaskOf("sales.daily")


def test_a_worker_of_compactions_leads_back_to_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    given = worker_id(context(dag_id="hive_acid_worker", task_id="compact-etl", map_index=3))
    expected = TaskOf("hive_acid_worker", RUN, "compact-etl", 3)
    assert task_of(given) == expected
    assert task_of(f"compaction 12 by {given}") == expected
    assert compaction_of(f"compaction 12 by {given}") == 12
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__DEPLOYMENT_ID", "staging")
    named = worker_id(context(dag_id="hive_acid_worker", task_id="compact-etl", map_index=3))
    assert named != given
    assert task_of(f"compaction 12 by {named}") == expected


@pytest.mark.parametrize(
    "text",
    [
        None, "", "hive-acid CLI", "airflow/../run/task#1", "airflow/dag/../task#1", "airflow/dag/run/..#1",
        "airflow/dag/run/task", "airflow/<script>/run/task#1", "airflow/dag/run\n/task#1", "javascript:alert(1)",
        "@airflow-dag-no_run-task", "airflow/dag/run/task#1\n",
    ],
)  # fmt: skip
def test_what_is_no_task_is_no_link(text: str | None) -> None:
    assert task_of(text) is None


def test_urls_of_tasks_are_those_of_airflow_with_everything_encoded() -> None:
    task = TaskOf("a.b", 'run "1"/<b>?#&', "t", 4, 2)
    assert task.dag_url == "dags/a.b"
    assert task.run_url == "dags/a.b/runs/run%20%221%22%2F%3Cb%3E%3F%23%26"
    assert task.log_url == f"{task.run_url}/tasks/t/mapped/4?try_number=2"
    assert (TaskOf("a").run_url, TaskOf("a").log_url) == (None, None)


@pytest.mark.parametrize("key", [(5,), (-(2**63), 2**63 - 1), ("db", "täble'; --", "p=\u2028")])
def test_a_cursor_comes_back_as_the_key_it_was_made_of(key: tuple[Any, ...]) -> None:
    text = cursors.encode(key)
    assert text is not None
    assert cursors.decode(text, *(type(part) for part in key)) == key


@pytest.mark.parametrize(
    "text",
    ["", "=", "x", "%%%", "bnVsbA", "W10", "WzFd!", "WyJhIl0", "WzEsMl0", "WzFlOTldCg", "W3RydWVd",
     "WzkyMjMzNzIwMzY4NTQ3NzU4MDhd", "W" * 4000],
)  # fmt: skip
def test_a_cursor_that_was_not_given_out_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="cursor is none that this list has given out"):
        cursors.decode(text, int)


def test_a_cursor_with_half_a_character_is_refused() -> None:
    with pytest.raises(InvalidArgumentsError):
        cursors.decode("WyJcdWQ4MDAiXQ", str)


def test_the_first_page_has_neither_cursor_nor_key() -> None:
    assert (cursors.encode(None), cursors.decode(None, int)) == (None, None)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://key:secret@bucket/w?token=1#x", "s3://bucket/w"),
        ("file:///w", "file:///w"),
        ("hdfs://nn:8020/w", "hdfs://nn:8020/w"),
        ("http://[broken", None),
        (None, None),
    ],
)
def test_of_uris_only_the_place_is_shown(uri: str | None, shown: str | None) -> None:
    assert public_uri(uri) == shown


def test_properties_that_look_like_secrets_are_masked() -> None:
    given = {"compactor.spark.hadoop.fs.s3a.secret.key": "hunter2", "compactor.x": "1"}
    assert properties(given) == {"compactor.spark.hadoop.fs.s3a.secret.key": "***", "compactor.x": "1"}


@pytest.mark.parametrize(
    ("error", "status", "code", "retryable"),
    [
        (NoSuchTxnError("gone"), 404, "not_found", False),
        (ActionRefusedError("no"), 409, "conflict", False),
        (InvalidArgumentsError("what"), 422, "invalid", False),
        (MetastoreUnavailableError("away"), 503, "metastore_unavailable", True),
        (WriteConflictError("other"), 409, "conflict", True),
        (PermissionError("/secret/path"), 503, "storage_unavailable", True),
        (ZeroDivisionError("inner thoughts"), 500, "internal", False),
    ],
)
def test_errors_are_answered_with_a_code_and_words(error: Exception, status: int, code: str, retryable: bool) -> None:
    failure = failure_of(error)
    assert (failure.status, failure.code, failure.retryable) == (status, code, retryable)
    assert "inner" not in failure.message
    assert "/secret" not in failure.message


def test_strangers_write_so_many_rows_a_minute() -> None:
    now = [0.0]
    bucket = _Bucket(3, lambda: now[0])
    assert [bucket.may_write() for _ in range(4)] == [True, True, True, False]
    now[0] = 20.0
    assert [bucket.may_write() for _ in range(2)] == [True, False]


def test_the_description_escapes_what_it_shows() -> None:
    text = description.page({
        "info": {"title": "<b>", "version": "1", "description": "d"},
        "paths": {"/x": {"get": {
            "description": "<script>", "responses": {"200": {"content": {"j": {"schema": {"$ref": "#/x/A"}}}}},
            "parameters": [{"name": "<i>", "in": "query", "schema": {"anyOf": [{"type": "integer", "minimum": 1},
                                                                              {"enum": ["<u>"]}, {"const": "c"}]}}]}}},
        "components": {"schemas": {"A": {"description": "<em>", "properties": {
            "f": {"type": "array", "items": {"type": "string"}}}}}},
    })  # fmt: skip
    for tag in ("<script>", "<i>", "<u>", "<em>", "<b>"):
        assert tag not in text
    assert '<a href="#A">A</a>' in text
    assert "list of string" in text


def test_airflow_finds_the_plugin_and_makes_its_application_when_it_is_needed() -> None:
    """Airflow imports it at the start of nearly every process."""
    (entry,) = [one for one in entry_points(group="airflow.plugins") if one.name == "hive_acid"]
    plugin = entry.load()
    (mounted,) = plugin.fastapi_apps
    assert (mounted["url_prefix"], mounted["name"]) == ("/hive-acid", "Hive ACID")
    (app,) = plugin.react_apps
    for url in (app["bundle_url"], app["icon"], app["icon_dark_mode"]):
        path = url.partition("?")[0].removeprefix("hive-acid/static/")
        assert (STATIC / path).is_file(), url
    assert (app["url_route"], app["destination"]) == ("hive-acid", "nav")
    tree = ast.parse(Path(sys.modules[plugin.__module__].__file__ or "").read_text())
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "typing", "airflow.plugins_manager", "airflow_hive_acid"}
