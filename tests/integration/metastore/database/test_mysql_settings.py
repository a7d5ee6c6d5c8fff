"""MySQL and MariaDB with settings and collations of their owner's: verbs bring what they need with each connection."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.backend import Step, execute_batch
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.backends("mariadb", "mysql")


@contextlib.contextmanager
def server_has(url: str, name: str, value: str | int) -> Iterator[None]:
    """A setting of the server, for connections that are made meanwhile."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        before = connection.execute(sa.text(f"SELECT @@GLOBAL.{name}")).scalar_one()
        connection.execute(sa.text(f"SET GLOBAL {name} = :value"), {"value": value})
        try:
            yield
        finally:
            connection.execute(sa.text(f"SET GLOBAL {name} = :value"), {"value": before})


@pytest.mark.parametrize("mode", ["ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT", "ANSI,IGNORE_SPACE", ""])
def test_no_sql_mode_of_the_server_changes_what_is_written(metastore_url: str, mode: str) -> None:
    text = "it's \"a\" \\ || 'b' \\n % ünï"
    with server_has(metastore_url, "sql_mode", mode), MetastoreClient(metastore_url) as client:
        client.catalog.set_warehouse("file:/warehouse")
        client.catalog.create_database("shop")
        client.catalog.create_table(
            TableDefinition("shop", "t", (Column("id", "int"),), (Column("k", "string"),), properties={"note": text})
        )
        client.catalog.add_partitions("shop.t", [(text,)])
        assert client.catalog.get_table("shop.t").properties["note"] == text
        assert [p.values for p in client.catalog.list_partitions("shop.t", {"k": text})] == [(text,)]
        first, second = client.begin({"shop.u": "update"}), client.begin({"shop.u": "update"})
        first.commit()
        with pytest.raises(WriteConflictError):
            second.commit()
        echo = sa.select(sa.bindparam("text", type_=sa.String))
        texts = [text, "\\", "'; SELECT 1; -- ", '"', "\\'; SELECT 1; -- ", "\0\x1a\r\n`", "%s %(text)s"]
        with client.database.transaction() as connection:
            answers = execute_batch(connection, [Step(echo, {"text": one}) for one in texts])
        assert [answer.rows for answer in answers] == [[(one,)] for one in texts]


@pytest.mark.parametrize("level", ["REPEATABLE-READ", "SERIALIZABLE"])
def test_no_gap_is_locked_whatever_isolation_the_server_gives(metastore_url: str, backend: str, level: str) -> None:
    """
    t1  A deletes a lock that is not there: at REPEATABLE READ it would hold the gap up to the end
    t2                  B asks for a lock, whose row lies in that gap, and is not kept waiting
    """
    name = "tx_isolation" if backend == "mariadb" else "transaction_isolation"
    with (
        server_has(metastore_url, name, level),
        server_has(metastore_url, "innodb_lock_wait_timeout", 2),
        MetastoreClient(metastore_url) as client,
        MetastoreClient(metastore_url) as other,
        client.database.transaction() as connection,
    ):
        assert connection.execute(sa.text(f"SELECT @@SESSION.{name}")).scalar_one() == "READ-COMMITTED"
        connection.execute(sa.delete(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_LOCK_EXT_ID > 1_000_000))
        txn_id = other.open_txn()
        asked = LockComponent("db", "t", None, LockType.SHARED_WRITE, Operation.UPDATE)
        assert other.lock([asked], txn_id=txn_id).state is LockState.ACQUIRED
        other.commit_txn(txn_id)


def test_names_that_differ_in_case_are_apart_in_a_database_that_does_not_tell_them(database_url: str) -> None:
    engine = sa.create_engine(database_url, poolclass=sa.pool.NullPool)
    name = sa.make_url(database_url).database
    with engine.connect() as connection:
        connection.execute(sa.DDL(f"ALTER DATABASE `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"))
    with MetastoreClient(database_url) as client:
        client.create_schema()
        client.catalog.set_warehouse("file:/warehouse")
        client.catalog.create_database("shop")
        client.catalog.create_table(TableDefinition("shop", "t", (Column("id", "int"),), (Column("k", "string"),)))
        client.catalog.add_partitions("shop.t", [("a",), ("A",)])
        assert [p.name for p in client.catalog.list_partitions("shop.t", {"k": "A"})] == ["k=A"]
        first, second = (client.begin({"shop.t": "update"}, partitioned=["shop.t"]) for _ in range(2))
        first.add_partitions("shop.t", ["k=a"])
        second.add_partitions("shop.t", ["k=A"])
        first.commit()
        second.commit()
