"""CREATE OR REPLACE TABLE with a real Spark: what readers see before and after it, what it keeps and refuses."""

# ruff: noqa: S608 - statements put together from names of the tests

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import (
    HiveAcidError,
    InvalidArgumentsError,
    LockTimeoutError,
    TablePinnedError,
    UnsupportedStatementError,
)
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.crossing("replaced tables x readers and writers"), pytest.mark.spark]

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def rows(engine: Engine, query: str) -> list[list[Any]]:
    found = engine.run(query, database="r")[-1].rows
    assert found is not None
    return sorted(([str(v) if v is not None else None for v in row] for row in found.rows), key=str)


@pytest.mark.instead("postgresql")
def test_a_replaced_table_has_new_rows_and_columns_and_old_snapshots_still_read(
    real_engine: Engine, client: MetastoreClient
) -> None:
    engine = real_engine
    engine.run(f"""CREATE DATABASE r; USE r;
        CREATE TABLE t (id INT, name STRING) COMMENT 'first' {ACID};
        ALTER TABLE t SET TBLPROPERTIES ('mine'='old', 'no_auto_compaction'='true');
        INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET name = 'B' WHERE id = 2""")
    before = client.catalog.get_table("r.t")
    # It reads the table that it replaces: as it was, under the old names.
    [result] = engine.run(
        "CREATE OR REPLACE TABLE t COMMENT 'second' TBLPROPERTIES ('mine'='new') AS "
        "SELECT CAST(id AS BIGINT) AS key, name, id * 10 AS ten FROM t WHERE id = 2",
        database="r",
    )
    assert (result.kind, result.inserted, result.write_ids) == ("create_table", 1, {"r.t": 4})
    after = client.catalog.get_table("r.t")
    assert (after.id, after.location, after.owner, after.write_id) == (before.id, before.location, before.owner, 4)
    assert [(c.name, c.type) for c in after.columns] == [("key", "bigint"), ("name", "string"), ("ten", "int")]
    assert (after.property("comment"), after.property("mine")) == ("second", "new")
    assert after.property("no_auto_compaction") is None
    assert rows(engine, "SELECT * FROM t") == [["2", "B", "20"]]
    assert rows(engine, "SELECT * FROM t VERSION AS OF 3") == [["1", "a", None], ["2", "B", None]]
    engine.run("INSERT INTO t VALUES (3, 'c', 30); DELETE FROM t WHERE key = 2", database="r")
    assert rows(engine, "SELECT * FROM t") == [["3", "c", "30"]]
    engine.run("ALTER TABLE t COMPACT 'major' AND WAIT", database="r")
    assert rows(engine, "SELECT * FROM t") == [["3", "c", "30"]]
    told = [event.type for event in client.notifications.events_after(0) if event.table == "t"]
    assert "ALTER_TABLE" in told
    assert "DROP_TABLE" not in told


def test_without_a_query_it_is_empty_and_has_the_new_constraints(real_engine: Engine, client: MetastoreClient) -> None:
    engine = real_engine
    engine.run(f"""CREATE DATABASE r; USE r;
        CREATE OR REPLACE TABLE c (a INT NOT NULL, b STRING DEFAULT 'x', UNIQUE (a) DISABLE NOVALIDATE) {ACID};
        INSERT INTO c (a) VALUES (1);
        CREATE OR REPLACE TABLE c (a INT, b STRING DEFAULT 'y' COMMENT 'of b', d INT CHECK (d > 0)) {ACID}""")
    assert rows(engine, "SELECT * FROM c") == []
    assert sorted(c.name or "" for c in client.catalog.constraints("r.c")) == ["cc_d", "dc_b"]
    engine.run("INSERT INTO c (d) VALUES (5)", database="r")
    assert rows(engine, "SELECT * FROM c") == [[None, "y", "5"]]
    with pytest.raises(HiveAcidError, match="CHECK"):
        engine.run("INSERT INTO c (d) VALUES (0)", database="r")
    assert client.catalog.get_table("r.c").comments == {"b": "of b"}


