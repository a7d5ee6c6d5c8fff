"""What clauses mean where two of them meet, with a real Spark: rows that one leaves out are not the other's."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import BadRecordError, HiveAcidError, InvalidArgumentsError
from tests.integration.sql.answers import rows

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.engine import Engine

pytestmark = [pytest.mark.crossing("clauses that meet in one statement"), pytest.mark.spark]

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
    assert rows(engine, "SELECT a, k FROM w.p ORDER BY a") == [[1, 1], [2, 1], [3, 2]]


def test_values_of_a_clause_are_made_for_the_rows_that_it_takes(engine: Engine) -> None:
    """Of the rows that are deleted nobody divides by the number of pieces, which is 0, and ``n`` is no number there."""
    [result] = engine.run(
        "MERGE INTO w.t t USING w.s s ON t.a = s.a WHEN MATCHED AND s.op = 'D' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET price = s.total / s.pieces, n = CAST(s.n AS INT) "
        "WHEN NOT MATCHED AND s.op = 'I' THEN INSERT VALUES (s.a, s.total / s.pieces, CAST(s.n AS INT)) "
        "WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a)"
    )
    assert (result.inserted, result.updated, result.deleted) == (2, 1, 1)
    assert rows(engine, "SELECT a, cast(price AS STRING), n FROM w.t ORDER BY a") == [
        [1, "4.50", 11], [3, "3.50", 30], [4, "1.00", 44], [5, None, None],
    ]  # fmt: skip


def test_a_check_is_about_the_rows_that_are_written(engine: Engine) -> None:
    """Rows that a join, a condition or the MERGE itself leaves out may hold what they like."""
    engine.run(
        "CREATE TABLE w.many (a INT, n INT) STORED AS ORC;"
        "INSERT INTO w.many VALUES (1, 500), (2, 20), (3, 30), (4, 900);"
        "CREATE TABLE w.few (a INT, least INT) STORED AS ORC; INSERT INTO w.few VALUES (2, 0), (3, 100), (9, 0);"
        "INSERT INTO w.c SELECT m.a + 10, m.n, 'ab' FROM w.many m JOIN w.few f ON m.a = f.a AND m.n > f.least;"
        "INSERT INTO w.c SELECT a + 20, n, 'cd' FROM w.many WHERE a IN (SELECT a FROM w.few);"
        "INSERT INTO w.c SELECT a + 30, n, 'cd' FROM (SELECT * FROM w.many ORDER BY n LIMIT 1) q;"
        "MERGE INTO w.c t USING w.many s ON t.a = s.a AND s.n - t.n < 100 "
        "WHEN MATCHED AND s.n < 100 THEN UPDATE SET n = s.n "
        "WHEN NOT MATCHED AND s.n < 100 THEN INSERT VALUES (s.a + 40, s.n, 'ab');"
        "MERGE INTO w.c t USING w.many s ON t.a = s.a WHEN MATCHED AND s.n >= 100 THEN DELETE"
    )
    assert rows(engine, "SELECT a, n FROM w.c ORDER BY a") == [
        [2, 20], [12, 20], [22, 20], [23, 30], [32, 20], [43, 30],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO w.c SELECT a, 100, 'ab' FROM w.s",
        "INSERT INTO w.c SELECT a, 1, 'x' FROM w.s",
        "UPDATE w.c SET n = n + 99",
        "MERGE INTO w.c t USING w.s s ON t.a = s.a WHEN MATCHED THEN UPDATE SET n = 1000",
        "MERGE INTO w.c t USING w.s s ON t.a = s.a WHEN NOT MATCHED THEN INSERT VALUES (s.a, 100, 'ab')",
    ],
)
def test_a_check_holds_for_the_rows_that_are_written(engine: Engine, statement: str) -> None:
    with pytest.raises(BadRecordError, match="CHECK constraint violated"):
        engine.run(statement)
    assert rows(engine, "SELECT a, n FROM w.c ORDER BY a") == [[1, 1], [2, 2]]


def test_a_check_of_a_char_is_the_same_for_inserts_and_changes(engine: Engine) -> None:
    """It has no blanks for either, as in a Hive."""
    engine.run(
        "ALTER TABLE w.c ADD CONSTRAINT two CHECK (length(c) = 2);"
        "UPDATE w.c SET n = n + 1 WHERE a = 1;"
        "MERGE INTO w.c t USING w.s s ON t.a = s.a WHEN MATCHED THEN UPDATE SET n = t.n + 1 "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.a, 5, 'cd')"
    )
    assert rows(engine, "SELECT a, n, rtrim(c) FROM w.c ORDER BY a") == [
        [1, 3, "ab"], [2, 3, "cd"], [4, 5, "cd"], [5, 5, "cd"],
    ]  # fmt: skip


@pytest.mark.parametrize("first", ["INTO", "OVERWRITE"])
def test_branches_of_one_insert_do_not_replace_each_others_rows(engine: Engine, first: str) -> None:
    """The rows of the branch that inserts were lost where it stood before the one that overwrites."""
    second = "OVERWRITE" if first == "INTO" else "INTO"
    engine.run(
        f"FROM w.s INSERT {first} TABLE w.p PARTITION (k = 1) SELECT a WHERE op = 'U' "
        f"INSERT {second} TABLE w.p PARTITION (k = 1) SELECT a WHERE op = 'D'"
    )
    assert rows(engine, "SELECT a FROM w.p WHERE k = 1 ORDER BY a") == [[1], [2], [5]]
    assert rows(engine, "SELECT a FROM w.p WHERE k = 2") == [[3]]


def test_a_static_value_is_the_partition_that_rows_of_a_query_are_in(engine: Engine) -> None:
    """``1.50`` of a DECIMAL is ``1.5``, as in Hive: else the old rows would stay beside those of the OVERWRITE."""
    engine.run(
        "INSERT INTO w.d SELECT 1, 1.5;"
        "INSERT OVERWRITE TABLE w.d PARTITION (k = 1.50) SELECT 2;"
        "INSERT INTO w.d PARTITION (k = '01.5') SELECT 3;"
        "ALTER TABLE w.d ADD IF NOT EXISTS PARTITION (k = 1.50)"
    )
    assert rows(engine, "SHOW PARTITIONS w.d") == [["k=1.5"]]
    assert rows(engine, "SELECT a FROM w.d WHERE k = 1.5 ORDER BY a") == [[2], [3]]
    with engine.batch("w.d", partition={"k": Decimal("1.50")}, transactions=1) as batch:
        batch.write([{"a": 4}])
    assert rows(engine, "SHOW PARTITIONS w.d") == [["k=1.5"]]
    engine.run("TRUNCATE TABLE w.d PARTITION (k = 1.50)")
    assert rows(engine, "SELECT count(*) FROM w.d") == [[0]]


def test_rows_are_found_where_a_text_has_escapes(engine: Engine) -> None:
    """sqlglot reads ``\\U0001F600`` as ``U0001F600``: the partition of the rows was left out."""
    engine.run(r"""CREATE TABLE w.e (a INT) PARTITIONED BY (s STRING) STORED AS ORC;
        INSERT INTO w.e VALUES (1, '\U0001F600'), (2, 'U0001F600'), (3, 'it\'s');
        INSERT INTO w.e PARTITION (s = '\U0001F600') VALUES (4)""")
    assert rows(engine, r"SELECT a FROM w.e WHERE s = '\U0001F600' ORDER BY a") == [[1], [4]]
    assert rows(engine, r"SELECT a FROM w.e WHERE s IN ('\ud83d\ude00', 'it\u0027s') ORDER BY a") == [[1], [3], [4]]
    engine.run(r"UPDATE w.e SET a = 10 WHERE s = '\U0001F600' AND a = 1; DELETE FROM w.e WHERE s <> '\U0001F600'")
    assert rows(engine, "SELECT a FROM w.e ORDER BY a") == [[4], [10]]
    engine.run(r"ALTER TABLE w.e DROP PARTITION (s = '\U0001F600')")
    assert rows(engine, "SELECT a FROM w.e") == []


def test_every_clause_means_the_partition_of_a_value_however_that_is_written(engine: Engine, tmp_path: Path) -> None:
    """``01`` of an INT and ``2024-1-2`` of a DATE, of all partition columns and of some."""
    engine.run("CREATE TABLE w.m (a INT) PARTITIONED BY (k INT, d DATE) STORED AS ORC")
    whole, some = "PARTITION (k = '01', d = '2024-1-2')", ("PARTITION (k = '01')", "PARTITION (d = '2024-1-2')")
    there = ["k=1/d=2024-01-02"]
    engine.run(f"ALTER TABLE w.m ADD {whole}; ALTER TABLE w.m ADD IF NOT EXISTS {whole}")
    assert rows(engine, "SHOW PARTITIONS w.m") == [there]
    for clause in (whole, *some):
        engine.run(f"INSERT INTO w.m {whole} VALUES (1)")  # noqa: S608 - a clause of the test
        assert rows(engine, "SELECT a FROM w.m") == [[1]]
        engine.run(f"EXPORT TABLE w.m {clause} TO '{tmp_path}/{len(clause)}'; TRUNCATE TABLE w.m {clause}")
        assert rows(engine, "SELECT a FROM w.m") == []
    engine.run(
        f"DESCRIBE FORMATTED w.m {whole}; ALTER TABLE w.m {whole} RENAME TO PARTITION (k = '+2', d = '2024-1-3')"
    )
    assert rows(engine, "SHOW PARTITIONS w.m") == [["k=2/d=2024-01-03"]]
    engine.run(f"ALTER TABLE w.m ADD {whole}; ALTER TABLE w.m DROP {some[1]}")
    assert rows(engine, "SHOW PARTITIONS w.m") == [["k=2/d=2024-01-03"]]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("INT", "3000000000"), ("TINYINT", "300"), ("DATE", "2024-02-30"), ("DECIMAL(4,2)", "123.4"), ("BOOLEAN", "maybe"),
     ("TIMESTAMP", "2024-01-01 25:00:00"), ("VARCHAR(3)", "abcd"), ("CHAR(3)", "abcd")],
)  # fmt: skip
def test_a_static_value_that_would_be_read_as_another_is_refused(engine: Engine, kind: str, value: str) -> None:
    engine.run(f"CREATE TABLE w.v (a INT) PARTITIONED BY (k {kind}) STORED AS ORC")
    with pytest.raises(InvalidArgumentsError, match="partition column k"):
        engine.run(f"INSERT INTO w.v PARTITION (k = '{value}') VALUES (1)")  # noqa: S608 - a value of the test


def test_is_distinct_from_may_stand_in_set(engine: Engine) -> None:
    engine.run(
        "CREATE TABLE w.f (a INT, b INT, changed BOOLEAN) STORED AS ORC;"
        "INSERT INTO w.f VALUES (1, NULL, NULL), (2, 2, NULL);"
        "UPDATE w.f SET changed = a IS DISTINCT FROM b WHERE a < 9;"
        "MERGE INTO w.f t USING w.s s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET changed = t.b IS NOT DISTINCT FROM t.a, b = 7;"
        "FROM w.f INSERT INTO w.f SELECT a + 10, b, a IS DISTINCT FROM b WHERE a = 1"
    )
    assert rows(engine, "SELECT a, b, changed FROM w.f ORDER BY a") == [[1, 7, False], [2, 7, True], [11, 7, True]]


def test_one_statement_has_one_time_whatever_its_clauses_are(engine: Engine) -> None:
    """Of a MERGE the rows that match are written first, then the new ones; each branch of an INSERT is a query."""
    engine.run(
        "CREATE TABLE w.h (a INT, ts TIMESTAMP, day DATE, unix BIGINT) STORED AS ORC;"
        "INSERT INTO w.h SELECT a, NULL, NULL, 0 FROM w.t;"
        "MERGE INTO w.h t USING w.s s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET ts = current_timestamp, day = current_date(), unix = unix_timestamp() "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.a, now(), curdate(), unix_timestamp())"
    )
    merged = rows(engine, "SELECT count(*), count(DISTINCT ts, day, unix), min(unix_timestamp(ts) - unix) FROM w.h "
                           "WHERE ts IS NOT NULL")  # fmt: skip
    assert merged == [[4, 1, 0]]
    engine.run(
        "CREATE VIEW w.clock AS SELECT a, current_timestamp AS ts FROM w.t;"
        "FROM w.clock INSERT OVERWRITE TABLE w.h SELECT a, ts, to_date(ts), 0 "
        "INSERT OVERWRITE TABLE w.p PARTITION (k = 1) SELECT unix_timestamp(ts)"
    )
    same = "SELECT count(DISTINCT ts), count(DISTINCT p.a) FROM w.h JOIN w.p p ON p.a = unix_timestamp(ts)"
    assert rows(engine, same) == [[1, 1]]
    assert rows(engine, "SELECT abs(unix_timestamp() - max(unix_timestamp(ts))) < 600 FROM w.h") == [[True]]


def test_names_of_columns_may_hold_braces(engine: Engine) -> None:
    """Messages name them: as a format, ``{}`` had no value."""
    engine.run(
        "CREATE TABLE w.b (`{}` INT NOT NULL, `a{}b` CHAR(2) CHECK (`a{}b` <> '{}')) STORED AS ORC;"
        "INSERT INTO w.b SELECT a, op FROM w.s WHERE a = 1; UPDATE w.b SET `a{}b` = 'xy'"
    )
    assert rows(engine, "SELECT `{}`, `a{}b` FROM w.b") == [[1, "xy"]]
    for values, told in {
        "CAST(s.op AS STRING), 'a'": r"column {} of w\.b: the value 'U' is no int",
        "1, concat(s.op, 'abc')": r"column a{}b of w\.b: the value 'Uabc' is longer than 2",
        "1, if(s.op = 'U', '{}', 'a')": r"CHECK constraint violated! \S+ of w\.b: .*<> '{}'",
    }.items():
        with pytest.raises(BadRecordError, match=told):
            engine.run(f"INSERT INTO w.b SELECT {values} FROM w.s s WHERE a = 1")  # noqa: S608 - values of the test
