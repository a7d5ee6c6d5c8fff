"""CHAR and VARCHAR in what is made of a query, with a real Spark: as in Hive, a column keeps its length."""

# ruff: noqa: S608 - statements put together from names of the tests

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.spark

NESTED = "struct<a:varchar(4),b:array<char(2)>>"
SOURCE = """CREATE DATABASE y; USE y;
CREATE TABLE t (id INT, c CHAR(5), v VARCHAR(7), n STRUCT<a:VARCHAR(4),b:ARRAY<CHAR(2)>>) PARTITIONED BY (k CHAR(3))
  STORED AS ORC;
INSERT INTO t SELECT 1, 'ab', 'vw', named_struct('a', 'x', 'b', array('y')), 'p';
INSERT INTO t SELECT 2, 'abcde', NULL, NULL, 'q'"""


def rows(engine: Engine, query: str) -> list[list[Any]]:
    found = engine.run(query, database="y")[-1].rows
    assert found is not None
    return found.rows


def types(client: MetastoreClient, table: str) -> list[str]:
    found = client.catalog.get_table(f"y.{table}")
    return [column.type for column in (*found.columns, *found.partition_columns)]


@pytest.mark.instead("postgresql")
def test_a_table_of_a_query_has_the_lengths_of_its_columns(real_engine: Engine, client: MetastoreClient) -> None:
    engine = real_engine
    engine.run(f"""{SOURCE};
        CREATE TABLE copied PARTITIONED BY (k) STORED AS ORC AS SELECT k, id, c, v, n FROM t;
        CREATE TABLE parquet STORED AS PARQUET TBLPROPERTIES ('transactional'='false') AS SELECT c, v, k FROM t;
        CREATE TABLE mixed AS SELECT c, upper(c) AS u, v FROM t UNION ALL SELECT 'much longer', 'x', 'y';
        CREATE TABLE united AS SELECT c AS one, v FROM t UNION ALL SELECT k, v FROM t;
        CREATE VIEW seen AS SELECT c, v, k, id FROM t; CREATE TABLE of_view AS SELECT * FROM seen;
        CREATE TABLE liked LIKE copied;
        CREATE TEMPORARY TABLE kept AS SELECT c, v, k, n FROM t;
        INSERT INTO kept (c, v) SELECT 'blanks   ', 'blanks   ' WHERE false;
        INSERT INTO kept (c, v) SELECT 'b        ', 'b        ';
        CREATE TABLE of_nested AS SELECT n, v FROM kept WHERE c = 'b';
        CREATE TABLE of_kept AS SELECT kept.c, CASE WHEN t.id = 1 THEN kept.k END AS k, max(kept.v) AS v FROM kept
          JOIN t ON t.c = kept.c WHERE kept.c = 'ab' GROUP BY 1, 2""")
    assert types(client, "copied") == types(client, "liked") == ["int", "char(5)", "varchar(7)", NESTED, "char(3)"]
    assert types(client, "parquet") == ["char(5)", "varchar(7)", "char(3)"]
    assert types(client, "of_kept") == ["char(5)", "char(3)", "varchar(7)"]
    assert rows(engine, "SELECT * FROM of_kept") == [["ab   ", "p  ", "vw"]]
    assert types(client, "of_nested") == [NESTED, "varchar(7)"]
    assert rows(engine, "SELECT v FROM of_nested") == [["b      "]]
    assert types(client, "mixed") == ["string", "string", "string"]
    assert types(client, "united") == ["char(5)", "varchar(7)"]
    assert types(client, "seen") == types(client, "of_view") == ["char(5)", "varchar(7)", "char(3)", "int"]
    assert [p.name for p in client.catalog.list_partitions("y.copied")] == ["k=p  ", "k=q  "]
    everything = "SELECT id, concat('<', c, '>'), c, v, n.a, n.b[0], concat('<', k, '>') FROM {} ORDER BY id"
    expected = [[1, "<ab>", "ab   ", "vw", "x", "y", "<p>"], [2, "<abcde>", "abcde", None, None, None, "<q>"]]
    assert rows(engine, everything.format("t")) == rows(engine, everything.format("copied")) == expected
    assert rows(engine, "SELECT id FROM copied WHERE k = 'p' AND c = 'ab'") == [[1]]
    assert rows(engine, "SELECT concat('<', c, '>') FROM parquet ORDER BY 1") == [["<ab>"], ["<abcde>"]]
    assert rows(engine, "SELECT rtrim(one) FROM united ORDER BY 1") == [["ab"], ["abcde"], ["p"], ["q"]]


