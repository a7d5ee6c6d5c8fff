"""The record of a unit of work, when the answer to its commit was lost: what became of it is found out once (R17)."""

import pytest

from airflow_hive_acid.errors import ClaimLostError
from airflow_hive_acid.metastore.records.claim_rules import Recorded, Wish
from airflow_hive_acid.metastore.records.claims import Unapplied

pytestmark = pytest.mark.rule("R17")

WISH = Wish(("a dag", "a run", "a task"), 1, "digest")
RESULT = [{"statement": "INSERT"}]


def test_a_commit_that_happened_is_settled_with_its_result(client):
    claim = client.claims.take(WISH)
    client.claims.begun(claim, 7)
    client.database.run(client.claims.at_commit(claim, 7, RESULT))
    settled = client.claims.settle(claim)
    assert isinstance(settled, Recorded)
    assert (settled.txn_id, list(settled.result)) == (7, RESULT)


def test_a_commit_that_did_not_happen_names_its_txn_and_cannot_happen_later(client):
    claim = client.claims.take(WISH)
    client.claims.begun(claim, 7)
    assert client.claims.settle(claim) == Unapplied((7,))
    with pytest.raises(ClaimLostError):
        client.database.run(client.claims.at_commit(claim, 7, RESULT))
    assert client.claims.take(WISH).earlier_txns == (7,)


def test_a_unit_without_a_txn_leaves_none_to_end(client):
    assert client.claims.settle(client.claims.take(WISH)) == Unapplied()


def test_a_unit_that_another_try_has_taken_over_is_settled_by_that_one(client):
    claim = client.claims.take(WISH)
    client.claims.begun(claim, 7)
    later = client.claims.take(WISH)
    assert later.earlier_txns == (7,)
    assert client.claims.settle(claim) == Unapplied()
    client.claims.begun(later, 8)
