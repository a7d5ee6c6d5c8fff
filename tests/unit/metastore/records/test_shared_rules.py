"""Transactions across tasks as values: turns, limits, keepers."""

from dataclasses import replace

import pytest

from airflow_hive_acid import errors
from airflow_hive_acid.metastore.records.shared_rules import (
    NO_KEEPER,
    Member,
    MemberState,
    SharedState,
    SharedTxn,
    Turn,
    describe,
    half_done,
    holder_in_the_way,
    holds_too_much,
    is_one_of,
    keeper_gone,
    too_old,
    unfinished,
)

HOUR = 3_600_000
TXN = SharedTxn(
    txn_id=7,
    scope=("airflow", "dag", "run", "load.begin", "-1"),
    agent="airflow/dag/run/load.begin#1",
    state=SharedState.OPEN,
    error=None,
    reason=None,
    document={},
    written={},
    statements={},
    turn=None,
    begun=0,
    until=24 * HOUR,
    most_bytes=None,
    kept=None,
    now=HOUR,
)


@pytest.mark.rule("R5")
@pytest.mark.parametrize(
    ("turn", "waits"),
    [
        (None, False),
        (Turn("t", "other", HOUR + 1), True),
        (Turn("t", "other", HOUR), False),  # over
        (Turn("t", "me", HOUR + 1), False),  # an earlier try of the same member
    ],
)
def test_whose_turn_it_is(turn, waits):
    assert (holder_in_the_way(replace(TXN, turn=turn), "me") is not None) == waits


def test_what_was_begun_and_not_finished():
    """Only who has published something must be undone; whoever has begun at all must finish before a commit."""
    members = [
        Member("a", "a", MemberState.DONE, ("job 1",)),
        Member("b", "b", MemberState.BEGUN, ("job 2",)),
        Member("c", "c", MemberState.BEGUN),
    ]
    assert [m.member for m in half_done(members)] == ["b"]
    assert unfinished(members) == ["b", "c"]


def test_age_is_limited():
    assert too_old(replace(TXN, now=24 * HOUR - 1)) is None
    why = too_old(replace(TXN, now=24 * HOUR))
    assert why.startswith("txn 7 of task load.begin of DAG dag, run run was begun at 1970-01-01 00:00:00 UTC")
    assert "24.0 h" in why


def test_bytes_held_back_are_limited():
    assert holds_too_much(TXN, 10**18) is None
    assert holds_too_much(replace(TXN, most_bytes=1000), 1000) is None
    assert "holds back 1,001 bytes from being cleaned, more than the 1,000" in holds_too_much(
        replace(TXN, most_bytes=1000), 1001
    )


@pytest.mark.rule("R9")
@pytest.mark.parametrize(
    ("kept", "now", "words"),
    [
        (None, 300_000 + 120_000, None),  # nobody yet: it may have to wait for a slot
        (None, 300_000 + 120_001, "never appeared"),
        (1000, 121_000, None),
        (1000, 121_001, "has gone (120 s"),
        (NO_KEEPER, 10**12, None),
    ],
)
def test_transaction_without_its_keeper_is_given_up(kept, now, words):
    why = keeper_gone(replace(TXN, kept=kept, now=now), silence_ms=120_000, grace_ms=300_000)
    assert why is None if words is None else words in why


def test_the_reason_of_an_end_says_how_long_by_which_setting_and_what_to_do():
    """What people read in the log of a task that found its transaction aborted."""
    begun = replace(TXN, begun=HOUR, until=25 * HOUR, now=26 * HOUR)
    assert too_old(begun) == (
        "txn 7 of task load.begin of DAG dag, run run was begun at 1970-01-01 01:00:00 UTC and is still open after "
        "25.0 h, longer than it may be (max_age, hive.acid.shared.txn.max.age): it was aborted, because its locks stop "
        "others and nothing after its snapshot can be cleaned. Look why the task that commits it did not run"
    )
    assert holds_too_much(replace(TXN, most_bytes=1000), 2_000_000) == (
        "txn 7 of task load.begin of DAG dag, run run holds back 2,000,000 bytes from being cleaned, more than the "
        "1,000 that it may (max_held_bytes, hive.acid.shared.txn.max.held.bytes): it was aborted. Make the transaction "
        "shorter, or raise the limit"
    )
    told = "(1800 s; hive.acid.shared.txn.keeper.timeout): it was aborted, because nobody keeps it alive between its "
    told += "tasks. Look at the triggerer"
    who = "the keeper of txn 7 of task load.begin of DAG dag, run run"
    never = keeper_gone(replace(begun, begun=HOUR, now=HOUR + 1_800_000), silence_ms=120_000, grace_ms=300_000)
    assert never == f"{who} never appeared {told}"
    gone = keeper_gone(replace(begun, kept=2 * HOUR, now=2 * HOUR + 1_800_000), silence_ms=120_000, grace_ms=300_000)
    assert gone == f"{who} has gone {told}"


def test_which_errors_are_tried_again():
    kinds = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    retry_on = ("WriteConflictError", "DeadlockError")
    assert [
        is_one_of(name, retry_on, kinds)
        for name in ("WriteConflictError", "DeadlockError", "TxnAbortedError", "ValueError", None)
    ] == [True, True, False, False, False]
    assert is_one_of("WriteConflictError", ("TxnAbortedError",), kinds)


def test_scopes_in_words():
    assert describe(("airflow", "d", "r", "t", "3")) == "task t[3] of DAG d, run r"
    assert describe(("cli", "key")) == "cli / key"
