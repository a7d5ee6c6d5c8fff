"""Which rows of a query get the blanks of their CHAR columns, and what that costs the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hive_acid.engine.outcomes.results import Rows
from airflow_hive_acid.engine.queries.blanks import with_blanks
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.sql import parse_script, plan
from tests.unit.sql.catalog import Facts


@pytest.mark.parametrize(("kind", "shown", "asked"), [("string", "x", 0), ("char(3)", "x  ", 1)])
def test_the_catalog_is_asked_again_only_where_a_char_was_read(kind: str, shown: str, asked: int) -> None:
    columns = (Column("b", kind),)
    facts, looks = Facts("default.t", columns), []

    def table(name: str) -> Any:
        looks.append(name)
        return facts

    (statement,) = parse_script("SELECT b FROM t")
    planned = plan(statement, lambda _: facts)  # type: ignore[arg-type, return-value]
    context: Any = SimpleNamespace(table=table, views={}, queries={})
    view: Any = SimpleNamespace(snapshot=SimpleNamespace(columns=columns, partition_columns=()))
    rows = with_blanks(context, planned, [view], Rows((Column("b", "string"),), [["x"]]))
    assert [list(row) for row in rows.rows] == [[shown]]
    assert len(looks) == asked
