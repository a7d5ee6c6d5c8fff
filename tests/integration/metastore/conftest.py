"""A look behind the client, for tests: rows as they are, and time moved in the rows instead of slept away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.layouts import NEXT_TXN_ID
from airflow_hive_acid.metastore.schema.types import METADATA
from airflow_hive_acid.metastore.setup import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_hive_acid.metastore import MetastoreClient

NAMES = sorted(METADATA.tables.keys() - {table.name for table in schema.SERVER_TABLES})
COUNTS = sa.union_all(
    *(sa.select(sa.literal(name), sa.func.count()).select_from(METADATA.tables[name]) for name in NAMES)
)
"""One statement for all tests: it is compiled once."""
_STEPS_AT_ONCE = 50


class Rows:
    """Reads and changes rows of a metastore directly."""

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client

    def select(self, table: str, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        """Rows of a table, in the order of the columns asked for."""
        source = METADATA.tables[table]
        statement = sa.select(*(source.c[c] for c in columns or source.c.keys()))
        for column, value in where.items():
            statement = statement.where(source.c[column] == value)
        with self._client.database.reading() as connection:
            return sorted((tuple(r) for r in connection.execute(statement)), key=repr)

    def count(self, table: str, **where: Any) -> int:
        return len(self.select(table, **where))

    def counts(self) -> dict[str, int]:
        """Number of rows of every table that txns, locks and compactions use."""
        with self._client.database.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(COUNTS)}

    def change(self, statement: Any) -> int:
        with self._client.database.transaction() as connection:
            return connection.execute(statement).rowcount

    def insert(self, table: str, **values: Any) -> None:
        self.change(sa.insert(METADATA.tables[table]).values(**values))

    def update(self, table: str, values: dict[str, Any], **where: Any) -> int:
        source = METADATA.tables[table]
        statement = sa.update(source).values(values)
        for column, value in where.items():
            statement = statement.where(source.c[column] == value)
        return self.change(statement)

    def delete(self, table: str, **where: Any) -> int:
        source = METADATA.tables[table]
        statement = sa.delete(source)
        for column, value in where.items():
            statement = statement.where(source.c[column] == value)
        return self.change(statement)

    def age_txns(self, by_ms: int, txn_ids: Sequence[int] | None = None) -> None:
        """Let txns look as if they had been opened, and had sent their last heartbeat, that much earlier."""
        txns = schema.TXNS
        statement = sa.update(txns).values(
            TXN_STARTED=txns.c.TXN_STARTED - by_ms, TXN_LAST_HEARTBEAT=txns.c.TXN_LAST_HEARTBEAT - by_ms
        )
        if txn_ids is not None:
            statement = statement.where(txns.c.TXN_ID.in_(txn_ids))
        self.change(statement.where(txns.c.TXN_ID > 0))

    def age_locks(self, by_ms: int) -> None:
        locks = schema.HIVE_LOCKS
        self.change(sa.update(locks).values(HL_LAST_HEARTBEAT=locks.c.HL_LAST_HEARTBEAT - by_ms))

    def _counted(self) -> int:
        with self._client.database.reading() as connection:
            return int(connection.execute(sa.select(NEXT_TXN_ID.c.NTXN_NEXT)).scalar_one()) - 1

    def txn_state(self, txn_id: int) -> tuple[str, str | None]:
        """State and abort reason of a txn."""
        found = self.select("TXNS", "TXN_STATE", "TXN_META_INFO", TXN_ID=txn_id)
        if not found and self._client.database.backend.layout.counts_txns and txn_id <= self._counted():
            return "c", None  # a Hive 3 forgets who has committed
        return found[0]  # type: ignore[return-value]


@pytest.fixture
def rows(client: MetastoreClient) -> Rows:
    return Rows(client)


@pytest.fixture
def other_client(metastore_url: str) -> Iterator[MetastoreClient]:
    """A second client of the same metastore, as another process would be."""
    from airflow_hive_acid.metastore import MetastoreClient

    with MetastoreClient(metastore_url) as client:
        yield client


def component(place: str, kind: LockType, operation: Operation = Operation.NO_TXN, **options: Any) -> LockComponent:
    """A lock component on ``db``, ``db.table`` or ``db.table/partition``."""
    object_, _, partition = place.partition("/")
    database, _, table = object_.partition(".")
    return LockComponent(database, table or None, partition or None, kind, operation, **options)


@pytest.fixture
def lock_on() -> Any:
    """Makes lock components: ``lock_on("db.t/p=1", LockType.EXCLUSIVE)``."""
    return component


@pytest.fixture
def sqlite_steps(client: MetastoreClient) -> Callable[[Callable[[], Any]], int]:
    """Steps of SQLite's virtual machine while something runs."""

    def count(run: Callable[[], Any]) -> int:
        calls = 0

        def called() -> int:
            nonlocal calls
            calls += 1
            return 0

        with client.database.transaction() as connection:  # the one connection that the pool keeps
            driver = connection.connection.driver_connection
        assert driver is not None
        driver.set_progress_handler(called, _STEPS_AT_ONCE)
        try:
            run()
        finally:
            driver.set_progress_handler(None, 0)
        assert calls > 0
        return calls * _STEPS_AT_ONCE

    return count
