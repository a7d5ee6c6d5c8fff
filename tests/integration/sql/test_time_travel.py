"""VERSION AS OF and TIMESTAMP AS OF with a real Spark: what there was, or who has taken it away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.cli.commands.history import rows_of
from airflow_hive_acid.errors import (
    ChangesNotCompleteError,
    HistoryGoneError,
    InvalidArgumentsError,
    NoSuchPinError,
    UnsupportedStatementError,
)
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.decisions import Kind as Outcome
from airflow_hive_acid.metastore.listing import read_history, shown_moment
from airflow_hive_acid.metastore.names import TableName
from airflow_hive_acid.metastore.schema.hive_catalog import TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.crossing("time travel x compaction and drops"), pytest.mark.spark]

KEY = TableName("s", "t")


def ids(engine: Engine, what: str) -> list[Any]:
    """Ids of rows of ``t`` at some moment."""
    found = engine.run(f"SELECT id FROM t {what} ORDER BY id", database="s")[-1].rows  # noqa: S608 - texts of this file
    assert found is not None
    return [row[0] for row in found.rows]


def clean(client: MetastoreClient, engine: Engine) -> None:
    # A second must pass until no txn id can be on its way any more that is smaller than the compaction's.
    while any(outcome.kind is Outcome.WAITING for outcome in run_cleaner(client, engine._context.filesystem)):
        pass


def test_a_table_is_read_as_of_write_ids_until_its_history_is_gone(
    real_engine: Engine, client: MetastoreClient
) -> None:
    """
    write id 1  three rows
    write id 2  one is updated, 3 one is deleted, 4 one more
    then        minor compaction and cleaning keep it all, a major one ends it
    """
    engine = real_engine
    engine.run(
        "CREATE DATABASE s; CREATE TABLE s.t (id INT, v STRING) STORED AS ORC; CREATE TABLE s.u (id INT) STORED AS ORC"
    )
    engine.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'); UPDATE t SET id = 20 WHERE id = 2; "
               "DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (4, 'd')", database="s")  # fmt: skip
    states = {1: [1, 2, 3], 2: [1, 3, 20], 3: [1, 20], 4: [1, 4, 20]}
    assert {w: ids(engine, f"VERSION AS OF {w}") for w in states} == states
    assert ids(engine, "FOR SYSTEM_VERSION AS OF 2 x") == states[2]
    engine.run("ALTER TABLE t COMPACT 'minor' AND WAIT", database="s")
    clean(client, engine)
    assert {w: ids(engine, f"FOR VERSION AS OF {w}") for w in states} == states

    engine.run("INSERT INTO u SELECT id FROM t VERSION AS OF 1; "
               "CREATE TABLE c STORED AS ORC AS SELECT id FROM t VERSION AS OF 2; "
               "MERGE INTO u USING (SELECT id FROM t VERSION AS OF 4) s ON u.id = s.id WHEN NOT MATCHED THEN INSERT "
               "VALUES (s.id)", database="s")  # fmt: skip
    for table, found in (("u", [1, 2, 3, 4, 20]), ("c", [1, 3, 20])):
        rows = engine.query(f"SELECT id FROM s.{table} ORDER BY id").rows  # noqa: S608 - texts of this file
        assert [row[0] for row in rows] == found
    rows = engine.query("SELECT n.id FROM s.t n LEFT ANTI JOIN s.t VERSION AS OF 1 o ON n.id = o.id ORDER BY 1").rows
    assert [row[0] for row in rows] == [4, 20]
    assert "as of 2" in str(engine.run("EXPLAIN SELECT * FROM s.t VERSION AS OF 2")[0].rows)

    client.pins.pin("now", ["s.t"], expires=3600)
    engine.run("ALTER TABLE t COMPACT 'major' AND WAIT; INSERT INTO t VALUES (5, 'e')", database="s")
    for before in (1, 2, 3):
        with pytest.raises(HistoryGoneError, match=rf"as of write id {before} any more.*from 4 on.*hive-acid pin add"):
            ids(engine, f"VERSION AS OF {before}")
    clean(client, engine)
    assert ids(engine, "VERSION AS OF 4") == states[4]
    assert ids(engine, "VERSION AS OF 'now'") == states[4]
    assert ids(engine, "") == [1, 4, 5, 20]
    for what, error in (
        ("VERSION AS OF 99", InvalidArgumentsError),
        ("VERSION AS OF 0", InvalidArgumentsError),
        ("VERSION AS OF 'no'", NoSuchPinError),
        ("TIMESTAMP AS OF 'yesterday'", InvalidArgumentsError),
        ("TIMESTAMP AS OF '2999-01-01'", InvalidArgumentsError),
        ("TIMESTAMP AS OF '1999-01-01'", HistoryGoneError),
    ):
        with pytest.raises(error):
            ids(engine, what)
    with client.transaction({"s.t": "insert"}) as txn:
        with pytest.raises(ChangesNotCompleteError, match=f"write id {txn.write_ids['s.t']} is open"):
            engine.query(f"SELECT * FROM s.t VERSION AS OF {txn.write_ids['s.t']}")  # noqa: S608 - texts of this file
        assert ids(engine, "VERSION AS OF 5") == [1, 4, 5, 20]


def test_what_overwrites_and_partitions_take_away_is_said(real_engine: Engine, client: MetastoreClient) -> None:
    engine = real_engine
    engine.run("CREATE DATABASE s; CREATE TABLE s.t (id INT) PARTITIONED BY (p STRING) STORED AS ORC")
    engine.run("INSERT INTO t VALUES (1, 'x'), (2, 'y'); INSERT OVERWRITE TABLE t PARTITION (p='x') VALUES (3)",
               database="s")  # fmt: skip
    assert (ids(engine, "VERSION AS OF 1"), ids(engine, "VERSION AS OF 2")) == ([1, 2], [2, 3])
    engine.run("INSERT INTO t VALUES (4, 'x'); ALTER TABLE t PARTITION (p='x') COMPACT 'minor' AND WAIT", database="s")
    engine.run("ALTER TABLE t DROP PARTITION (p='y')", database="s")
    with pytest.raises(HistoryGoneError, match="a partition was dropped since"):
        ids(engine, "VERSION AS OF 2")
    engine.run("CREATE TABLE i (id INT) STORED AS PARQUET TBLPROPERTIES ('transactional'='true', "
               "'transactional_properties'='insert_only'); INSERT INTO i VALUES (1); INSERT INTO i VALUES (2); "
               "CREATE TABLE plain (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')",
               database="s")  # fmt: skip
    assert engine.query("SELECT id FROM s.i VERSION AS OF 1").rows == [[1]]
    engine.run("ALTER TABLE i COMPACT 'minor' AND WAIT", database="s")
    with pytest.raises(HistoryGoneError, match="holds merged rows of the write ids 1 to 2"):
        engine.query("SELECT id FROM s.i VERSION AS OF 1")
    with pytest.raises(UnsupportedStatementError, match="is no ACID table"):
        engine.query("SELECT id FROM s.plain VERSION AS OF 1")


def test_a_time_is_what_was_committed_until_then(real_engine: Engine, client: MetastoreClient) -> None:
    """Commits are moved to seconds of their own: 300, 200 and 100 s ago."""
    engine = real_engine
    engine.run("CREATE DATABASE s; CREATE TABLE s.t (id INT) STORED AS ORC")
    for number in (1, 2, 3):
        engine.run(f"INSERT INTO s.t VALUES ({number})")  # noqa: S608 - numbers
    log = NOTIFICATION_LOG
    with client.database.transaction() as connection:
        now = connection.execute(sa.select(sa.func.max(log.c.EVENT_TIME))).scalar_one()
        commits = connection.execute(
            sa.select(log.c.EVENT_ID).where(log.c.EVENT_TYPE == "COMMIT_TXN").order_by(log.c.EVENT_ID.desc()).limit(3)
        ).scalars().all()  # fmt: skip
        for age, event in zip((100, 200, 300), commits, strict=True):
            connection.execute(sa.update(log).where(log.c.EVENT_ID <= event).values(EVENT_TIME=now - age))
        connection.execute(sa.update(TBLS).values(CREATE_TIME=now - 4000))

    def at(age: int) -> list[Any]:
        return ids(engine, f"FOR SYSTEM_TIME AS OF '{shown_moment(now - age)}'")

    assert (at(300), at(250), at(150), at(100)) == ([1], [1], [1, 2], [1, 2, 3])
    with pytest.raises(HistoryGoneError, match="the table was made anew since"):
        at(1000)
    told = read_history(client.database, client.notifications, KEY)
    assert [(row[1], row[3], row[4]) for row in rows_of(told, 2)] == [(3, "insert", 1), (2, "insert", 1)]
    with client.database.transaction() as connection:
        connection.execute(sa.delete(log).where(log.c.EVENT_ID <= commits[-1]))
    assert at(150) == [1, 2]
    with pytest.raises(HistoryGoneError, match="the notification log knows commits from"):
        at(250)
