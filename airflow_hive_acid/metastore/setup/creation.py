"""Where a metastore begins: one process at a time creates its tables, all of them or none; and its next txn id."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_hive_acid.errors import MetastoreUnavailableError
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection

_CREATE_SECONDS = 60
_CREATION = sa.func.md5(sa.func.concat("hive_acid_schema_", sa.func.database()))
_ENTER_CREATION = sa.select(sa.func.get_lock(_CREATION, _CREATE_SECONDS))
_LEAVE_CREATION = sa.select(sa.func.release_lock(_CREATION))
_CREATION_UNTIL_COMMIT = sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext("hive_acid_schema")))


@contextlib.contextmanager
def creation(connection: Connection) -> Iterator[None]:
    """Around what looks for tables and creates them: one process at a time."""
    if connection.dialect.name != "mysql":
        if connection.dialect.name == "postgresql":
            connection.execute(_CREATION_UNTIL_COMMIT)
        yield
        return
    # MySQL commits each CREATE TABLE by itself, so the lock may not end with the transaction.
    if connection.execute(_ENTER_CREATION).scalar() != 1:
        raise MetastoreUnavailableError(
            f"somebody else has been creating tables in this metastore for more than {_CREATE_SECONDS} s; try again"
        )
    try:
        yield
        connection.connection.commit()  # whoever enters next has to see the rows beside the tables
    finally:
        with contextlib.suppress(sa.exc.DBAPIError):  # a broken connection has let go of the lock
            connection.execute(_LEAVE_CREATION)


@contextlib.contextmanager
def all_or_nothing(connection: Connection, tables: sa.MetaData) -> Iterator[None]:
    """Around the creation of tables where there were none: when it fails, none are left, on MySQL as elsewhere."""
    try:
        yield
    except BaseException:
        if connection.dialect.name == "mysql":
            with contextlib.suppress(sa.exc.DBAPIError):  # what the caller should hear is why the creation failed
                tables.drop_all(connection)
        raise


# --- txn ids ------------------------------------------------------------------------------------------------------

_SQLITE_SEQUENCE = sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"))
_RESTART_POSTGRESQL = sa.select(
    sa.func.setval(sa.func.pg_get_serial_sequence('"TXNS"', "TXN_ID"), sa.bindparam("seed"), sa.false())
)
_RESTART_SQLITE = (
    sa.update(_SQLITE_SEQUENCE).where(_SQLITE_SEQUENCE.c.name == "TXNS").values(seq=sa.bindparam("seed") - 1)
)


def restart_txn_ids(connection: Connection, seed: int) -> None:
    """Let the next txn id be ``seed``; it must be larger than every id given so far."""
    match connection.dialect.name:
        case "postgresql":
            connection.execute(_RESTART_POSTGRESQL, {"seed": seed})
        case "sqlite":
            connection.execute(_RESTART_SQLITE, {"seed": seed})
        case _:
            # AUTO_INCREMENT follows the largest id that was ever there.
            row = {
                "TXN_ID": seed - 1,
                "TXN_STATE": "c",
                "TXN_STARTED": 0,
                "TXN_LAST_HEARTBEAT": 0,
                "TXN_USER": "",
                "TXN_HOST": "",
                "TXN_TYPE": 0,
            }
            connection.execute(sa.insert(TXNS), row)
            connection.execute(sa.delete(TXNS).where(TXNS.c.TXN_ID == sa.bindparam("txn_id")), {"txn_id": seed - 1})
