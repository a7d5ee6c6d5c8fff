"""Databases and tables through the engine: rows in the catalog, directories in the warehouse."""

from pathlib import Path

import pytest

from airflow_hive_acid.errors import (
    AlreadyExistsError,
    HiveAcidError,
    InvalidArgumentsError,
    JobsAliveError,
    LockTimeoutError,
    NoSuchObjectError,
    PublishError,
    WarehouseMissingError,
)
from airflow_hive_acid.filesystem import AnyFilesystem, open_filesystem
from airflow_hive_acid.maintenance.doctor.doctor import examine_tables
from airflow_hive_acid.maintenance.warehouse.expected import published_of
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.listing.commit_log import CommitLog
from airflow_hive_acid.metastore.txns.jobs import JobState
from airflow_hive_acid.settings import Source
from tests.jobs import jobs_of


def path_of(client, table):
    return Path(client.catalog.get_table(table).location.removeprefix("file:"))


def test_table_is_in_the_catalog_and_has_a_directory(engine, client, warehouse):
    engine.run(
        "CREATE TABLE w.n (a INT COMMENT 'number', d DECIMAL(12,2)) COMMENT 'things' PARTITIONED BY (k STRING) "
        "STORED AS ORC TBLPROPERTIES ('transactional'='true', 'orc.compress'='SNAPPY')"
    )
    table = client.catalog.get_table("w.n")
    assert [(c.name, c.type) for c in table.columns] == [("a", "int"), ("d", "decimal(12,2)")]
    assert [c.name for c in table.partition_columns] == ["k"]
    assert table.properties["orc.compress"] == "SNAPPY"
    assert table.properties["comment"] == "things"
    assert table.comments == {"a": "number"}
    assert path_of(client, "w.n").is_dir()
    assert table.location.replace("///", "/").startswith(warehouse.replace("///", "/"))


def test_table_is_transactional_unless_said_otherwise(engine, client):
    engine.run("CREATE TABLE w.n (a INT) STORED AS ORC")
    assert client.catalog.get_table("w.n").is_transactional


def test_external_table_is_plain(engine, client, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "000000_0").write_text("orc")
    engine.run(f"CREATE EXTERNAL TABLE w.n (a INT) STORED AS ORC LOCATION 'file:{tmp_path}/data'")
    assert not client.catalog.get_table("w.n").is_transactional


@pytest.mark.parametrize("kind", ["EXTERNAL TABLE", "TABLE"])
@pytest.mark.parametrize("file", ["000000_0", "_hidden", "", None])
def test_a_table_around_files_is_not_called_empty(engine, client, tmp_path, kind, file):
    """As a Hive does it, which answers count(*) from the number of rows that is called exact."""
    if file is not None:
        (tmp_path / "data").mkdir()
    if file:
        (tmp_path / "data" / file).write_text("orc")
    engine.run(
        f"CREATE {kind} w.n (a INT) STORED AS ORC LOCATION 'file:{tmp_path}/data' "
        "TBLPROPERTIES ('transactional'='false')"
    )
    properties = client.catalog.get_table("w.n").properties
    called_empty = "COLUMN_STATS_ACCURATE" in properties
    assert called_empty == ("numRows" in properties) == (file != "000000_0")


