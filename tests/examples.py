"""How many examples a property is tried with."""

from __future__ import annotations

from hypothesis import settings


def examples(number: int) -> int:
    """Of so many examples, the part that this run tries: a quarter, all with ``--hypothesis-profile whole``.

    :param number: how many examples the property asks for.
    """
    return max(1, number * settings().max_examples // 100)
