"""ANALYZE TABLE: what is counted, when Hive may answer from it, and what takes the claim away. Real Spark."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import text

from airflow_hive_acid.errors import InvalidArgumentsError, SqlSyntaxError, UnsupportedStatementError
from airflow_hive_acid.metastore.listing import read_history, shown_moment
from airflow_hive_acid.metastore.names import table_name

pytestmark = [pytest.mark.crossing("statistics x kinds of tables x writers"), pytest.mark.spark]
# ruff: noqa: S608 - names are the test's own

FULL = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
EVERY_TYPE = (
    "i INT, b BIGINT, t TINYINT, f FLOAT, d DOUBLE, n DECIMAL(10,2), s STRING, v VARCHAR(20), "
    "o BOOLEAN, dt DATE, ts TIMESTAMP, x BINARY, l ARRAY<INT>"
)
ROWS = (
    "SELECT 1, 10L, 1Y, CAST(1.5 AS FLOAT), 2.5D, 1.50BD, 'a', 'ab', true, DATE '1970-01-11', "
    "TIMESTAMP '1970-01-02 00:00:01', unhex('01'), array(1) UNION ALL "
    "SELECT -5, 20L, NULL, CAST(0.5 AS FLOAT), CAST('NaN' AS DOUBLE), 100.00BD, 'bcd', NULL, false, DATE '1969-12-31', "
    "TIMESTAMP '1970-01-01 00:00:00', unhex('010203'), NULL UNION ALL "
    "SELECT 1, NULL, 2Y, NULL, NULL, NULL, 'a', 'x', NULL, NULL, NULL, NULL, NULL"
)


def columns(client, table="TAB_COL_STATS"):
    with client.database.engine.connect() as connection:
        rows = connection.execute(text(f'SELECT * FROM "{table}"')).mappings().all()
    return {row["COLUMN_NAME"]: row for row in rows}


def parameters(client, partition=None):
    if partition is None:
        return client.catalog.get_table("w.t").properties
    return client.catalog.partition_properties("w.t", partition)


def claim(client, partition=None):
    found = parameters(client, partition).get("COLUMN_STATS_ACCURATE")
    return None if found is None else json.loads(found)


def test_rows_files_and_every_type_of_column_are_counted(engine, client):
    engine.run(f"CREATE DATABASE w; CREATE TABLE w.t ({EVERY_TYPE}) {FULL}; INSERT INTO w.t {ROWS}")
    assert claim(client) is None, "our writes take it away"
    (result,) = engine.run("ANALYZE TABLE w.t COMPUTE STATISTICS FOR COLUMNS")
    ((partition, rows, files, size, counted, exact, reason),) = result.rows.rows
    assert (partition, rows, exact, reason) == (None, 3, True, None)
    assert counted == "i, b, t, f, d, n, s, v, o, dt, ts, x", "nested types have none"
    found = parameters(client)
    assert (found["numRows"], found["numFiles"], found["totalSize"]) == ("3", str(files), str(size))
    assert claim(client) == {
        "BASIC_STATS": "true", "COLUMN_STATS": dict.fromkeys(sorted(set(counted.split(", ")) - {"d"}), "true"),
    }, "nobody is told that the greatest of d is known: one is NaN"  # fmt: skip

    def of(name, *fields):
        row = columns(client)[name]
        return tuple(row[field] for field in fields)

    bounds = ("LONG_LOW_VALUE", "LONG_HIGH_VALUE", "NUM_NULLS", "NUM_DISTINCTS", "COLUMN_TYPE")
    assert of("i", *bounds) == (-5, 1, 0, 2, "int")
    assert of("b", *bounds) == (10, 20, 1, 2, "bigint")
    assert of("dt", *bounds) == (-1, 10, 1, 2, "date")
    assert of("ts", *bounds) == (0, 86401, 1, 2, "timestamp")
    assert of("f", "DOUBLE_LOW_VALUE", "DOUBLE_HIGH_VALUE", "NUM_NULLS") == (0.5, 1.5, 1)
    assert of("d", "DOUBLE_LOW_VALUE", "DOUBLE_HIGH_VALUE", "NUM_NULLS") == (2.5, 2.5, 1)
    assert of("n", "BIG_DECIMAL_LOW_VALUE", "BIG_DECIMAL_HIGH_VALUE", "NUM_NULLS") == ("1.5", "100", 1)
    assert of("s", "MAX_COL_LEN", "NUM_NULLS", "NUM_DISTINCTS") == (3, 0, 2)
    assert of("s", "AVG_COL_LEN")[0] == pytest.approx(5 / 3)
    assert of("o", "NUM_TRUES", "NUM_FALSES", "NUM_NULLS") == (1, 1, 1)
    assert of("x", "MAX_COL_LEN", "NUM_NULLS", "NUM_DISTINCTS") == (3, 1, None)
    assert {row["ENGINE"] for row in columns(client).values()} == {"hive"}


def test_what_is_known_of_other_columns_stays_and_a_write_takes_all_of_it(engine, client):
    engine.run(f"CREATE DATABASE w; CREATE TABLE w.t (a INT, b INT) {FULL}; INSERT INTO w.t VALUES (1, 2), (3, 4)")
    engine.run("ANALYZE TABLE w.t COMPUTE STATISTICS FOR COLUMNS a; ANALYZE TABLE w.t COMPUTE STATISTICS FOR COLUMNS b")
    assert claim(client) == {"BASIC_STATS": "true", "COLUMN_STATS": {"a": "true", "b": "true"}}
    engine.run("ANALYZE TABLE w.t COMPUTE STATISTICS; ANALYZE TABLE w.t COMPUTE STATISTICS NOSCAN")
    assert claim(client) == {"BASIC_STATS": "true", "COLUMN_STATS": {"a": "true", "b": "true"}}
    engine.run("DELETE FROM w.t WHERE a = 1")
    assert claim(client) is None
    engine.run("ANALYZE TABLE w.t COMPUTE STATISTICS")
    assert (parameters(client)["numRows"], claim(client)) == ("1", {"BASIC_STATS": "true"})


def test_nothing_is_called_exact_while_somebody_writes(engine, client):
    """A Hive that has counted its rows already commits them later, or has done so since the snapshot."""
    engine.run(f"CREATE DATABASE w; CREATE TABLE w.t (a INT) {FULL}; INSERT INTO w.t VALUES (1)")
    with client.transaction({"w.t": "insert"}) as txn:
        assert txn.write_ids
        (result,) = engine.run("ANALYZE TABLE w.t COMPUTE STATISTICS")
    assert result.rows.rows[0][5:] == [False, "others wrote to it meanwhile, or are about to"]
    assert (parameters(client)["numRows"], claim(client)) == ("1", None)
    (result,) = engine.run("ANALYZE TABLE w.t COMPUTE STATISTICS")
    assert result.rows.rows[0][5] is True


def test_what_is_counted_is_no_change_of_rows(engine, client):
    """Its write id stands between those of writers; the past is read across it, and its commit is no lost history."""
    engine.run(f"CREATE DATABASE w; CREATE TABLE w.t (a INT) {FULL}; INSERT INTO w.t VALUES (1)")
    engine.run("ANALYZE TABLE w.t COMPUTE STATISTICS FOR COLUMNS; INSERT INTO w.t VALUES (2)")
    client.jobs.forget()
    at = [commit.time for commit in read_history(client.database, client.notifications, table_name("w.t")).commits]
    assert engine.query("SELECT a FROM w.t VERSION AS OF 2").rows == [[1]]
    assert engine.query(f"SELECT a FROM w.t TIMESTAMP AS OF '{shown_moment(at[-1])}' ORDER BY a").rows == [[1], [2]]


def test_partitions_are_counted_each_and_those_without_rows_too(engine, client):
    engine.run(
        f"CREATE DATABASE w; CREATE TABLE w.t (a INT) PARTITIONED BY (k INT, s STRING) {FULL};"
        "INSERT INTO w.t VALUES (1, 1, 'x'), (2, 1, 'x'), (3, 2, 'a/b'), (4, 2, NULL);"
        "ALTER TABLE w.t ADD PARTITION (k=3, s='none')"
    )
    (result,) = engine.run("ANALYZE TABLE w.t PARTITION (k, s) COMPUTE STATISTICS FOR COLUMNS")
    assert {row[0]: row[1] for row in result.rows.rows} == {
        "k=1/s=x": 2, "k=2/s=a%2Fb": 1, "k=2/s=__HIVE_DEFAULT_PARTITION__": 1, "k=3/s=none": 0,
    }  # fmt: skip
    assert claim(client, "k=2/s=a%2Fb") == {"BASIC_STATS": "true", "COLUMN_STATS": {"a": "true"}}
    engine.run("INSERT INTO w.t VALUES (5, 1, 'x')")
    assert claim(client, "k=1/s=x") is None
    assert claim(client, "k=3/s=none") is not None
    (result,) = engine.run("ANALYZE TABLE w.t PARTITION (k='01') COMPUTE STATISTICS")
    assert [row[:2] for row in result.rows.rows] == [["k=1/s=x", 3]]
    assert columns(client, "PART_COL_STATS")["a"]["NUM_NULLS"] == 0


def test_a_table_without_rows_and_a_plain_one(engine, client):
    engine.run(f"CREATE DATABASE w; CREATE TABLE w.t (a INT, s STRING) {FULL}")
    (result,) = engine.run("ANALYZE TABLE w.t COMPUTE STATISTICS FOR COLUMNS")
    assert result.rows.rows[0][1:4] == [0, 0, 0]
    assert columns(client)["a"]["LONG_LOW_VALUE"] is None
    engine.run(
        "CREATE TABLE w.p (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false'); INSERT INTO w.p VALUES (1)"
    )
    (result,) = engine.run("ANALYZE TABLE w.p COMPUTE STATISTICS")
    assert result.rows.rows[0][1] == 1
    assert result.rows.rows[0][5:] == [False, "a table without transactions may be written by anybody"]


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("ANALYZE TABLE w.t COMPUTE STATISTICS FOR COLUMNS c", InvalidArgumentsError, "has no column c; it has a, l"),
        ("ANALYZE TABLE w.t COMPUTE STATISTICS FOR COLUMNS l", UnsupportedStatementError, "no statistics of that type"),
        ("ANALYZE TABLE w.t PARTITION (k=1) COMPUTE STATISTICS", InvalidArgumentsError, "has no partition column k"),
        ("ANALYZE TABLE w.t COMPUTE", SqlSyntaxError, "STATISTICS"),
        ("ANALYZE TABLES IN w COMPUTE STATISTICS", UnsupportedStatementError, "one after the other"),
    ],
)
def test_what_cannot_be_counted_is_refused_before_anything_happens(engine, client, statement, error, message):
    engine.run(f"CREATE DATABASE w; CREATE TABLE w.t (a INT, l ARRAY<INT>) {FULL}")
    before = client.get_valid_txns().high_watermark
    with pytest.raises(error, match=message):
        engine.run(statement)
    assert client.get_valid_txns().high_watermark == before


def test_its_lock_is_that_of_a_reader(engine):
    engine.run(f"CREATE DATABASE w; CREATE TABLE w.t (a INT) {FULL}")
    (explained,) = engine.run("EXPLAIN LOCKS ANALYZE TABLE w.t COMPUTE STATISTICS")
    assert [row[1] for row in explained.rows.rows] == [None, "ANALYZE TABLE: it is read"]
    assert "SHARED_READ" in explained.rows.rows[1][0]
