"""A mirrored grab does not wait for the reaper when the txn in its way is nobody's any more (R4, R7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import LeaseAlreadyExistsError, TxnAbortedError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.schema.leases import HIVE_LEASE
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.metastore.protocol.transaction import Transaction

pytestmark = pytest.mark.hive4("no mirrored leases")

LONG = 600_000


@pytest.fixture
def ann(metastore_url: str) -> Iterator[MetastoreClient]:
    with MetastoreClient(metastore_url, Settings({Source.REQUEST: {"hive.acid.lease.mirror": "on"}})) as client:
        yield client


@pytest.fixture
def dead(metastore_url: str) -> Iterator[Transaction]:
    """A txn whose process is gone; it had a lease, which has ended."""
    with MetastoreClient(metastore_url, Settings({Source.REQUEST: {"hive.acid.lease.mirror": "on"}})) as client:
        lease = client.leases.grab_lease("db.t", 60)
        txn = client.begin({"db.t": "update"}, lease=lease)
        client.heartbeats.remove(txn.txn_id)
        with client.database.transaction() as connection:
            connection.execute(sa.update(HIVE_LEASE).values(END_UTC=1))
        yield txn


def fall_silent(client: MetastoreClient, txn_id: int) -> None:
    with client.database.transaction() as connection:
        beat = TXNS.c.TXN_LAST_HEARTBEAT
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_ID == txn_id).values(TXN_LAST_HEARTBEAT=beat - LONG))


@pytest.mark.rule("R4")
def test_the_txn_of_a_dead_holder_is_ended_by_the_next_who_wants_the_lease(
    ann: MetastoreClient, dead: Transaction, rows: Any
) -> None:
    """
    t1  A, with a lease, writes; its process dies, its lease ends
    t2            B wants a lease: A's txn may still be alive, B waits
    t3  hive.txn.timeout has passed since A's last heartbeat
    t4            B is granted; A could not commit any more
    """
    with pytest.raises(LeaseAlreadyExistsError, match=f"txn {dead.txn_id} "):
        ann.leases.grab_lease("db.t", 60)
    assert rows.txn_state(dead.txn_id)[0] == "o"
    fall_silent(ann, dead.txn_id)
    lease = ann.leases.grab_lease("db.t", 60)
    assert ann.leases.confirm_lease(lease)
    assert rows.txn_state(dead.txn_id)[0] == "a"
    with pytest.raises(TxnAbortedError):
        ann.commit_txn(dead.txn_id)


def test_who_waits_in_line_ends_it_too(ann: MetastoreClient, dead: Transaction, rows: Any) -> None:
    waiting = ann.leases.waiting_grab("db.t", 60)
    assert waiting.look() is None
    assert waiting.blocked is not None
    assert waiting.blocked.txn_id == dead.txn_id
    fall_silent(ann, dead.txn_id)
    waiting._stayed = None  # as if ten seconds had passed: only then is anything but looked at
    assert waiting.look() is not None
    assert rows.count("HIVE_ACID_LEASE_QUEUE") == 0


@pytest.mark.rule("R4")
@pytest.mark.parametrize("state", ["running", "publishing"])
def test_but_not_while_a_job_of_it_may_write(ann: MetastoreClient, dead: Transaction, rows: Any, state: str) -> None:
    """The reaper fences it first; it has the filesystem."""
    job = ann.jobs.start(
        job_id="j", txn_id=dead.txn_id, table="db.t", write_id=1, statement=0, kind="update", table_location="file:/t",
        staging="file:/t/_tmp_j",
    )  # fmt: skip
    rows.update("HIVE_ACID_JOB", {"HAJ_STATE": state[0]}, HAJ_TXNID=dead.txn_id)
    fall_silent(ann, dead.txn_id)
    with pytest.raises(LeaseAlreadyExistsError):
        ann.leases.grab_lease("db.t", 60)
    assert rows.txn_state(dead.txn_id)[0] == "o"
    ann.jobs.mark_fenced(job.job_id, "by the reaper")
    assert ann.leases.grab_lease("db.t", 60)


def test_nor_a_txn_of_replication_before_its_own_time(ann: MetastoreClient, dead: Transaction, rows: Any) -> None:
    rows.update("TXNS", {"TXN_TYPE": TxnType.REPL_CREATED.value}, TXN_ID=dead.txn_id)
    fall_silent(ann, dead.txn_id)
    with pytest.raises(LeaseAlreadyExistsError):
        ann.leases.grab_lease("db.t", 60)
    assert not ann.housekeeping.end_dead(10**9)
