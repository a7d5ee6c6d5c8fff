"""A set of ids kept as ranges: a gap of millions of ids takes no more room than one id.

Ids are given in order, so what is open or aborted comes in runs; after a jump of ids (a seed, a sequence that was set)
one run may be very long (Hive lists such ids one by one: openTxns step 8, getOpenTxns). The value never changes and is
equal to a ``frozenset`` of the same ids.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Set as AbstractSet
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class IdRanges(AbstractSet[int]):
    """An immutable set of ids, as ascending ranges that neither overlap nor touch.

    :param runs: ``(first, last)`` of each range, both included, in any order; a range with last below first is empty.
    """

    __slots__ = ("_before", "_highs", "_lows")
    _lows: list[int]
    _highs: list[int]
    _before: list[int] | None

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        lows: list[int] = []
        highs: list[int] = []
        for low, high in sorted(runs):
            if high < low:
                continue
            if highs and low <= highs[-1] + 1:
                highs[-1] = max(highs[-1], high)
            else:
                lows.append(low)
                highs.append(high)
        self._lows, self._highs, self._before = lows, highs, None

    @classmethod
    def of(cls, ids: Iterable[int]) -> IdRanges:
        """The set of these ids; the value itself when it is one already."""
        if isinstance(ids, IdRanges):
            return ids
        made = cls()
        if ascending := sorted(ids):
            jumps = [pair for pair in pairwise(ascending) if pair[1] > pair[0] + 1]
            made._lows = [ascending[0], *(above for _, above in jumps)]
            made._highs = [*(below for below, _ in jumps), ascending[-1]]
        return made

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> AbstractSet[Any]:
        return cls.of(it)

    @property
    def runs(self) -> Iterator[tuple[int, int]]:
        """``(first, last)`` of each range, ascending."""
        return zip(self._lows, self._highs, strict=True)

    @property
    def edges(self) -> Iterator[int]:
        """First id in, first id out, next one in, …: an id is in the set when an odd number of these is at or below."""
        return chain.from_iterable((low, high + 1) for low, high in self.runs)

    @property
    def first(self) -> int | None:
        """The smallest id, None of an empty set."""
        return self._lows[0] if self._lows else None

    def between(self, low: int, high: int) -> IdRanges:
        """Those from ``low`` to ``high``, both included."""
        start, end = bisect_left(self._highs, low), bisect_right(self._lows, high)
        if start == 0 and end == len(self._lows) and (not end or (low <= self._lows[0] and self._highs[-1] <= high)):
            return self
        runs = zip(self._lows[start:end], self._highs[start:end], strict=True)
        return IdRanges((max(low, first), min(high, last)) for first, last in runs)

    def up_to(self, high: int) -> IdRanges:
        """Those at or below ``high``."""
        return self if not self._lows else self.between(self._lows[0], high)

    def count_between(self, low: int, high: int) -> int:
        """How many of the ids ``low`` to ``high``, both included, are in the set."""
        return max(0, self._rank(high) - self._rank(low - 1)) if self._lows else 0

    def _rank(self, id_: int) -> int:
        """How many ids are at or below this one."""
        number = bisect_right(self._lows, id_)
        if not number:
            return 0
        at = number - 1
        return self._counts()[at] + min(id_, self._highs[at]) - self._lows[at] + 1

    def _counts(self) -> list[int]:
        """How many ids are in the ranges before each, and in all of them."""
        if self._before is None:
            self._before = list(accumulate((high - low + 1 for low, high in self.runs), initial=0))
        return self._before

    def __contains__(self, id_: object) -> bool:
        if not self._lows or not isinstance(id_, int):
            return False
        at = bisect_left(self._highs, id_)
        return at < len(self._highs) and self._lows[at] <= id_

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(range(low, high + 1) for low, high in self.runs)

    def __len__(self) -> int:
        return self._counts()[-1]

    def __bool__(self) -> bool:
        return bool(self._lows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, IdRanges):
            return self._lows == other._lows and self._highs == other._highs
        return super().__eq__(other)

    __hash__ = AbstractSet._hash

    def __or__(self, other: AbstractSet[Any]) -> IdRanges:
        if not isinstance(other, AbstractSet):
            return NotImplemented
        others = IdRanges.of(other)
        if not others or not self:
            return others or self
        return IdRanges(chain(self.runs, others.runs))

    __ror__ = __or__

    def __sub__(self, other: AbstractSet[Any]) -> IdRanges:
        if not isinstance(other, AbstractSet):
            return NotImplemented
        return IdRanges(_without(self, IdRanges.of(other)))

    def __repr__(self) -> str:
        shown = [f"{low}-{high}" if high > low else str(low) for low, high in self.runs]
        return f"IdRanges({','.join(shown[:20])}{',…' if len(shown) > 20 else ''})"


def _without(ids: IdRanges, gone: IdRanges) -> Iterator[tuple[int, int]]:
    for low, high in ids.runs:
        rest = low
        for first, last in gone.between(low, high).runs:
            yield rest, first - 1
            rest = last + 1
        yield rest, high


NO_IDS = IdRanges()
