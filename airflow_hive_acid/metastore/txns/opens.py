"""Opens that are seen in time, or not at all (the end of Hive's openTxns; R11).

A txn id is given before its row can be seen, and readers wait for a missing one no longer than
``hive.txn.opentxn.timeout``. Whatever makes an open late (a lock, a slow network, a COMMIT that stalls in the server),
only who looks at the clock after the COMMIT has been answered can tell. So that is done here, on every path: txns that
were late are aborted before anybody learns their ids, and others are opened in their place.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select

from airflow_hive_acid.errors import MetastoreUnavailableError
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.database import MAX_TRIES, chunks
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database

log = logging.getLogger(__name__)

_LATE = (
    select(TXNS.c.TXN_ID)
    .where(TXNS.c.TXN_ID.in_(bindparam("ids", expanding=True)), TXNS.c.TXN_STARTED <= clock_ms() - bindparam("timeout"))
    .limit(1)
)


def open_in_time(
    database: Database,
    gap_timeout_ms: int,
    attempt: Callable[[], list[int]],
    undo: Callable[[Connection, list[int]], None],
    *,
    timer: Callable[[], float] = time.monotonic,
) -> list[int]:
    """Open txns, as often as it takes until readers could not have given them up.

    A fast open costs nothing: only if the whole of it took longer than the timeout is the database asked how old the
    rows are; those that have merely waited for a lock, behind which ids are given, are kept.

    :param gap_timeout_ms: ``hive.txn.opentxn.timeout``.
    :param attempt: opens and commits; returns the ids.
    :param undo: aborts txns that nobody works in.
    :raises MetastoreUnavailableError: when opens are late again and again.
    """
    if database.backend.one_writer:
        return attempt()  # the write transaction is the lock: no larger id is given before its COMMIT
    for _ in range(MAX_TRIES):
        started = timer()
        ids = attempt()
        if (timer() - started) * 1000 < gap_timeout_ms:
            return ids

        def look(connection: Connection, ids: list[int] = ids) -> bool:
            parts = (
                connection.execute(_LATE, {"ids": list(p), "timeout": gap_timeout_ms}).first() for p in chunks(ids)
            )
            late = any(row is not None for row in parts)
            if late:
                undo(connection, ids)
            return late

        if not database.run(look):
            return ids
        log.warning("txns %s became visible after hive.txn.opentxn.timeout; they are aborted, and others opened", ids)
    raise MetastoreUnavailableError(
        f"{MAX_TRIES} opens in a row were seen in the metastore {database.where} only after "
        f"hive.txn.opentxn.timeout ({gap_timeout_ms} ms); look for what delays its COMMITs (disks, a synchronous "
        "standby, the network), or raise the setting for everybody who uses this metastore, Hive included"
    )
