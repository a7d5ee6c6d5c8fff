"""Txns of a policy's cycles: called after the cycle, so that the next one ends what a killed one has left open.

A cycle that begins has a higher epoch than all before it (:mod:`state`), and whoever has an older one changes nothing
of the policy any more. Its txns still hold locks, for which imports and drops would wait until they time out. To abort
them is what the reaper would do later: their commits are refused, and what they put into place is fenced and undone.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from sqlalchemy import select

from airflow_hive_acid.errors import JobsAliveError
from airflow_hive_acid.metastore.database import TxnType
from airflow_hive_acid.metastore.schema import TXNS
from airflow_hive_acid.replication.dumps.fences import fence_given_up

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.replication.site import Site

log = logging.getLogger(__name__)
_OPEN = select(TXNS.c.TXN_ID, TXNS.c.TXN_AGENT_INFO).where(
    TXNS.c.TXN_STATE == "o", TXNS.c.TXN_TYPE != int(TxnType.REPL_CREATED)
)


def agent_of(policy: str, epoch: int) -> str:
    """How the txns of a cycle are called in front."""
    return f"replication {policy} epoch {epoch}"


def end_earlier(site: Site, policy: str, epoch: int) -> list[int]:
    """Abort what earlier cycles of a policy have left open, and undo what that has put into place (R4).

    Txns that stand for the source's stay.

    :param epoch: of the cycle that begins.
    :return: ids of the txns.
    """
    earlier = re.compile(re.escape(agent_of(policy, 0)[:-1]) + r"([0-9]+): ")
    like = TXNS.c.TXN_AGENT_INFO.startswith(agent_of(policy, 0)[:-1], autoescape=True)

    def operation(connection: Connection) -> list[int]:
        found = []
        for txn_id, agent in connection.execute(_OPEN.where(like)):
            told = earlier.match(agent)  # LIKE of some databases takes capitals for small letters
            if told is not None and int(told[1]) < epoch:
                found.append(txn_id)
        return found

    txn_ids = site.client.database.read(operation)
    if txn_ids:
        why = f"replication {policy}: given up by its cycle; the next one began"
        # First, so that none commits any more; readers are kept away by its locks until it is undone.
        for each in site.client.give_up_txns(txn_ids, why).given_up:
            try:
                fence_given_up(site, (each,))
            except JobsAliveError as problem:
                log.warning("%s", problem)  # the import of that table says so, too
        site.client.abort_txns(txn_ids, why)
    return txn_ids
