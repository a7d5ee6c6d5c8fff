"""R14 as a function: retry, re-run or take-over, by the record that is there."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.records.claim_rules import (
    ClaimRecord,
    ClaimState,
    Recorded,
    Rerun,
    TakeOver,
    Wish,
    decide,
)

WISH = Wish(("dag", "run", "task", "-1"), 1, "digest", "0")
RESULT = ({"kind": "insert"},)


def record(state=ClaimState.COMMITTED, **changes):
    return dataclasses.replace(ClaimRecord(state, "somebody", "digest", "0", 7, (), RESULT), **changes)


def test_what_nobody_claimed_is_applied():
    assert decide(None, WISH) == TakeOver()


def test_claim_is_taken_over_with_all_txns_that_may_not_be_fenced():
    found = record(ClaimState.CLAIMED, txn_id=9, earlier_txns=(3, 5), result=None)
    assert decide(found, WISH) == TakeOver((3, 5, 9))


def test_claim_without_txn_has_nothing_to_fence():
    assert decide(record(ClaimState.CLAIMED, txn_id=None, result=None), WISH) == TakeOver()


def test_claim_is_taken_over_with_another_text_too_because_nothing_was_applied():
    assert decide(record(ClaimState.CLAIMED, digest="other", result=None), WISH) == TakeOver((7,))


def test_retry_after_commit_and_crash_gets_the_result():
    assert decide(record(), WISH) == Recorded(7, RESULT)


def test_committed_and_never_acknowledged_is_a_retry_in_another_life_too():
    assert decide(record(life="5"), WISH) == Recorded(7, RESULT)


def test_retry_between_acknowledgement_and_airflows_success_gets_the_result():
    assert decide(record(ClaimState.ACKNOWLEDGED), WISH) == Recorded(7, RESULT)


def test_new_life_of_an_acknowledged_unit_is_a_deliberate_rerun():
    found = record(ClaimState.ACKNOWLEDGED, life="5", digest="other")
    assert decide(found, WISH) == TakeOver(again=True)
    assert decide(found, dataclasses.replace(WISH, on_rerun=Rerun.SKIP)) == Recorded(7, RESULT, skipped=True)


@pytest.mark.parametrize("state", [ClaimState.COMMITTED, ClaimState.ACKNOWLEDGED])
def test_another_text_under_a_committed_key_is_refused_with_the_remedy(state):
    with pytest.raises(InvalidArgumentsError, match=r"statement 1 of dag / run / task / -1 .* txn 7; .*same text"):
        decide(record(state, digest="other"), WISH)


@given(
    st.sampled_from(ClaimState),
    st.sampled_from(["0", "1"]),
    st.sampled_from(["digest", "other"]),
    st.sampled_from(Rerun),
)
def test_what_was_committed_in_this_life_is_never_applied_again(state, life, digest, on_rerun):
    wish = dataclasses.replace(WISH, on_rerun=on_rerun)
    try:
        decision = decide(record(state, life=life, digest=digest), wish)
    except InvalidArgumentsError:
        return
    if isinstance(decision, TakeOver):
        assert state is ClaimState.CLAIMED or life != wish.life


def test_the_refusal_of_another_text_says_why_and_both_ways_out():
    told = (
        "statement 1 of dag / run / task / -1 has another text, or is about other tables, than the one that an earlier "
        "try has committed%s; applying both could apply something twice. Templates must give the same text and "
        "database in every try (use ts or ds, not the time of day). If the statement was changed on purpose, clear the "
        "task once it has succeeded, or give it another task_id"
    )
    for txn_id, where in ((7, " as txn 7"), (None, "")):
        with pytest.raises(InvalidArgumentsError) as caught:
            decide(record(digest="other", txn_id=txn_id), WISH)
        assert str(caught.value) == told % where


def test_a_committed_claim_always_has_a_result():
    with pytest.raises(AssertionError, match=r"^a committed claim without its result$"):
        decide(record(result=None), WISH)
