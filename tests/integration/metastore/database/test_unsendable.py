"""Values that a driver cannot even send: an error of ours on every database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.every_database

BEYOND = 10**30
CALLS: dict[str, Callable[[MetastoreClient], Any]] = {
    "abort": lambda c: c.abort_txn(BEYOND),
    "abort many": lambda c: c.abort_txns([BEYOND]),
    "heartbeat": lambda c: c.heartbeat(2**63),
    "commit": lambda c: c.commit_txn(BEYOND),
    "unlock": lambda c: c.unlock(BEYOND),
    "check lock": lambda c: c.check_lock(BEYOND),
    "user": lambda c: c.open_txn(user="\ud800"),
    "agent": lambda c: c.open_txn(agent_info="\udfff"),
    "partition": lambda c: c.catalog.add_partitions("w.t", ["k=\ud800"]),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_value_that_no_column_can_hold_is_refused_in_our_words(client: MetastoreClient, what: str) -> None:
    with pytest.raises(HiveAcidError):
        CALLS[what](client)
    assert client.show_transactions() == []


def test_an_id_of_more_than_64_bits_is_called_a_value_that_is_not_accepted(client: MetastoreClient) -> None:
    with pytest.raises(InvalidArgumentsError, match="does not accept a value"):
        client.abort_txn(BEYOND)