def test_a_place_at_which_nobody_may_look_is_not_called_empty(engine, client, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()

    def refuse(*_args, **_more):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(type(engine._context.filesystem), "list_files", refuse)
        engine.run(f"CREATE EXTERNAL TABLE w.n (a INT) STORED AS ORC LOCATION 'file:{tmp_path}/data'")
    assert "COLUMN_STATS_ACCURATE" not in client.catalog.get_table("w.n").properties


def test_existing_table_is_refused_unless_that_is_fine(engine):
    with pytest.raises(AlreadyExistsError, match=r"w\.t"):
        engine.run("CREATE TABLE w.t (a INT) STORED AS ORC")
    engine.run("CREATE TABLE IF NOT EXISTS w.t (a INT) STORED AS ORC; CREATE DATABASE IF NOT EXISTS w")


def test_transactional_table_wants_an_empty_directory(engine, client, tmp_path):
    """Files that lie there would become rows as soon as write ids reach their names."""
    (tmp_path / "full" / "delta_0000001_0000001_0000").mkdir(parents=True)
    with pytest.raises(InvalidArgumentsError, match="is not empty: it holds 1 entries"):
        engine.run(f"CREATE TABLE w.n (a INT) STORED AS ORC LOCATION 'file:{tmp_path}/full'")
    with pytest.raises(NoSuchObjectError):
        client.catalog.get_table("w.n")


def test_what_gets_no_directory_is_not_in_the_catalog(engine, client, warehouse):
    """A warehouse that cannot be written: nothing is left, and the same statement works when that is mended."""
    root = path_of(client, "w.t").parent
    in_the_way = [root / "n", root.parent / "fresh.db"]
    statements = ["CREATE TABLE w.n (a INT) TBLPROPERTIES ('transactional'='false')", "CREATE DATABASE fresh"]
    for file, statement in zip(in_the_way, statements, strict=True):
        file.write_text("in the way")
        with pytest.raises((OSError, HiveAcidError), match=file.name):
            engine.run(statement)
    assert "n" not in client.catalog.list_tables("w")
    with pytest.raises(NoSuchObjectError):
        client.catalog.get_database("fresh")
    for file in in_the_way:
        file.unlink()
    engine.run(";".join(statements))
    assert all(file.is_dir() for file in in_the_way)


def test_default_directory_that_is_not_empty_is_refused_too(engine, client):
    stale = path_of(client, "w.t").parent / "n"
    (stale / "base_0000001").mkdir(parents=True)
    with pytest.raises(InvalidArgumentsError, match="is not empty"):
        engine.run("CREATE TABLE w.n (a INT) STORED AS ORC")
    with pytest.raises(NoSuchObjectError):
        client.catalog.get_table("w.n")
    assert (stale / "base_0000001").is_dir()


def test_dropped_table_takes_its_files_along(engine, client):
    engine.run("INSERT INTO w.t VALUES (1, 'x')")
    path = path_of(client, "w.t")
    engine.run("DROP TABLE w.t")
    assert not path.exists()
    with pytest.raises(NoSuchObjectError):
        engine.run("DROP TABLE w.t")
    engine.run("DROP TABLE IF EXISTS w.t")


def test_table_of_the_same_name_starts_anew(engine, client, fake):
    engine.run("INSERT INTO w.t VALUES (1, 'x'); DROP TABLE w.t; CREATE TABLE w.t (a INT, b STRING) STORED AS ORC")
    assert engine.run("INSERT INTO w.t VALUES (1, 'x')")[0].write_ids == {"w.t": 1}


def test_table_in_use_is_not_dropped(engine, client):
    """
    t1  A reads t
    t2           B wants to drop t, waits, gives up
    t3  A reads on
    """
    patience = {"hive.lock.numretries": "2", "hive.lock.sleep.between.retries": "10ms"}
    client.settings = client.settings.with_overrides(Source.REQUEST, patience)
    with client.snapshot(["w.t"]), pytest.raises(LockTimeoutError, match=r"w\.t"):
        engine.run("DROP TABLE w.t")
    assert path_of(client, "w.t").is_dir()


def test_database_is_dropped_only_when_empty_or_with_cascade(engine, client):
    path = path_of(client, "w.t").parent
    with pytest.raises(InvalidArgumentsError, match="not empty"):
        engine.run("DROP DATABASE w")
    engine.run("DROP DATABASE w CASCADE; DROP DATABASE IF EXISTS w")
    assert not path.exists()
    engine.run("CREATE DATABASE w; DROP DATABASE w")


def test_unknown_database_is_named(engine):
    with pytest.raises(NoSuchObjectError, match="nowhere"):
        engine.run("CREATE TABLE nowhere.t (a INT) STORED AS ORC")


def test_compaction_is_requested(engine, client):
    engine.run("INSERT INTO w.p PARTITION (k='1') VALUES (1)")
    engine.run("ALTER TABLE w.t COMPACT 'major'; ALTER TABLE w.p PARTITION (k='1') COMPACT 'minor'")
    shown = engine.run("SHOW COMPACTIONS")[0].rows.to_dicts()
    assert {(r["tabname"], r["partname"], r["type"], r["state"]) for r in shown} == {
        ("t", None, "MAJOR", "initiated"), ("p", "k=1", "MINOR", "initiated"),
    }  # fmt: skip
    (again,) = engine.run("ALTER TABLE w.t COMPACT 'major'")[0].rows.to_dicts()
    assert not again["accepted"]
    assert "already scheduled" in again["reason"]


def test_compaction_of_a_partitioned_table_without_a_partition_asks_only_where_it_is_needed(engine, client):
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a'); ALTER TABLE w.p COMPACT 'major'")
    assert client.compactions.show() == []
    engine.run("ALTER TABLE w.p PARTITION (k='a') COMPACT 'major'")
    assert [request.resource.partition for request in client.compactions.show()] == ["k=a"]


@pytest.mark.rule("R4")
def test_a_publisher_that_outlived_its_txn_writes_nothing_into_the_next_table_of_that_place(client, engine, fake):
    """
    t1  A inserts into t; its Spark job has finished, A stops before it publishes
    t2  A's txn is aborted
    t3              B drops t: fences A's job first; then creates t again, in the same place
    t4  A wakes up and wants to publish: refused, nothing appears in the new table
    """
    woken = []

    def dropped_meanwhile(spec):
        fake.meanwhile = None
        result = fake.work(spec)
        client.abort_txn(client.jobs.get(spec.job_id).txn_id, "its worker was lost")
        engine.run("DROP TABLE w.t; CREATE TABLE w.t (a INT, b STRING) STORED AS ORC "
                   "TBLPROPERTIES ('transactional'='true')")  # fmt: skip
        woken.append(spec)
        fake.work(spec)  # the orphaned driver writes its staging anew
        return result

    fake.meanwhile = dropped_meanwhile
    with pytest.raises(HiveAcidError):
        engine.run("INSERT INTO w.t VALUES (1, 'a')")
    assert client.jobs.get(woken[0].job_id).state is JobState.FENCED
    with pytest.raises(PublishError, match="publishes nothing: it is fenced"):
        client.jobs.record_manifest(woken[0].job_id, {"directories": []})
    visible = [f.name for f in path_of(client, "w.t").iterdir() if not f.name.startswith("_tmp_")]
    assert visible == []


@pytest.mark.rule("R4")
def test_a_table_is_not_dropped_while_a_job_that_cannot_be_fenced_may_write(client, engine, warehouse):
    """Where a file stops nobody and an object is copied in parts, it stays until somebody says that the job is dead."""
    txn = client.begin({"w.t": "insert"})
    client.jobs.start(
        job_id="j", txn_id=txn.txn_id, table="w.t", write_id=1, statement=0, kind="insert",
        table_location="memory://bucket/t", staging="memory://bucket/t/_tmp_j", application_id="application_7",
    )  # fmt: skip
    client.jobs.record_manifest("j", {"directories": [{"files": [["bucket_00000", 6 * 1024**3]]}]})
    txn.abort("a test")
    for statement in ("DROP TABLE w.t", "DROP DATABASE w CASCADE"):
        with pytest.raises(JobsAliveError, match=r"job j of txn \d+ may still write into w.t: .*application_7"):
            engine.run(statement)
    assert client.catalog.list_tables("w") == ["p", "t"]
    assert client.show_locks() == []
    with pytest.raises(JobsAliveError, match=r"1 jobs may still write into w\.t, the first is j of txn"):
        client.catalog.drop_table("w.t")
    client.jobs.mark_fenced("j", "its application is dead")
    engine.run("DROP TABLE w.t")
    assert client.catalog.list_tables("w") == ["p"]


def test_ddl_has_hives_locks(client, engine, monkeypatch):
    asked = []
    lock = client.lock

    def note(components, **rest):
        asked.extend((c.describe(), c.type) for c in components)
        return lock(components, **rest)

    monkeypatch.setattr(client, "lock", note)
    engine.run("CREATE TABLE w.x (a INT)")
    assert asked == [("w", LockType.SHARED_READ)]
    asked.clear()
    engine.run("DROP TABLE w.x")
    assert asked == [("w", LockType.SHARED_READ), ("w.x", LockType.EXCLUSIVE)]
    asked.clear()
    engine.run("DROP DATABASE w CASCADE")
    assert asked == [("w", LockType.EXCLUSIVE)]
    assert client.show_locks() == []


def test_a_plain_table_becomes_transactional_and_its_files_get_names_of_buckets(engine, client, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name in ("000000_0", "000000_0_copy_1", "part-00000-1f-c000.zstd.orc", "_SUCCESS"):
        (data / name).write_text(name)
    engine.run(f"CREATE EXTERNAL TABLE w.n (a INT) STORED AS ORC LOCATION 'file:{data}'")
    engine.run("ALTER TABLE w.n SET TBLPROPERTIES ('EXTERNAL'='FALSE', 'transactional'='true')")
    table = client.catalog.get_table("w.n")
    assert table.is_transactional
    assert table.location == f"file:{data}"
    names = {path.read_text(): path.name for path in data.iterdir()}
    assert names.pop("part-00000-1f-c000.zstd.orc").startswith("000001_")
    assert names == {name: name for name in names}
    assert client.show_locks() == []


def test_files_of_a_bucketed_table_cannot_be_named_anew(engine, client, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "part-00000-1f-c000.zstd.orc").write_text("x")
    engine.run(
        f"CREATE EXTERNAL TABLE w.n (a INT) CLUSTERED BY (a) INTO 4 BUCKETS STORED AS ORC LOCATION 'file:{data}'"
    )
    with pytest.raises(InvalidArgumentsError, match="does not say which bucket it is"):
        engine.run("ALTER TABLE w.n SET TBLPROPERTIES ('EXTERNAL'='FALSE', 'transactional'='true')")
    assert not client.catalog.get_table("w.n").is_transactional
    assert [path.name for path in data.iterdir()] == ["part-00000-1f-c000.zstd.orc"]


def test_a_rebalance_is_queued_with_its_order_and_buckets(engine, client):
    engine.run("CREATE TABLE w.n (a INT) STORED AS ORC; CREATE TABLE w.b (a INT) CLUSTERED BY (a) INTO 2 BUCKETS")
    engine.run("ALTER TABLE w.n COMPACT 'rebalance' CLUSTERED INTO 7 BUCKETS ORDER BY a DESC")
    (asked,) = client.compactions.show()
    assert (asked.type.name, asked.number_of_buckets, asked.order_by) == ("REBALANCE", 7, "ORDER BY a DESC")
    with pytest.raises(InvalidArgumentsError, match=r"w\.b cannot be rebalanced"):
        engine.run("ALTER TABLE w.b COMPACT 'rebalance'")


def test_the_doctor_finds_nothing_beside_records_of_ddl_and_of_plain_writes(engine, client, warehouse):
    engine.run(
        "CREATE TABLE w.x (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false'); INSERT INTO w.x VALUES (1)"
    )
    engine.run("CREATE TABLE w.y (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    assert {job.kind for name in ("w.x", "w.y") for job in jobs_of(client, name)} == {"ddl", "insert"}
    assert list(examine_tables(client, open_filesystem(warehouse), ["w.x", "w.y"])) == []


def test_a_dropped_partition_stops_neither_the_doctor_nor_the_log_of_commits(engine, client, fake, warehouse):
    """Its manifest names a directory and no files. What was published there before is not missed, made anew or not."""
    log = CommitLog(client.database, client.notifications)
    after = log.latest()
    fake.partitions = [("a",), ("b",)]
    engine.run("INSERT INTO w.p SELECT 1, 'a'; ALTER TABLE w.p DROP PARTITION (k='a')")
    assert [job.kind for job in jobs_of(client, "w.p")] == ["ddl", "insert", "drop"]
    assert [(c.operations, c.partitions) for c in log.read(after).commits][:1] == [(("insert",), ("k=b",))]
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a')")
    assert list(published_of(client, "w.p")) == [client.catalog.get_partition("w.p", "k=b").location]


@pytest.mark.rule("R17")
def test_a_rename_whose_disk_goes_between_two_looks_is_refused(engine, client, warehouse, monkeypatch):
    """The first look finds the disk, the second one finds no directory; which of them was right?"""
    engine.run("INSERT INTO w.t VALUES (1, 'a')")
    location = client.catalog.get_table("w.t").location
    home, away = Path(warehouse.removeprefix("file:")), Path(warehouse.removeprefix("file:") + ".unmounted")
    exists = AnyFilesystem.exists

    def unmounted(self, uri):
        if uri == location and not away.exists():
            home.rename(away)
        return exists(self, uri)

    monkeypatch.setattr(AnyFilesystem, "exists", unmounted)
    with pytest.raises(WarehouseMissingError):
        engine.run("ALTER TABLE w.t RENAME TO w.r")
    away.rename(home)
    assert client.catalog.get_table("w.t").location == location
    assert [p.name for p in Path(location.removeprefix("file:")).iterdir() if p.name.startswith("delta_")]
