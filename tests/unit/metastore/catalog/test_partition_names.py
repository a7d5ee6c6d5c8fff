"""Which names partitions can have that a condition means."""

from __future__ import annotations

import pytest

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import MANAGED_TABLE
from airflow_hive_acid.metastore.catalog.values.partition_conditions import (
    And,
    Between,
    Compare,
    Condition,
    In,
    IsNull,
    Or,
)
from airflow_hive_acid.metastore.catalog.values.partition_names import MOST, ranges_of, ranges_of_values
from tests.tables import flat_table

KEYS = (Column("day", "string"), Column("kind", "string"), Column("n", "int"))
TABLE = flat_table("db", "t", 1, "file:/w/t", (Column("a", "int"),), KEYS, {}, None, MANAGED_TABLE)
DAY = Compare("day", "=", "d1")


@pytest.mark.parametrize(
    ("condition", "ranges"),
    [
        (DAY, [("day=d1/", "day=d10")]),
        (Compare("DAY", "=", "d1"), [("day=d1/", "day=d10")]),
        (And((Compare("n", ">", 3), DAY)), [("day=d1/", "day=d10")]),
        (And((DAY, Compare("kind", "=", "x"))), [("day=d1/kind=x/", "day=d1/kind=x0")]),
        (And((DAY, Compare("kind", "=", "x"), Compare("n", "=", 7))), [("day=d1/kind=x/", "day=d1/kind=x0")]),
        (In("day", ["d1", "e"]), [("day=d1/", "day=d10"), ("day=e/", "day=e0")]),
        (Or((DAY, Compare("day", "=", "e"))), [("day=d1/", "day=d10"), ("day=e/", "day=e0")]),
        (Between("day", "d100", "d125"), [("day=d1", "day=d2")]),
        (And((Compare("day", ">=", "d100"), Compare("day", "<", "d125"))), [("day=d1", "day=d2")]),
        (Between("day", "a", "b"), [("day=", "day>")]),
        # From the first character that programs write in different ways, names say nothing sure.
        (Compare("day", "=", "a:b"), [("day=a", "day=b")]),
        (And((Compare("day", "=", "a b"), Compare("kind", "=", "x"))), [("day=a", "day=b")]),
        (In("day", [f"d{i}" for i in range(MOST + 1)]), [("day=d", "day=e")]),
    ],
)
def test_a_condition_on_the_first_columns_is_some_ranges_of_names(
    condition: Condition, ranges: list[tuple[str, str]]
) -> None:
    assert ranges_of(TABLE, condition) == ranges


@pytest.mark.parametrize(
    "condition",
    [
        Compare("kind", "=", "x"),
        Compare("n", "=", 7),
        Compare("day", ">", "d1"),
        Compare("day", "<>", "d1"),
        And((Compare("day", ">", "a"), Compare("day", "<>", "b"))),
        IsNull("day"),
        Or((DAY, Compare("kind", "=", "x"))),
        In("day", []),
    ],
)
def test_another_condition_means_any_names(condition: Condition) -> None:
    assert ranges_of(TABLE, condition) is None


def test_numbers_may_be_written_in_several_ways_and_chars_end_in_blanks() -> None:
    for kind in ("int", "decimal(5,2)", "double", "char(3)"):
        table = flat_table(
            "db", "t", 1, "file:/w/t", (Column("a", "int"),), (Column("k", kind),), {}, None, MANAGED_TABLE
        )
        assert ranges_of(table, Compare("k", "=", "7")) is None


def test_values_as_the_catalog_holds_them_are_whole_texts_of_any_type() -> None:
    assert ranges_of_values(TABLE, {"day": ["d1"], "n": ["7"]}) == [("day=d1/", "day=d10")]
    assert ranges_of_values(TABLE, {"n": ["7"]}) is None
    last = {"day": ["d1"], "kind": ["__HIVE_DEFAULT_PARTITION__"], "n": ["7"]}
    assert ranges_of_values(TABLE, last) == [
        ("day=d1/kind=__HIVE_DEFAULT_PARTITION__/n=7", "day=d1/kind=__HIVE_DEFAULT_PARTITION__/n=8")
    ]
