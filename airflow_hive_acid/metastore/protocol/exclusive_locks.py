"""Exclusive locks for as long as a block runs: what DDL holds while it changes a table."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.metastore.locks.interface import describe_components
from airflow_hive_acid.metastore.protocol.lock_wait import abort_reason, wait_until_granted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_hive_acid.metastore.locks.interface import LockComponent
    from airflow_hive_acid.metastore.verbs import Verbs


@contextlib.contextmanager
def hold_exclusively(
    client: Verbs,
    components: Sequence[LockComponent],
    agent_info: str | None,
    sleep: Callable[[float], None] | None = None,
) -> Iterator[int]:
    """Take the locks inside a txn of their own, wait for them, and give them back at the end.

    The txn writes nothing; it is there because its heartbeats keep the locks alive.

    :raises LockTimeoutError: when they were not granted in time; nothing is left behind.
    """
    txn_id = client.open_txn(agent_info=agent_info)
    client.heartbeats.add(txn_id)
    try:
        response = client.lock(components, txn_id=txn_id, agent_info=agent_info)
        yield wait_until_granted(client, response, txn_id, describe_components(components), sleep).lock_id
    except BaseException as error:
        client.heartbeats.remove(txn_id)
        with contextlib.suppress(HiveAcidError):  # it then times out; the first error is the one to hear
            client.abort_txn(txn_id, abort_reason(error))
        raise
    client.heartbeats.remove(txn_id)
    client.commit_txn(txn_id)
