"""Deleted rows on request: Hive's table option in FROM, and the virtual columns ROW__ID and ROW__IS__DELETED."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import HiveAcidError, SqlSyntaxError, UnsupportedStatementError
from airflow_hive_acid.sql.model.plans import StepContext

if TYPE_CHECKING:
    from collections.abc import Callable


def query_of(plan: object) -> str:
    return plan.template.build(StepContext(None, 0, (), "", None)).query  # type: ignore[attr-defined, no-any-return]


def test_the_option_is_taken_out_and_the_view_shows_deleted_rows(plan_of: Callable) -> None:
    plan = plan_of("select id, row__is__deleted from t('acid.fetch.deleted.rows'='true') where id > 1")
    assert query_of(plan) == "select id, row__is__deleted from ha1_t AS `t` where id > 1"
    (read,) = plan.reads
    assert (read.pseudo_columns, read.deleted_rows) == (True, True)


def test_each_look_at_a_table_has_its_own_option(plan_of: Callable) -> None:
    plan = plan_of(
        "select a.*, b.ROW__IS__DELETED from default.t ('acid.fetch.deleted.rows'='true') a "
        "join t ('acid.fetch.deleted.rows' = 'FALSE') b on a.id = b.id join t c on c.id = a.id"
    )
    assert query_of(plan) == (
        "select a.*, b.ROW__IS__DELETED from ha1_t a join ha2_t b on a.id = b.id join ha3_t c on c.id = a.id"
    )
    assert [(r.pseudo_columns, r.deleted_rows) for r in plan.reads] == [(False, True), (True, False), (False, None)]


def test_virtual_columns_are_no_part_of_a_star(plan_of: Callable) -> None:
    plan = plan_of("select row__is__deleted, * from t('acid.fetch.deleted.rows'='true')")
    assert query_of(plan) == ("select row__is__deleted, * EXCEPT (`t`.row__id, `t`.row__is__deleted) from ha1_t AS `t`")


@pytest.mark.parametrize(
    ("sql", "error", "problem"),
    [
        (
            "select * from demo.logs('acid.fetch.deleted.rows'='true')",
            UnsupportedStatementError,
            "demo.logs has no deleted rows to show",
        ),
        ("select row__is__deleted from demo.plain", UnsupportedStatementError, "demo.plain has no ROW__IS__DELETED"),
        ("select * from t('acid.other'='1')", UnsupportedStatementError, "a query can set 'acid.fetch.deleted.rows'"),
        ("select * from t('acid.fetch.deleted.rows'='yes')", UnsupportedStatementError, "to 'true' or 'false'"),
        ("select count('acid.fetch.deleted.rows'='true') from t", SqlSyntaxError, "is an option of a table in FROM"),
        ("select input__file__name from t", UnsupportedStatementError, "only ROW__ID and ROW__IS__DELETED are"),
    ],
)
def test_what_an_option_cannot_mean_is_refused_at_its_place(
    plan_of: Callable, sql: str, error: type[HiveAcidError], problem: str
) -> None:
    with pytest.raises(error, match=problem) as caught:
        plan_of(sql)
    assert "line 1, column" in str(caught.value)
