"""The number of rows in the catalog is right after every write of ours, whether or not it is called exact.

A Worker of Hive calls it exact after a minor compaction without counting anything, and Hive's writes add to it.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine.transactions import transaction as transactions
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITION_PARAMS, PARTITIONS, TABLE_PARAMS, TBLS
from airflow_hive_acid.metastore.txns.statistics import RowChange


@pytest.fixture
def numbers(client):
    """numRows of a table, or of its partitions by name; the claim must be gone."""

    def of(name):
        with client.database.transaction() as connection:
            table = connection.execute(sa.select(TBLS.c.TBL_ID).where(TBLS.c.TBL_NAME == name)).scalar_one()
            found = connection.execute(
                sa.select(TABLE_PARAMS.c.PARAM_KEY, TABLE_PARAMS.c.PARAM_VALUE).where(TABLE_PARAMS.c.TBL_ID == table)
            ).all()
            parts = connection.execute(
                sa.select(PARTITIONS.c.PART_NAME, PARTITION_PARAMS.c.PARAM_KEY, PARTITION_PARAMS.c.PARAM_VALUE)
                .join(PARTITION_PARAMS, PARTITION_PARAMS.c.PART_ID == PARTITIONS.c.PART_ID)
                .where(PARTITIONS.c.TBL_ID == table)
            ).all()
        assert "COLUMN_STATS_ACCURATE" not in {key for _, key, _ in parts}
        if parts:
            return {part: value for part, key, value in parts if key == "numRows"}
        values = dict(found)
        assert "COLUMN_STATS_ACCURATE" not in values
        return values.get("numRows")

    return of


def test_each_statement_leaves_the_number_of_rows_that_there_are(engine, numbers):
    """Every write of the fake job has one row in each file."""
    for statement, expected in [
        ("INSERT INTO w.t VALUES (1, 'x')", "1"),
        ("INSERT INTO w.t VALUES (2, 'x')", "2"),
        ("UPDATE w.t SET b = 'y' WHERE a = 1", "2"),
        ("DELETE FROM w.t WHERE a = 1", "1"),
        ("START TRANSACTION; INSERT INTO w.t VALUES (1, 'x'); INSERT INTO w.t VALUES (2, 'x'); COMMIT", "3"),
        ("START TRANSACTION; INSERT INTO w.t VALUES (1, 'x'); ROLLBACK", "3"),
        ("INSERT OVERWRITE TABLE w.t SELECT 1, 'x'", "1"),
        ("START TRANSACTION; INSERT OVERWRITE TABLE w.t SELECT 1, 'x'; INSERT INTO w.t VALUES (2, 'x'); COMMIT", "2"),
        ("TRUNCATE TABLE w.t", "0"),
    ]:
        engine.run(statement)
        assert numbers("t") == expected, statement


def test_a_partition_of_ours_has_its_number_from_the_start(engine, fake, numbers):
    fake.partitions = [("a",), ("b/c",)]
    engine.run("INSERT INTO w.p SELECT 1, 'a'")
    assert numbers("p") == {"k=a": "1", "k=b%2Fc": "1"}
    fake.partitions = [("b/c",), ("d",)]
    engine.run("INSERT INTO w.p SELECT 1, 'a'")
    assert numbers("p") == {"k=a": "1", "k=b%2Fc": "2", "k=d": "1"}
    engine.run("INSERT OVERWRITE TABLE w.p PARTITION (k = 'd') SELECT 1")
    fake.partitions = [("a",)]
    engine.run("DELETE FROM w.p WHERE k = 'a'")
    assert numbers("p") == {"k=a": "0", "k=b%2Fc": "2", "k=d": "1"}


def test_a_number_that_nobody_knows_stays_unknown(engine, client, numbers):
    for value in (None, "-1", "many"):
        with client.database.transaction() as connection:
            connection.execute(sa.delete(TABLE_PARAMS).where(TABLE_PARAMS.c.PARAM_KEY == "numRows"))
            table = connection.execute(sa.select(TBLS.c.TBL_ID).where(TBLS.c.TBL_NAME == "t")).scalar_one()
            if value is not None:
                connection.execute(sa.insert(TABLE_PARAMS).values(TBL_ID=table, PARAM_KEY="numRows", PARAM_VALUE=value))
        engine.run("INSERT INTO w.t VALUES (1, 'x')")
        assert numbers("t") == value
    engine.run("INSERT OVERWRITE TABLE w.t SELECT 1, 'x'")
    assert numbers("t") == "1"


@pytest.mark.every_database
@pytest.mark.rule("R2")
def test_a_writer_that_loses_a_conflict_changes_no_number(engine, fake, other, numbers):
    """
    t1  A begins to update
    t2                      B updates and commits
    t3  A commits: refused, and its count with it
    """
    engine.run("INSERT INTO w.t VALUES (1, 'x')")
    engine.run("INSERT INTO w.t VALUES (2, 'x')")

    def meanwhile(spec):
        fake.meanwhile = None
        other.run("DELETE FROM w.t WHERE a = 1")

    fake.meanwhile = meanwhile
    with pytest.raises(HiveAcidError):
        engine.run("DELETE FROM w.t WHERE a = 1")
    assert numbers("t") == "1"


def test_two_changes_are_one_after_the_other():
    assert RowChange(3).then(RowChange(-1)) == RowChange(2)
    assert RowChange(3).then(RowChange(5, replaced=True)) == RowChange(5, replaced=True)
    assert RowChange(5, replaced=True).then(RowChange(-1)) == RowChange(4, replaced=True)
    assert [RowChange(2).after(before) for before in ("1", "0", None, "-1", "x")] == ["3", "2", None, None, None]
    assert RowChange(2, replaced=True).after(None) == "2"


@pytest.mark.every_database
def test_commits_of_several_tables_count_in_one_order_whatever_that_of_the_statements_was(engine, monkeypatch):
    """Two commits that locked the rows of numRows in the order of their statements could wait for each other."""
    engine.run("CREATE TABLE w.a (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    counted = []

    def note(connection, table_id, *rest):
        counted.append(table_id)
        count_rows(connection, table_id, *rest)

    count_rows = transactions.count_rows
    monkeypatch.setattr(transactions, "count_rows", note)
    inserts = ("INSERT INTO w.a SELECT a FROM w.a", "INSERT INTO w.t SELECT a, b FROM w.t")
    for order in (inserts, inserts[::-1]):
        with engine.begin({"w.a": "insert", "w.t": "insert"}) as txn:
            for statement in order:
                txn.execute(statement)
    assert len(counted) == 4
    assert counted[:2] == counted[2:]
