"""Which open txns stand for pins: for all who ask what open txns still need, and know better what pins do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, select

from airflow_hive_acid.format.write_ids import MAX_ID
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.schema.pins import HIVE_ACID_PIN
from airflow_hive_acid.metastore.txns.history import low_boundary, min_open_watermark
from airflow_hive_acid.metastore.txns.pin_rules import PinState

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Features

PINNED = select(HIVE_ACID_PIN.c.HPN_TXNID).where(HIVE_ACID_PIN.c.HPN_STATE != PinState.SETTLED.value)
"""Their ids; only where the table exists (``Features.pins``)."""


def pinned_txns(connection: Connection) -> list[int]:
    """The txns by which a real Hive knows of pins; the table must exist."""
    return list(connection.execute(PINNED).scalars())


_OLDEST_OTHER = select(func.min(TXNS.c.TXN_ID)).where(
    TXNS.c.TXN_STATE == "o", TXNS.c.TXN_ID.not_in(bindparam("pinned", expanding=True))
)


def watermark_beside_pins(connection: Connection, features: Features, gap_timeout_ms: int) -> int:
    """Every txn below it has ended, but for pins, which never write; and none can appear any more."""
    pinned = pinned_txns(connection) if features.pins else []
    if not pinned:
        return min_open_watermark(connection, gap_timeout_ms)
    oldest = connection.execute(_OLDEST_OTHER, {"pinned": pinned}).scalar()
    return min(MAX_ID if oldest is None else int(oldest), low_boundary(connection, gap_timeout_ms) + 1)
