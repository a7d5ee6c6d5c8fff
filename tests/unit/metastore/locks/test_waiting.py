"""The back-off of lock waits."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.protocol.back_off import back_off_ms, total_ms


def test_pauses_double_from_100_ms_up_to_the_longest() -> None:
    assert list(back_off_ms(12, 60_000)) == [
        100,
        200,
        400,
        800,
        1600,
        3200,
        6400,
        12_800,
        25_600,
        51_200,
        60_000,
        60_000,
    ]


def test_with_the_defaults_a_client_waits_91_minutes_and_42_3_seconds() -> None:
    assert total_ms(100, 60_000) == (91 * 60 + 42) * 1000 + 300


def test_the_longest_pause_is_never_below_15_seconds() -> None:
    assert max(back_off_ms(20, 1_000)) == 15_000


def test_no_tries_mean_no_wait() -> None:
    assert list(back_off_ms(0, 60_000)) == []
    with pytest.raises(InvalidArgumentsError, match=r"hive\.lock\.numretries is -1"):
        list(back_off_ms(-1, 60_000))