def test_all_partitions_are_overwritten_those_without_rows_too(real_engine: Engine, client: MetastoreClient) -> None:
    engine = real_engine
    engine.run(f"""CREATE DATABASE r; USE r;
        CREATE TABLE p (id INT, name STRING) PARTITIONED BY (k STRING) CLUSTERED BY (id) INTO 2 BUCKETS {ACID};
        INSERT INTO p VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'y');
        CREATE OR REPLACE TABLE p PARTITIONED BY (k) CLUSTERED BY (key) INTO 2 BUCKETS AS
          SELECT CASE WHEN k = 'x' THEN 'new' ELSE k END AS k, id AS key, upper(name) AS name, id / 2 AS half FROM p""")
    assert rows(engine, "SELECT key, name, half, k FROM p") == [
        ["1", "A", "0.5", "new"], ["2", "B", "1.0", "y"], ["3", "C", "1.5", "y"],
    ]  # fmt: skip
    assert rows(engine, "SELECT key, name, half, k FROM p VERSION AS OF 1") == [
        ["1", "a", None, "x"], ["2", "b", None, "y"], ["3", "c", None, "y"],
    ]  # fmt: skip
    assert [part.name for part in client.catalog.list_partitions("r.p")] == ["k=new", "k=x", "k=y"]
    engine.run("ALTER TABLE p PARTITION (k='y') COMPACT 'major' AND WAIT; UPDATE p SET half = 9 WHERE key = 3; "
               "CREATE OR REPLACE TABLE p LIKE p", database="r")  # fmt: skip
    assert rows(engine, "SELECT * FROM p") == []
    engine.run("INSERT INTO p VALUES (8, 'h', 4, 'x')", database="r")
    assert rows(engine, "SELECT key, k FROM p") == [["8", "x"]]


