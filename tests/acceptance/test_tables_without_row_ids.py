"""Insert-only and plain tables with real Spark: written, read back, compacted."""

from decimal import Decimal

import pytest

from airflow_hive_acid.errors import BadRecordError

pytestmark = [
    pytest.mark.crossing("tables without row ids x statements x compaction"),
    pytest.mark.spark,
    pytest.mark.instead("postgresql"),
]
# ruff: noqa: S608 - formats are the test's own


def rows(engine, sql):
    return engine.query(sql).rows


@pytest.mark.parametrize("stored_as", ["ORC", "PARQUET", "TEXTFILE"])
def test_a_plain_table_is_inserted_into_and_overwritten(engine, client, stored_as):
    engine.run(
        f"""
        CREATE DATABASE w;
        CREATE EXTERNAL TABLE w.e (id INT, name STRING, amount DECIMAL(12,2)) PARTITIONED BY (k STRING)
          STORED AS {stored_as};
        INSERT INTO w.e PARTITION (k='x') VALUES (1, 'é', 1.5), (2, NULL, NULL);
        INSERT INTO w.e SELECT id + 10, name, amount, if(id = 1, 'x', 'y') FROM w.e;
        """
    )
    assert [p.name for p in client.catalog.list_partitions("w.e")] == ["k=x", "k=y"]
    assert rows(engine, "SELECT * FROM w.e ORDER BY id") == [
        [1, "é", Decimal("1.50"), "x"],
        [2, None, None, "x"],
        [11, "é", Decimal("1.50"), "x"],
        [12, None, None, "y"],
    ]
    engine.run("INSERT OVERWRITE w.e PARTITION (k='x') SELECT id, name, amount FROM w.e WHERE id = 11")
    assert rows(engine, "SELECT id, k FROM w.e ORDER BY id") == [[11, "x"], [12, "y"]]
    with pytest.raises(BadRecordError):
        engine.run("INSERT OVERWRITE w.e PARTITION (k='x') SELECT 'no number', name, amount FROM w.e")
    assert rows(engine, "SELECT id, k FROM w.e ORDER BY id") == [[11, "x"], [12, "y"]]
    engine.run("INSERT OVERWRITE w.e PARTITION (k='x') SELECT id, name, amount FROM w.e WHERE false")
    assert rows(engine, "SELECT id, k FROM w.e ORDER BY id") == [[12, "y"]]


@pytest.mark.parametrize("stored_as", ["ORC", "PARQUET"])
def test_an_insert_only_table_is_written_and_compacted_by_the_worker(engine, stored_as):
    engine.run(
        f"""
        CREATE DATABASE w;
        CREATE TABLE w.i (id INT, name STRING) STORED AS {stored_as}
          TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only');
        INSERT INTO w.i VALUES (1, 'a');
        INSERT INTO w.i VALUES (2, 'b');
        ALTER TABLE w.i COMPACT 'minor' AND WAIT;
        """
    )
    assert rows(engine, "SELECT * FROM w.i ORDER BY id") == [[1, "a"], [2, "b"]]
    engine.run("INSERT INTO w.i VALUES (3, 'c'); ALTER TABLE w.i COMPACT 'major' AND WAIT")
    assert rows(engine, "SELECT * FROM w.i ORDER BY id") == [[1, "a"], [2, "b"], [3, "c"]]
    engine.run("INSERT OVERWRITE w.i SELECT id, upper(name) FROM w.i WHERE id > 1")
    assert rows(engine, "SELECT * FROM w.i ORDER BY id") == [[2, "B"], [3, "C"]]
