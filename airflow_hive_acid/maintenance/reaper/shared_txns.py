"""Ending transactions across tasks: given up by a member, its keeper, its end or the reaper; the first one counts.

First nobody may work in it any more, then its jobs are fenced, then it is aborted (R4); what is interrupted in between
is gone on with by the next one who looks. A transaction that was committed stays so (R17).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.format import paths
from airflow_hive_acid.maintenance.warehouse.fences import end_txns
from airflow_hive_acid.metastore.database import TxnState
from airflow_hive_acid.metastore.records import SharedState, SharedTxn, holds_too_much, too_old
from airflow_hive_acid.metastore.txns import txn_facts

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction import CleaningRecord

log = logging.getLogger(__name__)

LIMIT_ERROR = "TransactionLimitError"
OUTSIDE_ERROR = "TxnAbortedError"
_HELD_STILL_MS = 10 * 60_000
"""What the Cleaner has not noted for so long may have gone."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a look of the keeper came to.

    :param txn: the record; None when it is forgotten.
    :param limit: whether the keeper has just ended it, for its age or for what it holds back.
    """

    txn: SharedTxn | None
    limit: bool = False

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to keep."""
        return self.txn is None or self.txn.state is not SharedState.OPEN


def give_up(client: MetastoreClient, filesystem: Filesystem, txn_id: int, error: str, reason: str) -> SharedTxn:
    """Abort a transaction across tasks, unless it is committed.

    :param error: name of the class of the error that ends it.
    :param reason: for people: what happened.
    :return: the record as it is then; the first who ended it has said why.
    :raises NoSuchTxnError: when it is none.
    """
    txn = client.shared_txns.mark_aborted(txn_id, error, reason)
    if txn.state is SharedState.ABORTED:
        _finish(client, filesystem, txn)
    return txn


def keep(client: MetastoreClient, filesystem: Filesystem, txn_id: int, *, measure: bool) -> Kept:
    """A beat of the keeper: say that there is one, keep the txn alive, and end it where it has to end (R9).

    :param measure: also look how much it holds back from cleaning.
    """
    txn = client.shared_txns.keep(txn_id)
    if txn is None:
        return Kept(None)
    if txn.state is SharedState.ABORTED:
        _finish(client, filesystem, txn)
        return Kept(txn)
    if txn.state is SharedState.COMMITTED:
        return Kept(txn)
    why = too_old(txn)
    if why is None and measure and txn.most_bytes is not None:
        why = holds_too_much(txn, held_bytes(client, filesystem, txn))
    if why is not None:
        return Kept(give_up(client, filesystem, txn_id, LIMIT_ERROR, why), limit=True)
    outside = _ended_outside(client, txn)
    if outside is not None:
        return Kept(give_up(client, filesystem, txn_id, OUTSIDE_ERROR, outside))
    client.heartbeat(txn_id)
    return Kept(txn)


def end_overdue(client: MetastoreClient, filesystem: Filesystem) -> list[str]:
    """What the reaper does about transactions whose tasks never ended them.

    :return: for each, why it was ended: names DAG, run and task.
    """
    ended = []
    for txn in client.shared_txns.open_ones():
        why, error = too_old(txn), LIMIT_ERROR
        if why is None:
            why, error = _ended_outside(client, txn), OUTSIDE_ERROR
        if why is None:
            continue
        try:
            given_up = give_up(client, filesystem, txn.txn_id, error, why)
        except HiveAcidError as problem:
            log.warning("%s could not be ended: %s", txn, problem)
            continue
        if given_up.state is SharedState.ABORTED:
            log.warning("%s", why)
            ended.append(why)
    return ended


def held_bytes(client: MetastoreClient, filesystem: Filesystem, txn: SharedTxn) -> int:
    """Bytes that the Cleaner has noted it keeps for this txn; more than 200 directories of one place count as 200."""
    tables = {name.partition(".")[::2] for name in txn.document["operations"]}
    total = 0
    for database, table in sorted(tables):
        seen = set()
        for record in client.cleanings.newest(database, table):
            key = (record.resource, record.request_id)
            if key in seen or record.until < txn.now - _HELD_STILL_MS:
                continue
            seen.add(key)
            if any(holder.get("txn") == txn.txn_id for holder in record.details.get("for", ())):
                total += _bytes(client, filesystem, record)
    return total


def _bytes(client: MetastoreClient, filesystem: Filesystem, record: CleaningRecord) -> int:
    resource = record.resource
    table = client.catalog.get_table(f"{resource.database}.{resource.table}")
    location = table.location
    if resource.partition is not None:
        found = client.catalog.find_partitions(table.qualified_name, [resource.partition])
        if resource.partition not in found:
            return 0
        location = found[resource.partition].location
    total = 0
    for name in record.details.get("kept", ()):
        try:
            entries = filesystem.list_files(paths.join(location, name), recursive=True)
        except (FileNotFoundError, NotADirectoryError):
            continue  # cleaned meanwhile, or the line that says how many more there are
        total += sum(entry.size for entry in entries if not entry.is_dir)
    return total


def _ended_outside(client: MetastoreClient, txn: SharedTxn) -> str | None:
    """Why a txn is not open any more that nobody has ended by its record."""
    facts = client.database.read(lambda connection: txn_facts(connection, [txn.txn_id])).get(txn.txn_id)
    if facts is not None and facts.state is TxnState.OPEN:
        return None
    now = client.shared_txns.find(txn.txn_id)
    if now is None or now.state is not SharedState.OPEN:
        return None  # committed or aborted between the two looks
    return (
        f"{txn} was left open and aborted from outside: nobody kept it alive for hive.txn.timeout, or somebody aborted "
        "it by hand (SHOW TRANSACTIONS says which). Nothing of it is visible; clear the task that begins it"
    )


def _finish(client: MetastoreClient, filesystem: Filesystem, txn: SharedTxn) -> None:
    reason = txn.reason or "given up"
    # One that was aborted before may be forgotten; committed it cannot be, its record says so.
    end_txns(client, filesystem, [txn.txn_id], reason)
