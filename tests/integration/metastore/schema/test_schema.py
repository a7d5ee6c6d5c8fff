"""Creating, checking and extending the schema."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import SchemaVersionError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.backend import backend_of
from airflow_hive_acid.metastore.schema.layouts import not_served
from airflow_hive_acid.metastore.setup import schema

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def empty(database_url: str) -> Iterator[MetastoreClient]:
    """A client of an empty database."""
    with MetastoreClient(database_url) as client:
        yield client


@pytest.mark.hive4("of Hive 4's tables and versions")
def test_a_new_schema_has_hives_first_rows(client: MetastoreClient, rows: Any) -> None:
    assert rows.select("VERSION") == [(1, "4.1.0", "Hive release version 4.1.0")]
    assert rows.select("TXNS", "TXN_ID", "TXN_STATE", "TXN_STARTED", "TXN_TYPE") == [(0, "c", 0, None)]
    assert rows.select("TXN_LOCK_TBL") == [(1,)]
    assert rows.select("NEXT_LOCK_ID") == rows.select("NEXT_COMPACTION_QUEUE_ID") == [(1,)]
    assert rows.select("NOTIFICATION_SEQUENCE") == [(1, 1)]
    assert rows.select("CTLGS", "CTLG_ID", "NAME", "LOCATION_URI") == [(1, "hive", "TBD")]
    assert rows.select("SEQUENCE_TABLE") == [
        ("org.apache.hadoop.hive.metastore.model.MNotificationLog", 1),
        ("org.apache.hadoop.hive.metastore.model.MTxnWriteNotificationLog", 1),
    ]


def test_creating_again_changes_nothing(client: MetastoreClient, rows: Any) -> None:
    client.open_txn()
    before = rows.counts()
    client.create_schema()
    assert rows.counts() == before


@pytest.mark.hive4("of Hive 4's tables and versions")
def test_a_checked_schema_tells_its_versions(client: MetastoreClient) -> None:
    state = client.check_schema()
    assert (state.version, state.extension_version) == ("4.1.0", schema.EXTENSION_VERSION)


@pytest.mark.hive4("of Hive 4's tables and versions")
@pytest.mark.parametrize("version", ["4.0.0", "4.0.1", "4.1.0", "4.2.0"])
def test_the_hive_versions_we_serve(client: MetastoreClient, rows: Any, version: str) -> None:
    rows.update("VERSION", {"SCHEMA_VERSION": version})
    assert client.check_schema().version == version


@pytest.mark.hive4("of Hive 4's tables and versions")
@pytest.mark.parametrize("version", ["3.1.0", "4.3.0", "5.0.0", "4.0.0-alpha-1", "four"])
def test_other_hive_versions_are_refused_by_name(client: MetastoreClient, rows: Any, version: str) -> None:
    rows.update("VERSION", {"SCHEMA_VERSION": version})
    for verb in (client.check_schema, client.create_schema, client.upgrade_schema):
        with pytest.raises(SchemaVersionError, match=f"schema version is {version}; served are 3.1, 4.0, 4.1 and 4.2"):
            verb()


@pytest.mark.parametrize(
    ("version", "owner"),
    [
        ("3.1.3", "names a Hive 3.1, but its tables are not those of one"),
        ("3.0.0", "belongs to a Hive 3.0, whose"),
        ("2.3.0", "belongs to a Hive 2.3, whose"),
        ("3.1.3000", "a vendor's Hive (CDP, HDP)"),
        ("3.1.3000.7.1.9.0-387", "a vendor's Hive (CDP, HDP)"),
        ("4.0.0-beta-1", "an unreleased or changed build of Hive 4"),
        ("4.3.0", "belongs to a Hive 4.3, which needs a newer release of this package"),
        ("5.0.0", "belongs to a Hive 5.0, which needs a newer release of this package"),
        ("four", "the version of no Hive we know"),
    ],
)
def test_nobody_is_advised_to_change_the_schema_under_a_live_hive(version: str, owner: str) -> None:
    """A schematool run beside a Hive 3.1 or a CDP that goes on would damage it."""
    text = not_served(version)
    assert owner in text
    assert "neither reads nor writes through it" in text
    assert "Never change the schema while that Hive uses it (no schematool -upgradeSchema" in text
    assert "all of its services stopped" in text
    assert "a metastore of its own: 'hive-acid schema create'" in text


@pytest.mark.hive4("looks for Hive 4's names of tables")
def test_a_metastore_without_our_tables_works_and_can_be_given_them(client: MetastoreClient, rows: Any) -> None:
    """As Hive's schema tool leaves it."""
    with client.database.transaction() as connection:
        for table in schema.EXTENSION_TABLES:
            table.drop(connection)
        schema.HIVE_ACID_LOCK_OBJECT.drop(connection)
        schema.HIVE_ACID_WRITE_SET.drop(connection)
    client.database.forget_features()
    assert client.check_schema().extension_version is None
    with client.transaction({"db.t": "update"}):
        pass
    client.upgrade_schema()
    assert client.check_schema().extension_version == schema.EXTENSION_VERSION
    with client.database.reading() as connection:
        assert "HIVE_ACID_LOCK_OBJECT" in {i["name"] for i in sa.inspect(connection).get_indexes("HIVE_LOCKS")}
        assert "HIVE_ACID_WRITE_SET" in {i["name"] for i in sa.inspect(connection).get_indexes("WRITE_SET")}
    client.upgrade_schema()
    client.jobs.start(
        job_id="j",
        txn_id=client.open_txn(),
        table="db.t",
        write_id=None,
        statement=0,
        kind="insert",
        table_location="file:/w",
        staging=None,
    )


