"""Scripts on each database with real Spark: every statement, partitioned or not, alone and in transactions."""

from decimal import Decimal

import pyarrow
import pytest
from pyarrow import orc

from airflow_hive_acid.errors import BadRecordError, CardinalityViolationError, SqlSyntaxError, WriteConflictError

pytestmark = [pytest.mark.spark, pytest.mark.instead("postgresql")]

TABLES = """
CREATE DATABASE w;
CREATE TABLE w.t (id INT, name STRING, amount DECIMAL(12,2)) STORED AS ORC TBLPROPERTIES ('transactional'='true');
CREATE TABLE w.p (id INT, name STRING) PARTITIONED BY (day DATE) STORED AS ORC
  TBLPROPERTIES ('transactional'='true');
"""


@pytest.fixture
def csv(tmp_path):
    """A file with three rows, and the statement that makes a view v of it."""
    path = tmp_path / "rows.csv"
    path.write_text("id,name,amount,day\n10,ten,10.50,2024-01-01\n20,twenty,20.25,2024-01-02\n30,,30.00,2024-01-02\n")
    return (
        "CREATE OR REPLACE TEMPORARY VIEW v (id INT, name STRING, amount DECIMAL(12,2), day DATE) "
        f"USING csv OPTIONS (path '{path}', header 'true');"
    )


def rows(engine, sql):
    return engine.query(sql).rows


def test_every_statement_on_an_unpartitioned_table(engine, csv):
    engine.run(TABLES + csv)
    results = engine.run(
        """
        INSERT INTO w.t VALUES (1, 'one', 1.10), (2, 'two', NULL);
        INSERT INTO w.t SELECT id, name, amount FROM v;
        UPDATE w.t SET amount = amount * 2, name = upper(name) WHERE id IN (1, 10);
        DELETE FROM w.t WHERE id = 2;
        MERGE INTO w.t AS t USING (SELECT 20 AS id, 'zwanzig' AS name UNION ALL SELECT 40, 'vierzig'
                                   UNION ALL SELECT 30, 'delete') AS s
        ON t.id = s.id
        WHEN MATCHED AND s.name = 'delete' THEN DELETE
        WHEN MATCHED THEN UPDATE SET name = s.name
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name, 0);
        SELECT id, name, amount FROM w.t ORDER BY id
        """
    )
    assert [(r.inserted, r.updated, r.deleted) for r in results[:5]] == [
        (2, 0, 0), (3, 0, 0), (0, 2, 0), (0, 0, 1), (1, 1, 1),
    ]  # fmt: skip
    assert results[-1].rows.rows == [
        [1, "ONE", Decimal("2.20")],
        [10, "TEN", Decimal("21.00")],
        [20, "zwanzig", Decimal("20.25")],
        [40, "vierzig", Decimal("0.00")],
    ]
    assert [r.write_ids for r in results[:5]] == [{"w.t": i} for i in range(1, 6)]


def test_every_statement_on_a_partitioned_table(engine, client, csv):
    engine.run(TABLES + csv)
    engine.run(
        """
        INSERT INTO w.p PARTITION (day='2024-01-01') VALUES (1, 'one');
        INSERT INTO w.p SELECT id, name, day FROM v;
        """
    )
    assert [p.name for p in client.catalog.list_partitions("w.p")] == ["day=2024-01-01", "day=2024-01-02"]
    update, delete, merge = engine.run(
        """
        UPDATE w.p SET name = 'x' WHERE day = '2024-01-01' AND id = 1;
        DELETE FROM w.p WHERE name IS NULL;
        MERGE INTO w.p AS t
        USING (SELECT 10 AS id, DATE'2024-01-01' AS day UNION ALL SELECT 50, DATE'2024-01-03') AS s
        ON t.id = s.id AND t.day = s.day
        WHEN MATCHED THEN UPDATE SET name = 'merged'
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'new', s.day)
        """
    )
    assert all("day=2024-01-01" in d for d in update.directories)
    assert (update.updated, delete.deleted, merge.inserted, merge.updated) == (1, 1, 1, 1)
    assert rows(engine, "SELECT day, id, name FROM w.p ORDER BY day, id") == [
        ["2024-01-01", 1, "x"], ["2024-01-01", 10, "merged"], ["2024-01-02", 20, "twenty"], ["2024-01-03", 50, "new"],
    ]  # fmt: skip
    assert rows(engine, "SELECT count(*) FROM w.p WHERE day = '2024-01-01'") == [[2]]


