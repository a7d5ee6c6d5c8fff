"""When a statement is planned: before its locks, and again only if its tables have changed until it had them."""

from __future__ import annotations

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.applications.shared_application import SharedApplication
from airflow_hive_acid.engine.statements import plans
from airflow_hive_acid.errors import InvalidArgumentsError


@pytest.fixture
def planned(monkeypatch):
    """The texts of statements that were planned."""
    found, real = [], plans.plan

    def plan(statement, *arguments, **options):
        found.append(statement.text)
        return real(statement, *arguments, **options)

    monkeypatch.setattr(plans, "plan", plan)
    return found


@pytest.fixture
def meanwhile(client, fake, warehouse, monkeypatch):
    """Runs SQL of somebody else once, after a statement was planned and before it has its locks."""

    def arrange(sql):
        real, waiting = SharedApplication.ready, [sql]

        def ready(self, *arguments):
            while waiting:
                with Engine(client, fake, warehouse, agent_info="somebody else") as other:
                    other.run(waiting.pop())
            return real(self, *arguments)

        monkeypatch.setattr(SharedApplication, "ready", ready)

    return arrange


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO w.t VALUES (1, 'x')",
        "INSERT OVERWRITE w.p PARTITION (k='a') SELECT a FROM w.t",
        "UPDATE w.t SET b = 'y' WHERE a = 1",
        "DELETE FROM w.t",
    ],
)
def test_a_statement_is_planned_once(engine, planned, sql):
    engine.run(sql)
    assert planned == [sql]


def test_a_statement_whose_table_gets_a_column_meanwhile_writes_that_column(engine, fake, planned, meanwhile):
    meanwhile("ALTER TABLE w.t ADD COLUMNS (c INT)")
    sql = "INSERT INTO w.t (a, b) VALUES (1, 'x')"
    engine.run(sql)
    assert planned == [sql, sql]
    assert [column.name for column in fake.specs[-1].step.target.columns] == ["a", "b", "c"]


def test_a_statement_that_no_longer_fits_its_table_is_refused_and_writes_nothing(engine, client, fake, meanwhile):
    meanwhile("ALTER TABLE w.t ADD COLUMNS (c INT)")
    with pytest.raises(InvalidArgumentsError, match="3"):
        engine.run("INSERT INTO w.t VALUES (1, 'x')")
    assert fake.specs == []
    assert client.show_locks() == []
    assert [row for row in client.show_transactions() if row.state.value == "o"] == []