@pytest.mark.hive4("of Hive 4's tables and versions")
@pytest.mark.parametrize(
    "missing", [["MIN_HISTORY_LEVEL"], ["MIN_HISTORY_WRITE_ID"], ["MIN_HISTORY_LEVEL", "MIN_HISTORY_WRITE_ID"]]
)
def test_the_history_tables_are_optional(client: MetastoreClient, rows: Any, missing: list[str]) -> None:
    with client.database.transaction() as connection:
        for name in missing:
            schema.METADATA.tables[name].drop(connection)
    client.database.forget_features()
    client.check_schema()
    first, second = client.begin({"db.t": "update"}), client.begin({"db.t": "insert"})
    first.commit()
    second.commit()
    client.begin({"db.t": "insert"}).abort()
    written = {(1, "u"), (2, "i")} if "MIN_HISTORY_LEVEL" in missing else {(1, "u")}
    assert set(rows.select("WRITE_SET", "WS_TXNID", "WS_OPERATION_TYPE")) == written
    client.housekeeping.run_house_keeper()
    client.housekeeping.run_txn_cleaner()


def test_a_database_with_other_tables_is_left_alone(empty: MetastoreClient, database_url: str, backend: str) -> None:
    if backend == "sqlite":
        import sqlite3

        sqlite3.connect(sa.make_url(database_url).database or "").close()
    with empty.database.transaction() as connection:
        sa.Table("somebody_elses", sa.MetaData(), sa.Column("a", sa.Integer)).create(connection)
    with pytest.raises(SchemaVersionError, match="among them somebody_elses"):
        empty.create_schema()
    with empty.database.reading() as connection:
        assert sa.inspect(connection).get_table_names() == ["somebody_elses"]


@pytest.mark.hive4("at a CDP a view stands on the table that is taken away")
def test_half_a_schema_is_refused(client: MetastoreClient) -> None:
    with client.database.transaction() as connection:
        schema.WRITE_SET.drop(connection)
    with pytest.raises(SchemaVersionError, match=r"lacks the tables WRITE_SET.*if a Hive uses it, leave it as it is"):
        client.check_schema()


def test_the_schema_is_created_as_a_whole_or_not_at_all(
    empty: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(connection: Any, before: Any) -> None:
        raise RuntimeError("power failure")

    monkeypatch.setattr(schema, "upgrade_extensions", fail)
    with pytest.raises(RuntimeError, match="power failure"):
        empty.create_schema()
    with empty.database.reading() as connection:
        assert sa.inspect(connection).get_table_names() == []


def test_two_who_create_the_schema_at_once_get_one(database_url: str) -> None:
    """Two services start on an empty database; who comes second finds the tables and checks them."""

    def create(_: int) -> str:
        with MetastoreClient(database_url) as client:
            client.create_schema()
            return client.check_schema().version

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(create, range(2))) == [schema.SCHEMA_VERSION] * 2
    with MetastoreClient(database_url) as client:
        assert client.open_txn() == 1


def test_who_comes_second_sees_a_finished_schema(database_url: str) -> None:
    """
    t1  A has made the tables (MySQL commits each by itself) and its rows, and let go of the creation; not committed
    t2                B creates the schema: it waits for A's commit, or sees all of it
    """
    with MetastoreClient(database_url) as first, MetastoreClient(database_url) as second:
        if first.database.path is not None:
            first.database.path.touch()
        with ThreadPoolExecutor(1) as pool:

            def create(connection: Any) -> Future[None]:
                with backend_of(connection).creating(connection):
                    schema._create(connection)
                other = pool.submit(second.create_schema)
                wait([other], timeout=1)
                return other

            first.database.run(create).result()
        assert second.check_schema().version == schema.SCHEMA_VERSION


def test_an_interrupted_creation_is_named(client: MetastoreClient, rows: Any) -> None:
    """The row of VERSION is written last."""
    rows.delete("VERSION")
    with pytest.raises(SchemaVersionError, match=r"interrupted.*holds nothing, drop.*if a Hive uses it, leave it"):
        client.check_schema()


def test_partitions_that_differ_in_case_are_two(client: MetastoreClient, rows: Any) -> None:
    """MySQL's usual comparison takes p=A and p=a for one: a writer of one would wait for, or clean, the other."""
    for name in ("p=A", "p=a"):
        with client.transaction({"db.t": "update"}, partitioned={"db.t"}) as txn:
            txn.add_partitions("db.t", [name])
    found = sa.select(schema.WRITE_SET.c.WS_TXNID).where(schema.WRITE_SET.c.WS_PARTITION == "p=a")
    with client.database.reading() as connection:
        assert len(connection.execute(found).all()) == 1


def test_a_purged_id_is_never_given_again(client: MetastoreClient, rows: Any) -> None:
    """SQLite would reuse the largest id without AUTOINCREMENT."""
    client.open_txns(3)
    for txn_id in (1, 2, 3):
        client.abort_txn(txn_id)
    rows.delete("TXNS")
    assert client.open_txn() == 4


def test_the_embedded_metastore_makes_its_directory(tmp_path: Any) -> None:
    with MetastoreClient(f"sqlite:///{tmp_path}/a/b/metastore.db") as client:
        client.create_schema()
        assert client.open_txn() == 1
