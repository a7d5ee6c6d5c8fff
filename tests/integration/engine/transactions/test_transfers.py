"""EXPORT, IMPORT and the drops FOR REPLICATION as SQL: each says what it did in its row."""

import pytest

from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import (
    AlreadyExistsError,
    CorruptDumpError,
    NoSuchObjectError,
    UnsupportedStatementError,
)
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.metastore.records.claim_rules import Rerun
from airflow_hive_acid.metastore.records.claims import Claims

pytestmark = pytest.mark.backends("sqlite")
PLAIN = "TBLPROPERTIES ('transactional'='false')"


def only_row(engine, sql):
    return engine.run(sql)[-1].rows.to_dicts()[0]


@pytest.fixture
def table(engine):
    engine.run(
        f"CREATE TABLE w.files (a int, b string) PARTITIONED BY (ds string) STORED AS TEXTFILE {PLAIN}; "
        "ALTER TABLE w.files ADD PARTITION (ds='1') PARTITION (ds='2'); CREATE DATABASE copy"
    )
    return "w.files"


def test_a_table_goes_to_another_database(engine, client, table, tmp_path):
    place = client.catalog.get_partition(table, "ds=1").location
    AnyFilesystem().write_text(f"{place}/000000_0", "1\x01one\n")
    dump = f"{tmp_path}/dump"
    exported = only_row(engine, f"EXPORT TABLE w.files PARTITION (ds='1') TO '{dump}' FOR REPLICATION('5')")
    assert (exported["table"], exported["partitions"], exported["files"], exported["bytes"]) == ("w.files", 1, 1, 6)
    imported = only_row(engine, f"IMPORT TABLE copy.files FROM '{dump}'")
    assert (imported["action"], imported["partitions"], imported["files"]) == ("created", 1, 1)
    assert imported["state_id"] == exported["state_id"]
    again = only_row(engine, f"IMPORT TABLE copy.files FROM '{dump}'")
    assert again["action"] == "unchanged"
    assert "not older" in again["reason"]
    state = exported["state_id"]
    kept = only_row(engine, f"ALTER TABLE copy.files DROP PARTITION (ds='1') FOR REPLICATION('{state}')")
    assert (kept["name"], kept["dropped"]) == ("ds=1", False)
    gone = only_row(engine, f"ALTER TABLE copy.files DROP PARTITION (ds='1') FOR REPLICATION('{state + 1}')")
    assert (gone["name"], gone["dropped"]) == ("ds=1", True)
    assert only_row(engine, f"DROP TABLE copy.files FOR REPLICATION('{state + 1}')")["dropped"]
    assert client.catalog.list_tables("copy") == []
    with pytest.raises(NoSuchObjectError, match="IF EXISTS"):
        engine.run(f"DROP TABLE copy.files FOR REPLICATION('{state + 1}')")
    assert not only_row(engine, f"DROP TABLE IF EXISTS copy.files FOR REPLICATION('{state + 1}')")["dropped"]


def test_metadata_alone_is_a_dump_without_files(engine, client, table, tmp_path):
    engine.run(
        f"EXPORT TABLE w.files TO '{tmp_path}/all' FOR REPLICATION('1'); IMPORT TABLE copy.files FROM '{tmp_path}/all'"
    )
    engine.run("ALTER TABLE w.files SET TBLPROPERTIES ('about'='birds')")
    exported = only_row(engine, f"EXPORT TABLE w.files TO '{tmp_path}/meta' FOR METADATA REPLICATION('2')")
    assert (exported["partitions"], exported["files"]) == (0, 0)
    assert only_row(engine, f"IMPORT TABLE copy.files FROM '{tmp_path}/meta'")["action"] == "replaced"
    assert client.catalog.get_table("copy.files").property("about") == "birds"
    assert [p.name for p in client.catalog.list_partitions("copy.files")] == ["ds=1", "ds=2"]


@pytest.mark.rule("R14")
def test_a_try_whose_process_died_behind_the_commit_has_told_the_next_one_what_it_did(
    engine, client, table, tmp_path, monkeypatch
):
    """What is done and that it is done are one commit: nothing that comes behind it is needed."""

    def dies(*_):
        raise AssertionError("the process is dead")

    monkeypatch.setattr(Claims, "done", dies)
    statements = [
        f"IMPORT TABLE copy.files FROM '{tmp_path}/all'",
        f"IMPORT TABLE copy.files FROM '{tmp_path}/meta'",
        "ALTER TABLE copy.files DROP PARTITION (ds='1') FOR REPLICATION('9999')",
        "DROP TABLE copy.files FOR REPLICATION('9999')",
    ]
    engine.run(f"EXPORT TABLE w.files TO '{tmp_path}/all' FOR REPLICATION('1')")
    engine.run("ALTER TABLE w.files SET TBLPROPERTIES ('about'='birds')")
    engine.run(f"EXPORT TABLE w.files TO '{tmp_path}/meta' FOR METADATA REPLICATION('2')")
    for unit, sql in enumerate(statements):
        once = Once(("a task", str(unit)), "1")
        first = engine.run(sql, once=once)[-1].rows.to_dicts()
        assert engine.run(sql, once=once)[-1].rows.to_dicts() == first
        assert first[0].get("action", "dropped") in ("created", "replaced", "dropped")
    assert client.catalog.list_tables("copy") == []


@pytest.mark.rule("R14")
def test_a_dump_that_another_task_has_completed_is_not_this_ones(engine, client, table, tmp_path):
    sql = f"EXPORT TABLE w.files TO '{tmp_path}/dump'"
    engine.run(sql, once=Once(("a task",), "1"))
    client.claims.acknowledge(("a task",))
    for other in (Once(("another",), "1"), Once(("a task",), "2", Rerun.APPLY), None):
        with pytest.raises(AlreadyExistsError, match="holds a dump already"):
            engine.run(sql, once=other)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("_")] == []


def test_what_cannot_be_says_so(engine, table, tmp_path):
    with pytest.raises(CorruptDumpError, match="no dump"):
        engine.run(f"IMPORT TABLE copy.files FROM '{tmp_path}/nothing'")
    with pytest.raises(NoSuchObjectError):
        engine.run(f"EXPORT TABLE w.none TO '{tmp_path}/d'")
    with pytest.raises(UnsupportedStatementError, match="cannot run inside a transaction"):
        engine.run(f"BEGIN; EXPORT TABLE w.files TO '{tmp_path}/d'; COMMIT")
