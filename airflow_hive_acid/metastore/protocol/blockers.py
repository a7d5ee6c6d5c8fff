"""Who is in the way of a txn that waits: what a person wants to read when a wait has come to nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select

from airflow_hive_acid.metastore.schema.hive_transactions import TXNS

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.verbs import Verbs

_STARTED = select(TXNS.c.TXN_STARTED).where(TXNS.c.TXN_ID == bindparam("txn_id"))
_SHOWN = 3


def describe_wait(client: Verbs, txn_id: int) -> str:
    """Whom a txn waits for, on whose behalf they work, and since when: one sentence."""
    waits = [wait for wait in client.show_waits() if wait.waiter.txn_id == txn_id]
    if not waits:
        return f"txn {txn_id} waits for nobody"
    parts = []
    for wait in waits[:_SHOWN]:
        holder = str(wait.holder)
        if wait.holder.txn_id:
            started = client.database.read(
                lambda connection, holder=wait.holder: connection.execute(_STARTED, {"txn_id": holder.txn_id}).scalar()  # type: ignore[misc]
            )
            if started is not None:
                holder += f", open since {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(started / 1000))} UTC"
        who = f" ({wait.holder_info})" if wait.holder_info else ""
        parts.append(f"{wait.place} behind {holder}{who}")
    more = f" and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    return f"txn {txn_id} waits for {'; '.join(parts)}{more}"
