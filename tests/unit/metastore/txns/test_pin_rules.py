"""Pins as values: what is a name, a duration, a budget, a comment, and when a pin has to end."""

import time
from dataclasses import replace

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import PartitionRef
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.metastore.records import shared_rules
from airflow_hive_acid.metastore.txns.pin_rules import (
    Pin,
    PinnedTable,
    PinState,
    checked_budget,
    checked_comment,
    checked_duration_ms,
    checked_name,
    moment,
    overdue,
)

DAY = 86_400_000
PIN = Pin(
    id=1,
    name="before the load",
    state=PinState.ACTIVE,
    txn_id=7,
    created=0,
    expires=2 * DAY,
    max_bytes=None,
    held_bytes=5,
    user="ann",
    comment="why",
    tables=("db.a", "db.b"),
    ended=None,
    end_txn=None,
    reason=None,
    txn_open=True,
    now=DAY,
)


@pytest.mark.parametrize("name", ["a", "_", "9", "A z", "a_b.c:d/e+f-g", "x" * 128])
def test_names_of_pins(name):
    assert checked_name(name) == name


@pytest.mark.parametrize("name", ["", " a", "a ", ".a", "-a", "a\n", "a;b", "é", "x" * 129, None, 7, b"a"])
def test_what_is_no_name_of_a_pin_is_shown_with_the_rule(name):
    with pytest.raises(InvalidArgumentsError) as caught:
        checked_name(name)
    assert str(caught.value) == (
        f"name: {name!r} is no name of a pin; letters, digits, blanks and _ . : / + - are, at most 128 of them"
    )


@pytest.mark.parametrize(
    ("seconds", "milliseconds"), [(1, 1000), (1.0, 1000), (1.2346, 1235), (60, 60_000), (315_360_000, 315_360_000_000)]
)
def test_a_pin_lasts_from_a_second_to_ten_years(seconds, milliseconds):
    assert checked_duration_ms(seconds) == milliseconds


@pytest.mark.parametrize("seconds", [0, 0.999, -1, 315_360_001, True, "60", None, float("nan"), float("inf")])
def test_another_duration_is_shown_with_its_limits(seconds):
    with pytest.raises(InvalidArgumentsError) as caught:
        checked_duration_ms(seconds)
    assert str(caught.value) == f"expires: {seconds!r} must be seconds from now, from 1 to 315,360,000 (10 years)"


@pytest.mark.parametrize("most_bytes", [None, 1, 10**18])
def test_a_budget_is_a_number_of_bytes_or_none(most_bytes):
    assert checked_budget(most_bytes) == most_bytes


@pytest.mark.parametrize("most_bytes", [0, -1, 1.5, True, "1"])
def test_another_budget_is_shown_with_the_rule(most_bytes):
    with pytest.raises(InvalidArgumentsError) as caught:
        checked_budget(most_bytes)
    assert str(caught.value) == f"max_bytes: {most_bytes!r} must be a number of bytes, at least 1, or left out"


@pytest.mark.parametrize("comment", [None, "", "why", "x" * 4000])
def test_comments(comment):
    assert checked_comment(comment) == comment


@pytest.mark.parametrize(("comment", "shown"), [("a\0b", r"'a\x00b'"), (7, "7"), (b"why", "b'why'")])
def test_another_comment_is_shown_with_the_rule(comment, shown):
    with pytest.raises(InvalidArgumentsError) as caught:
        checked_comment(comment)
    assert str(caught.value) == f"comment: {shown} must be text of at most 4,000 characters, without NUL"


def test_a_comment_that_is_too_long_is_refused():
    with pytest.raises(InvalidArgumentsError, match="must be text of at most 4,000 characters"):
        checked_comment("x" * 4001)


def test_a_pin_ends_in_the_millisecond_of_its_expiry():
    assert overdue(replace(PIN, now=2 * DAY - 1)) is None
    assert overdue(replace(PIN, now=2 * DAY)) == "it expired on 1970-01-03 00:00:00 UTC"


def test_a_pin_whose_txn_is_gone_protects_nothing_from_a_hive():
    assert overdue(replace(PIN, txn_open=False)) == (
        "its txn 7 was aborted from outside, so that a real Hive's Cleaner may have removed what it needs; pin again "
        "what is there"
    )


def test_a_pin_may_hold_back_its_budget_and_no_byte_more():
    assert overdue(replace(PIN, held_bytes=10**18)) is None
    assert overdue(replace(PIN, max_bytes=5000, held_bytes=5000)) is None
    assert overdue(replace(PIN, max_bytes=5000, held_bytes=5001)) == (
        "it held back 5,001 bytes from cleaning, and may hold back 5,000 (max_bytes)"
    )


def test_a_pin_as_plain_values():
    assert PIN.to_document() == {
        "name": "before the load",
        "state": "active",
        "tables": ["db.a", "db.b"],
        "user": "ann",
        "comment": "why",
        "created": "1970-01-01 00:00:00 UTC",
        "expires": "1970-01-03 00:00:00 UTC",
        "held_bytes": 5,
        "max_bytes": None,
        "txn_id": 7,
        "honoured_by_hive": True,
        "reason": None,
        "ended": None,
    }
    ended = replace(PIN, state=PinState.ENDED, ended=DAY, reason="dropped by ann").to_document()
    assert (ended["state"], ended["ended"], ended["reason"]) == ("ended", "1970-01-02 00:00:00 UTC", "dropped by ann")
    assert str(PIN) == "pin 'before the load'"


def test_a_moment_is_told_in_utc_to_the_second_wherever_the_service_runs(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert moment(1_700_000_000_999) == "2023-11-14 22:13:20 UTC"
        assert shared_rules._utc(1_700_000_000_999) == "2023-11-14 22:13:20 UTC"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_pin_sees_the_partitions_that_were_there():
    def pinned(*names):
        return PinnedTable(
            PIN,
            "db.a",
            ValidTxnList.parse(""),
            ValidWriteIdList.parse("db.a:3:9223372036854775807::"),
            tuple(PartitionRef(name, f"file:/w/{name}", ()) for name in names),
        )

    assert pinned("ds=1", "ds=2").sees("ds=2")
    assert not pinned("ds=1").sees("ds=2")
    assert not pinned().sees("ds=1")
    whole = replace(pinned(), partitions=None)
    assert whole.sees(None)
