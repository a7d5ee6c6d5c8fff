"""Answers about the whole catalog, each of which serves for a while: as long as it took to get, once more.

No index finds a directory, so who asks whose it is reads the locations of the whole catalog. That takes seconds among a
million partitions, and what comes back is as old as that took. So whoever asks about 10,000 directories, one after the
other, may use an answer twice as old, and spends no more time on looks than on the rest of the work. Where a look takes
next to no time, each directory has one of its own.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")
T = TypeVar("T")

_LONGEST_S = 10.0


class Looks(Generic[K, T]):
    """What was found, by what was asked.

    :param look: asks.
    :param clock: seconds that only grow; tests give their own.
    """

    def __init__(self, look: Callable[[K], T], clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._clock = clock
        self._found: dict[K, tuple[T, float]] = {}

    def at(self, place: K) -> T:
        """What is there: found just now, or by a look that has not become older than twice what it took."""
        began = self._clock()
        if place in self._found and began < self._found[place][1]:
            return self._found[place][0]
        found = self._look(place)
        ended = self._clock()
        self._found[place] = found, ended + min(ended - began, _LONGEST_S)
        return found
