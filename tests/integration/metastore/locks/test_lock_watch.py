"""Many requests watched together: who is granted, who gives up, and what it costs the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import DeadlockError, LocksPendingError, LockTimeoutError, NoSuchLockError
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.protocol.handover import Patience
from airflow_hive_acid.metastore.protocol.lock_watch import GivenUp, Granted, LockWatch, Watched
from airflow_hive_acid.metastore.protocol.table_uses import table_uses
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS
from airflow_hive_acid.metastore.schema.leases import HIVE_LEASE
from airflow_hive_acid.metastore.setup.schema import TXNS

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.rule("R9")


@pytest.fixture
def watch(client: MetastoreClient) -> LockWatch:
    return LockWatch(client, clock=lambda: 1000.0)


def waiter(client: MetastoreClient, table: str = "w.t", until: float = 2000.0, operation: str = "overwrite") -> Watched:
    """Somebody who wants to overwrite a table and has handed his request over."""
    with pytest.raises(LocksPendingError) as pending:
        client.begin({table: operation}, agent_info="airflow/sales/run/load#1", patience=Patience(0))
    document = pending.value.document
    return Watched(document["txn_id"], document["lock_id"], until)  # type: ignore[arg-type]


def heartbeat_in(client: MetastoreClient, txn_id: int) -> int:
    """Milliseconds by which the heartbeat lies in the future."""
    beat = sa.select(TXNS.c.TXN_LAST_HEARTBEAT).where(TXNS.c.TXN_ID == txn_id)
    with client.database.reading() as connection:
        return int(connection.execute(beat).scalar_one()) - now_ms(connection)


def test_request_is_granted_when_its_blocker_is_gone_and_its_heartbeat_covers_the_way_back(
    client: MetastoreClient, watch: LockWatch
) -> None:
    holder = client.begin({"w.t": "overwrite"})
    first, second = waiter(client), waiter(client)
    assert watch.look([second, first]) == {}
    holder.abort()
    assert watch.look([second, first]) == {first.lock_id: Granted()}
    assert heartbeat_in(client, first.txn_id) > 250_000
    client.abort_txn(first.txn_id)
    assert watch.look([second]) == {second.lock_id: Granted()}


@pytest.mark.hive4("no mirrored leases")
@pytest.mark.rule("R7")
def test_request_behind_a_lease_is_granted_when_that_has_ended_though_nobody_has_removed_it(
    client: MetastoreClient, watch: LockWatch
) -> None:
    """
    t1  somebody has a lease, and a task waits in the triggerer
    t2  the lease ends; its holder is dead, and the next pass of the reaper is minutes away
    """
    client.leases.grab_lease("w.t", 60)
    waits = waiter(client)
    assert watch.look([waits]) == {}
    with client.database.transaction() as connection:
        now = now_ms(connection)
        connection.execute(sa.update(HIVE_LEASE).values(END_UTC=now - 1))
        connection.execute(sa.update(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_TXNID == 0).values(HL_LAST_HEARTBEAT=now - 1))
    assert watch.look([waits]) == {waits.lock_id: Granted()}


def test_a_look_that_takes_long_tells_what_it_has_found_and_the_next_one_goes_on(client: MetastoreClient) -> None:
    """
    t1  three wait for one who overwrites, and would all be granted at once
    t2  he ends; a check takes 0.6 s by the clock of the test, a look a second
    t3  the first look grants two, the second one the third
    """
    seconds = iter(range(1000))
    watch = LockWatch(client, clock=lambda: 1000.0 + 0.6 * next(seconds))
    holder = client.begin({"w.t": "overwrite"})
    requests = [waiter(client, operation="insert") for _ in range(3)]
    holder.abort()
    first = watch.look(requests)
    assert first == {request.lock_id: Granted() for request in requests[:2]}
    assert watch.look(requests[2:]) == {requests[2].lock_id: Granted()}


def test_waiters_are_kept_alive_together(client: MetastoreClient, watch: LockWatch) -> None:
    holder = client.begin({"w.t": "overwrite"})
    requests = [waiter(client) for _ in range(3)]
    watch.look(requests)
    assert all(-60_000 < heartbeat_in(client, request.txn_id) <= 0 for request in requests)
    holder.abort()


def test_look_asks_the_same_number_of_questions_however_many_wait(client: MetastoreClient, watch: LockWatch) -> None:
    holder = client.begin({"w.t": "overwrite"})
    statements: list[str] = []
    sa.event.listen(
        client.database.engine, "before_cursor_execute", lambda _c, _u, statement, *_: statements.append(statement)
    )
    counts = []
    for number in (1, 12):
        requests = [waiter(client) for _ in range(number)]
        watch.look(requests)
        statements.clear()
        assert watch.look(requests) == {}
        counts.append(len(statements))
    assert counts[0] == counts[1]
    holder.abort()


def test_request_whose_txn_was_aborted_is_told_so(client: MetastoreClient, watch: LockWatch) -> None:
    holder = client.begin({"w.t": "overwrite"})
    request = waiter(client)
    client.abort_txn(request.txn_id, "by hand")
    (outcome,) = watch.look([request]).values()
    assert isinstance(outcome, GivenUp)
    assert isinstance(outcome.error, NoSuchLockError)
    holder.abort()


def test_wait_that_takes_too_long_ends_with_the_name_of_who_is_in_the_way(
    client: MetastoreClient, watch: LockWatch
) -> None:
    holder = client.begin({"w.t": "overwrite"}, agent_info="airflow/other_dag/run/task#2")
    request = waiter(client, until=999.0)
    (outcome,) = watch.look([request]).values()
    assert isinstance(outcome, GivenUp)
    assert isinstance(outcome.error, LockTimeoutError)
    assert f"behind txn {holder.txn_id}, open since 20" in str(outcome.error)
    assert "airflow/other_dag/run/task#2" in str(outcome.error)
    assert [txn.state.name for txn in client.show_transactions() if txn.txn_id == request.txn_id] == ["ABORTED"]
    holder.abort()


def test_one_of_two_that_wait_for_each_other_gives_way(client: MetastoreClient, watch: LockWatch) -> None:
    first, second = client.begin({"w.a": "overwrite"}), client.begin({"w.b": "overwrite"})
    requests = []
    for txn, table in ((first, "w.b"), (second, "w.a")):
        (use,) = table_uses({table: "overwrite"})
        lock = client.lock(use.component(), txn_id=txn.txn_id, agent_info="airflow/x")
        requests.append(Watched(txn.txn_id, lock.lock_id, 2000.0))
    outcomes = watch.look(requests)
    errors = [outcome.error for outcome in outcomes.values() if isinstance(outcome, GivenUp)]
    assert len(errors) == 1
    assert isinstance(errors[0], DeadlockError)


def test_nobody_waits(watch: LockWatch) -> None:
    assert watch.look([]) == {}