def test_transaction_over_two_tables_sees_its_own_writes(engine, other):
    """
    t1  A begins, inserts into t and a new partition of p, changes what it has just inserted
    t2                          B sees nothing of it
    t3  A reads its own rows, commits
    t4                          B sees all of it
    """
    engine.run(TABLES)
    engine.run("INSERT INTO w.t VALUES (1, 'one', 1)")
    count = "SELECT (SELECT count(*) FROM w.t), (SELECT count(*) FROM w.p)"
    with engine.begin({"w.t": "update", "w.p": "insert"}) as txn:
        txn.execute(
            "INSERT INTO w.t VALUES (2, 'two', 2); UPDATE w.t SET amount = 5; DELETE FROM w.t WHERE id = 1;"
            "INSERT INTO w.p SELECT id, name, DATE'2024-02-29' FROM w.t"
        )
        assert other.query(count).rows == [[1, 0]]
        own = txn.execute("SELECT t.id, t.amount, p.day FROM w.t JOIN w.p ON t.id = p.id")[0].rows.rows
        assert own == [[2, Decimal("5.00"), "2024-02-29"]]
    assert other.query(count).rows == [[1, 1]]
    assert rows(other, "SELECT id, amount FROM w.t") == [[2, Decimal("5.00")]]


def test_rollback_leaves_nothing_visible(engine, client):
    engine.run(TABLES)
    engine.run("INSERT INTO w.t VALUES (1, 'one', 1)")
    results = engine.run(
        """
        BEGIN;
        UPDATE w.t SET name = 'changed';
        INSERT INTO w.p PARTITION (day='2024-01-01') VALUES (1, 'x');
        SELECT name FROM w.t;
        ROLLBACK;
        SELECT name FROM w.t;
        SELECT count(*) FROM w.p
        """
    )
    assert [r.rows.rows for r in results if r.rows is not None] == [[["changed"]], [["one"]], [[0]]]
    assert client.catalog.list_partitions("w.p") == []


def test_first_of_two_conflicting_writers_wins(engine, other):
    """
    t1  A begins an update of t
    t2                          B updates t and commits
    t3  A runs its update and commits: refused
    t4  what B wrote stays
    """
    engine.run(TABLES)
    engine.run("INSERT INTO w.t VALUES (1, 'one', 1)")
    txn = engine.begin({"w.t": "update"})
    other.run("UPDATE w.t SET name = 'B'")
    txn.execute("UPDATE w.t SET name = 'A'")
    with pytest.raises(WriteConflictError, match=r"w.t"):
        txn.commit()
    assert rows(engine, "SELECT name FROM w.t") == [["B"]]


def test_earlier_reader_keeps_its_state(engine, client):
    """
    t1  R opens a snapshot
    t2                      A updates and deletes
    t3  R still reads the old rows; others the new ones
    """
    engine.run(TABLES)
    engine.run("INSERT INTO w.t VALUES (1, 'one', 1), (2, 'two', 2)")
    query = "SELECT id, name FROM w.t ORDER BY id"
    with client.snapshot(["w.t"]) as reader:
        engine.run("UPDATE w.t SET name = 'x' WHERE id = 1; DELETE FROM w.t WHERE id = 2")
        assert engine.query(query, snapshot=reader.to_document()).rows == [[1, "one"], [2, "two"]]
        assert engine.query(query).rows == [[1, "x"]]


