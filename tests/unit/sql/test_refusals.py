"""What is no SQL is underlined; what we do not run names the nearest that we do. Texts are written out."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hive_acid.errors import HiveAcidError, SqlSyntaxError, UnsupportedStatementError
from airflow_hive_acid.sql import parse_script
from tests.examples import examples

SYNTAX = [
    ("SELEC a FROM t", 1, 1, "no statement begins with 'SELEC'; did you mean SELECT?"),
    ("SELECT 'abc", 1, 8, "this string is never closed"),
    ("SELECT `abc", 1, 8, "this quoted name is never closed"),
    ("SELECT 1 /* x", 1, 10, "this comment is never closed"),
    ("SELECT a,, b FROM t", 1, 9, "nothing follows this comma"),
    ("SELECT a, FROM t", 1, 9, "nothing follows this comma"),
    ("SELECT * FROM t WHERE (a = 1", 1, 23, "this parenthesis is never closed"),
    ("SELECT 1)", 1, 9, "this parenthesis was never opened"),
    ("SELECT a b c FROM t", 1, 12, "unexpected token"),
    ("SELECT FROM t", 1, 13, "SELECT lists no column"),
    ("SELECT 1\nFROM t\n\tWHERE a IN (1,\n 2 3)", 4, 4, "expecting )"),
    ("SELECT a FROM t WHERE", 1, 17, "a condition must follow WHERE"),
    ("SELECT 1; SELECT a FROM t JOIN u ON", 1, 34, "a condition must follow ON"),
    ("UPDATE t SET", 1, 13, "expected a column name, found the end of the statement"),
    ("UPDATE t SET a = 1, a = 2", 1, 21, "column a is assigned twice"),
    ("UPDATE t SET a = WHERE b = 1", 1, 18, "expected an expression, found 'WHERE'"),
    ("UPDATE t SET a = 1 AS b", 1, 18, "expected one expression"),
    ("DELETE t WHERE a = 1", 1, 8, "expected FROM, found 't'"),
    ("DROP TABLE `a.b`", 1, 12, "'a.b' cannot be a table name: Hive allows a to z, digits and _ there"),
    ("INSERT INTO t", 1, 14, "expected VALUES or SELECT, found the end of the statement"),
    ("INSERT INTO t (a, a) VALUES (1, 2)", 1, 19, "column a is given twice"),
    ("INSERT INTO t VALUES (1) x", 1, 26, "the statement should end after VALUES (…)"),
    ("INSERT INTO t PARTITION (a=1, a=2) VALUES (1)", 1, 31, "partition column a is given twice"),
    ("MERGE INTO t USING s WHEN MATCHED THEN DELETE", 1, 27, "expected ON, found 'MATCHED'"),
    ("MERGE INTO t USING s ON a = b", 1, 30, "expected WHEN MATCHED or WHEN NOT MATCHED, found the end of"),
    ("MERGE INTO t USING t ON 1 = 1 WHEN MATCHED THEN DELETE", 1, 20, "source and target of this statement are both"),
    ("MERGE INTO t USING (SELECT 1) ON 1 = 1 WHEN MATCHED THEN DELETE", 1, 31, "the source of this statement needs"),
    (
        "MERGE INTO t USING s ON 1 = 1 WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET a = 1",
        1,
        56,
        "no row gets here: an earlier WHEN MATCHED clause has no AND",
    ),
    ("COMMIT now", 1, 8, "unexpected 'now': the statement should end here"),
    ("CREATE TABLE t (a foo)", 1, 19, "column type 'foo': unknown type 'foo'"),
    ("CREATE TABLE t (a int, A string)", 1, 24, "column a is defined twice"),
    ("CREATE TABLE t (a int) LOCATION '/x' LOCATION '/y'", 1, 38, "LOCATION is given twice"),
    ("CREATE TABLE t (a int) CLUSTERED BY (a) INTO 5000 BUCKETS", 1, 46, "a table has 1 to 4096 buckets, not 5000"),
    ("CREATE TEMPORARY VIEW v USING csv OPTIONS (header true)", 1, 31, "the view names no files; add OPTIONS (path"),
    ("CREATE TEMPORARY VIEW a.b USING csv", 1, 24, "a temporary view belongs to no database"),
    ("DROP TABLE a.b.c", 1, 15, "a table name has two parts, database.table"),
    ("SHOW LOCKS t PARTITION (a)", 1, 26, "expected =, found ')'"),
    (
        "ALTER TABLE t COMPACT 'rebalance' CLUSTERED INTO 5000 BUCKETS",
        1,
        50,
        "a rebalance makes 1 to 4096 buckets, not 5000",
    ),
    ("ALTER TABLE t COMPACT 'rebalance' ORDER BY", 1, 43, "expected what to order by"),
]

UNSUPPORTED = [
    ("SELECT 1;\nGRANT x", 2, 1, "GRANT is not supported; instead: access is a matter of the warehouse's filesystem"),
    ("EXPLAIN FORMATTED SELECT 1", 1, 9, "EXPLAIN FORMATTED is not supported; EXPLAIN and EXPLAIN LOCKS are"),
    ("EXPLAIN LOCKS CALL x", 1, 15, "CALL is not supported; instead: a statement of its own"),
    ("UPSERT INTO t VALUES (1)", 1, 1, "UPSERT is not supported; instead: MERGE INTO … WHEN MATCHED THEN UPDATE SET *"),
    (
        "COMMENT ON TABLE t IS 'x'",
        1,
        1,
        "COMMENT is not supported; instead: ALTER TABLE … SET TBLPROPERTIES ('comment'",
    ),
    ("DROP ROLE r", 1, 6, "DROP ROLE is not supported: access is a matter of the warehouse's filesystem"),
    ("ALTER RESOURCE PLAN p ENABLE", 1, 7, "ALTER RESOURCE is not supported: where a job runs is said with spark_conf"),
    ("ALTER TABLE t UPDATE STATISTICS SET ('numRows'='1')", 1, 15, "ANALYZE TABLE … COMPUTE STATISTICS counts them"),
    ("CREATE INDEX i", 1, 8, "CREATE INDEX is not supported: Hive has no indexes any more; ORC files have their own"),
    ("DROP INDEX v", 1, 6, "DROP INDEX is not supported: Hive has no indexes any more; ORC files have their own"),
    ("CREATE TABLE t LIKE u CLUSTERED BY (a) INTO 2 BUCKETS", 1, 1, "CLUSTERED BY is what CREATE TABLE … LIKE takes"),
    (
        "CREATE TABLE t (a int) STORED AS RCFILE",
        1,
        34,
        "STORED AS RCFILE is not supported; full ACID tables are STORED",
    ),
    ("CREATE TABLE t (a int) ROW FORMAT DELIMITED STORED AS ORC", 1, 1, "ROW FORMAT DELIMITED is for text, and not"),
    ("ALTER TABLE t ADD COLUMNS (a int NOT NULL)", 1, 27, "NOT NULL is supported in CREATE TABLE, ADD CONSTRAINT"),
    ("CREATE TEMPORARY VIEW v USING avro OPTIONS (path '/x')", 1, 31, "formats are csv, orc, parquet, json"),
    ("ALTER TABLE t ADD CONSTRAINT c PRIMARY KEY (a)", 1, 32, "Please use DISABLE NOVALIDATE instead"),
    ("ALTER TABLE t REPLACE COLUMN (a int)", 1, 15, "REPLACE COLUMN is not supported; supported is ALTER TABLE … REPL"),
    ("ALTER TABLE t CHANGE a b int AFTER c", 1, 30, "AFTER is not supported: columns of ACID files are found by"),
    ("ALTER TABLE t SET LOCATION '/x'", 1, 15, "SET LOCATION is not supported: ALTER TABLE … PARTITION (…) SET"),
    ("ALTER INDEX v", 1, 7, "ALTER INDEX is not supported: Hive has no indexes any more"),
    ("ABORT JOBS 3", 1, 7, "ABORT JOBS is not supported; supported are ABORT TRANSACTIONS id … and ABORT COMPACTIONS"),
    ("ALTER TABLE t COMPACT 'all'", 1, 23, "COMPACT 'all' is not supported; supported are 'major', 'minor', 'reb"),
    ("ALTER TABLE t COMPACT 'mayor'", 1, 23, "COMPACT 'mayor' is not supported; did you mean 'major'?"),
    ("ALTER TABLE t COMPACT 'major' ORDER BY a", 1, 31, "ORDER BY is not supported with COMPACT 'major'; leave"),
    ("ALTER TABLE t COMPACT 'minor' CLUSTERED INTO 2 BUCKETS", 1, 31, "CLUSTERED is not supported with COMPACT 'min"),
    ("SHOW WEATHER", 1, 6, "supported are SHOW LOCKS, SHOW TRANSACTIONS, SHOW COMPACTIONS"),
    ("SHOW LOCK", 1, 6, "SHOW LOCK is not supported; did you mean SHOW LOCKS?"),
    ("UPDATE t SET a = 1 FROM u, v WHERE t.a = u.a", 1, 26, "one source is supported here; join others"),
    ("DELETE FROM t USING u JOIN v WHERE 1 = 1", 1, 23, "one source is supported here; join others to it in a query"),
    ("DELETE FROM t WHERE a > 1 LIMIT 3", 1, 27, "LIMIT is supported behind an ORDER BY that says which rows"),
    ("UPDATE t SET a = 1 ORDER BY a", 1, 20, "ORDER BY changes nothing here without a LIMIT"),
    ("WITH q AS (SELECT 1) UPDATE t SET a = 1", 1, 22, "WITH before UPDATE is not supported; put the query where"),
    ("INSERT INTO DIRECTORY '/x' SELECT 1", 1, 13, "INSERT … DIRECTORY is supported as INSERT OVERWRITE"),
    ("INSERT OVERWRITE DIRECTORY '/x' USING avro SELECT 1", 1, 39, "USING avro is not supported; formats are orc,"),
    ("INSERT INTO t PARTITION (a=NULL) VALUES (1)", 1, 28, "select it as a dynamic column"),
    ("SELECT * FROM a.b.c", 1, 15, "a table name has two parts, database.table"),
    ("SELECT 1;\n\nSELECT ?", 3, 1, "parameters are not supported; put the value into the statement"),
    ("SELECT * INTO u FROM t", 1, 15, "SELECT … INTO is not supported; INSERT INTO … SELECT"),
    ("SELECT TRANSFORM(a) USING 'cat' AS b FROM t", 1, 18, "SELECT TRANSFORM is not supported"),
    ("SELECT INPUT__FILE__NAME FROM t", 1, 8, "of the virtual columns only ROW__ID and ROW__IS__DELETED are"),
    ("UPDATE t SET *", 1, 14, "SET * is supported in MERGE only; write SET column"),
]


@pytest.mark.parametrize(("sql", "line", "column", "problem"), SYNTAX)
def test_what_is_no_sql_is_underlined(sql: str, line: int, column: int, problem: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_script(sql)
    assert str(caught.value).startswith(f"line {line}, column {column}: {problem}")


@pytest.mark.parametrize(("sql", "line", "column", "problem"), UNSUPPORTED)
def test_what_we_do_not_run_names_the_nearest_that_we_do(sql: str, line: int, column: int, problem: str) -> None:
    with pytest.raises(UnsupportedStatementError) as caught:
        parse_script(sql)
    assert str(caught.value).startswith(f"line {line}, column {column}: ")
    assert problem in str(caught.value)


def test_the_place_is_marked_below_its_line() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_script("SELECT a\n\tFROM t,\n\tWHERE x = 1 1")
    assert str(caught.value) == "line 3, column 14: unexpected token\n  \tWHERE x = 1 1\n  \t            ^"


def test_a_long_line_is_shown_around_the_place() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_script("SELECT " + "a, " * 100 + "b c d FROM t " + "z" * 100)
    message, line, marks = str(caught.value).splitlines()
    assert message == "line 1, column 312: unexpected token"
    assert len(line) == 102
    assert line[marks.index("^")] == "d"


def test_deep_nesting_is_an_error_of_ours() -> None:
    with pytest.raises(SqlSyntaxError):
        parse_script("SELECT " + "(" * 5000 + "1" + ")" * 5000)


_WORDS = """SELECT FROM WHERE INSERT INTO OVERWRITE TABLE PARTITION VALUES UPDATE SET DELETE MERGE USING ON WHEN MATCHED
NOT THEN AND WITH AS CREATE TEMPORARY VIEW OPTIONS DROP DATABASE BEGIN COMMIT SHOW LOCKS ALTER COMPACT CASE END JOIN
UNION ALL GROUP BY ORDER LIMIT IN EXISTS t db.t a b.c 'x' "y" `z` 1 2.5 ( ) , ; = < * . - ? : [ ] -- /* */"""
_words = st.sampled_from([*_WORDS.split(), "\n"])


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(_words, max_size=25).map(" ".join) | st.text(max_size=60))
def test_whatever_a_script_says_only_errors_of_ours_come_back(script: str) -> None:
    with suppress(HiveAcidError):
        parse_script(script)