@pytest.mark.instead("postgresql")
def test_an_insert_only_table_can_be_replaced_and_keeps_the_names_of_its_columns(
    real_engine: Engine, client: MetastoreClient
) -> None:
    kind = "STORED AS PARQUET TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    real_engine.run(f"""CREATE DATABASE r; USE r;
        CREATE TABLE i (id INT) {kind}; INSERT INTO i VALUES (1), (2);
        CREATE OR REPLACE TABLE i {kind} AS SELECT id, 'n' AS note FROM i WHERE id > 1""")
    assert rows(real_engine, "SELECT * FROM i") == [["2", "n"]]
    assert rows(real_engine, "SELECT * FROM i VERSION AS OF 1") == [["1", None], ["2", None]]
    with pytest.raises(InvalidArgumentsError, match="by the names of their columns"):
        real_engine.run(f"CREATE OR REPLACE TABLE i {kind} AS SELECT 1 AS other, 'n' AS note", database="r")


REFUSED = {
    "CREATE OR REPLACE TABLE t (id INT) {acid}": (InvalidArgumentsError, "cannot be dropped"),
    "CREATE OR REPLACE TABLE t (name STRING, id INT, n BIGINT) {acid}": (InvalidArgumentsError, "cannot be moved"),
    "CREATE OR REPLACE TABLE t AS SELECT true AS id, 'y' AS name, 1L AS n": (InvalidArgumentsError, "cannot become"),
    "CREATE OR REPLACE TABLE t (id INT, name STRING, n BIGINT) PARTITIONED BY (k INT) {acid}": (
        InvalidArgumentsError, "partitioned by",
    ),
    "CREATE OR REPLACE TABLE t (id INT, name STRING, n BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS {acid}": (
        InvalidArgumentsError, "number of buckets",
    ),
    "CREATE OR REPLACE TABLE t (id INT, name STRING, n BIGINT) STORED AS PARQUET": (InvalidArgumentsError, "its kind"),
    "CREATE OR REPLACE TABLE t (id INT, name STRING, n BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true', "
    "'transactional_properties'='insert_only')": (InvalidArgumentsError, "full ACID and would become insert-only"),
    "CREATE OR REPLACE TABLE t (id INT, name STRING, n BIGINT) {acid} LOCATION 'file:/elsewhere'": (
        HiveAcidError, "leave LOCATION out",
    ),
    "CREATE OR REPLACE EXTERNAL TABLE t (id INT) STORED AS ORC": (UnsupportedStatementError, "leave EXTERNAL"),
    "CREATE OR REPLACE TABLE e (id INT) STORED AS ORC": (UnsupportedStatementError, "no transactions"),
    "CREATE OR REPLACE TABLE v (id INT) STORED AS ORC": (InvalidArgumentsError, "is a view"),
    "CREATE OR REPLACE TABLE IF NOT EXISTS t (id INT)": (HiveAcidError, "opposite"),
    "CREATE OR REPLACE DATABASE d": (UnsupportedStatementError, "tables and views"),
    "CREATE OR REPLACE TABLE t AS SELECT id, name, n FROM nothing": (HiveAcidError, "nothing"),
    "CREATE OR REPLACE TABLE t AS SELECT id, name, nvl2(assert_true(id > 1), 0L, n) AS n FROM t": (
        HiveAcidError, "is not true",
    ),
}  # fmt: skip


def test_what_is_refused_or_fails_leaves_the_table_as_it_was(real_engine: Engine, client: MetastoreClient) -> None:
    engine = real_engine
    engine.run(f"""CREATE DATABASE r; USE r;
        CREATE TABLE t (id INT, name STRING, n BIGINT) {ACID}; INSERT INTO t VALUES (1, 'a', 2);
        CREATE TABLE e (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='false');
        CREATE VIEW v AS SELECT 1 AS id""")
    before = client.catalog.get_table("r.t")
    for text, (kind, said) in REFUSED.items():
        with pytest.raises(kind, match=said):
            engine.run(text.replace("{acid}", ACID), database="r")
        assert client.catalog.get_table("r.t") == before, text
        assert rows(engine, "SELECT * FROM t") == [["1", "a", "2"]], text
    pin = client.pins.pin("kept", ["r.t"], expires=3600)
    with pytest.raises(TablePinnedError):
        engine.run(f"CREATE OR REPLACE TABLE t (id INT, name STRING, n BIGINT, m INT) {ACID}", database="r")
    client.pins.unpin(pin.name)


@pytest.mark.every_database
def test_readers_and_leases_of_others_are_waited_for_and_a_second_try_applies_nothing(
    real_engine: Engine, client: MetastoreClient
) -> None:
    engine = real_engine
    engine.run(f"CREATE DATABASE r; CREATE TABLE r.t (id INT) {ACID}; INSERT INTO r.t VALUES (1)")
    said = engine.run("EXPLAIN LOCKS CREATE OR REPLACE TABLE r.t AS SELECT id FROM r.t")[-1].rows
    assert said is not None
    assert [row[0] for row in said.rows[1:]] == ["r -> SHARED_READ", "r.t -> EXCLUSIVE"]
    reader = client.open_txn()
    client.lock([LockComponent("r", "t", None, LockType.SHARED_READ, Operation.SELECT)], txn_id=reader)
    with pytest.raises(LockTimeoutError):
        engine.run("SET hive.lock.numretries=1; SET hive.lock.sleep.between.retries=1s; "
                   f"CREATE OR REPLACE TABLE r.t (id INT) {ACID}")  # fmt: skip
    client.abort_txn(reader, "it has read")
    once = Once(("tests", "replace"))
    text = "CREATE OR REPLACE TABLE r.t AS SELECT id + 1 AS id FROM r.t"
    [first] = engine.run(text, once=once)
    [second] = engine.run(text, once=once)
    assert first.write_ids == second.write_ids
    assert rows(engine, "SELECT * FROM r.t") == [["2"]]