def test_row_of_a_file_that_does_not_fit_is_named_and_nothing_is_committed(engine, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("id,name\n1,one\n2,two\nthree,three\n")
    engine.run(TABLES)
    engine.run(f"CREATE TEMPORARY VIEW v (id INT, name STRING) USING csv OPTIONS (path '{path}', header 'true')")
    with pytest.raises(BadRecordError, match=r"bad.csv.*(line 4|row 3).*id"):
        engine.run(
            """
            INSERT INTO w.t VALUES (1, 'one', 1);
            INSERT INTO w.t SELECT id, name, 0 FROM v
            """
        )
    assert rows(engine, "SELECT id FROM w.t") == [[1]]


def test_several_sources_for_one_row_of_a_merge_are_refused(engine):
    engine.run(TABLES)
    engine.run("INSERT INTO w.t VALUES (1, 'one', 1)")
    with pytest.raises(CardinalityViolationError):
        engine.run(
            "MERGE INTO w.t AS t USING (SELECT 1 AS id UNION ALL SELECT 1) AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET name = 'x'"
        )
    assert rows(engine, "SELECT name FROM w.t") == [["one"]]


def test_syntax_error_underlines_its_place(engine):
    with pytest.raises(SqlSyntaxError, match=r"FORM"):
        engine.run("SELECT 1;\nSELECT a FORM w.t WHERE")


def test_plain_table_is_read_beside_a_transactional_one(engine, tmp_path):
    (tmp_path / "plain").mkdir()
    orc.write_table(pyarrow.table({"id": [1, 2], "label": ["a", "b"]}), tmp_path / "plain" / "000000_0")
    engine.run(TABLES)
    engine.run(f"CREATE EXTERNAL TABLE w.plain (id INT, label STRING) STORED AS ORC LOCATION '{tmp_path}/plain'")
    engine.run("INSERT INTO w.t SELECT id, label, id FROM w.plain")
    query = "SELECT t.id, p.label FROM w.t t JOIN w.plain p ON t.id = p.id AND t.name = p.label ORDER BY 1"
    assert rows(engine, query) == [[1, "a"], [2, "b"]]


def test_compaction_keeps_the_rows(engine, client):
    engine.run(TABLES)
    engine.run(
        """
        INSERT INTO w.t VALUES (1, 'one', 1), (2, 'two', 2);
        UPDATE w.t SET name = 'x' WHERE id = 1;
        DELETE FROM w.t WHERE id = 2;
        INSERT INTO w.p PARTITION (day='2024-01-01') VALUES (1, 'one');
        INSERT INTO w.p PARTITION (day='2024-01-01') VALUES (2, 'two');
        ALTER TABLE w.t COMPACT 'major' AND WAIT;
        ALTER TABLE w.p PARTITION (day='2024-01-01') COMPACT 'minor' AND WAIT
        """
    )
    states = [(c.type.name, c.state.name) for c in client.compactions.show()]
    assert sorted(states) == [("MAJOR", "READY_FOR_CLEANING"), ("MINOR", "READY_FOR_CLEANING")]
    assert rows(engine, "SELECT id, name FROM w.t") == [[1, "x"]]
    assert rows(engine, "SELECT id, name FROM w.p ORDER BY id") == [[1, "one"], [2, "two"]]


def test_values_of_each_type_come_back(engine):
    engine.run(
        """
        CREATE DATABASE w;
        CREATE TABLE w.types (b BOOLEAN, i BIGINT, d DOUBLE, m DECIMAL(38,10), s STRING, c VARCHAR(5), day DATE,
          at TIMESTAMP, bin BINARY, a ARRAY<INT>, o STRUCT<x: INT, y: STRING>) STORED AS ORC;
        INSERT INTO w.types SELECT true, 9007199254740993, 0.5, 1234567890123456789012345678.0123456789, 'ü😀', 'abc',
          DATE'2024-02-29', TIMESTAMP'2024-03-31 02:30:00.123456', CAST('x' AS BINARY), array(1, NULL),
          named_struct('x', 1, 'y', 'z')
        """
    )
    assert rows(engine, "SELECT * FROM w.types") == [
        [
            True, 9007199254740993, 0.5, Decimal("1234567890123456789012345678.0123456789"), "ü😀", "abc", "2024-02-29",
            "2024-03-31 02:30:00.123456", "78", [1, None], {"x": 1, "y": "z"},
        ]
    ]  # fmt: skip
