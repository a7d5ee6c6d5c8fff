"""Any order of requests, checks and releases against a queue that looks at everything ahead of a request."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks.compatibility import Lock
from airflow_hive_acid.metastore.locks.interface import LockComponent
from tests.examples import examples
from tests.models import PLACES, Place, embedded_metastore, must_wait

Wanted = list[tuple[Place, LockType]]
wanted: st.SearchStrategy[Wanted] = st.lists(
    st.tuples(st.sampled_from(PLACES), st.sampled_from(list(LockType))),
    min_size=1,
    max_size=3,
    unique_by=lambda part: part[0],
)
#: Who asks (0: outside a txn), or which of the requests so far is checked or let go.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 3), wanted),
        st.tuples(st.sampled_from(["check", "release"]), st.integers(0, 9), st.just([])),
    ),
    min_size=2,
    max_size=12,
)


@dataclass
class Queue:
    """Requests by lock id; a request waits for whatever stands before it and does not go with it, held or not."""

    last: int = 0
    requests: dict[int, list[Lock]] = field(default_factory=dict)
    granted: set[int] = field(default_factory=set)

    def ask(self, txn_id: int, parts: Wanted) -> tuple[int, bool]:
        """Its id, which nobody had before, and whether it is granted."""
        self.last = lock_id = self.last + 1
        self.requests[lock_id] = [Lock(lock_id, i, txn_id, *place, kind) for i, (place, kind) in enumerate(parts, 1)]
        return lock_id, self.check(lock_id)

    def check(self, lock_id: int) -> bool:
        if lock_id not in self.granted:
            before = [lock for other, locks in self.requests.items() if other < lock_id for lock in locks]
            if not any(must_wait(mine, ahead) for mine in self.requests[lock_id] for ahead in before):
                self.granted.add(lock_id)
        return lock_id in self.granted

    def txn_of(self, lock_id: int) -> int:
        return self.requests[lock_id][0].txn_id

    def end(self, txn_id: int) -> None:
        for lock_id in [i for i in self.requests if self.txn_of(i) == txn_id]:
            del self.requests[lock_id]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_requests_are_granted_exactly_when_the_queue_grants_them(history: list[tuple[str, int, Wanted]]) -> None:
    with embedded_metastore() as client:
        queue, txns = Queue(), [0, *client.open_txns(3)]
        for kind, number, parts in history:
            if kind == "ask":
                components = [LockComponent(*place, type_, Operation.NO_TXN) for place, type_ in parts]
                answer = client.lock(components, txn_id=txns[number])
                assert (answer.lock_id, answer.state is LockState.ACQUIRED) == queue.ask(txns[number], parts)
                continue
            if not queue.requests:
                continue
            lock_id = sorted(queue.requests)[number % len(queue.requests)]
            txn_id = queue.txn_of(lock_id)
            if kind == "check":
                assert (client.check_lock(lock_id).state is LockState.ACQUIRED) == queue.check(lock_id)
            elif txn_id and lock_id in queue.granted:  # goes with its txn only
                client.abort_txn(txn_id)
                queue.end(txn_id)
                txns[txns.index(txn_id)] = client.open_txn()
            else:
                client.unlock(lock_id)
                del queue.requests[lock_id]
        held = {row.lock_id for row in client.show_locks() if row.state is LockState.ACQUIRED}
        assert held == queue.granted & set(queue.requests)
