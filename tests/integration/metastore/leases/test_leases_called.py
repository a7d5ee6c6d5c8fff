"""Who waits for a lease on PostgreSQL is called: on the connection that stands in line, and no call is lost.

The pause between two looks of one's own is a minute here: what is granted within it was called for.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import LeaseAlreadyExistsError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.backend import finish_batch
from airflow_hive_acid.metastore.database.wakeups import LeaseWaiter, listen_steps, unlisten_steps, wake_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.metastore.leases.model import Lease

pytestmark = [pytest.mark.backends("postgresql"), pytest.mark.hive4("no mirrored leases")]
_ACTIVITY = sa.table("pg_stat_activity", sa.column("pid"), sa.column("datname"), sa.column("query"))
_OTHERS = sa.and_(_ACTIVITY.c.datname == sa.func.current_database(), _ACTIVITY.c.pid != sa.func.pg_backend_pid())


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_hive_acid.metastore.leases.queue._CALLED_PAUSE", 60.0)


@pytest.fixture
def other(metastore_url: str) -> Iterator[MetastoreClient]:
    with MetastoreClient(metastore_url, user="bob") as client:
        yield client


class Waiting:
    """Somebody who waits for db.t in a thread."""

    def __init__(self, client: MetastoreClient, seconds: float = 300) -> None:
        self.lease: Lease | None = None

        def wait() -> None:
            self.lease = client.leases.grab_lease("db.t", 60, seconds, mirror=False)

        self._thread = threading.Thread(target=wait, daemon=True)
        self._thread.start()

    def granted(self) -> Lease:
        self._thread.join(55)
        assert self.lease is not None
        return self.lease


def until(condition: Callable[[], Any]) -> None:
    pause = threading.Event()
    for _ in range(6000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("nothing happened within a minute")


def listening(client: MetastoreClient) -> list[Any]:
    """Channels that the connection of the client's verbs listens to."""
    channels = sa.select(sa.func.pg_listening_channels())
    return client.database.run(lambda connection: list(connection.execute(channels)), hot=True)


def test_a_waiter_is_called_on_the_connection_that_stands_in_line(
    client: MetastoreClient, other: MetastoreClient, rows: Any
) -> None:
    """
    t1  ann holds
    t2              bob stands in line, and listens, with one connection
    t3  ann drops
    t4              bob is called, and listens no more
    """
    held = client.leases.grab_lease("db.t", 60, mirror=False)
    bob = Waiting(other)
    until(lambda: rows.count("HIVE_ACID_LEASE_QUEUE"))
    counted = sa.select(sa.func.count()).where(_OTHERS)
    before = client.database.run(lambda connection: connection.execute(counted).scalar_one(), hot=True)
    client.leases.drop_lease(held)
    granted = bob.granted()
    assert granted.lease_id > held.lease_id
    assert client.database.run(lambda connection: connection.execute(counted).scalar_one(), hot=True) == before
    assert listening(other) == []


def test_who_gave_up_listens_no_more(client: MetastoreClient, other: MetastoreClient, rows: Any) -> None:
    client.leases.grab_lease("db.t", 60, mirror=False)
    with pytest.raises(LeaseAlreadyExistsError):
        other.leases.grab_lease("db.t", 60, 0.05, mirror=False)
    assert rows.count("HIVE_ACID_LEASE_QUEUE") == 0
    assert listening(other) == []


def test_who_loses_the_connection_stands_in_line_anew(
    client: MetastoreClient, other: MetastoreClient, rows: Any
) -> None:
    """The place was not waited for to be on disk: after a crash its number may be somebody else's."""
    held = client.leases.grab_lease("db.t", 60, mirror=False)
    bob = Waiting(other)
    until(lambda: rows.count("HIVE_ACID_LEASE_QUEUE"))
    first = rows.select("HIVE_ACID_LEASE_QUEUE", "HLQ_TICKET")
    with client.database.transaction() as connection:
        connection.execute(sa.select(sa.func.pg_terminate_backend(_ACTIVITY.c.pid)).where(_OTHERS))
    until(lambda: rows.select("HIVE_ACID_LEASE_QUEUE", "HLQ_TICKET") not in ([], first))
    client.leases.drop_lease(held)
    assert bob.granted().lease_id > held.lease_id


def test_no_call_is_lost_whoever_reads_it(client: MetastoreClient, other: MetastoreClient) -> None:
    """The driver reads what arrives while a statement runs; before the first nap, and between two."""
    with other.database.own_connection() as own:
        assert own is not None
        waiter = LeaseWaiter(own)
        other.database.run(lambda connection: finish_batch(connection, listen_steps(5)), hot=True)
        for ticket, called in ((5, True), (5, True), (21, False)):  # 21 is called on the channel of 5
            with client.database.transaction() as connection:
                (call,) = wake_steps(connection, [ticket])
                connection.execute(call.statement, dict(call.parameters))
            heard = str(ticket)
            until(lambda heard=heard: listening(other) and heard in waiter._called)  # type: ignore[misc]
            assert waiter.nap(0, 5) is called
        waiter.stop()
        other.database.run(lambda connection: finish_batch(connection, unlisten_steps()), hot=True)
    assert listening(other) == []
