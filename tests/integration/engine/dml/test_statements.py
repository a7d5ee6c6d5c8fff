"""Multi-insert, TRUNCATE and CREATE TABLE … AS through the engine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import (
    AlreadyExistsError,
    InvalidArgumentsError,
    JobFailedError,
    LockTimeoutError,
    NoSuchObjectError,
    UnsupportedStatementError,
)
from airflow_hive_acid.format.jobs import Insert, Select
from airflow_hive_acid.metastore.database import LockType, Operation
from airflow_hive_acid.metastore.locks import LockComponent
from airflow_hive_acid.settings import Source


def names_in(client, table, partition=""):
    root = Path(client.catalog.get_table(table).location.removeprefix("file:")) / partition
    return sorted(p.name for p in root.iterdir() if not p.name.startswith(("_tmp", ".")) and "=" not in p.name)


@pytest.mark.parametrize("script", ["SELECT a FROM w.t", "START TRANSACTION; SELECT a FROM w.t; COMMIT"])
@pytest.mark.setting("hive.acid.select.max.bytes")
def test_every_select_has_a_bound_on_what_it_brings_back(client, fake, warehouse, engine, script):
    settings = client.settings.with_overrides(Source.REQUEST, {"hive.acid.select.max.bytes": "1000"})
    with Engine(client, fake, warehouse, settings=settings, agent_info="bounded") as bounded:
        bounded.run(script)
    assert fake.specs[-1].step.max_bytes == 1000


def test_a_multi_insert_is_one_statement_and_one_transaction(engine, client, fake):
    engine.run("CREATE TABLE w.u (a INT) STORED AS ORC")
    (result,) = engine.run("FROM w.t INSERT INTO w.t SELECT a + 1, b INSERT INTO w.u SELECT a WHERE a > 1")
    assert (result.kind, result.inserted) == ("multi_insert", 2)
    assert result.write_ids == {"w.t": 1, "w.u": 1}
    steps = [spec.step for spec in fake.specs]
    assert [type(step) for step in steps] == [Insert, Insert]
    # The table that is read is written last: no branch sees rows of this statement.
    assert [step.target.table for step in steps] == ["w.u", "w.t"]
    assert [
        s.state.value for s in client.show_transactions() if s.txn_id == result.txn_id and s.state.value == "o"
    ] == []


def test_the_branches_of_one_insert_have_one_time(engine, fake):
    """A Hive has one for a query; each branch is a Spark job here, and these begin one after the other."""
    engine.run("CREATE TABLE w.u (t TIMESTAMP) STORED AS ORC")
    engine.run("FROM w.t INSERT INTO w.u SELECT current_timestamp INSERT INTO w.u SELECT now()")
    first, second = (spec.step.query for spec in fake.specs)
    assert re.fullmatch(r"SELECT TIMESTAMP '\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z' FROM ha1_t AS `t`", first)
    assert first == second


def test_a_temporary_view_of_chance_is_no_source_of_several_branches(engine, fake):
    engine.run("CREATE TABLE w.u (a INT, b STRING) STORED AS ORC")
    script = "CREATE TEMPORARY VIEW q AS SELECT a, uuid() AS key FROM w.t; FROM q INSERT INTO w.u SELECT a, key"
    with pytest.raises(UnsupportedStatementError, match=r"each branch .* may get other rows, by uuid\(\)"):
        engine.run(f"{script} INSERT INTO w.u SELECT a, key")
    assert fake.specs == []
    engine.run(script)
    assert len(fake.specs) == 1


def test_branches_into_one_table_get_statement_ids_of_their_own(engine, client):
    engine.run("CREATE TABLE w.u (a INT) STORED AS ORC")
    engine.run("FROM w.t INSERT INTO w.u SELECT a INSERT INTO w.u SELECT a + 1")
    assert names_in(client, "w.u") == ["delta_0000001_0000001_0000", "delta_0000001_0000001_0001"]


def test_branches_may_overwrite_different_partitions_of_one_table(engine, client):
    engine.run(
        "FROM w.t INSERT OVERWRITE w.p PARTITION (k='a') SELECT a INSERT OVERWRITE w.p PARTITION (k='b') SELECT a"
    )
    assert names_in(client, "w.p", "k=a") == names_in(client, "w.p", "k=b") == ["base_0000001"]
    engine.run("FROM w.t INSERT OVERWRITE w.p PARTITION (k='a') SELECT a INSERT INTO w.p PARTITION (k='a') SELECT a")
    assert names_in(client, "w.p", "k=a") == ["base_0000001", "base_0000002"]


def test_two_branches_that_would_read_each_other_are_refused_before_anything_runs(engine, fake):
    with pytest.raises(InvalidArgumentsError, match="2 branches of this INSERT write tables that it reads"):
        engine.run("FROM w.t INSERT INTO w.t SELECT a, b INSERT INTO w.t SELECT a + 1, b")
    assert fake.specs == []


def test_truncate_leaves_a_base_with_hives_mark_and_no_job_runs(engine, client, fake):
    engine.run("INSERT INTO w.t VALUES (1, 'x')")
    (result,) = engine.run("TRUNCATE TABLE w.t")
    assert len(fake.specs) == 1
    assert (result.kind, result.write_ids) == ("truncate", {"w.t": 2})
    assert names_in(client, "w.t") == ["base_0000002", "delta_0000001_0000001_0000"]
    base = Path(result.directories[0].removeprefix("file:"))
    assert [p.name for p in base.iterdir()] == ["_metadata_acid"]
    assert json.loads((base / "_metadata_acid").read_text()) == {"thisFileVersion": "0", "dataFormat": "truncated"}


def test_truncate_of_partitions_touches_those_that_are_meant(engine, client, fake, monkeypatch):
    fake.partitions = [("a",), ("b",)]
    engine.run("INSERT INTO w.p SELECT a, b FROM w.t")
    with monkeypatch.context() as patch:
        # One of 10,000 partitions is asked for by name.
        patch.setattr(client.catalog, "list_partitions", None)
        engine.run("TRUNCATE TABLE w.p PARTITION (k='a')")
    assert names_in(client, "w.p", "k=a") == ["base_0000002", "delta_0000001_0000001_0000"]
    assert names_in(client, "w.p", "k=b") == ["delta_0000001_0000001_0000"]
    engine.run("TRUNCATE TABLE w.p")
    assert "base_0000003" in names_in(client, "w.p", "k=b")
    with pytest.raises(InvalidArgumentsError, match="does not exist"):
        engine.run("TRUNCATE TABLE w.p PARTITION (k='z')")
    with pytest.raises(InvalidArgumentsError, match="no partition column z"):
        engine.run("TRUNCATE TABLE w.p PARTITION (z='z')")


def test_a_truncate_of_one_partition_waits_for_writers_of_that_one_alone(engine, client, fake):
    fake.partitions = [("a",), ("b",)]
    engine.run("INSERT INTO w.p SELECT a, b FROM w.t")
    other = client.open_txn()
    client.lock(LockComponent("w", "p", "k=b", LockType.EXCL_WRITE, Operation.UPDATE), txn_id=other)
    patience = {"hive.lock.numretries": "2", "hive.lock.sleep.between.retries": "10ms"}
    client.settings = client.settings.with_overrides(Source.REQUEST, patience)
    engine.run("TRUNCATE TABLE w.p PARTITION (k='a')")
    with pytest.raises(LockTimeoutError, match="k=b"):
        engine.run("TRUNCATE TABLE w.p PARTITION (k='b')")
    with pytest.raises(LockTimeoutError, match=r"for w\.p, last behind"):
        engine.run("TRUNCATE TABLE w.p")
    assert names_in(client, "w.p", "k=a") == ["base_0000002", "delta_0000001_0000001_0000"]
    assert names_in(client, "w.p", "k=b") == ["delta_0000001_0000001_0000"]


def test_a_truncated_table_can_be_filled_in_the_same_transaction(engine, client, fake):
    """Decision 13: what is inserted next makes the base anew; Hive would lose it beside the base."""
    insert = "INSERT INTO w.t VALUES (1, 'x')"
    results = engine.run(f"BEGIN; {insert}; TRUNCATE TABLE w.t; TRUNCATE TABLE w.t; {insert}; {insert}; COMMIT")
    assert [r.kind for r in results] == ["begin", "insert", "truncate", "truncate", "insert", "insert", "commit"]
    assert names_in(client, "w.t") == ["base_0000001", "delta_0000001_0000001_0000"]
    base = Path(results[2].directories[0].removeprefix("file:"))
    assert sorted(p.name for p in base.iterdir()) == ["_orc_acid_version", "bucket_00000", "bucket_00001"]
    assert [spec.step.bucket_offset for spec in fake.specs] == [0, 0, 1]


def test_a_truncate_takes_the_place_of_an_overwrite_and_hides_later_changes(engine, client):
    engine.run("BEGIN; INSERT OVERWRITE TABLE w.t VALUES (1, 'x'); TRUNCATE TABLE w.t; COMMIT")
    (base,) = Path(client.catalog.get_table("w.t").location.removeprefix("file:")).glob("base_*")
    assert [p.name for p in base.iterdir()] == ["_metadata_acid"]
    with pytest.raises(InvalidArgumentsError, match=r"has overwritten w\.t, and what it writes there"):
        engine.run("BEGIN; TRUNCATE TABLE w.t; UPDATE w.t SET b = 'z'; COMMIT")


def test_one_truncated_partition_takes_rows_and_rows_for_any_do_not(engine, client, fake):
    fake.partitions = [("a",), ("b",)]
    dynamic = "INSERT INTO w.p SELECT a, b FROM w.t"
    static = "INSERT INTO w.p PARTITION (k='a') VALUES (1)"
    engine.run(f"{dynamic}; BEGIN; TRUNCATE TABLE w.p; {static}; COMMIT")
    assert names_in(client, "w.p", "k=a") == ["base_0000002", "delta_0000001_0000001_0000"]
    with pytest.raises(InvalidArgumentsError, match="could never be seen"):
        engine.run(f"BEGIN; TRUNCATE TABLE w.p PARTITION (k='a'); {dynamic}; COMMIT")
    with pytest.raises(InvalidArgumentsError, match="does not exist"):
        engine.run("BEGIN; TRUNCATE TABLE w.p PARTITION (k='z'); COMMIT")


def test_a_bucketed_table_takes_rows_after_a_truncate_where_an_overwrite_lets_none_follow(engine, client):
    engine.run("CREATE TABLE w.b (a INT) CLUSTERED BY (a) INTO 2 BUCKETS STORED AS ORC")
    insert = "INSERT INTO w.b VALUES (1)"
    engine.run(f"BEGIN; TRUNCATE TABLE w.b; {insert}; COMMIT")
    with pytest.raises(InvalidArgumentsError, match="could never be seen"):
        engine.run(f"BEGIN; TRUNCATE TABLE w.b; {insert}; {insert}; COMMIT")


def test_a_truncate_that_is_rolled_back_was_none(engine, client, states):
    engine.run("INSERT INTO w.t VALUES (1, 'x'); BEGIN; TRUNCATE TABLE w.t; ROLLBACK")
    assert sorted(states().values()) == ["ABORTED", "COMMITTED"]


def test_truncate_of_plain_tables_follows_hive(engine, client):
    engine.run(
        "CREATE EXTERNAL TABLE w.e (a INT) STORED AS PARQUET;"
        "CREATE TABLE w.m (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false');"
        "INSERT INTO w.m VALUES (1); TRUNCATE TABLE w.m"
    )
    assert names_in(client, "w.m") == []
    with pytest.raises(UnsupportedStatementError, match=r"Cannot truncate non-managed table w\.e"):
        engine.run("TRUNCATE TABLE w.e")


def test_create_table_as_takes_the_columns_of_the_query(engine, client, fake):
    fake.answer = [(1, 2)]
    (result,) = engine.run("CREATE TABLE w.c STORED AS ORC AS SELECT a, b FROM w.t")
    assert (result.kind, result.inserted) == ("create_table", 1)
    assert [(c.name, c.type) for c in client.catalog.get_table("w.c").columns] == [("c0", "int"), ("c1", "int")]
    assert [type(spec.step) for spec in fake.specs] == [Select, Insert]
    assert fake.specs[0].step.limit == 0
    with pytest.raises(AlreadyExistsError):
        engine.run("CREATE TABLE w.c AS SELECT a, b FROM w.t")


def test_a_create_table_as_that_fails_leaves_no_table(engine, client, fake):
    fake.answer = [(1, 2)]

    def fail_the_insert(spec):
        if isinstance(spec.step, Insert):
            raise JobFailedError("executor lost")

    fake.meanwhile = fail_the_insert
    with pytest.raises(JobFailedError, match="executor lost"):
        engine.run("CREATE TABLE w.c AS SELECT a, b FROM w.t")
    with pytest.raises(NoSuchObjectError):
        client.catalog.get_table("w.c")


def test_an_insert_after_an_overwrite_of_the_same_transaction_joins_its_base(engine, client, fake):
    engine.run(
        "BEGIN; INSERT OVERWRITE w.t VALUES (1, 'x'); INSERT INTO w.t VALUES (2, 'y'); INSERT INTO w.t VALUES (3, 'z');"
        "COMMIT"
    )
    assert names_in(client, "w.t") == ["base_0000001"]
    base = Path(client.catalog.get_table("w.t").location.removeprefix("file:")) / "base_0000001"
    assert sorted(p.name for p in base.iterdir()) == [
        "_orc_acid_version",
        "bucket_00000",
        "bucket_00001",
        "bucket_00002",
    ]
    steps = [(spec.step.overwrite, spec.step.bucket_offset, spec.step.statement_id) for spec in fake.specs]
    assert steps == [(True, 0, 0), (True, 1, 1), (True, 2, 2)]


def test_a_second_overwrite_of_the_same_transaction_replaces_the_first(engine, client, fake):
    """Both make the base of one write id; what was written into the first is gone with it."""
    fake.partitions = [("a",), ("b",)]
    engine.run(
        """BEGIN; INSERT OVERWRITE w.t VALUES (1, 'x'); INSERT INTO w.t VALUES (2, 'y');
        INSERT OVERWRITE w.t SELECT a + 1, b FROM w.t; INSERT INTO w.t VALUES (3, 'z'); COMMIT;
        BEGIN; INSERT OVERWRITE w.p SELECT a, b FROM w.t; INSERT OVERWRITE w.p PARTITION (k='a') SELECT a FROM w.t;
        COMMIT"""
    )
    assert names_in(client, "w.t") == ["base_0000001"]
    base = Path(client.catalog.get_table("w.t").location.removeprefix("file:")) / "base_0000001"
    assert sorted(p.name for p in base.iterdir()) == ["_orc_acid_version", "bucket_00000", "bucket_00001"]
    steps = [(spec.step.overwrite, spec.step.bucket_offset, spec.step.statement_id) for spec in fake.specs]
    assert steps[:4] == [(True, 0, 0), (True, 1, 1), (True, 0, 2), (True, 1, 3)]
    assert names_in(client, "w.p", "k=a") == names_in(client, "w.p", "k=b") == ["base_0000001"]


@pytest.mark.parametrize("k", ["", " PARTITION (k='a')"])
def test_two_branches_that_would_replace_each_other_are_refused(engine, fake, k):
    one, other = ("SELECT a", "SELECT a, b") if k else ("SELECT a, b", "SELECT a, b")
    table = "w.p" if k else "w.t"
    with pytest.raises(InvalidArgumentsError, match="The same output cannot be present multiple times"):
        engine.run(f"FROM w.t INSERT OVERWRITE {table}{k} {one} INSERT OVERWRITE {table} {other}")
    assert fake.specs == []


@pytest.mark.parametrize("sql", ["DELETE FROM w.t", "UPDATE w.t SET a = 1"])
def test_what_cannot_join_a_base_is_refused(engine, client, sql):
    with pytest.raises(InvalidArgumentsError, match=r"has overwritten w\.t"):
        engine.run(f"BEGIN; INSERT OVERWRITE w.t VALUES (1, 'x'); {sql}; COMMIT")  # noqa: S608 - the statement is the test
    assert client.show_locks() == []


@pytest.mark.parametrize("k", ["", " PARTITION (k='a')"])
def test_a_branch_that_overwrites_runs_before_those_that_insert_into_its_table(engine, client, fake, k):
    """Else the base that it makes would hide their rows, which nobody would miss."""
    table, chosen = ("w.p", "a") if k else ("w.t", "a, b")
    engine.run("CREATE TABLE w.s (a INT, b STRING) STORED AS ORC")
    engine.run(
        f"FROM w.s INSERT INTO {table}{k} SELECT {chosen} INSERT OVERWRITE TABLE {table}{k} SELECT {chosen} "
        f"INSERT INTO {table}{k} SELECT {chosen}"
    )
    steps = [(spec.step.overwrite, spec.step.bucket_offset, spec.step.statement_id) for spec in fake.specs]
    assert steps == [(True, 0, 0), (True, 1, 1), (True, 2, 2)]
    assert names_in(client, table, "k=a" if k else "") == ["base_0000001"]


def test_an_overwrite_that_would_have_to_come_first_and_last_is_refused(engine, fake):
    engine.run("CREATE TABLE w.s (a INT, b STRING) STORED AS ORC")
    with pytest.raises(InvalidArgumentsError, match="2 branches of this INSERT write tables that it reads"):
        engine.run(
            "FROM w.s INSERT INTO w.t SELECT a, b WHERE a NOT IN (SELECT a FROM w.t) "
            "INSERT OVERWRITE TABLE w.t SELECT a, b"
        )
    assert fake.specs == []


def test_branches_that_read_nothing_but_their_own_table_have_an_order(engine, fake):
    engine.run("CREATE TABLE w.s (a INT, b STRING) STORED AS ORC; CREATE TABLE w.u (a INT, b STRING) STORED AS ORC")
    engine.run(
        "FROM w.s INSERT INTO w.t SELECT a, b WHERE a NOT IN (SELECT a FROM w.t) "
        "INSERT INTO w.u SELECT a, b WHERE a NOT IN (SELECT a FROM w.u UNION ALL SELECT a FROM w.t)"
    )
    assert [spec.step.target.table for spec in fake.specs] == ["w.u", "w.t"]
