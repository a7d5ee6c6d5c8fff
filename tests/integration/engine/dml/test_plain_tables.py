"""Tables without row ids through the engine: insert-only ones, and plain ones, written under their lock."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from sqlalchemy import select

from airflow_hive_acid.errors import (
    InvalidArgumentsError,
    JobFailedError,
    PublishInterruptedError,
    UnsupportedStatementError,
)
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.jobs import Bucketing
from airflow_hive_acid.maintenance.warehouse.fences import fence_dead_jobs
from airflow_hive_acid.metastore.schema.hive_catalog import SORT_COLS

TABLES = """
CREATE EXTERNAL TABLE w.e (a INT) STORED AS PARQUET;
CREATE TABLE w.x (a INT) PARTITIONED BY (k STRING) STORED AS TEXTFILE TBLPROPERTIES ('transactional'='false');
CREATE TABLE w.i (a INT) STORED AS PARQUET TBLPROPERTIES ('transactional_properties'='insert_only');
"""


@pytest.fixture
def plain(engine):
    """The engine, with the plain tables e and x and the insert-only table i."""
    engine.run(TABLES)
    return engine


def files_of(client, table):
    """Visible files of a table, relative to its directory."""
    root = Path(client.catalog.get_table(table).location.removeprefix("file:"))
    found = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
    return [name for name in found if not any(part.startswith((".", "_tmp_")) for part in name.split("/"))]


def test_formats_are_stored_as_hive_names_them(plain, client):
    assert [client.catalog.get_table(f"w.{t}").format for t in "exit"] == ["parquet", "text", "parquet", "orc"]
    assert client.catalog.get_table("w.i").is_insert_only


def test_an_insert_into_a_plain_table_needs_no_write_id_and_forgets_the_statistics(plain, client, fake):
    assert "COLUMN_STATS_ACCURATE" in client.catalog.get_table("w.e").properties
    locks = []
    fake.meanwhile = lambda _spec: locks.extend(client.show_locks())
    (result,) = plain.run("INSERT INTO w.e VALUES (1)")
    assert [(row.type.name, row.table) for row in locks] == [("EXCLUSIVE", "e")]
    assert (result.inserted, result.write_ids) == (1, {})
    assert files_of(client, "w.e") == [f"000000_1_copy_{result.txn_id}"]
    assert "COLUMN_STATS_ACCURATE" not in client.catalog.get_table("w.e").properties
    assert fake.specs[-1].step.target.format == "parquet"


def test_a_reader_of_a_plain_table_is_locked_against_its_writers(plain, client, fake):
    locks = []
    fake.answer = [(1,)]
    fake.meanwhile = lambda _spec: locks.extend(client.show_locks())
    plain.query("SELECT a FROM w.e")
    assert [(row.type.name, row.table) for row in locks] == [("SHARED_READ", "e")]
    assert client.show_locks() == []


def test_an_overwrite_replaces_the_files_at_the_commit_and_a_rollback_brings_them_back(plain, client):
    first = plain.run("INSERT INTO w.e VALUES (1)")[0].txn_id
    plain.run("BEGIN; INSERT OVERWRITE w.e VALUES (2); INSERT INTO w.e VALUES (3); ROLLBACK")
    assert files_of(client, "w.e") == [f"000000_1_copy_{first}"]
    second = plain.run("INSERT OVERWRITE TABLE w.e VALUES (4)")[0].txn_id
    assert files_of(client, "w.e") == [f"000000_1_copy_{second}"]
    root = Path(client.catalog.get_table("w.e").location.removeprefix("file:"))
    assert [p.name for p in root.iterdir()] == [f"000000_1_copy_{second}"]  # nothing staged is left


def test_dynamic_partitions_of_a_plain_table_are_registered_with_the_commit(plain, client, fake):
    fake.partitions = [("a/b",), ("é",)]
    plain.run("INSERT INTO w.x SELECT a, b FROM w.t")
    assert [p.name for p in client.catalog.list_partitions("w.x")] == ["k=a%2Fb", "k=é"]
    plain.run("INSERT OVERWRITE w.x PARTITION (k='é') VALUES (1)")
    assert len(files_of(client, "w.x")) == 2


def test_a_publish_that_fails_half_way_is_undone(plain, client, fake):
    """
    t1  A moves its file into w.e
    t2            somebody without a lock has made a directory of that name
    t3  A gives up: the table is what it was
    """
    first = plain.run("INSERT INTO w.e VALUES (1)")[0].txn_id
    root = Path(client.catalog.get_table("w.e").location.removeprefix("file:"))

    def intrude(spec):
        result = fake.work(spec)
        (root / result.directories[0].files[0].name).mkdir()
        return result

    fake.meanwhile = intrude
    with pytest.raises(PublishInterruptedError, match=r"writes into w\.e without its lock"):
        plain.run("INSERT INTO w.e VALUES (2)")
    assert files_of(client, "w.e") == [f"000000_1_copy_{first}"]
    assert client.show_locks() == []


def test_a_job_that_fails_leaves_the_table_as_it_was_and_its_retry_adds_no_duplicate(plain, client, fake):
    fake.fail("JobFailedError", "executor lost")
    with pytest.raises(JobFailedError, match="executor lost"):
        plain.run("INSERT OVERWRITE w.e VALUES (1)")
    assert files_of(client, "w.e") == []
    fake.meanwhile = None
    plain.run("INSERT OVERWRITE w.e VALUES (1)")
    assert len(files_of(client, "w.e")) == 1


def test_what_a_killed_writer_had_moved_is_moved_back_by_the_reaper(plain, client, other, fake):
    """
    t1  A overwrites w.e twice inside an open transaction, and is killed
    t2            its txn is aborted
    t3            the reaper fences A's jobs: the old file is back, A's is gone, its staging is a file
    """
    first = plain.run("INSERT INTO w.e VALUES (1)")[0].txn_id
    transaction = other.begin({"w.e": "overwrite"})
    transaction.execute("INSERT OVERWRITE w.e VALUES (2); INSERT OVERWRITE w.e VALUES (3); INSERT INTO w.e VALUES (4)")
    own = transaction.txn_id
    assert files_of(client, "w.e") == [f"000000_2_copy_{own}", f"000000_3_copy_{own}"]
    client.heartbeats.remove(transaction.txn_id)
    client.abort_txn(transaction.txn_id, "killed")
    for _ in range(2):
        fence_dead_jobs(client, AnyFilesystem())
    assert files_of(client, "w.e") == [f"000000_1_copy_{first}"]
    root = Path(client.catalog.get_table("w.e").location.removeprefix("file:"))
    fences = list(root.glob("_tmp_*"))
    assert len(fences) == 3
    assert all(fence.is_file() for fence in fences)


def test_an_insert_only_table_gets_directories_without_the_version_file(plain, client):
    plain.run("INSERT INTO w.i VALUES (1); INSERT OVERWRITE w.i VALUES (2)")
    assert files_of(client, "w.i") == ["base_0000002/000000_0", "delta_0000001_0000001_0000/000000_0"]


@pytest.mark.parametrize("sql", ["UPDATE w.e SET a = 1", "DELETE FROM w.e", "UPDATE w.i SET a = 1", "DELETE FROM w.i"])
def test_rows_of_tables_without_row_ids_cannot_be_changed(plain, sql):
    with pytest.raises(UnsupportedStatementError, match="Attempt to do update or delete on table"):
        plain.run(sql)


def test_a_format_that_is_not_ours_is_refused_by_its_class(plain, client, fake, monkeypatch):
    real = type(client.catalog).get_table

    def as_avro(catalog, name):
        found = real(catalog, name)
        storage = dataclasses.replace(found.storage, input_format="org.example.AvroInputFormat")
        return dataclasses.replace(found, storage=storage)

    monkeypatch.setattr(type(client.catalog), "get_table", as_avro)
    with pytest.raises(UnsupportedStatementError, match=r"stored as org\.example\.AvroInputFormat"):
        plain.query("SELECT * FROM w.e")


def test_sorted_buckets_go_into_the_catalog_of_table_and_partitions_and_into_the_spec(engine, client, fake):
    clauses = "(a INT, b STRING) PARTITIONED BY (k STRING) CLUSTERED BY (a) SORTED BY (b DESC, a) INTO 4 BUCKETS"
    engine.run(f"CREATE TABLE w.s {clauses} TBLPROPERTIES ('transactional_properties'='insert_only')")
    engine.run(f"CREATE EXTERNAL TABLE w.z {clauses}")
    order = (("b", False), ("a", True))
    for name in ("w.s", "w.z"):
        assert client.catalog.get_table(name).sort_columns == order
        engine.run(f"INSERT INTO {name} PARTITION (k = 'x') VALUES (1, 'y')")  # noqa: S608
        assert fake.specs[-1].step.target.bucketing == Bucketing(("a",), 4, "2", order)
    query = select(SORT_COLS).order_by(SORT_COLS.c.SD_ID, SORT_COLS.c.INTEGER_IDX)
    rows = client.database.read(lambda connection: connection.execute(query).all())
    # Two tables and their partitions, ascending is 1 as in Hive.
    assert [tuple(row)[1:] for row in rows] == [("b", 0, 0), ("a", 1, 1)] * 4


def test_rows_with_ids_cannot_be_sorted_in_hives_words(engine):
    with pytest.raises(InvalidArgumentsError, match="cannot support full ACID functionality since it is sorted"):
        engine.run("CREATE TABLE w.f (a INT) CLUSTERED BY (a) SORTED BY (a) INTO 4 BUCKETS STORED AS ORC")
