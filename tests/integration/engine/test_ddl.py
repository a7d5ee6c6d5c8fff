"""Databases and tables through the engine: rows in the catalog, directories in the warehouse."""

from pathlib import Path

import pytest

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, LockTimeoutError, NoSuchObjectError
from airflow_hive_acid.settings import Source


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
    assert {(r["table"], r["partition"], r["type"], r["state"]) for r in shown} == {
        ("t", None, "major", "initiated"), ("p", "k=1", "minor", "initiated"),
    }  # fmt: skip
    with pytest.raises(InvalidArgumentsError, match="already scheduled"):
        engine.run("ALTER TABLE w.t COMPACT 'major'")


def test_compaction_of_a_partitioned_table_names_a_partition(engine):
    with pytest.raises(InvalidArgumentsError, match="say which partition"):
        engine.run("ALTER TABLE w.p COMPACT 'major'")
