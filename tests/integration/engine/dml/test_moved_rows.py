"""UPDATE of partition columns: which components it leaves, and with whom it conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.metastore.schema.hive_transactions import COMPLETED_TXN_COMPONENTS, WRITE_SET

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

MOVE = "UPDATE w.p SET k = 'new' WHERE k = 'old'"


@pytest.fixture
def moving(engine: Engine, fake: Any) -> Engine:
    engine.run("INSERT INTO w.p PARTITION (k='old') VALUES (1)")
    fake.partitions = [("old",), ("new",)]
    return engine


def test_rows_that_move_are_deleted_in_one_partition_and_inserted_in_the_other(
    moving: Engine, client: MetastoreClient
) -> None:
    with client.snapshot(["w.p"]):  # what is in WRITE_SET stays while somebody older is open
        [moved] = moving.run(MOVE)
        with client.database.engine.connect() as connection:
            conflicts = connection.execute(
                sa.select(WRITE_SET.c.WS_PARTITION, WRITE_SET.c.WS_OPERATION_TYPE).where(
                    WRITE_SET.c.WS_TXNID == moved.txn_id
                )
            ).all()
            completed = connection.execute(
                sa.select(COMPLETED_TXN_COMPONENTS.c.CTC_PARTITION, COMPLETED_TXN_COMPONENTS.c.CTC_UPDATE_DELETE).where(
                    COMPLETED_TXN_COMPONENTS.c.CTC_TXNID == moved.txn_id
                )
            ).all()
    assert [tuple(row) for row in conflicts] == [("k=old", "d")]
    assert sorted(tuple(row) for row in completed) == [("k=new", "Y"), ("k=old", "Y")]
    assert [p.name for p in client.catalog.list_partitions("w.p")] == ["k=new", "k=old"]


@pytest.mark.every_database
def test_a_move_loses_against_a_change_of_the_partition_it_leaves(moving: Engine, other: Engine, fake: Any) -> None:
    """A moves rows out of old; B changes a row of old and commits first; A is aborted."""

    def meanwhile(spec: Any) -> None:
        fake.meanwhile = None
        other.fake.partitions = [("old",)]  # type: ignore[attr-defined]
        other.run("UPDATE w.p SET a = 2 WHERE k = 'old'")

    fake.meanwhile = meanwhile
    with pytest.raises(WriteConflictError):
        moving.run(MOVE)


@pytest.mark.every_database
def test_a_move_does_not_conflict_with_changes_of_the_partition_it_enters(
    moving: Engine, other: Engine, fake: Any
) -> None:
    """A moves rows into new; B changes a row of new and commits first; both stand, as an INSERT and an UPDATE do."""
    moving.run("INSERT INTO w.p PARTITION (k='new') VALUES (5)")

    def meanwhile(spec: Any) -> None:
        fake.meanwhile = None
        other.fake.partitions = [("new",)]  # type: ignore[attr-defined]
        other.run("UPDATE w.p SET a = 2 WHERE k = 'new'")

    fake.meanwhile = meanwhile
    [moved] = moving.run(MOVE)
    assert moved.txn_id is not None
