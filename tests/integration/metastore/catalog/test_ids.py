"""Ids of new objects: fetched ahead, or by the transaction that takes them, and never by a second one beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.metastore.catalog.rows.ids import BLOCK, IdKind

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.metastore import MetastoreClient


@pytest.mark.rule("R15")
def test_ids_that_were_not_reserved_are_taken_by_the_transaction_itself(
    client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, database = client.catalog.ids, client.database

    def take(connection: Connection) -> list[int]:
        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("a database transaction inside another one")

        with monkeypatch.context() as inside:
            inside.setattr(database, "run", refuse)
            return ids.take(connection, IdKind.PARTITION, BLOCK + 3)

    found: list[int] = []
    for _ in range(3):
        found += database.run(take)
        client.catalog.reserve_partition_ids(2)
    assert len(set(found)) == len(found) == 3 * (BLOCK + 3)
