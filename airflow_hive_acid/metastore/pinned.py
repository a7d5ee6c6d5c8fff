"""Which open txns stand for pins: for all who ask what open txns still need, and know better what pins do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from airflow_hive_acid.metastore.pin_rules import PinState
from airflow_hive_acid.metastore.schema_pins import HIVE_ACID_PIN

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

PINNED = select(HIVE_ACID_PIN.c.HPN_TXNID).where(HIVE_ACID_PIN.c.HPN_STATE != PinState.SETTLED.value)
"""Their ids; only where the table exists (``Features.pins``)."""


def pinned_txns(conn: Connection) -> list[int]:
    """The txns by which a real Hive knows of pins; the table must exist."""
    return list(conn.execute(PINNED).scalars())
