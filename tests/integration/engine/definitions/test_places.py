"""Where files may go: locations that are links or lie elsewhere, partition values that look like paths, too many
statements."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select, update

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.buckets import MAX_STATEMENT
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITIONS, SDS, TBLS

VALUES = {
    "../x": "k=..%2Fx",
    "a/b": "k=a%2Fb",
    "%2F": "k=%252F",
    "..": "k=..",
    "": "k=__HIVE_DEFAULT_PARTITION__",
    "ümläut漢": "k=ümläut漢",
    "a=b:c": "k=a%3Db%3Ac",
}


@pytest.mark.parametrize(
    ("value", "name"), VALUES.items(), ids=["up", "slash", "quoted", "dots", "empty", "wide", "sign"]
)
def test_partition_values_are_escaped_as_hive_does_and_stay_inside_the_table(engine, client, value, name):
    for verb in ("INTO", "OVERWRITE"):
        engine.run(f"INSERT {verb} w.p PARTITION (k='{value}') VALUES (1)")  # noqa: S608 - the value is the test
    root = Path(client.catalog.get_table("w.p").location.removeprefix("file:"))
    assert [p.name for p in client.catalog.list_partitions("w.p")] == [name]
    made = {p.parent.parent for p in root.parent.rglob("bucket_00000")}
    assert made == {root / name}
    assert [p.name for p in root.iterdir()] == [name]


def test_null_as_a_dynamic_value_is_hives_default_partition(engine, client, fake):
    fake.partitions = [("__HIVE_DEFAULT_PARTITION__",)]
    engine.run("INSERT INTO w.p SELECT a, b FROM w.t")
    assert [p.values for p in client.catalog.list_partitions("w.p")] == [("__HIVE_DEFAULT_PARTITION__",)]


def test_a_table_outside_of_the_warehouse_is_written_there_and_nowhere_else(engine, tmp_path):
    place = tmp_path / "elsewhere" / "t"
    engine.run(f"CREATE TABLE w.o (a INT) STORED AS ORC LOCATION '{place}'")
    engine.run("INSERT INTO w.o VALUES (1); TRUNCATE TABLE w.o")
    assert sorted(p.name for p in place.iterdir()) == [
        "_hive_acid_place", "base_0000002", "delta_0000001_0000001_0000",
    ]  # fmt: skip


def test_a_table_at_a_symbolic_link_is_written_through_it_and_the_link_stays(engine, tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.mkdir()
    link.symlink_to(target)
    (tmp_path / "neighbour").write_text("not ours")
    engine.run(f"CREATE EXTERNAL TABLE w.e (a INT) STORED AS PARQUET LOCATION '{link}'")
    engine.run("INSERT INTO w.e VALUES (1); INSERT OVERWRITE w.e VALUES (2)")
    assert link.is_symlink()
    assert len([p for p in target.iterdir() if not p.name.startswith("_")]) == 1
    assert (tmp_path / "neighbour").read_text() == "not ours"


def test_more_statements_than_the_format_can_number_are_refused(engine, client, monkeypatch):
    with engine.begin({"w.t": "insert"}) as transaction:
        inner = transaction._transaction._txn
        monkeypatch.setattr(
            inner, "_statements", dict.fromkeys([use.table for use in inner._begun.uses], MAX_STATEMENT)
        )
        transaction.execute("INSERT INTO w.t VALUES (1, 'x')")
        with pytest.raises(
            InvalidArgumentsError, match=r"has run 4096 statements on w\.t, and the format numbers 4096"
        ):
            transaction.execute("INSERT INTO w.t VALUES (1, 'x')")


def test_a_table_that_is_refused_its_place_leaves_no_directory_there(engine, client):
    place = Path(client.catalog.get_table("w.t").location.removeprefix("file:"))
    for location in (f"{place}/in/it", f"file://{place}"):
        with pytest.raises(InvalidArgumentsError, match=r"would share files with table w\.t"):
            engine.run(f"CREATE EXTERNAL TABLE w.u (a INT) STORED AS ORC LOCATION '{location}'")
    assert not (place / "in").exists()
    with pytest.raises(InvalidArgumentsError, match=r"would share files with table w\.t"):
        engine.run(f"CREATE DATABASE v LOCATION '{place}/db'")
    assert not (place / "db").exists()


@pytest.mark.parametrize("below", ["", "/in/it"])
def test_a_drop_leaves_files_that_a_hive_has_let_two_tables_share(engine, client, caplog, below):
    """A Hive made w.u at, or in, the directory of w.s; either may be dropped first, and no file goes."""
    engine.run("CREATE TABLE w.s (a INT) STORED AS ORC; INSERT INTO w.s VALUES (1)")
    engine.run("CREATE TABLE w.u (a INT) STORED AS ORC")
    shared = client.catalog.get_table("w.s")
    of_other = select(TBLS.c.SD_ID).where(TBLS.c.TBL_ID == client.catalog.get_table("w.u").id)
    change = update(SDS).where(SDS.c.SD_ID.in_(of_other)).values(LOCATION=f"{shared.location}{below}")
    client.database.run(lambda connection: connection.execute(change))
    place = Path(shared.location.removeprefix("file:"))
    files = sorted(p for p in place.rglob("*") if p.is_file())
    engine.run("DROP TABLE w.u" if below else "DROP TABLE w.s")
    assert sorted(p for p in place.rglob("*") if p.is_file()) == files
    assert "were not removed with the table: they are shared with table w" in caplog.text
    engine.run("DROP TABLE w.s" if below else "DROP TABLE w.u")
    assert not place.exists()


def test_a_dropped_partition_leaves_files_that_a_hive_has_let_another_share(engine, client, caplog):
    engine.run(
        "CREATE TABLE w.s (a INT) PARTITIONED BY (k INT) STORED AS ORC TBLPROPERTIES ('transactional'='false'); "
        "INSERT INTO w.s PARTITION (k=1) VALUES (1); ALTER TABLE w.s ADD PARTITION (k=2)"
    )
    one, two = client.catalog.list_partitions("w.s")
    of_other = select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.PART_ID == two.id)
    change = update(SDS).where(SDS.c.SD_ID.in_(of_other)).values(LOCATION=one.location)
    client.database.run(lambda connection: connection.execute(change))
    place = Path(one.location.removeprefix("file:"))
    files = sorted(p for p in place.rglob("*") if p.is_file())
    engine.run("ALTER TABLE w.s DROP PARTITION (k=1)")
    assert sorted(p for p in place.rglob("*") if p.is_file()) == files != []
    assert "were not removed: they are shared with partition k=2 of w.s" in caplog.text
    engine.run("ALTER TABLE w.s DROP PARTITION (k=2)")
    assert not place.exists()
