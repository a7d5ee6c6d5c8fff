"""``schema upgrade``: our own tables in a metastore that is there, version by version."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import SchemaVersionError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.schema.types import METADATA
from airflow_hive_acid.metastore.setup import schema
from airflow_hive_acid.metastore.setup.upgrade import STEPS

if TYPE_CHECKING:
    from collections.abc import Callable

TABLES = "tables HIVE_ACID_VERSION and HIVE_ACID_JOB"
INDEX = "index HIVE_ACID_LOCK_OBJECT on HIVE_LOCKS"
LATER = ("index HIVE_ACID_WRITE_SET on WRITE_SET", "table HIVE_ACID_LEGACY_LOCK", *(step.does for step in STEPS[4:]))
NEW = tuple(
    table.name
    for table in (
        schema.HIVE_ACID_LEGACY_LOCK,
        *schema.VERSION_5,
        *schema.VERSION_6,
        *schema.VERSION_7,
        *schema.VERSION_8,
        *schema.VERSION_9,
        *schema.VERSION_10,
    )
)


def take_to(client: MetastoreClient, version: int | None) -> None:
    """Make of a new metastore what an earlier version of ours, or Hive's schema tool alone, left."""
    with client.database.transaction() as connection:
        schema.HIVE_ACID_LOCK_OBJECT.drop(connection)
        schema.HIVE_ACID_WRITE_SET.drop(connection)
        if connection.dialect.name == "postgresql":
            schema.HIVE_ACID_PARTITION_NAME.drop(connection)
        METADATA.drop_all(connection, [METADATA.tables[name] for name in NEW])
        if version is None:
            for table in (schema.HIVE_ACID_VERSION, schema.HIVE_ACID_JOB):
                table.drop(connection)
        else:
            connection.execute(sa.update(schema.HIVE_ACID_VERSION).values(HAV_VERSION=version))
    client.database.forget_features()


def indexes(client: MetastoreClient, table: str) -> set[str | None]:
    with client.database.reading() as connection:
        return {index["name"] for index in sa.inspect(connection).get_indexes(table)}


def start_job(client: MetastoreClient, txn_id: int) -> None:
    client.jobs.start(job_id="j", txn_id=txn_id, table="db.t", write_id=None, statement=0, kind="insert",
                      table_location="file:/w", staging=None)  # fmt: skip


def test_versions_count_up_from_one() -> None:
    assert [step.version for step in STEPS] == list(range(1, schema.EXTENSION_VERSION + 1))


@pytest.mark.hive4("of Hive 4's tables and versions")
def test_a_metastore_of_hives_gets_our_tables_and_keeps_its_own(client: MetastoreClient, rows: Any) -> None:
    take_to(client, None)
    with client.transaction({"db.t": "update"}):
        pass
    hives = [name for name in METADATA.tables if not name.startswith(("HIVE_ACID", "HIVE_LEASE"))]
    counts, version = {name: rows.count(name) for name in hives}, rows.select("VERSION")
    done = client.upgrade_schema()
    assert (done.before, done.after, done.done) == (None, schema.EXTENSION_VERSION, (TABLES, INDEX, *LATER))
    assert {name: rows.count(name) for name in hives} == counts
    assert rows.select("VERSION") == version
    assert "HIVE_ACID_LOCK_OBJECT" in indexes(client, "HIVE_LOCKS")
    txn = client.begin({"db.t": "insert"})
    start_job(client, txn.txn_id)
    txn.commit()


@pytest.mark.hive4("of Hive 4's tables and versions")
def test_the_version_before_keeps_its_rows(client: MetastoreClient, rows: Any) -> None:
    """An open txn with a job goes on across the upgrade."""
    txn = client.begin({"db.t": "insert"})
    start_job(client, txn.txn_id)
    take_to(client, 1)
    assert client.check_schema().extension_version == 1
    assert not client.check_schema().is_current
    there = [name for name in METADATA.tables if name not in NEW]
    counts, version = {name: rows.count(name) for name in there}, rows.select("VERSION")
    done = client.upgrade_schema()
    assert (done.before, done.after, done.done) == (1, schema.EXTENSION_VERSION, (INDEX, *LATER))
    assert ({name: rows.count(name) for name in there}, rows.select("VERSION")) == (counts, version)
    assert rows.select("HIVE_ACID_VERSION") == [(1, schema.EXTENSION_VERSION)]
    assert client.check_schema().is_current
    assert client.jobs.get("j").txn_id == txn.txn_id
    txn.commit()


