"""Everyday spellings of changes, with a real Spark: what each leaves in its table."""

# ruff: noqa: S608 - statements put together from paths of the tests

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import (
    AlreadyExistsError,
    CardinalityViolationError,
    HiveAcidError,
    InvalidArgumentsError,
    UnsafePathError,
)
from tests.integration.sql.answers import rows

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.engine import Engine

pytestmark = pytest.mark.spark

SETUP = """
CREATE DATABASE w;
CREATE TABLE w.t (a INT, b STRING, s STRUCT<x:INT,y:STRUCT<z:STRING,q:INT>>) STORED AS ORC;
INSERT INTO w.t VALUES (1, 'one', named_struct('x', 1, 'y', named_struct('z', 'p', 'q', 1))), (2, 'two', NULL);
CREATE TABLE w.u (a INT, b STRING) STORED AS ORC;
INSERT INTO w.u VALUES (1, 'uno'), (2, 'dos'), (3, 'tres');
CREATE TABLE w.p (a INT, b STRING) PARTITIONED BY (k INT, d DATE) STORED AS ORC;
INSERT INTO w.p VALUES (1, 'a', 1, DATE '2024-01-01'), (2, 'b', 1, DATE '2024-01-01'), (3, 'c', 2, DATE '2024-01-01');
"""


@pytest.fixture
def engine(prepared_engine: Engine) -> Engine:
    return prepared_engine


def _u(engine: Engine) -> list[list[Any]]:
    return rows(engine, "SELECT * FROM w.u ORDER BY a")


def _p(engine: Engine) -> list[list[Any]]:
    return rows(engine, "SELECT a, b, k, cast(d AS STRING) FROM w.p ORDER BY a")


