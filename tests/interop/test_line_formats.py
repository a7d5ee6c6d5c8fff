"""CSV, JSON and delimited text: what we write Hive reads, its files and its SHOW CREATE TABLE are read here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

    from .hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]

TABLES = {
    "csv": "(a string, b string) row format serde 'org.apache.hadoop.hive.serde2.OpenCSVSerde' "
    "with serdeproperties ('separatorChar'=';') stored as textfile",
    "json": "(a string, b string) stored as jsonfile",
    "text": "(a string, b string) row format delimited fields terminated by '|' escaped by '\\\\' null defined as '-' "
    "stored as textfile",
}


def both(hive: Hive, engine: Engine, table: str) -> list[list[Any]]:
    select = f"select a, b from {table}"
    theirs = sorted((list(row) for row in hive.run(select)), key=str)
    assert sorted((list(row) for row in engine.query(select).rows), key=str) == theirs
    return theirs


@pytest.mark.parametrize("kind", TABLES)
def test_hive_and_we_read_each_others_lines(
    hive: Hive, engine: Engine, hive_database: str, kind: str, tmp_path: Path
) -> None:
    table = f"{hive_database}.{kind}"
    engine.run(f"CREATE EXTERNAL TABLE {table} {TABLES[kind]} LOCATION '{tmp_path}/{kind}'")
    engine.run(rf"INSERT INTO {table} VALUES ('one', 'a;b|c'), ('back\\slash', 'quo\"te'), ('', NULL)")
    hive.run(rf"insert into {table} select 'by hive', 'x;y|z\"'")
    found = both(hive, engine, table)
    assert ["one", "a;b|c"] in found
    assert ["by hive", 'x;y|z"'] in found
    assert ["back\\slash", 'quo"te'] in found
    shown = "\n".join(str(row[0]) for row in hive.run(f"show create table {table}"))
    engine.run(f"DROP TABLE {table}")
    engine.run(shown)
    assert both(hive, engine, table) == found


def test_hive_shows_the_foreign_keys_of_ours_and_we_show_its(
    hive: Hive, engine: Engine, client: MetastoreClient, hive_database: str
) -> None:
    d = hive_database
    engine.run(
        f"CREATE TABLE {d}.u (x INT, y STRING, PRIMARY KEY (x) DISABLE NOVALIDATE);"
        f"CREATE TABLE {d}.t (a INT, CONSTRAINT ours FOREIGN KEY (a) REFERENCES {d}.u (x) DISABLE NOVALIDATE RELY)"
    )
    described = "\n".join(str(row) for row in hive.run(f"describe formatted {d}.t"))
    assert "ours" in described
    assert f"Parent Column Name:{d}.u.x" in described
    hive.run(
        f"create table {d}.h (a int, constraint theirs foreign key (a) references {d}.u (x) disable novalidate) "
        "stored as orc tblproperties ('transactional'='true')"
    )
    [key] = client.catalog.constraints(f"{d}.h")
    assert (key.name, key.columns, key.parent, key.parent_columns) == ("theirs", ("a",), f"{d}.u", ("x",))
