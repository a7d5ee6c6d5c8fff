"""Pins and changes in DAGs: what the operators ask for, what a retry finds, and what is refused where it is written."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from airflow_hive_acid.airflow_versions import AirflowFailException
from airflow_hive_acid.cli.main import app
from airflow_hive_acid.engine.changes import change_range
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.errors import (
    ChangesNoLongerAvailableError,
    ChangesNotCompleteError,
    InvalidArgumentsError,
    NoSuchPinError,
)
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.operators.time_travel import (
    HiveAcidChangesOperator,
    HiveAcidPinOperator,
    HiveAcidUnpinOperator,
)

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.backends("sqlite")
DAY = 86_400.0


@pytest.fixture
def conn_id(conn_id: str, client: MetastoreClient, tmp_path: Path) -> str:
    client.catalog.set_warehouse(tmp_path.as_uri())
    client.catalog.create_database("db")
    for name in ("t", "u"):
        client.catalog.create_table(TableDefinition("db", name, (Column("id", "int"),)))
    return conn_id


def context(run_id: str = "r") -> Any:
    return {"ti": SimpleNamespace(dag_id="d", run_id=run_id, task_id="p", map_index=-1, try_number=1, max_tries=2)}


def pin(conn_id: str, **more: Any) -> HiveAcidPinOperator:
    return HiveAcidPinOperator(
        task_id="p", name="month_end", tables=["db.t", "db.u"], expires=30 * DAY, hive_acid_conn_id=conn_id, **more
    )


def test_a_task_pins_a_retry_finds_its_pin_and_another_run_replaces_it(conn_id: str, client: MetastoreClient) -> None:
    made = pin(conn_id, comment="books").execute(context())
    assert (made["name"], made["tables"], made["comment"]) == ("month_end", ["db.t", "db.u"], "books (d r p -1)")
    assert made["honoured_by_hive"] is True
    first = client.pins.get("month_end")
    assert pin(conn_id, comment="books").execute(context()) == made
    assert client.pins.get("month_end").id == first.id
    with pytest.raises(AirflowFailException, match=r"PinExistsError: pin 'month_end' is there: it pins db.t, db.u"):
        pin(conn_id).execute(context("later"))
    pin(conn_id, replace=True).execute(context("later"))
    assert client.pins.get("month_end").id != first.id
    drop = HiveAcidUnpinOperator(task_id="d", name="month_end", hive_acid_conn_id=conn_id)
    assert drop.execute(context()) is True
    assert drop.execute(context()) is False
    with pytest.raises(AirflowFailException, match="'month_end' has ended: dropped by airflow"):
        HiveAcidUnpinOperator(task_id="d", name="month_end", missing_ok=False, hive_acid_conn_id=conn_id).execute(
            context()
        )
    with HiveAcidHook(conn_id) as hook, pytest.raises(NoSuchPinError):
        hook.pins.get("month_end")


def test_a_retry_does_not_take_a_pin_that_is_over_for_its_own(conn_id: str, client: MetastoreClient) -> None:
    """Its txn was aborted from outside, and no reaper has come by: nobody can read by it."""
    dead = pin(conn_id).execute(context())
    client.abort_txn(dead["txn_id"], "by hand")
    made = pin(conn_id).execute(context())
    assert made["txn_id"] != dead["txn_id"]
    assert client.pins.get("month_end").txn_id == made["txn_id"]


class FakeEngine:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def run(self, sql: str, **how: Any) -> list[StatementResult]:
        self.asked.append(sql)
        return [StatementResult(sql, "insert", inserted=2, txn_id=7)]

    def export(self, sql: str, destination: Any, **how: Any) -> Any:
        self.asked.append(f"{destination.uri}: {sql}")
        return SimpleNamespace(to_document=lambda: {"rows": 3})


def commits(client: MetastoreClient, number: int) -> None:
    for _ in range(number):
        client.begin({"db.t": "insert"}).commit()


def test_changes_are_written_for_the_range_that_has_ended(conn_id: str, client: MetastoreClient) -> None:
    commits(client, 3)
    engine, hook = FakeEngine(), HiveAcidHook(conn_id)
    common = {"task_id": "c", "table": "db.t", "hive_acid_conn_id": conn_id}
    done = HiveAcidChangesOperator(from_write_id="2", path="/out/x", net=True, key=["id"], **common).work(hook, engine)
    assert engine.asked == ["/out/x: SELECT * FROM `db`.`t` NET CHANGES BETWEEN 2 AND 3 KEY (`id`)"]
    assert done == {
        "rows": 3, "changes": {"table": "db.t", "from_write_id": 2, "to_write_id": 3}, "empty": False,
    }  # fmt: skip
    into = HiveAcidChangesOperator(from_write_id=1, to_write_id=2, into="db.u", **common)
    assert into.work(hook, engine)["changes"]["to_write_id"] == 2
    assert engine.asked[1] == "INSERT INTO `db`.`u`\nSELECT * FROM `db`.`t` CHANGES BETWEEN 1 AND 2"
    assert "CHANGES" not in into.lineage_script()
    for rendered in ("", "None"):
        endless = HiveAcidChangesOperator(from_write_id=1, to_write_id=rendered, into="db.u", **common)
        with pytest.raises(InvalidArgumentsError, match="to_write_id: it was rendered as"):
            endless.work(hook, engine)
    assert HiveAcidChangesOperator(from_write_id=4, path="/out/y", **common).work(hook, engine)["empty"] is True
    assert len(engine.asked) == 2
    hook.close()

    open_txn = client.begin({"db.t": "insert"})
    commits(client, 1)
    assert change_range(client, "db.t", 1).last == 3
    assert change_range(client, "db.t", 5, 5).last == 5, "what is open below it is no part of it"
    with pytest.raises(ChangesNotCompleteError, match="write ids 4 are open; read up to 3 now"):
        change_range(client, "db.t", 1, 5)
    open_txn.abort()
    assert change_range(client, "db.t", 1).last == 5
    assert change_range(client, "db.t", 6).is_empty
    # Whoever has read up to 6 has read another table of this name.
    with pytest.raises(ChangesNoLongerAvailableError, match="dropped and made again, or restored"):
        change_range(client, "db.t", 7)
    for wrong in ("x", 1.5, True, ""):
        with pytest.raises(InvalidArgumentsError, match="from_write_id"):
            change_range(client, "db.t", wrong)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "a path or a table"),
        ({"path": "/x", "into": "db.u"}, "exactly one of them"),
        ({"into": "db.u"}, "into needs to_write_id"),
        ({"path": "/x", "mode": "append"}, "mode of task"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_written(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        HiveAcidChangesOperator(task_id="c", table="db.t", from_write_id=1, **arguments)


def test_the_terminal_pins_lists_extends_and_drops(conn_id: str, metastore_url: str, client: MetastoreClient) -> None:
    def call(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["--metastore-url", metastore_url, *arguments])

    made = call("pin", "add", "books", "--on", "db.t", "--days", "2", "--max-bytes", "1000", "--comment", "why not")
    assert (made.exit_code, "pin 'books' on db.t until" in made.stderr) == (0, True)
    (row,) = json.loads(call("pin", "list", "--format", "json").stdout)
    assert (row["tables"], row["state"], row["held_bytes"], row["max_bytes"]) == ("db.t", "active", 0, 1000)
    before = client.pins.get("books").expires
    assert call("pin", "extend", "books", "--days", "9").exit_code == 0
    assert client.pins.get("books").expires > before
    assert call("pin", "extend", "books").exit_code == 2
    assert call("pin", "drop", "books", "--why", "closed").exit_code == 0
    assert json.loads(call("pin", "list", "--format", "json").stdout) == []
    (row,) = json.loads(call("pin", "list", "--ended", "--format", "json").stdout)
    assert (row["state"], row["reason"]) == ("settled", "closed")
    nothing = call("changes", "db.t", "--from", "1")
    assert (nothing.exit_code, nothing.stderr.strip()) == (0, "nothing new in db.t from write id 1 on")
    assert isinstance(call("changes", "db.nope", "--from", "1").exception, Exception)


def test_what_a_dag_run_knows_can_be_a_template() -> None:
    assert {"table", "from_write_id", "to_write_id", "path", "into"} <= set(HiveAcidChangesOperator.template_fields)
    assert {"name", "tables", "comment"} <= set(HiveAcidPinOperator.template_fields)
