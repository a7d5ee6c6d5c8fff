"""VERSION AS OF and TIMESTAMP AS OF behind the name of a table."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import SqlSyntaxError, UnsupportedStatementError
from airflow_hive_acid.sql import parse_script, plan
from tests.unit.sql.catalog import table_of


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("VERSION AS OF 5", 5),
        ("FOR VERSION AS OF 5 x", 5),
        ("for system_version as of 5", 5),
        ("TIMESTAMP AS OF '2026-01-01'", "2026-01-01"),
        ("FOR TIMESTAMP AS OF TIMESTAMP '2026-01-01' AS x", "2026-01-01"),
        ("FOR SYSTEM_TIME AS OF '2026-01-01 10:00:00'", "2026-01-01 10:00:00"),
    ],
)
def test_a_table_is_looked_at_as_it_was(text: str, moment: int | str) -> None:
    (statement,) = parse_script(f"SELECT id FROM t {text}")  # noqa: S608 - texts of this test
    made = plan(statement, table_of, {})
    assert [(read.table, read.as_of) for read in made.reads] == [("default.t", moment)]
    assert "AS OF" not in made.template.query.upper()
    moment_alone = text.removesuffix(" x").removesuffix(" AS")
    (both,) = parse_script(f"SELECT 1 FROM t {moment_alone} o JOIN t n ON o.id = n.id")  # noqa: S608 - texts of this test
    assert [read.as_of for read in plan(both, table_of, {}).reads] == [moment, None]


def test_a_version_in_quotes_is_a_pin() -> None:
    (statement,) = parse_script("SELECT id FROM t VERSION AS OF 'month_end'")
    assert [read.pin for read in plan(statement, table_of, {}).reads] == ["month_end"]


@pytest.mark.parametrize(
    "text",
    ["t VERSION AS OF x", "t VERSION AS OF 1.5", "t TIMESTAMP AS OF 5", "demo.plain VERSION AS OF 5", "t AS OF 5"],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises((SqlSyntaxError, UnsupportedStatementError)):
        plan(parse_script(f"SELECT id FROM {text}")[0], table_of, {})  # noqa: S608 - texts of this test
