"""The history checker finds each anomaly in a history that has it, and nothing in one that has none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.histories.checker import Outcome, Txn, check


def files(*write_ids: int) -> frozenset[tuple[int, int]]:
    """Both statements of each write."""
    return frozenset((w, s) for w in write_ids for s in range(2))


def txn(txn_id: int, reads: dict[str, Any], writes: dict[str, int] | None = None, **more: Any) -> Txn:
    """A committed txn of a client of its own that updates what it writes."""
    seen = {t: ids if isinstance(ids, frozenset) else files(*ids) for t, ids in reads.items()}
    outcome = more.pop("outcome", Outcome.COMMITTED)
    updates = frozenset(more.pop("updates", writes or {}))
    return Txn(txn_id, more.pop("client", txn_id), outcome, seen, writes=writes or {}, updates=updates, **more)


def found(*history: Txn, final: dict[str, tuple[int, ...]]) -> dict[str, int]:
    report = check(history, {t: frozenset(ids) for t, ids in final.items()})
    return {name: n for name, n in report.found.items() if n}


X0, Y0 = txn(1, {"x": []}, {"x": 1}), txn(2, {"y": []}, {"y": 1})

HISTORIES: dict[str, tuple[list[Txn], dict[str, tuple[int, ...]], set[str]]] = {
    "serial": (
        [X0, Y0, txn(3, {"x": [1], "y": [1]}, {"x": 2, "y": 2}), txn(4, {"x": [1, 2], "y": [1, 2]})],
        {"x": (1, 2), "y": (1, 2)},
        set(),
    ),
    "write skew": (
        [X0, Y0, txn(3, {"x": [1], "y": [1]}, {"x": 2}), txn(4, {"x": [1], "y": [1]}, {"y": 2})],
        {"x": (1, 2), "y": (1, 2)},
        {"write skew"},
    ),
    "inserts beside each other": (
        [txn(1, {"x": []}, {"x": 1}, updates=()), txn(2, {"x": []}, {"x": 2}, updates=())],
        {"x": (1, 2)},
        {"write skew"},  # each reads what the other adds to
    ),
    "G0": (
        [txn(3, {}, {"x": 1, "y": 2}, updates=("x", "y")), txn(4, {}, {"x": 2, "y": 1}, updates=("x", "y"))],
        {"x": (1, 2), "y": (1, 2)},
        {"G0", "G1c", "P4"},
    ),
    "G1a": ([txn(1, {"x": []}, {"x": 1}, outcome=Outcome.ABORTED), txn(2, {"x": [1]})], {"x": ()}, {"G1a"}),
    "G1a in the end": ([txn(1, {"x": []}, {"x": 1}, outcome=Outcome.ABORTED)], {"x": (1,)}, {"G1a"}),
    "G1b": ([X0, txn(2, {"x": frozenset({(1, 0)})})], {"x": (1,)}, {"G1b"}),
    "G1c": (
        [txn(1, {"x": [], "y": [1]}, {"x": 1}), txn(2, {"x": [1], "y": []}, {"y": 1})],
        {"x": (1,), "y": (1,)},
        {"G1c"},
    ),
    "OTV": (
        [txn(1, {"x": [], "y": []}, {"x": 1, "y": 1}), txn(2, {"x": [1], "y": []})],
        {"x": (1,), "y": (1,)},
        {"OTV", "G-single"},
    ),
    "PMP": ([X0, txn(2, {"x": []}, again={"x": files(1)})], {"x": (1,)}, {"PMP"}),
    "P4": (
        [X0, txn(3, {"x": [1]}, {"x": 2}), txn(4, {"x": [1]}, {"x": 3})],
        {"x": (1, 2, 3)},
        {"P4", "G-single"},
    ),
    "G-single": (
        # 4 saw what 3 did to y after it had seen x, and not what 3 had seen of x.
        [X0, Y0, txn(3, {"x": [1]}, {"x": 2}), txn(5, {"x": [1, 2], "y": [1]}, {"y": 2}),
         txn(4, {"x": [1], "y": [1, 2]})],
        {"x": (1, 2), "y": (1, 2)},
        {"G-single"},
    ),
    "long fork": (
        [X0, Y0, txn(3, {"x": [1]}, {"x": 2}), txn(4, {"y": [1]}, {"y": 2}),
         txn(5, {"x": [1, 2], "y": [1]}), txn(6, {"x": [1], "y": [1, 2]})],
        {"x": (1, 2), "y": (1, 2)},
        {"long fork"},
    ),
    "a client does not see its own past": (
        [txn(1, {"x": []}, {"x": 1}, client=7), txn(2, {"x": []}, client=7)], {"x": (1,)}, {"G-single"}),
    "lost commit": ([X0], {"x": ()}, {"lost commit"}),
    "an unknown end that was a commit": (
        [txn(1, {"x": []}, {"x": 1}, outcome=Outcome.UNKNOWN), txn(2, {"x": [1]})], {"x": (1,)}, set()),
    "an unknown end that was none": (
        [txn(1, {"x": []}, {"x": 1}, outcome=Outcome.UNKNOWN), txn(2, {"x": [1]})], {"x": ()}, {"G1a"}),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_each_history_shows_what_it_has_and_nothing_else(name: str) -> None:
    history, final, expected = HISTORIES[name]
    assert set(found(*history, final=final)) == expected


def test_a_long_history_without_anomalies_is_clean() -> None:
    """Five tables, updated one after the other by txns that see all before them."""
    state: dict[str, list[int]] = {t: [] for t in "abcde"}
    history = []
    for number in range(1, 400):
        table = "abcde"[number % 5]
        history.append(txn(number, {t: list(ids) for t, ids in state.items()}, {table: len(state[table]) + 1}))
        state[table].append(len(state[table]) + 1)
    assert found(*history, final={t: tuple(ids) for t, ids in state.items()}) == {}
