"""Any interleaving of writers against a model of first-committer-wins that compares every pair of txns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from tests.examples import examples
from tests.models import embedded_metastore

if TYPE_CHECKING:
    from collections.abc import Sequence

WRITERS = 4
OPERATIONS = {"insert": Operation.INSERT, "update": Operation.UPDATE, "delete": Operation.DELETE}
PLACES = (("t", "p=1"), ("t", "p=2"), ("u", None))
CHANGES = {"update", "delete"}

writes = st.dictionaries(st.sampled_from(PLACES), st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=3)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Begin, then commit or abort, of each writer, in any order."""
    ends = st.sampled_from(["commit"] * 4 + ["abort"])
    steps = [step for i in range(WRITERS) for step in (("begin", i), (draw(ends), i))]
    order = draw(st.permutations(range(len(steps))))
    mixed = [steps[i] for i in order]
    begun: set[int] = set()
    history = []
    for kind, writer in mixed:  # whatever comes before its begin becomes the begin
        history.append((kind if writer in begun else "begin", writer))
        begun.add(writer)
    ended: set[int] = set()
    result = []
    for kind, writer in history:
        if kind == "begin" and any(w == writer for _, w in result):
            kind = "commit"
        if writer not in ended:
            result.append((kind, writer))
        if kind != "begin":
            ended.add(writer)
    return result


@dataclass
class Model:
    """Txn ids count up; a commit id is the largest txn id given so far."""

    largest: int = 0
    open: dict[int, int] = field(default_factory=dict)
    committed: list[tuple[int, int, set[tuple[str, str | None]]]] = field(default_factory=list)

    def begin(self, writer: int) -> int:
        self.largest += 1
        self.open[writer] = self.largest
        return self.largest

    def commit(self, writer: int, written: dict[tuple[str, str | None], str]) -> bool:
        """Whether it may commit."""
        me, end = self.open.pop(writer), self.largest
        mine = {place for place, operation in written.items() if operation in CHANGES}
        for other, other_end, theirs in self.committed:
            if me <= other_end and other <= end and mine & theirs:
                return False
        self.committed.append((me, end, mine))
        return True


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.lists(writes, min_size=WRITERS, max_size=WRITERS))
def test_commits_are_refused_exactly_when_the_model_refuses_them(
    history: list[tuple[str, int]], written: Sequence[dict[tuple[str, str | None], str]]
) -> None:
    with embedded_metastore() as client:
        model = Model()
        txns: dict[int, int] = {}
        for kind, writer in history:
            if kind == "begin":
                txns[writer] = client.open_txn()
                assert txns[writer] == model.begin(writer)
                client.lock(
                    [
                        LockComponent("db", table, partition, LockType.SHARED_WRITE, OPERATIONS[operation])
                        for (table, partition), operation in written[writer].items()
                    ],
                    txn_id=txns[writer],
                )
            elif kind == "abort":
                client.abort_txn(txns[writer])
                del model.open[writer]
            else:
                allowed = model.commit(writer, written[writer])
                try:
                    client.commit_txn(txns[writer])
                    assert allowed, (history, written, writer)
                except WriteConflictError:
                    assert not allowed, (history, written, writer)
