"""Bad input, verb by verb: a named error that says what is wrong, and no row of any table more or less."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    HiveAcidError,
    InvalidArgumentsError,
    MetastoreUnavailableError,
    NoSuchLockError,
    NoSuchTxnError,
    SchemaVersionError,
    TxnAbortedError,
)
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent

if TYPE_CHECKING:
    from collections.abc import Callable

    Verb = Callable[[MetastoreClient, Any], Any]

BAD_TABLES = [
    "", "t", "a.b.c", ".t", "db.", "db..", "..", "...", "db.it's", 'db.a"b', "db.a`b", "db.a\0b", "db.ünï", "db.t😀",
    "db.100%", "db.a b", "db.a;drop table x", "db.a\n", "db.a/b", "db.a\\b", "db." + "x" * 4096, "d" * 129 + ".t",
]  # fmt: skip
BAD_PARTITIONS = ["", "k", "k=a\0", "=a", "k=" + "x" * 4096, "k=a/", "k=a/b"]


def component(name: str) -> LockComponent:
    database, _, table = name.partition(".")
    return LockComponent(database, table, None, LockType.SHARED_READ, Operation.SELECT)


OF_TABLES: dict[str, Verb] = {
    "begin": lambda c, name: c.begin({name: "insert"}),
    "snapshot": lambda c, name: c.open_snapshot([name]),
    "exclusive": lambda c, name: c.exclusive([name]).__enter__(),
    "lock": lambda c, name: c.lock([component(name)]),
    "allocate": lambda c, name: c.allocate_write_ids(name, 1),
    "write ids": lambda c, name: c.get_valid_write_ids(["db.t", name]),
    "add partitions": lambda c, name: c.add_partitions(1, name, ["k=a"]),
    "show locks": lambda c, name: c.show_locks(name),
    "max write id": lambda c, name: c.max_allocated_write_id(name),
    "txn of": lambda c, name: c.txn_of_write_id(name, 1),
    "seed": lambda c, name: c.seed_write_id(name, 5),
    "rebuild": lambda c, name: c.lock_materialization_rebuild(name, 1),
    "compact": lambda c, name: c.compactions.enqueue(name),
    "get table": lambda c, name: c.catalog.get_table(name),
    "drop table": lambda c, name: c.catalog.drop_table(name, if_exists=True),
    "list partitions": lambda c, name: c.catalog.list_partitions(name),
    "add to catalog": lambda c, name: c.catalog.add_partitions(name, ["k=a"]),
    "properties": lambda c, name: c.catalog.alter_properties(name, {"a": "b"}),
    "rename": lambda c, name: c.catalog.rename_table("db.t", name),
    "create table": lambda c, name: c.catalog.create_table(
        TableDefinition(*(name.split(".", 1) if "." in name else ("", name)), (Column("id", "int"),))
    ),
}


@pytest.fixture
def used(client: MetastoreClient) -> MetastoreClient:
    """A metastore in use: db.t, db.p with a partition, txn 1 open with a write id of db.t and a lock elsewhere."""
    client.catalog.set_warehouse("file:/warehouse")
    client.catalog.create_database("db")
    client.catalog.create_table(TableDefinition("db", "t", (Column("id", "int"),)))
    client.catalog.create_table(TableDefinition("db", "p", (Column("id", "int"),), (Column("k", "string"),)))
    client.catalog.add_partitions("db.p", [("a",)])
    client.open_txn()
    client.allocate_write_ids("db.t", 1)
    client.lock([LockComponent("db", "u", None, LockType.SHARED_WRITE, Operation.UPDATE)], txn_id=1)
    return client


@pytest.mark.parametrize("verb", OF_TABLES)
def test_a_name_that_is_no_tables_is_refused_by_every_verb(used: MetastoreClient, rows: Any, verb: str) -> None:
    before = rows.counts()
    for name in BAD_TABLES:
        with pytest.raises(InvalidArgumentsError) as caught:
            OF_TABLES[verb](used, name)
        assert len(str(caught.value)) < 500, "a message does not repeat 4 kB of somebody's text"
    assert rows.counts() == before


OF_PARTITIONS: dict[str, Verb] = {
    "lock": lambda c, part: c.lock([LockComponent("db", "p", part, LockType.SHARED_READ, Operation.SELECT)]),
    "add partitions": lambda c, part: c.add_partitions(1, "db.p", ["k=a", part]),
    "compact": lambda c, part: c.compactions.enqueue("db.p", part),
    "get": lambda c, part: c.catalog.get_partition("db.p", part),
    "add to catalog": lambda c, part: c.catalog.add_partitions("db.p", ["k=new", part]),
    "drop": lambda c, part: c.catalog.drop_partition("db.p", part, if_exists=True),
    "rename": lambda c, part: c.catalog.rename_partition("db.p", "k=a", part),
}


@pytest.mark.parametrize("verb", OF_PARTITIONS)
def test_what_is_no_partition_is_refused_by_every_verb(used: MetastoreClient, rows: Any, verb: str) -> None:
    before = rows.counts()
    for part in BAD_PARTITIONS:
        with pytest.raises(InvalidArgumentsError) as caught:
            OF_PARTITIONS[verb](used, part)
        assert len(str(caught.value)) < 500
    assert rows.counts() == before


@pytest.mark.parametrize("spec", ["j=a", "k=a/j=b", ("a", "b"), (), {"j": "a"}, {"k": "a", "j": "b"}, {}])
def test_a_specification_that_is_not_the_tables_is_refused(used: MetastoreClient, rows: Any, spec: Any) -> None:
    before = rows.counts()
    catalog = used.catalog
    for verb in (
        lambda: catalog.get_partition("db.p", spec),
        lambda: catalog.add_partitions("db.p", ["k=new", spec]),
        lambda: catalog.drop_partition("db.p", spec, if_exists=True),
        lambda: catalog.rename_partition("db.p", "k=a", spec),
        lambda: catalog.get_partition("db.t", spec),
    ):
        with pytest.raises(InvalidArgumentsError, match=r"db\.(p|t)"):
            verb()
    assert rows.counts() == before


@pytest.mark.every_database
def test_what_looks_like_a_pattern_is_a_name_like_any_other(used: MetastoreClient, backend: str) -> None:
    """No ``%`` or ``_`` finds somebody else's, no quote ends a text, and what is escaped in a path comes back."""
    catalog = used.catalog
    for name in ("a_b", "axb"):
        catalog.create_table(TableDefinition("db", name, (Column("id", "int"),)))
        used.lock([component(f"db.{name}")])
        used.compactions.enqueue(f"db.{name}")
    assert [row.table for row in used.show_locks("db.a_b")] == ["a_b"]
    assert [row.resource.table for row in used.compactions.show(database="db", table="a_b")] == ["a_b"]
    catalog.drop_table("db.a_b")
    assert "axb" in catalog.list_tables("db")
    assert [row.resource.table for row in used.compactions.show(database="db", table="axb")] == ["axb"]
    values = ["%", "_", "it's", 'say "so"', "a;b", "ü", "..", "a/b", "x=y", "100%", "100x"]
    if backend not in ("mariadb", "mysql"):  # whose tables hold latin1 only
        values += ["😀", "日本"]
    catalog.add_partitions("db.p", [(value,) for value in values])
    for value in values:
        (found,) = catalog.list_partitions("db.p", {"k": value})
        assert found.values == (value,)
        assert used.catalog.get_partition("db.p", found.name) == found
        assert found.location.startswith("file:/warehouse/db.db/p/k=")
        assert "/" not in found.location.removeprefix("file:/warehouse/db.db/p/")
    catalog.drop_partition("db.p", ("%",))
    assert len(catalog.list_partitions("db.p")) == len(values)


