"""One schema: what we create is what Hive's own scripts create, and a real Hive works on it."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore.database.database import Database
from airflow_hive_acid.metastore.setup.schema import (
    EXTENSION_TABLES,
    EXTENSION_VERSION,
    check_schema,
    create_schema,
    upgrade_schema,
)
from tests.interop.hive import Hive
from tests.interop.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.interop

COLUMNS = sa.text("""
    select table_name, column_name, data_type, character_maximum_length, is_nullable, column_default
    from information_schema.columns where table_schema = 'public'""")
UNIQUE = sa.text("""
    select tablename, indexdef from pg_indexes where schemaname = 'public' and indexdef like 'CREATE UNIQUE%'""")
OURS = {table.name for table in EXTENSION_TABLES}

# Required by Hive's MySQL script and not by its PostgreSQL one; ours requires them everywhere.
NOT_NULL = {(table, name) for table in ("TAB_COL_STATS", "PART_COL_STATS") for name in ("COLUMN_NAME", "COLUMN_TYPE")}

# Where a view's source is unique is up to Hive alone: nothing of ours writes there.
NOT_WRITTEN_BY_US = ("MV_TABLES_USED",)


@pytest.fixture(scope="module")
def our_url(hive_postgres: oracle.Postgres) -> str:
    """URL of a metastore made by our schema command."""
    url = hive_postgres.create_database("made_by_us")
    database = Database(url)
    create_schema(database)
    database.close()
    return url


@pytest.fixture(scope="module")
def hive_url(hive_postgres: oracle.Postgres, hive_schema: str) -> str:
    """URL of a metastore made by Hive's scripts."""
    return hive_postgres.url(hive_schema)


def read(url: str, statement: sa.TextClause) -> list[tuple[Any, ...]]:
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(statement)]


