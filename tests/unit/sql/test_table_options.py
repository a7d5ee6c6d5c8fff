"""What a query may say behind a table's name: a pin to read as, or write ids whose changes it wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError, SqlSyntaxError, UnsupportedStatementError
from airflow_hive_acid.format.changes import Changes
from airflow_hive_acid.sql.model.plans import StepContext

if TYPE_CHECKING:
    from collections.abc import Callable


def query_of(plan: object) -> str:
    return plan.template.build(StepContext(None, 0, (), "", None)).query  # type: ignore[attr-defined, no-any-return]


def test_a_table_is_read_as_of_a_pin(plan_of: Callable) -> None:
    plan = plan_of(
        "select a.id, n.id from t for system_version as of pin 'month end' a left join default.t n on a.id = n.id"
    )
    assert query_of(plan) == "select a.id, n.id from ha1_t a left join ha2_t n on a.id = n.id"
    assert [(read.pin, read.changes) for read in plan.reads] == [("month end", None), (None, None)]


def test_a_table_is_read_as_what_write_ids_have_changed(plan_of: Callable) -> None:
    plan = plan_of("select change__kind, c.change__txnid, * from t NET CHANGES BETWEEN 5 AND 9 KEY (ID) c where id > 1")
    assert query_of(plan) == "select change__kind, c.change__txnid, * from ha1_t c where id > 1"
    assert [read.changes for read in plan.reads] == [Changes(5, 9, net=True, key=("id",))]
    plan = plan_of("insert into t (id) select id from t changes between 1 and 1 where change__kind = 'delete'")
    assert [read.changes for read in plan.reads] == [Changes(1, 1)]


@pytest.mark.parametrize(
    ("sql", "error", "problem"),
    [
        ("select * from demo.plain changes between 1 and 2", UnsupportedStatementError, "it is no ACID table"),
        ("select * from demo.plain for system_version as of pin 'x'", UnsupportedStatementError, "and in no pin"),
        ("select * from t changes between 0 and 2", UnsupportedStatementError, "write ids begin at 1"),
        ("select * from t changes between 3 and 2", UnsupportedStatementError, "a range goes upwards"),
        ("select * from t changes between 3 and 4 key (nope)", UnsupportedStatementError, "nope"),
        ("select * from t changes between 3 and 4 key (id", SqlSyntaxError, "line 1"),
        ("select * from t changes between 3 and 4 key (", SqlSyntaxError, "line 1"),
        ("select * from t changes between 3 and 4 key ()", HiveAcidError, "line 1"),
        ("select * from t changes between 3 and 4 key (id id)", HiveAcidError, "line 1"),
        ("select change__kind from t", InvalidArgumentsError, "change__kind"),
        ("delete from t changes between 3 and 4", HiveAcidError, "changes"),
        ("select * from t for system_version as of pin month", SqlSyntaxError, "line 1"),
        ("select id changes between 3 and 4 from t", SqlSyntaxError, "is an option of a table in FROM"),
    ],
)
def test_what_an_option_cannot_mean_is_refused(
    plan_of: Callable, sql: str, error: type[HiveAcidError], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        plan_of(sql)
