"""Large statements on a real Spark and a real catalog: what Spark cannot do is said in words, and filters reach the
catalog in pieces that it can take."""

# ruff: noqa: S608 - statements put together from names of the tests

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine

pytestmark = pytest.mark.spark

TABLE = """CREATE DATABASE l; USE l;
CREATE TABLE t (id INT) PARTITIONED BY (c STRING) STORED AS ORC; INSERT INTO t VALUES (1, '1'), (2, '2'), (3, 'z');
CREATE VIEW v AS SELECT id FROM t"""


def rows(engine: Engine, query: str) -> list[list[Any]]:
    found = engine.run(query, database="l")[-1].rows
    assert found is not None
    return sorted(found.rows)


def test_conditions_of_thousands_of_terms_prune_and_list_partitions(real_engine: Engine) -> None:
    engine = real_engine
    engine.run(TABLE)
    values = [str(n) for n in range(2, 2000)]
    equal, listed = " OR ".join(f"c = '{n}'" for n in values), ", ".join(f"'{n}'" for n in values)
    assert rows(engine, "SELECT id FROM t WHERE " + equal) == [[2]]
    assert rows(engine, f"SELECT id FROM t WHERE c IN ({listed})") == [[2]]
    differs = " AND ".join(f"c <> '{n}'" for n in values[:900])
    assert rows(engine, "SELECT id FROM t WHERE " + differs) == [[1], [3]]
    assert rows(engine, "SHOW PARTITIONS t WHERE " + equal) == [["c=2"]]
    with pytest.raises(InvalidArgumentsError, match=r"a condition of 900 comparisons .* at most 400: say IN"):
        rows(engine, "SHOW PARTITIONS t WHERE " + differs)


def test_what_is_too_large_for_spark_is_said_with_the_remedy(real_engine: Engine) -> None:
    engine = real_engine
    engine.run(TABLE)
    with pytest.raises(InvalidArgumentsError, match=r"too large for Spark.*several INSERTs"):
        rows(engine, " UNION ALL ".join(["SELECT id FROM v"] * 2000))
    assert rows(engine, "SELECT id FROM v") == [[1], [2], [3]]