def columns(url: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Type, length, nullability and default by table and column; defaults without PostgreSQL's casts."""
    found = {}
    for table, column, kind, length, nullable, default in read(url, COLUMNS):
        value = re.sub(r"::[a-z ]+(?=$|\))", "", default or "NULL").strip("'")
        found[table, column] = (kind, length, nullable, value)
    return found


def test_columns_are_hives_name_by_name_and_type_by_type(our_url: str, hive_url: str) -> None:
    hives = columns(hive_url)
    ours = {key: value for key, value in columns(our_url).items() if key[0] not in OURS}
    assert ours.keys() == hives.keys()
    assert {key: (ours[key], hives[key]) for key in hives.keys() - NOT_NULL if ours[key] != hives[key]} == {}
    for key in NOT_NULL:
        assert (ours[key][:2], ours[key][2], hives[key][2]) == (hives[key][:2], "NO", "YES")


def test_what_must_be_unique_is_the_same(our_url: str, hive_url: str) -> None:
    def unique(url: str) -> set[tuple[str, str]]:
        return {
            (table, ",".join(sorted(re.findall(r'"(\w+)"', definition.split(" USING ")[1]))))
            for table, definition in read(url, UNIQUE)
            if table not in OURS and table not in NOT_WRITTEN_BY_US
        }

    assert unique(our_url) == unique(hive_url)


def test_first_rows_are_the_same(our_url: str, hive_url: str) -> None:
    def rows(url: str) -> dict[str, list[tuple[Any, ...]]]:
        names = {table for table, _ in columns(url) if table not in OURS}
        return {name: read(url, sa.text(f'select * from "{name}" order by 1')) for name in sorted(names)}

    assert rows(our_url) == rows(hive_url)


def test_a_schema_of_hives_own_scripts_is_accepted_and_extended(
    hive_postgres: oracle.Postgres, hive_schema: str
) -> None:
    database = Database(hive_postgres.create_database("extended", template=hive_schema))
    assert check_schema(database).version == "4.1.0"
    assert check_schema(database).extension_version is None
    create_schema(database)
    assert check_schema(database).extension_version == EXTENSION_VERSION
    database.close()


def test_a_hive_metastore_is_upgraded_while_hive_runs_and_both_go_on(hive: Hive, client: MetastoreClient) -> None:
    """Our own tables come, Hive's rows stay, and Hive's own tool finds nothing wrong with them."""
    hive.run("create database before")
    hive.run("create table before.t (id int) stored as orc tblproperties ('transactional'='true')")
    hive.run("insert into before.t values (1)")
    version = read(hive.metastore_url, sa.text('select * from "VERSION"'))
    assert client.check_schema().extension_version is None
    assert len(client.upgrade_schema().done) == EXTENSION_VERSION
    assert client.upgrade_schema().done == ()
    assert read(hive.metastore_url, sa.text('select * from "VERSION"')) == version
    with client.transaction({"before.t": "insert"}) as txn:
        assert txn.write_ids["before.t"] == 2
    client.catalog.alter_properties("before.t", {"a": "b"})
    hive.run("insert into before.t values (2)")
    assert sorted(hive.run("select * from before.t")) == [(1,), (2,)]


@pytest.mark.parametrize("made_by", ["hive", "us"])
def test_hives_schema_tool_finds_nothing_wrong_with_our_tables_and_index(
    hive_postgres: oracle.Postgres, hive_schema: str, our_url: str, made_by: str, tmp_path: Path
) -> None:
    """``schematool -validate``: version, tables, columns, locations and sequences."""
    url = our_url
    if made_by == "hive":
        url = hive_postgres.create_database("validated", template=hive_schema)
        database = Database(url)
        assert upgrade_schema(database).done
        database.close()
    done = schema_tool(url, tmp_path, "-validate")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Done with metastore validation: [SUCCESS]" in done.stdout
    assert "FAIL" not in done.stdout


def schema_tool(url: str, home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run Hive's own schema tool, with its scripts as a Hive 4.1 has them."""
    scripts = home / "scripts" / "metastore" / "upgrade" / "postgres"
    scripts.mkdir(parents=True)
    parts = (
        oracle.OUTPUT / "schema" / "hive-schema-4.0.0.postgres.sql",
        oracle.RECIPE / "sql" / "schema-4.0-to-4.1.sql",
    )
    (scripts / "hive-schema-4.1.0.postgres.sql").write_text("\n".join(part.read_text() for part in parts))
    (scripts / "upgrade.order.postgres").write_text("4.0.0-to-4.1.0\n")
    command = oracle.hive_command(oracle.jdbc_url(url), home, home)
    start = command[: command.index("oracle.HiveProcess")]
    start = [part for part in start if not part.startswith("-XX:SharedArchive") and "ArchiveClassesAtExit" not in part]
    tool = "org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool"
    where = ["-url", oracle.jdbc_url(url), "-driver", "org.postgresql.Driver", "-userName", "postgres"]
    return subprocess.run(
        [*start, tool, "-dbType", "postgres", *options, *where, "-passWord", "none"],
        env={**os.environ, "METASTORE_HOME": str(home)}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def hive_on_our_schema(our_url: str, tmp_path: Path) -> Iterator[Hive]:
    hive = Hive(our_url, tmp_path / "warehouse").start()
    yield hive
    hive.close()


def test_hive_works_on_a_metastore_that_we_created(hive_on_our_schema: Hive) -> None:
    """Databases, tables, partitions, DML, compaction, housekeeping, and all of it dropped again."""
    hive = hive_on_our_schema
    hive.script("""
        create database shop;
        create table shop.orders (id int, item string) partitioned by (day string) clustered by (id) into 2 buckets
          stored as orc tblproperties ('transactional'='true');
        insert into shop.orders values (1, 'tea', 'mon'), (2, 'jam', 'tue'), (3, 'rye', 'tue');
        update shop.orders set item = 'oat' where id = 3;
        delete from shop.orders where id = 2;
        alter table shop.orders add columns (price decimal(10, 2));
        alter table shop.orders add partition (day = 'wed');
        alter table shop.orders drop partition (day = 'wed');
        analyze table shop.orders partition (day) compute statistics for columns;
        alter table shop.orders partition (day = 'tue') compact 'major';
    """)
    hive.worker()
    hive.clean("shop.orders")
    hive.housekeeping()
    assert sorted(hive.run("select id, item, price, day from shop.orders")) == [
        (1, "tea", None, "mon"),
        (3, "oat", None, "tue"),
    ]
    assert hive.compactions("succeeded") == ["shop.orders/day=tue"]
    hive.run("drop database shop cascade")
    assert hive.run("show databases") == [("default",)]
