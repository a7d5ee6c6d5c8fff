"""The record of a transaction across tasks under members that overlap, die and wake up in random orders."""

import random
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import ClaimLostError
from airflow_hive_acid.metastore.records.shared_rules import MemberState, SharedState, unfinished
from airflow_hive_acid.metastore.records.shared_txns import NewSharedTxn
from airflow_hive_acid.metastore.schema.shared_txns import HIVE_ACID_SHARED_TXN

ORDERS = 40
MEMBERS = ("a", "b", "c")
HOUR = 3_600_000


@dataclass
class World:
    """What storage holds: a job publishes unless it is fenced; to fence it is to remove what it published (R4)."""

    fenced: set[str] = field(default_factory=set)
    published: set[str] = field(default_factory=set)
    jobs: int = 0

    def publish(self, job):
        if job not in self.fenced:
            self.published.add(job)

    def fence(self, jobs):
        self.fenced |= set(jobs)
        self.published -= set(jobs)


class Try:
    """One try of a member: each step may be its last, and may come when somebody else has long taken over."""

    def __init__(self, shared, world, txn_id, member):
        self._shared, self._world, self._txn_id, self._member = shared, world, txn_id, member
        self._steps = self._work()
        self.over = False

    def step(self):
        try:
            next(self._steps)
        except (StopIteration, ClaimLostError):
            self.over = True

    def _work(self):
        taken = self._shared.take_turn(self._txn_id, self._member, self._member, HOUR)
        if taken.token is None:
            return
        yield
        for member in taken.half_done:
            self._world.fence(member.jobs)
            yield
        self._shared.undone(self._txn_id, taken.token, [m.member for m in taken.half_done])
        yield
        mine = []
        for _ in range(2):
            self._world.jobs += 1
            job = f"{self._member}{self._world.jobs}"
            self._shared.record_job(self._txn_id, taken.token, self._member, job, {"w.t": self._world.jobs})
            yield
            self._world.publish(job)
            mine.append(job)
            yield
        written = {"jobs": [*taken.txn.written.get("jobs", ()), *mine]}
        self._shared.finish(self._txn_id, taken.token, self._member, written, [{"jobs": mine}])


@pytest.fixture
def shared(client):
    client.create_schema()
    return client.shared_txns


@pytest.mark.rule("R5")
@pytest.mark.rule("R14")
@pytest.mark.rule("R17")
@pytest.mark.parametrize("seed", range(ORDERS))
@pytest.mark.backends("sqlite")
def test_whatever_the_order_each_member_is_there_once_or_nothing_is(client, shared, seed):
    """Tries of three members run a step at a time; turns run out under them; a commit or an abort comes at any moment.

    What is committed is what storage holds: of each member the jobs of the one try that has finished.
    """
    order, world, txn_id = random.Random(seed), World(), seed + 1
    shared.add(NewSharedTxn(txn_id, ("airflow", "d", "r", "t", "-1"), "agent", {"operations": {}}, HOUR))
    tries = [Try(shared, world, txn_id, member) for member in MEMBERS]
    ended = None
    for _ in range(300):
        move = order.random()
        if move < 0.05:
            tries.append(Try(shared, world, txn_id, order.choice(MEMBERS)))
        elif move < 0.08:
            expire(client, txn_id)
        elif move < 0.12:
            ended = ended or commit(client, world, txn_id)
        elif move < 0.122:
            ended = ended or shared.mark_aborted(txn_id, "X", "enough").state
        else:
            order.choice(tries).step()
    found = shared.get(txn_id)
    assert ended is None or found.state is ended
    if found.state is SharedState.COMMITTED:
        done = {m.member: m for m in shared.members(txn_id)}
        of_tries = [job for m in done.values() for job in m.result[0]["jobs"]]
        assert {m.state for m in done.values()} == {MemberState.DONE}
        assert sorted(of_tries) == sorted(world.published) == sorted(found.written["jobs"])
        assert len(of_tries) == 2 * len(done)


def expire(client, txn_id):
    table = HIVE_ACID_SHARED_TXN
    over = sa.update(table).where(table.c.HST_TXNID == txn_id).values(HST_TURN_UNTIL=0)
    client.database.run(lambda connection: connection.execute(over))


def commit(client, world, txn_id):
    """As the engine does it: the turn, nothing unfinished, storage as recorded (R5), the mark in one transaction."""
    shared = client.shared_txns
    taken = shared.take_turn(txn_id, "", "", HOUR)
    if taken.token is None:
        return None
    members = shared.members(txn_id)
    if not members or unfinished(members) or world.published != set(taken.txn.written.get("jobs", ())):
        shared.give_back(txn_id, taken.token)
        return None
    client.database.run(shared.at_commit(txn_id, taken.token))
    return SharedState.COMMITTED


def test_enough_of_the_orders_end_in_a_commit(client, shared):
    """The test above would prove little if nothing were ever committed: in a quiet order everything is."""
    shared.add(NewSharedTxn(1, ("cli", "k"), "agent", {"operations": {}}, HOUR))
    world = World()
    for member in MEMBERS:
        one = Try(shared, world, 1, member)
        while not one.over:
            one.step()
    assert commit(client, world, 1) is SharedState.COMMITTED
    assert commit(client, world, 1) is None
    with pytest.raises(ClaimLostError, match="was given up, or another try commits it"):
        client.database.run(shared.at_commit(1, "a token of somebody else"))
    assert shared.mark_aborted(1, "X", "too late").state is SharedState.COMMITTED
    assert shared.add(NewSharedTxn(1, ("cli", "k"), "agent", {}, HOUR)).state is SharedState.COMMITTED