@pytest.mark.every_database
def test_characters_that_the_metastore_cannot_hold_are_named(used: MetastoreClient, rows: Any, backend: str) -> None:
    """Hive's schema for MySQL keeps text as latin1; the others hold everything."""
    before = rows.counts()
    for several in (["k=😀"], ["k=z", "k=😀"], ["k=日本", "k=😀"]):
        if backend in ("mariadb", "mysql"):
            with pytest.raises(InvalidArgumentsError, match=r"cannot store these characters.*latin1.*nothing changed"):
                used.catalog.add_partitions("db.p", several)
        else:
            assert used.catalog.add_partitions("db.p", several)
            for name in several:
                used.catalog.drop_partition("db.p", name)
    assert {k: n for k, n in rows.counts().items() if not k.startswith("NOTIFICATION_")} == {
        k: n for k, n in before.items() if not k.startswith("NOTIFICATION_")
    }


def unknown(client: MetastoreClient) -> int:
    return 999


def aborted(client: MetastoreClient) -> int:
    txn_id = client.open_txn()
    client.abort_txn(txn_id)
    return txn_id


def committed(client: MetastoreClient) -> int:
    txn_id = client.open_txn()
    client.commit_txn(txn_id)
    return txn_id


OF_TXNS: dict[str, Verb] = {
    "heartbeat": lambda c, txn: c.heartbeat(txn),
    "lock": lambda c, txn: c.lock([component("db.t")], txn_id=txn),
    "allocate": lambda c, txn: c.allocate_write_ids("db.t", txn),
    "allocate with one that is open": lambda c, txn: c.allocate_write_ids("db.new", [1, txn]),
    "add partitions": lambda c, txn: c.add_partitions(txn, "db.p", ["k=a"]),
}