@pytest.mark.instead("postgresql")
def test_statements_compute_with_chars_without_blanks_and_show_them_with(
    real_engine: Engine, client: MetastoreClient
) -> None:
    """The answers are those of a Hive 4.1."""
    engine = real_engine
    engine.run(f"""{SOURCE};
        CREATE TABLE s (id INT, s STRING) STORED AS ORC;
        INSERT INTO s SELECT id, c FROM t; INSERT INTO s SELECT 9, concat(c, k) FROM t WHERE c = 'ab';
        UPDATE t SET v = concat(c, '!') WHERE c = CAST('ab' AS CHAR(9)) AND length(c) = 2;
        MERGE INTO s USING t ON s.s = t.c WHEN MATCHED THEN UPDATE SET s = upper(t.c) WHEN NOT MATCHED THEN INSERT
          VALUES (0, 'never')""")
    assert rows(engine, "SELECT id, concat(s, '>') FROM s ORDER BY id") == [[1, "AB>"], [2, "ABCDE>"], [9, "abp>"]]
    shown = "SELECT c, length(c), v, t.k, upper(c), max(c), nvl(c, k) FROM t WHERE id = 1 GROUP BY c, v, k"
    assert rows(engine, shown) == [["ab   ", 2, "ab!", "p  ", "AB   ", "ab   ", "ab"]]
    (_, inside, _) = engine.run(f"BEGIN; {shown}; COMMIT", database="y")
    assert inside.rows is not None
    assert inside.rows.rows == rows(engine, shown)
    assert rows(engine, "SELECT c FROM t WHERE id = 1 UNION SELECT 'ab'") == [["ab"]]
    assert rows(engine, "SELECT c = k, c = 'ab', c = 'ab ', c IN ('ab'), c LIKE 'ab' FROM t WHERE id = 1") == [
        [False, True, True, True, True]
    ]
    through = "WITH w AS (SELECT * FROM t) SELECT id FROM w WHERE c = 'ab   ' AND k IN ('p  ', NULL)"
    assert rows(engine, through) == [[1]]
    assert rows(engine, "SELECT c FROM (SELECT CAST('abc' AS CHAR(2)) AS c) q JOIN s ON s.s = upper(c)") == [["ab"]]
    cast = "CAST(s AS CHAR(3)) AS a, CAST(s AS VARCHAR(3)) AS v, nullif(CAST(s AS VARCHAR(3)), s) AS b, lower(s) AS d"
    engine.run(f"USE y; CREATE TABLE made AS SELECT {cast} FROM s; CREATE VIEW view_of AS SELECT {cast} FROM s")
    for made in ("made", "view_of"):
        assert types(client, made) == ["char(3)", "varchar(3)", "varchar(3)", "string"]
        assert rows(engine, f"SELECT * FROM {made} WHERE a = 'AB'") == [["AB ", "AB", None, "ab"]]
        assert rows(engine, f"SELECT a, v, b FROM {made} WHERE d = 'abcde'") == [["ABC", "ABC", "ABC"]]


@pytest.mark.instead("postgresql")
def test_a_replaced_table_keeps_its_chars_and_a_string_stays_one(real_engine: Engine, client: MetastoreClient) -> None:
    """Older snapshots are read by the new types: texts of a STRING column may be longer than the new ones."""
    engine = real_engine
    engine.run(f"""{SOURCE};
        CREATE TABLE r PARTITIONED BY (k) STORED AS ORC AS SELECT * FROM t;
        CREATE OR REPLACE TABLE r PARTITIONED BY (k) STORED AS ORC AS SELECT * FROM t WHERE id = 2;
        CREATE TABLE old (id INT, c STRING, v CHAR(3)) PARTITIONED BY (k STRING) STORED AS ORC;
        INSERT INTO old VALUES (9, 'much longer', 'v', 'key');
        CREATE OR REPLACE TABLE old PARTITIONED BY (k) STORED AS ORC AS SELECT id, c, v, k, c AS more FROM t""")
    assert types(client, "r") == ["int", "char(5)", "varchar(7)", NESTED, "char(3)"]
    assert rows(engine, "SELECT id, rtrim(k) FROM r") == [[2, "q"]]
    assert types(client, "old") == ["int", "string", "varchar(7)", "char(5)", "string"]
    assert rows(engine, "SELECT id, rtrim(c), rtrim(k) FROM old ORDER BY id") == [[1, "ab", "p"], [2, "abcde", "q"]]
    assert rows(engine, "SELECT id, c FROM old VERSION AS OF 1") == [[9, "much longer"]]
