"""Pins and changes in DAGs: what the operators ask for, what a retry finds, and what is refused where it is written."""

from __future__ import annotations

import json
import re
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
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
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG, NOTIFICATION_SEQUENCE
from airflow_hive_acid.operators.time_travel import (
    HiveAcidChangesOperator,
    HiveAcidPinOperator,
    HiveAcidUnpinOperator,
)

if TYPE_CHECKING:
    from collections.abc import Callable
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
    assert (made["name"], made["tables"]) == ("month_end", ["db.t", "db.u"])
    assert re.fullmatch(r"books \(d r p -1 ~[0-9a-f]{8}\.2\)", made["comment"])
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


def test_a_task_that_is_cleared_pins_its_tables_as_they_are_now(conn_id: str, client: MetastoreClient) -> None:
    """
    t1  the task pins; what follows fails, and the tables are put right
    t2  somebody clears the task: what follows is to see what is there now
    """
    first = pin(conn_id).execute(context())
    again = context()
    again["ti"].max_tries = 4
    cleared = pin(conn_id).execute(again)
    assert cleared["txn_id"] > first["txn_id"]
    assert pin(conn_id, comment="said later").execute(again) == cleared
    # The same task in another Airflow is none of it.
    elsewhere = {**context(), "task_state_store": SimpleNamespace(get=lambda key: "another run", set=None)}
    with pytest.raises(AirflowFailException, match="PinExistsError"):
        pin(conn_id).execute(elsewhere)
    assert client.pins.get("month_end").txn_id == cleared["txn_id"]


def test_a_retry_whose_tables_were_changed_pins_those(conn_id: str, client: MetastoreClient) -> None:
    pin(conn_id).execute(context())
    fewer = HiveAcidPinOperator(task_id="p", name="month_end", tables="DB.u", expires=DAY, hive_acid_conn_id=conn_id)
    assert fewer.execute(context())["tables"] == ["db.u"]
    assert client.pins.get("month_end").tables == ("db.u",)


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
    latest = client.notifications.current_event_id()
    changes = {"table": "db.t", "from_write_id": 2, "to_write_id": 3, "event_id": latest}
    assert done == {"rows": 3, "changes": changes, "empty": False}
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


def made_anew(client: MetastoreClient) -> None:
    client.catalog.drop_table("db.t")
    client.catalog.create_table(TableDefinition("db", "t", (Column("id", "int"),)))


def swapped(client: MetastoreClient) -> None:
    for before, after in (("db.t", "db.old"), ("db.u", "db.t")):
        client.catalog.rename_table(before, after)


def restored(client: MetastoreClient) -> None:
    for emptied in (sa.delete(NOTIFICATION_LOG), sa.update(NOTIFICATION_SEQUENCE).values(NEXT_EVENT_ID=2)):
        client.database.run(partial(sa.Connection.execute, statement=emptied))


@pytest.mark.parametrize(
    ("change", "why"),
    [(made_anew, "the table was made anew"), (swapped, "the table was renamed"), (restored, "the log is another one")],
)
def test_write_ids_of_another_table_of_the_name_are_refused_to_those_who_say_what_they_know(
    conn_id: str, client: MetastoreClient, change: Callable[[MetastoreClient], None], why: str
) -> None:
    """
    t1  somebody has read up to write id 2, and an event tells of write id 3
    t2  another table gets the name, and write ids up to 4
    t3  both go on by their numbers, which are of the table that was
    """
    commits(client, 2)
    known = change_range(client, "db.t", 1)
    commits(client, 1)
    told = client.notifications.current_event_id()
    change(client)
    commits(client, 0 if change is restored else 4)
    latest, numbers = client.notifications.current_event_id(), change_range(client, "db.t", 1).last
    for first, last, event_id in ((3, None, known.event_id), (3, 3, told), ("3", "3", str(told))):
        assert change_range(client, "db.t", first, last).first == 3
        refused = rf"since event \d+ cannot be told: {why}.*from write id {numbers + 1} and event {latest}$"
        with pytest.raises(ChangesNoLongerAvailableError, match=refused):
            change_range(client, "db.t", first, last, event_id)
    operator = HiveAcidChangesOperator(
        task_id="c", table="db.t", from_write_id=3, event_id=known.event_id, path="/out/x", hive_acid_conn_id=conn_id
    )
    with HiveAcidHook(conn_id) as hook, pytest.raises(ChangesNoLongerAvailableError, match=why):
        operator.work(hook, FakeEngine())
    assert change_range(client, "db.t", numbers + 1, event_id=latest).is_empty
    with pytest.raises(InvalidArgumentsError, match="event_id: 'x' is no id of an event"):
        change_range(client, "db.t", 1, event_id="x")


def test_what_is_written_meanwhile_is_no_reason_to_refuse(conn_id: str, client: MetastoreClient) -> None:
    """Commits of this table, its columns, and whatever happens to others."""
    commits(client, 1)
    known = change_range(client, "db.t", 1)
    commits(client, 1)
    client.catalog.add_columns("db.t", [Column("name", "string")])
    client.catalog.drop_table("db.u")
    found = change_range(client, "db.t", known.last + 1, event_id=known.event_id)
    assert (found.first, found.is_empty) == (2, False)


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
    late = call("changes", "db.t", "--from", "1", "--event", "0")
    assert isinstance(late.exception, ChangesNoLongerAvailableError)


def test_what_a_dag_run_knows_can_be_a_template() -> None:
    wanted = {"table", "from_write_id", "to_write_id", "event_id", "path", "into"}
    assert wanted <= set(HiveAcidChangesOperator.template_fields)
    assert {"name", "tables", "comment"} <= set(HiveAcidPinOperator.template_fields)
