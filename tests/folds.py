"""The rule of open txns over all rows of TXNS: what the metastore asks for less is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.format.write_ids import OpenTxns, fold_txn_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Row = tuple[int, str, int | None, int]
"""``(TXN_ID, TXN_STATE, TXN_TYPE, age in ms by the database clock)``."""


def fold_open_txns(rows: Iterable[Row], gap_timeout_ms: int) -> OpenTxns:
    """Fold all rows of TXNS, ascending, into the open and aborted txns (R11).

    :param gap_timeout_ms: ``hive.txn.opentxn.timeout``.
    """
    return fold_txn_rows(_with_next_below(rows, gap_timeout_ms))


def _with_next_below(rows: Iterable[Row], gap_timeout_ms: int) -> Iterator[tuple[int, str, int | None, int | None]]:
    below = 0
    for txn_id, state, txn_type, age_ms in rows:
        yield txn_id, state, txn_type, below if age_ms < gap_timeout_ms else None
        below = txn_id
