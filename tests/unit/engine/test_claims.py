"""Units of a script as values: claimed, unclaimed, applied already."""

import dataclasses

import pytest

from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.engine.transactions.claims import UNCLAIMED, AlreadyApplied, Claimed
from airflow_hive_acid.errors import CommitStateUnknownError
from airflow_hive_acid.metastore.records import Claim, Recorded, Wish

CLAIM = Claim(Wish(("dag", "run", "task"), 2, "digest", "life"), "owner")


def test_nobody_can_find_out_what_became_of_a_unit_that_nobody_claimed():
    lost = CommitStateUnknownError("the answer was lost")
    with pytest.raises(CommitStateUnknownError) as raised:
        UNCLAIMED.settle(lost)
    assert raised.value is lost


def test_tries_of_a_claimed_unit_have_a_key_in_common_and_other_units_another():
    key = Claimed(CLAIM, None, None).key
    later = dataclasses.replace(CLAIM, owner="a later try", earlier_txns=(7,))
    assert Claimed(later, None, None).key == key
    other = dataclasses.replace(CLAIM, wish=dataclasses.replace(CLAIM.wish, unit=3))
    assert Claimed(other, None, None).key != key
    assert UNCLAIMED.key is None


def test_what_an_earlier_try_has_applied_is_given_again_from_its_record():
    result = StatementResult("INSERT INTO w.t VALUES (1)", "insert", inserted=1, txn_id=7)
    applied = AlreadyApplied.of(Recorded(7, [result.to_record()]))
    assert [(r.statement, r.inserted, r.txn_id) for r in applied.results] == [(result.statement, 1, 7)]
