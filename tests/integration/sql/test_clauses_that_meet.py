"""What clauses mean where two of them meet, with a real Spark: rows that one leaves out are not the other's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import HiveAcidError

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine

pytestmark = pytest.mark.spark

SETUP = """
CREATE DATABASE w;
CREATE TABLE w.t (a INT, price DECIMAL(10,2), n BIGINT) STORED AS ORC;
INSERT INTO w.t VALUES (1, 1.5, 10), (2, 2.5, 20), (3, 3.5, 30);
CREATE TABLE w.s (a INT, op STRING, total INT, pieces INT, n STRING) STORED AS ORC;
INSERT INTO w.s VALUES (1, 'U', 9, 2, '11'), (2, 'D', 0, 0, ''), (4, 'I', 7, 7, '44'), (5, 'D', 0, 0, '');
CREATE TABLE w.p (a INT) PARTITIONED BY (k INT) STORED AS ORC;
INSERT INTO w.p VALUES (1, 1), (2, 1), (3, 2);
CREATE TABLE w.d (a INT) PARTITIONED BY (k DECIMAL(10,2)) STORED AS ORC;
CREATE TABLE w.c (a INT, n INT CONSTRAINT small CHECK (n < 100), c CHAR(5) CHECK (c IN ('ab', 'cd'))) STORED AS ORC;
INSERT INTO w.c VALUES (1, 1, 'ab'), (2, 2, 'cd');
"""


@pytest.fixture
def engine(prepared_engine: Engine) -> Engine:
    return prepared_engine


def _rows(engine: Engine, query: str) -> list[list[Any]]:
    rows = engine.run(query)[-1].rows
    assert rows is not None
    return [list(row) for row in rows.rows]


@pytest.mark.parametrize(
    "statement",
    [
        # Twice the row, or (of an empty array) none: before, an UPDATE that moves rows left two of each.
        "UPDATE w.p SET k = explode(array(5, 6))",
        "UPDATE w.p SET k = explode(cast(array() AS ARRAY<INT>))",
        "UPDATE w.p SET a = (explode(array(5, 6)))",
        "MERGE INTO w.p t USING w.s s ON t.a = s.a WHEN MATCHED THEN UPDATE SET k = explode(array(5, 6))",
        "MERGE INTO w.p t USING w.s s ON t.a = s.a WHEN NOT MATCHED THEN INSERT VALUES (s.a, posexplode(array(5, 6)))",
        "MERGE INTO w.p t USING w.s s ON t.a = s.a WHEN NOT MATCHED THEN INSERT VALUES (s.a, explode(array(5, 6)))",
    ],
)
def test_a_value_is_one_value_and_no_list_of_rows(engine: Engine, statement: str) -> None:
    with pytest.raises(HiveAcidError, match=r"(?i)generator|explode"):
        engine.run(statement)
    assert _rows(engine, "SELECT a, k FROM w.p ORDER BY a") == [[1, 1], [2, 1], [3, 2]]


def test_values_of_a_clause_are_made_for_the_rows_that_it_takes(engine: Engine) -> None:
    """Of the rows that are deleted nobody divides by the number of pieces, which is 0, and ``n`` is no number there."""
    [result] = engine.run(
        "MERGE INTO w.t t USING w.s s ON t.a = s.a WHEN MATCHED AND s.op = 'D' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET price = s.total / s.pieces, n = CAST(s.n AS INT) "
        "WHEN NOT MATCHED AND s.op = 'I' THEN INSERT VALUES (s.a, s.total / s.pieces, CAST(s.n AS INT)) "
        "WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a)"
    )
    assert (result.inserted, result.updated, result.deleted) == (2, 1, 1)
    assert _rows(engine, "SELECT a, cast(price AS STRING), n FROM w.t ORDER BY a") == [
        [1, "4.50", 11], [3, "3.50", 30], [4, "1.00", 44], [5, None, None],
    ]  # fmt: skip