def test_an_upgrade_by_somebody_else_is_noticed_while_tables_are_missing(
    client: MetastoreClient, other_client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_to(client, 1)

    def has_pins() -> bool:
        return client.database.read(client.database.features).pins

    assert not has_pins()
    other_client.upgrade_schema()
    now = time.monotonic()
    monkeypatch.setattr("airflow_hive_acid.metastore.database.database.time.monotonic", lambda: now + 3600)
    assert has_pins()


def test_upgrading_again_changes_nothing(client: MetastoreClient, rows: Any) -> None:
    counts = rows.counts()
    for _ in range(2):
        assert client.upgrade_schema() == schema.SchemaUpgrade(schema.EXTENSION_VERSION, schema.EXTENSION_VERSION, ())
    assert rows.counts() == counts


def test_an_older_version_gets_the_tables_of_mirrors_and_reads_and_keeps_what_is_there(
    client: MetastoreClient, rows: Any
) -> None:
    with client.database.transaction() as connection:
        METADATA.drop_all(connection, [*schema.VERSION_9, *schema.VERSION_10])
        connection.execute(sa.update(schema.HIVE_ACID_VERSION).values(HAV_VERSION=8))
    client.database.forget_features()
    assert client.mirrors.list() == []
    with pytest.raises(SchemaVersionError, match="no table for mirrors yet: run 'hive-acid schema upgrade'"):
        client.mirrors.register("w.t", "delta:/m", "me")
    there = [name for name in METADATA.tables if name not in ("HIVE_ACID_MIRROR", "HIVE_ACID_READ")]
    counts = {name: rows.count(name) for name in there}
    done = client.upgrade_schema()
    assert (done.before, done.after) == (8, schema.EXTENSION_VERSION)
    assert done.done[:2] == ("table HIVE_ACID_MIRROR", "table HIVE_ACID_READ")
    assert {name: rows.count(name) for name in there} == counts
    client.database.forget_features()
    assert client.mirrors.register("w.t", "delta:/m", "me").sequence == 0


def interrupted_before_the_version(client: MetastoreClient) -> None:
    take_to(client, 1)
    with client.database.transaction() as connection:
        connection.execute(sa.delete(schema.HIVE_ACID_VERSION))


def interrupted_after_the_first_table(client: MetastoreClient) -> None:
    take_to(client, None)
    with client.database.transaction() as connection:
        schema.HIVE_ACID_VERSION.create(connection)


def interrupted_before_the_last_version(client: MetastoreClient) -> None:
    with client.database.transaction() as connection:
        connection.execute(sa.update(schema.HIVE_ACID_VERSION).values(HAV_VERSION=1))


@pytest.mark.hive4("of Hive 4's tables and versions")
@pytest.mark.parametrize(
    "interrupt",
    [interrupted_before_the_version, interrupted_after_the_first_table, interrupted_before_the_last_version],
)
def test_an_interrupted_upgrade_is_finished_by_the_next(
    client: MetastoreClient, rows: Any, interrupt: Callable[[MetastoreClient], None]
) -> None:
    """MySQL commits each CREATE by itself."""
    interrupt(client)
    client.database.forget_features()
    assert client.upgrade_schema().after == schema.EXTENSION_VERSION
    assert rows.select("HIVE_ACID_VERSION") == [(1, schema.EXTENSION_VERSION)]
    assert "HIVE_ACID_LOCK_OBJECT" in indexes(client, "HIVE_LOCKS")
    assert "HIVE_ACID_WRITE_SET" in indexes(client, "WRITE_SET")
    on_postgresql = client.database.backend.name == "postgresql"
    assert ("HIVE_ACID_PARTITION_NAME" in indexes(client, "PARTITIONS")) is on_postgresql
    start_job(client, client.open_txn())


def test_tables_of_a_newer_release_are_left_to_it(client: MetastoreClient, rows: Any) -> None:
    rows.update("HIVE_ACID_VERSION", {"HAV_VERSION": 99})
    counts = rows.counts()
    for verb in (client.check_schema, client.create_schema, client.upgrade_schema):
        with pytest.raises(SchemaVersionError, match=r"are version 99.*up to 11: install the newer release"):
            verb()
    assert rows.counts() == counts


def test_somebody_elses_table_of_our_name_is_refused(client: MetastoreClient, rows: Any) -> None:
    take_to(client, None)
    with client.database.transaction() as connection:
        sa.Table("HIVE_ACID_JOB", sa.MetaData(), sa.Column("HAJ_JOB_ID", sa.String(64))).create(connection)
    with pytest.raises(SchemaVersionError, match=r"table HIVE_ACID_JOB lacks HAJ_APPLICATION_ID.*run 'hive-acid"):
        client.upgrade_schema()


@pytest.mark.hive4("of Hive 4's tables and versions")
@pytest.mark.parametrize("version", ["3.1.3", "4.3.0", "4.0.0-beta-1"])
def test_other_hives_are_refused_by_name_and_left_alone(client: MetastoreClient, rows: Any, version: str) -> None:
    take_to(client, None)
    rows.update("VERSION", {"SCHEMA_VERSION": version})
    with pytest.raises(SchemaVersionError, match=f"schema version is {version}; served are 3.1, 4.0, 4.1 and 4.2"):
        client.upgrade_schema()
    with client.database.reading() as connection:
        assert not {t for t in sa.inspect(connection).get_table_names() if t.startswith(("HIVE_ACID", "HIVE_LEASE"))}
    assert rows.select("VERSION", "SCHEMA_VERSION") == [(version,)]


def test_a_database_that_is_no_metastore_is_refused(database_url: str, backend: str) -> None:
    if backend == "sqlite":
        import sqlite3

        sqlite3.connect(sa.make_url(database_url).database or "").close()
    with MetastoreClient(database_url) as client:
        with pytest.raises(SchemaVersionError, match="no Hive metastore: it is empty"):
            client.upgrade_schema()
        with client.database.reading() as connection:
            assert sa.inspect(connection).get_table_names() == []
