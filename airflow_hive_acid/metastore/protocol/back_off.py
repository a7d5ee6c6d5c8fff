"""How long a client waits for a lock: Hive's back-off as a pure function (DbLockManager).

100 ms, doubling, up to ``hive.lock.sleep.between.retries``, ``hive.lock.numretries`` times. Hive counts less than 15 s
as 15 s (DbLockManager), and so do we; a release wakes whoever waits long before that.
With the defaults that is 91 minutes and 42.3 seconds in all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_MS = 100
LEAST_LONGEST_MS = 15_000


def back_off_ms(tries: int, longest_ms: int) -> Iterator[int]:
    """The pauses before each further try, in milliseconds.

    :param tries: ``hive.lock.numretries``.
    :param longest_ms: ``hive.lock.sleep.between.retries``.
    """
    if tries < 0:
        raise InvalidArgumentsError(f"hive.lock.numretries is {tries}; give 0 or more")
    cap = max(LEAST_LONGEST_MS, longest_ms)
    pause = FIRST_MS
    for _ in range(tries):
        yield min(pause, cap)
        pause = min(pause * 2, cap)


def total_ms(tries: int, longest_ms: int) -> int:
    """The longest a client waits before it gives up."""
    return sum(back_off_ms(tries, longest_ms))