def test_merge_star_takes_the_columns_of_the_source_by_their_names(engine: Engine) -> None:
    [result] = engine.run(
        "MERGE INTO w.u t USING (SELECT 'eins' b, 1 a, 0 more UNION ALL SELECT 'neun', 9, 0) s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert (result.inserted, result.updated, result.deleted) == (1, 1, 0)
    assert _u(engine) == [[1, "eins"], [2, "dos"], [3, "tres"], [9, "neun"]]


def test_merge_star_names_the_columns_that_the_source_lacks(engine: Engine) -> None:
    with pytest.raises(InvalidArgumentsError, match="and there is no b"):
        engine.run("MERGE INTO w.u t USING (SELECT 1 a) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET *")


def test_rows_that_no_row_of_the_source_matches_are_changed_by_source(engine: Engine) -> None:
    [result] = engine.run(
        "MERGE INTO w.u t USING (SELECT 1 a, 'eins' b UNION ALL SELECT 7, 'sieben') s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND a = 2 THEN UPDATE SET b = concat(b, '!') WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert (result.inserted, result.updated, result.deleted) == (1, 2, 1)
    assert _u(engine) == [[1, "eins"], [2, "dos!"], [7, "sieben"]]


def test_by_source_reaches_partitions_that_the_source_does_not_name(engine: Engine) -> None:
    engine.run(
        "MERGE INTO w.p t USING (SELECT 1 k, 1 a) s ON t.k = s.k AND t.a = s.a WHEN MATCHED THEN UPDATE SET b = 'hit' "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert _p(engine) == [[1, "hit", 1, "2024-01-01"]]


def test_two_rows_of_the_source_for_one_row_are_refused_beside_by_source_too(engine: Engine) -> None:
    with pytest.raises(CardinalityViolationError):
        engine.run(
            "MERGE INTO w.u t USING (VALUES (1), (1)) AS s(a) ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = 'x' "
            "WHEN NOT MATCHED BY SOURCE THEN DELETE"
        )
    assert _u(engine) == [[1, "uno"], [2, "dos"], [3, "tres"]]


@pytest.mark.parametrize(
    "insert",
    [pytest.param("", marks=pytest.mark.repeats("fewer clauses")), "WHEN NOT MATCHED THEN INSERT VALUES (s.a, 'new') "],
)
def test_by_source_alone_minds_no_row_that_matches_twice(engine: Engine, insert: str) -> None:
    [result] = engine.run(
        "MERGE INTO w.u t USING (VALUES (1), (1), (9)) AS s(a) ON t.a = s.a "
        f"{insert}WHEN NOT MATCHED BY SOURCE AND t.a > 2 THEN UPDATE SET b = 'alone' "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert (result.inserted, result.updated, result.deleted) == (int(bool(insert)), 1, 1)
    assert _u(engine) == [[1, "uno"], [3, "alone"], *([[9, "new"]] if insert else [])]


def test_values_with_names_and_queries_before_merge_are_sources(engine: Engine) -> None:
    engine.run(
        "MERGE INTO w.u USING (VALUES (4, 'vier')) AS s(a, b) ON u.a = s.a "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b);"
        "WITH s AS (SELECT max(a) + 1 a, 'next' b FROM w.u) MERGE INTO w.u t USING s ON t.a = s.a "
        "WHEN NOT MATCHED THEN INSERT *;"
        "WITH q AS (SELECT 6 a) MERGE INTO w.u t USING (SELECT a, 'six' b FROM q) s ON t.a = s.a "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert _u(engine)[3:] == [[4, "vier"], [5, "next"], [6, "six"]]


def test_update_from_and_delete_using_are_merges(engine: Engine) -> None:
    [updated] = engine.run("UPDATE w.t SET b = u.b FROM w.u WHERE t.a = u.a AND u.a < 2")
    assert updated.updated == 1
    assert rows(engine, "SELECT a, b FROM w.t ORDER BY a") == [[1, "uno"], [2, "two"]]
    [deleted] = engine.run("DELETE FROM w.u USING (SELECT a FROM w.t WHERE a = 2) AS s WHERE u.a = s.a")
    assert deleted.deleted == 1
    assert _u(engine) == [[1, "uno"], [3, "tres"]]


def test_a_field_of_a_struct_is_set_and_the_others_stay(engine: Engine) -> None:
    engine.run("UPDATE w.t SET s.y.q = t.s.y.q + 1, t.s.x = 7 WHERE a = 1")
    assert rows(engine, "SELECT s.x, s.y.z, s.y.q FROM w.t ORDER BY a") == [[7, "p", 2], [None, None, None]]
    with pytest.raises(InvalidArgumentsError, match=r"s\.y of w\.t has no field 'r'; its fields are z, q"):
        engine.run("UPDATE w.t SET s.y.r = 1")
    with pytest.raises(HiveAcidError, match=r"s\.y is assigned twice"):
        engine.run("UPDATE w.t SET s.y.q = 1, s.y = NULL")


def test_insert_by_name_and_insert_of_a_table(engine: Engine) -> None:
    engine.run(
        "INSERT INTO w.u BY NAME SELECT 'vier' AS b, 4 AS a; INSERT INTO w.u BY NAME SELECT 5 AS a;"
        "INSERT INTO w.p BY NAME SELECT DATE '2024-02-02' AS d, 3 AS k, 9 AS a;"
        "CREATE TABLE w.v (a INT, b STRING) STORED AS ORC; INSERT INTO w.v TABLE w.u"
    )
    assert _u(engine)[3:] == [[4, "vier"], [5, None]]
    assert _p(engine)[-1] == [9, None, 3, "2024-02-02"]
    assert rows(engine, "SELECT count(*) FROM w.v") == [[5]]
    with pytest.raises(InvalidArgumentsError, match="no value for the partition column d"):
        engine.run("INSERT INTO w.p BY NAME SELECT 3 AS k, 9 AS a")
    with pytest.raises(InvalidArgumentsError, match="has no column 'c'"):
        engine.run("INSERT INTO w.u BY NAME SELECT 3 AS c")


def test_an_update_of_partition_columns_moves_rows(engine: Engine) -> None:
    [moved] = engine.run("UPDATE w.p SET k = k + 1, b = concat(b, k) WHERE a <> 3")
    assert (moved.inserted, moved.updated, moved.deleted) == (0, 2, 0)
    assert _p(engine) == [[1, "a1", 2, "2024-01-01"], [2, "b1", 2, "2024-01-01"], [3, "c", 2, "2024-01-01"]]
    engine.run("UPDATE w.p SET d = date_add(d, a), k = if(a = 3, NULL, k)")
    assert _p(engine) == [[1, "a1", 2, "2024-01-02"], [2, "b1", 2, "2024-01-03"], [3, "c", None, "2024-01-04"]]
    # Half of the rows stay where they are, half of them move there.
    engine.run("UPDATE w.p SET d = DATE '2024-01-02', k = 2")
    assert _p(engine) == [[i, b, 2, "2024-01-02"] for i, b in ((1, "a1"), (2, "b1"), (3, "c"))]
    ids = rows(engine, "SELECT row__id.writeid, row__id.bucketid, row__id.rowid FROM w.p")
    assert len({tuple(row) for row in ids}) == 3
    engine.run("ALTER TABLE w.p PARTITION (k = 2, d = '2024-01-02') COMPACT 'major' AND WAIT")
    assert [row[0] for row in _p(engine)] == [1, 2, 3]


def test_an_upsert_moves_rows_between_partitions(engine: Engine) -> None:
    [result] = engine.run(
        "MERGE INTO w.p t USING (VALUES (1, 'x', 5, DATE '2024-05-05'), (8, 'y', 5, DATE '2024-05-05'), "
        "(3, 'z', 2, DATE '2024-01-01')) AS s(a, b, k, d) ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert (result.inserted, result.updated, result.deleted) == (1, 2, 1)
    assert _p(engine) == [[1, "x", 5, "2024-05-05"], [3, "z", 2, "2024-01-01"], [8, "y", 5, "2024-05-05"]]


def test_rows_of_a_bucketed_table_move_within_their_buckets(engine: Engine) -> None:
    engine.run(
        "CREATE TABLE w.c (a INT, b STRING) PARTITIONED BY (k INT) CLUSTERED BY (a) INTO 3 BUCKETS STORED AS ORC;"
        "INSERT INTO w.c SELECT id, cast(id AS STRING), id % 3 FROM range(30);"
        "UPDATE w.c SET k = k + 1, b = 'm' WHERE k < 2;"
        "MERGE INTO w.c t USING (SELECT id a, 'n' b, 9 k FROM range(25, 35)) s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET b = s.b, k = s.k WHEN NOT MATCHED THEN INSERT *"
    )
    per_partition = rows(engine, "SELECT k, count(*), sum(a) FROM w.c GROUP BY k ORDER BY k")
    assert per_partition == [[1, 9, 108], [2, 16, 192], [9, 10, 295]]
    engine.run("ALTER TABLE w.c PARTITION (k = 9) COMPACT 'major' AND WAIT")
    assert rows(engine, "SELECT count(DISTINCT a), sum(a) FROM w.c") == [[35, 595]]


def test_a_moved_row_is_what_later_statements_of_its_transaction_see(engine: Engine) -> None:
    results = engine.run(
        "BEGIN; UPDATE w.p SET k = 7 WHERE a = 1; UPDATE w.p SET b = 'again' WHERE k = 7;"
        "SELECT a, b FROM w.p WHERE k = 7; COMMIT"
    )
    assert results[3].rows is not None
    assert [list(row) for row in results[3].rows.rows] == [[1, "again"]]
    assert _p(engine)[0] == [1, "again", 7, "2024-01-01"]


def test_order_by_and_limit_choose_rows_only_where_the_order_decides(engine: Engine) -> None:
    engine.run("DELETE FROM w.u ORDER BY a DESC LIMIT 1; UPDATE w.u SET b = 'first' WHERE a < 9 ORDER BY a LIMIT 1")
    assert _u(engine) == [[1, "first"], [2, "dos"]]
    engine.run("INSERT INTO w.u VALUES (2, 'zwei')")
    with pytest.raises(InvalidArgumentsError, match="several share the last place"):
        engine.run("DELETE FROM w.u ORDER BY a DESC NULLS LAST LIMIT 1")
    [both] = engine.run("DELETE FROM w.u ORDER BY a DESC LIMIT 2")
    assert both.deleted == 2
    [none] = engine.run("DELETE FROM w.u ORDER BY a LIMIT 0")
    assert none.deleted == 0


def test_a_query_becomes_files_in_a_directory(engine: Engine, tmp_path: Path) -> None:
    engine.run(
        f"INSERT OVERWRITE LOCAL DIRECTORY '{tmp_path}/text' ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' "
        "SELECT a, if(a = 2, NULL, b) FROM w.u DISTRIBUTE BY 1 SORT BY a;"
        f"INSERT OVERWRITE DIRECTORY '{tmp_path}/orc' STORED AS ORC SELECT * FROM w.u;"
        f"INSERT OVERWRITE DIRECTORY '{tmp_path}/csv' USING csv OPTIONS (header true) SELECT 1 AS one"
    )
    assert "".join(p.read_text() for p in sorted((tmp_path / "text").glob("part-*"))) == "1|uno\n2|\\N\n3|tres\n"
    assert (tmp_path / "orc" / "_SUCCESS").exists()
    assert "".join(p.read_text() for p in (tmp_path / "csv").glob("part-*")) == "one\n1\n"
    # Its own directories are replaced, those of others are not.
    engine.run(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/csv' USING json SELECT 2 AS two")
    assert [p.read_text() for p in (tmp_path / "csv").glob("part-*")] == ['{"two":2}\n']
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("keep")
    with pytest.raises(AlreadyExistsError, match="no export has left there"):
        engine.run(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/mine' SELECT 1")
    assert (tmp_path / "mine" / "letter").read_text() == "keep"


def test_a_directory_of_tables_is_never_overwritten(real_engine: Engine, tmp_path: Path) -> None:
    engine = real_engine
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.u (a INT, b STRING) STORED AS ORC;"
        f"CREATE EXTERNAL TABLE w.e (a INT) STORED AS ORC LOCATION 'file:{tmp_path}/outside/e';"
        f"CREATE DATABASE far LOCATION 'file:{tmp_path}/far'"
    )
    for place in ("outside", "outside/e", "outside/e/below", "far", "far/x", "warehouse", "warehouse/w.db/u", ""):
        with pytest.raises(UnsafePathError, match="lie within each other"):
            engine.run(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/{place}' SELECT 1")


def test_a_sample_needs_no_alias(engine: Engine) -> None:
    assert rows(engine, "SELECT count(u.a) FROM w.u TABLESAMPLE (2 ROWS)") == [[2]]
    joined = "SELECT count(*) FROM w.u TABLESAMPLE (100 PERCENT) REPEATABLE (3) JOIN w.t ON u.a = t.a"
    assert rows(engine, joined) == [[2]]
