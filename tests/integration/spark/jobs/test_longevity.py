"""One round of ``benchmarks/longevity.py`` on a tiny TPC-H, so that it does not rot; its reads are counted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.corpus import tpch_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BENCHMARKS = Path(__file__).resolve().parents[4] / "benchmarks"
CUSTOMER = "c_custkey bigint, c_mktsegment string"
ORDERS = (
    "o_orderkey bigint, o_custkey bigint, o_orderstatus string, o_totalprice decimal(15,2), o_orderdate date, "
    "o_clerk string, o_shippriority int, o_comment string, o_orderpriority string"
)
LINEITEM = (
    "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, l_quantity decimal(15,2), "
    "l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag string, "
    "l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string, "
    "l_comment string, l_linestatus string"
)


@pytest.fixture
def longevity(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    import longevity

    yield longevity
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


def tiny(spark: SparkSession) -> dict[str, DataFrame]:
    """TPC-H's tables at a scale of about 0.001."""
    made = tpch_tables.tables()
    customers = [(row[0], row[6]) for row in made["customer"]]
    return {
        "customer": spark.createDataFrame(customers, CUSTOMER),
        "orders": spark.createDataFrame(made["orders"], ORDERS),
        "lineitem": spark.createDataFrame(made["lineitem"], LINEITEM),
    }


@pytest.mark.story
def test_a_round_of_both_policies_gives_the_same_rows_and_a_summary(
    spark: SparkSession, tmp_path: Path, longevity: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = longevity.Sources(spark, tmp_path / "sources", 1)
    sources.make(tiny(spark))
    systems = [longevity.Ours(spark, tmp_path, policy) for policy in ("thresholds", "benefit")]
    try:
        found = longevity.age(spark, systems, sources, rounds=1, warm_up=0)
        decided = [system.format.maintain() for system in systems]
        counted = [system.format.reads("lineitem") for system in systems]
    finally:
        for system in systems:
            system.close()
    assert [len(rounds) for rounds in found.values()] == [1, 1]
    (one, _) = (rounds[0] for rounds in found.values())
    assert list(one.parts) == ["changes", "queries", "maintenance"]
    assert one.files > 0
    assert one.bytes > 0
    assert decided
    # A MERGE, two DELETEs and three queries of it, and the look that compares the rows.
    assert counted == [0, 6 + 1]
    printed = capsys.readouterr().out
    assert printed.count("| ours, benefit |") == 1
    text = longevity.summary(found, "tiny")
    assert "Degrades least: **ours, " in text
    assert text.count("\n| ours, ") == 2


def test_a_system_with_other_rows_ends_the_benchmark(longevity: Any) -> None:
    longevity.require_same({"a": [[1, "x"]], "b": [[1, "x"]]})
    with pytest.raises(SystemExit, match=r"b holds \[\['2'\]\], and a \[\['1'\]\]"):
        longevity.require_same({"a": [[1]], "b": [[2]]})
