"""How many examples a property is tried with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings

if TYPE_CHECKING:
    import pytest

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


def random_programs(metafunc: pytest.Metafunc, few: int = 1) -> None:
    """Run each test that asks for a ``seed`` with so many seeds as ``--programs`` says.

    :param few: how many without that option.
    """
    if "seed" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--programs")
        seeds = range(few if asked is None else asked)
        metafunc.parametrize("seed", seeds, ids=[f"seed{seed}" for seed in seeds])
