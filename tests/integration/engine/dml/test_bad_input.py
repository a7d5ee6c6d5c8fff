"""Statements that cannot be: a clear text, no txn, no lock, no file. What the job finds aborts its txn."""

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    BadRecordError,
    CardinalityViolationError,
    HiveAcidError,
    InvalidArgumentsError,
    NoSuchObjectError,
    SqlSyntaxError,
    UnsupportedStatementError,
)
from airflow_hive_acid.metastore.schema.hive_catalog import KEY_CONSTRAINTS, SDS, TBLS

REFUSED = [
    ("SELEC * FROM w.t", SqlSyntaxError, r"line 1, column 1: .*did you mean SELECT"),
    ("SELECT a FROM w.t WHERE", SqlSyntaxError, r"line 1, column 19: .*WHERE"),
    ("SELECT * FROM w.tt", NoSuchObjectError, r"no table w\.tt; did you mean t"),
    ("INSERT INTO ww.t VALUES (1, 'a')", NoSuchObjectError, "ww"),
    ("UPDATE w.t SET bb = 'x'", InvalidArgumentsError, r"w\.t has no column 'bb'; did you mean b"),
    ("SELECT aa FROM w.t", InvalidArgumentsError, r"line 1, column 8: w\.t has no column 'aa'; did you mean a"),
    ("INSERT INTO w.t VALUES (1)", InvalidArgumentsError, "gives 1 column, but w.t takes 2: a, b"),
    ("INSERT INTO w.p PARTITION (j='x') VALUES (1)", InvalidArgumentsError, r"partition columns of w\.p are k"),
    ("UPDATE w.u SET id = 1", UnsupportedStatementError, "Updating values of bucketing columns is not supported"),
    ("UPDATE w.e SET a = 1", UnsupportedStatementError, r"table w\.e that is not transactional"),
    ("DELETE FROM w.i", UnsupportedStatementError, r"table w\.i that is insert-only transactional"),
    (
        "MERGE INTO w.e USING w.t ON e.a = t.a WHEN MATCHED THEN DELETE",
        UnsupportedStatementError,
        "that is not transactional",
    ),
    ("ALTER TABLE w.t CHANGE b b INT", InvalidArgumentsError, "column b is string and cannot become int"),
    ("ALTER TABLE w.t REPLACE COLUMNS (a INT)", InvalidArgumentsError, "has 2 columns and would keep 1"),
    ("ALTER TABLE w.t ADD COLUMNS (a INT)", InvalidArgumentsError, "a"),
    ("ALTER TABLE w.t ADD PARTITION (k='x')", InvalidArgumentsError, "not partitioned"),
    ("ALTER TABLE w.p ADD PARTITION (k='x', l=1)", InvalidArgumentsError, "is no partition of"),
    ("ALTER TABLE w.t SET TBLPROPERTIES ('transactional'='false')", InvalidArgumentsError, "cannot be revoked"),
    ("ALTER TABLE w.t RENAME TO w.p", HiveAcidError, r"w\.p exists already"),
    ("ALTER TABLE w.p COMPACT 'rebalance'", InvalidArgumentsError, "is partitioned; name the partition to rebalance"),
    ("TRUNCATE TABLE w.p PARTITION (j='x')", InvalidArgumentsError, "no partition column j"),
    ("SHOW WEATHER", UnsupportedStatementError, "supported are SHOW LOCKS"),
    ("BEGIN; DROP TABLE w.t; COMMIT", UnsupportedStatementError, "cannot run inside a transaction"),
]


@pytest.fixture
def tables(engine):
    engine.run(
        "CREATE TABLE w.e (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false');"
        "CREATE TABLE w.i (a INT) STORED AS PARQUET;"
        "CREATE TABLE w.u (id INT, v INT) CLUSTERED BY (id) INTO 2 BUCKETS STORED AS ORC"
    )


@pytest.mark.parametrize(("sql", "error", "problem"), REFUSED)
def test_a_statement_that_cannot_be_is_refused_before_anything_happens(
    engine, client, fake, tables, states, listing, sql, error, problem
):
    known = set(states())
    before = {name: client.catalog.get_table(f"w.{name}") for name in client.catalog.list_tables("w")}
    with pytest.raises(error, match=problem):
        engine.run(sql)
    assert set(states()) == known
    assert client.show_locks() == []
    assert fake.specs == []
    assert {name: client.catalog.get_table(f"w.{name}") for name in client.catalog.list_tables("w")} == before
    assert listing("w.t") == listing("w.p") == []


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        (
            "MERGE INTO w.t USING w.p p ON t.a = p.a WHEN MATCHED THEN UPDATE SET b = p.k",
            CardinalityViolationError,
        ),
        ("INSERT INTO w.t SELECT a, k FROM w.p", BadRecordError),
        ("UPDATE w.t SET a = 1", CardinalityViolationError),
    ],
)
def test_what_the_job_finds_aborts_and_leaves_nothing_to_see(engine, client, fake, tables, states, listing, sql, error):
    known = set(states())
    fake.fail(error.__name__, "two source rows for one target row, or a record that does not fit")
    with pytest.raises(error, match="two source rows"):
        engine.run(sql)
    assert {state for txn, state in states().items() if txn not in known} == {"ABORTED"}
    assert client.show_locks() == []
    assert listing("w.t") == []


def test_a_job_knows_which_columns_take_no_null(engine, client, fake):
    """Of the columns that Hive declared NOT NULL; the statement is refused before if it leaves one out."""
    with client.database.transaction() as connection:
        of_t = (
            sa.select(TBLS.c.TBL_ID, SDS.c.CD_ID).join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID).where(TBLS.c.TBL_NAME == "t")
        )
        table_id, columns_id = connection.execute(of_t).one()
        connection.execute(
            sa.insert(KEY_CONSTRAINTS).values(
                PARENT_TBL_ID=table_id, PARENT_CD_ID=columns_id, PARENT_INTEGER_IDX=0, POSITION=1,
                CONSTRAINT_NAME="nn", CONSTRAINT_TYPE=3, ENABLE_VALIDATE_RELY=5,
            )
        )  # fmt: skip
    with pytest.raises(InvalidArgumentsError, match=r"NOT NULL constraint violated! a of w\.t would be NULL"):
        engine.run("INSERT INTO w.t (b) VALUES ('x')")
    engine.run("INSERT INTO w.t VALUES (1, 'x')")
    (spec,) = fake.specs
    assert [(column.name, column.required) for column in spec.step.target.columns] == [("a", True), ("b", False)]
