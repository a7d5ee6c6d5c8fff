"""How many examples a property is tried with."""

from __future__ import annotations

from hypothesis import settings

_QUICK = 4
_parts = 1


def try_fewer() -> None:
    """From now on a quarter of the examples, for whoever wants to know soon; ``make test-all`` tries all.

    A profile of hypothesis with fewer examples, as scripts/mutants.py has one, stays.
    """
    global _parts
    _parts = _QUICK
    if settings().max_examples == 100:
        settings.register_profile("quick", max_examples=100 // _QUICK)
        settings.load_profile("quick")


def examples(number: int) -> int:
    """Of so many examples, the part that this run tries.

    :param number: how many the property asks for.
    """
    return max(1, number // _parts)


def places(number: int, every: int = 2) -> range:
    """Of so many places, from 1, those that this run tries: all, or each ``every``-th, as killing at each takes long.

    :param number: how many there are at most.
    :param every: 2 for every other one.
    """
    return range(1, number, 1 if _parts == 1 else every)
