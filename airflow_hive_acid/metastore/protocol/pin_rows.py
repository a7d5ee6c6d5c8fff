"""Rows of HIVE_ACID_PIN as values: pins, and what they see of a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, case, select

from airflow_hive_acid.format.jobs import PartitionRef
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.schema.pins import HIVE_ACID_PIN, HIVE_ACID_PIN_TABLE
from airflow_hive_acid.metastore.txns.pin_rules import Pin, PinnedTable, PinState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.names.objects import TableName

_P, _T = HIVE_ACID_PIN.c, HIVE_ACID_PIN_TABLE.c
_OPEN = case((TXNS.c.TXN_STATE == "o", 1), else_=0).label("TXN_OPEN")
_PINS = select(
    _P.HPN_ID, _P.HPN_NAME, _P.HPN_STATE, _P.HPN_TXNID, _P.HPN_CREATED, _P.HPN_EXPIRES, _P.HPN_MAX_BYTES,
    _P.HPN_BYTES, _P.HPN_USER, _P.HPN_COMMENT, _P.HPN_ENDED, _P.HPN_END_TXNID, _P.HPN_REASON, _P.HPN_TXNS, _OPEN,
).outerjoin(TXNS, TXNS.c.TXN_ID == _P.HPN_TXNID).order_by(_P.HPN_ID)  # fmt: skip
_NAMES = select(_T.HPT_PIN, _T.HPT_DATABASE, _T.HPT_TABLE).order_by(_T.HPT_DATABASE, _T.HPT_TABLE)
_SEEN = select(_T.HPT_PIN, _T.HPT_DATABASE, _T.HPT_TABLE, _T.HPT_WRITE_IDS, _T.HPT_PARTITIONS)
_SEEN_HERE = _SEEN.where(_T.HPT_DATABASE == bindparam("db"), _T.HPT_TABLE == bindparam("tbl"))
_ACTIVE_PINS = _PINS.where(_P.HPN_STATE == PinState.ACTIVE.value)
_PINS_HERE = _PINS.where(
    _P.HPN_STATE != PinState.SETTLED.value,
    _P.HPN_ID.in_(select(_T.HPT_PIN).where(_T.HPT_DATABASE == bindparam("db"), _T.HPT_TABLE == bindparam("tbl"))),
)


def read_pins(connection: Connection, *, ended: bool = False) -> list[Pin]:
    """All pins, the oldest first.

    :param ended: also those that have ended, as long as they are remembered.
    """
    return [pin for pin, _ in _read(connection, _PINS if ended else _ACTIVE_PINS)]


def pins_on(connection: Connection, table: TableName) -> list[PinnedTable]:
    """What all pins see of a table for which something is still kept."""
    here = {"db": table.database, "tbl": table.name}
    found = {pin.id: (pin, txns) for pin, txns in _read(connection, _PINS_HERE, here)}
    seen = ((row.HPT_PIN, row) for row in connection.execute(_SEEN_HERE, here))
    return [_pinned(row, *found[pin_id]) for pin_id, row in seen if pin_id in found]


def _read(connection: Connection, wanted: Any, parameters: Mapping[str, str] | None = None) -> list[tuple[Pin, str]]:
    rows = connection.execute(wanted, parameters).all()
    now = now_ms(connection) if rows else 0
    tables: dict[int, list[str]] = {row.HPN_ID: [] for row in rows}
    for pin, database, table in connection.execute(_NAMES) if rows else ():
        if pin in tables:
            tables[pin].append(f"{database}.{table}")
    return [(_pin(row, tables[row.HPN_ID], now), row.HPN_TXNS) for row in rows]


def _pin(row: Any, tables: Iterable[str], now: int) -> Pin:
    return Pin(
        row.HPN_ID, row.HPN_NAME, PinState(row.HPN_STATE), row.HPN_TXNID, row.HPN_CREATED, row.HPN_EXPIRES,
        row.HPN_MAX_BYTES, row.HPN_BYTES, row.HPN_USER, row.HPN_COMMENT, tuple(tables), row.HPN_ENDED,
        row.HPN_END_TXNID, row.HPN_REASON, bool(row.TXN_OPEN), now,
    )  # fmt: skip


def _pinned(row: Any, pin: Pin, txns: str) -> PinnedTable:
    _, database, table, write_ids, partitions = row
    listed = None
    if partitions is not None:
        listed = tuple(PartitionRef(name, location, tuple(values)) for name, location, values in json.loads(partitions))
    return PinnedTable(pin, f"{database}.{table}", ValidTxnList.parse(txns), ValidWriteIdList.parse(write_ids), listed)