@pytest.mark.parametrize("state", [unknown, aborted, committed])
@pytest.mark.parametrize("verb", OF_TXNS)
def test_a_txn_that_is_not_open_is_refused_by_every_verb(
    used: MetastoreClient, rows: Any, verb: str, state: Callable[[MetastoreClient], int]
) -> None:
    txn_id = state(used)
    before = rows.counts()
    with pytest.raises(HiveAcidError, match=rf"\b{txn_id}\b"):
        OF_TXNS[verb](used, txn_id)
    assert rows.counts() == before


@pytest.mark.every_database
def test_ends_of_txns_that_have_ended_or_never_were(used: MetastoreClient, rows: Any) -> None:
    gone, done = aborted(used), committed(used)
    before = rows.counts()
    with pytest.raises(TxnAbortedError, match=str(gone)):
        used.commit_txn(gone)
    with pytest.raises(NoSuchTxnError, match=str(done)):
        used.abort_txn(done)
    for txn_id in (999, -1, 2**62):
        for verb in (used.commit_txn, used.abort_txn, used.heartbeat):
            with pytest.raises(NoSuchTxnError, match=str(txn_id)):
                verb(txn_id)
    for lock_id in (999, -1, 2**62):
        with pytest.raises(NoSuchLockError, match=str(lock_id)):
            used.check_lock(lock_id)
        with pytest.raises(NoSuchLockError, match=str(lock_id)):
            used.heartbeat(0, lock_id)
    assert rows.counts() == before


def restricted(url: str, client: MetastoreClient, backend: str) -> MetastoreClient:
    """A client that may read and not write."""
    if backend == "sqlite":
        path = client.database.path
        assert path is not None
        if os.geteuid() != 0:
            path.chmod(stat.S_IRUSR)
            return MetastoreClient(url)
        reader = MetastoreClient(url)  # root may write any file
        sa.event.listen(
            reader.database.engine, "connect", lambda driver, _: driver.execute("PRAGMA query_only=ON").close()
        )
        return reader
    if backend == "postgresql":
        option = {"options": "-c default_transaction_read_only=on"}
        return MetastoreClient(sa.make_url(url).update_query_dict(option).render_as_string(hide_password=False))
    reader = MetastoreClient(url)
    sa.event.listen(
        reader.database.engine, "connect", lambda driver, _: driver.query("SET SESSION TRANSACTION READ ONLY")
    )
    return reader


WRITES: dict[str, Callable[[MetastoreClient], Any]] = {
    "open": lambda c: c.open_txn(),
    "begin": lambda c: c.begin({"db.t": "insert"}),
    "commit": lambda c: c.commit_txn(1),
    "abort": lambda c: c.abort_txn(1),
    "lock": lambda c: c.lock([component("db.t")]),
    "allocate": lambda c: c.allocate_write_ids("db.new", 1),
    "create table": lambda c: c.catalog.create_table(TableDefinition("db", "n", (Column("id", "int"),))),
    "add partitions": lambda c: c.catalog.add_partitions("db.p", [("new",)]),
    "compact": lambda c: c.compactions.enqueue("db.t"),
    "upgrade": lambda c: c.upgrade_schema(),
    "reaper": lambda c: c.housekeeping.perform_time_outs(),
}


@pytest.mark.every_database
def test_a_read_only_metastore_refuses_every_write_and_answers_reads(
    used: MetastoreClient, rows: Any, metastore_url: str, backend: str
) -> None:
    before = rows.counts()
    rows.update("HIVE_ACID_VERSION", {"HAV_VERSION": 1})  # so that an upgrade has something to write
    with restricted(metastore_url, used, backend) as reader:
        # Reading sets the mode of a connection; what writes afterwards may use the same one.
        assert reader.catalog.get_table("db.t").name == "t"
        assert reader.get_valid_write_ids("db.t")
        for name, write in WRITES.items():
            with pytest.raises(MetastoreUnavailableError, match=r"read-only.*write access"):
                assert write(reader) is NotImplemented, name
        assert reader.catalog.get_table("db.t").name == "t"
        assert len(reader.show_transactions()) == 1
    assert rows.counts() == before


@pytest.mark.parametrize("version", ["3.0.0", "4.3.0", "nonsense", ""])
def test_a_wrong_schema_version_is_named_and_nothing_is_done(used: MetastoreClient, rows: Any, version: str) -> None:
    rows.update("VERSION", {"SCHEMA_VERSION": version})
    before = rows.counts()
    for verb in (used.check_schema, used.upgrade_schema, used.create_schema):
        with pytest.raises(SchemaVersionError, match=f"schema version is {version}; served are"):
            verb()
    assert rows.counts() == before


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "URL"), ("nonsense", "URL"), ("oracle://h/d", "SQLite, PostgreSQL"), ("postgresql", "URL"),
        ("sqlite:///\0", "NUL"), ("x" * 4096, "URL"),
    ],
)  # fmt: skip
def test_a_url_that_is_none_is_refused_at_once(url: str, text: str) -> None:
    with pytest.raises(HiveAcidError, match=text) as caught:
        MetastoreClient(url)
    assert len(str(caught.value)) < 500
