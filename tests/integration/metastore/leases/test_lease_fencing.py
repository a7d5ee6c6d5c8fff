"""Leases and transactions: whose locks wait for whom (R6, R7), and who may still commit (R8)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    InvalidArgumentsError,
    LeaseAlreadyExistsError,
    LeaseEndedError,
    NoSuchLockError,
)
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.backend import lock_open_txns
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.leases.model import Lease
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.leases import HIVE_LEASE
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.hive4("no mirrored leases")

SR, SW, XW, X = LockType
ACQUIRED, WAITING = LockState.ACQUIRED, LockState.WAITING


def somebody(url: str, user: str, mirror: str = "on") -> MetastoreClient:
    return MetastoreClient(url, Settings({Source.REQUEST: {"hive.acid.lease.mirror": mirror}}), user=user)


@pytest.fixture
def ann(metastore_url: str) -> Iterator[MetastoreClient]:
    with somebody(metastore_url, "ann") as client:
        yield client


@pytest.fixture
def hive(metastore_url: str) -> Iterator[MetastoreClient]:
    """Somebody who knows nothing of leases, as a real Hive."""
    with MetastoreClient(metastore_url, user="hive") as client:
        yield client


def writes(client: MetastoreClient, place: str = "db.t", kind: LockType = SW) -> Any:
    """Ask for a lock in a new txn, as a statement of Hive's would."""
    object_, _, partition = place.partition("/")
    database, _, table = object_.partition(".")
    wanted = LockComponent(database, table or None, partition or None, kind, Operation.NO_TXN)
    return client.lock([wanted], txn_id=client.open_txn())


def end(client: MetastoreClient, lease: Lease) -> None:
    with client.database.transaction() as connection:
        now = now_ms(connection)
        connection.execute(sa.update(HIVE_LEASE).where(HIVE_LEASE.c.LEASE_ID == lease.lease_id).values(END_UTC=now - 1))


def end_in(client: MetastoreClient, lease: Lease, ms: int) -> None:
    """Let a lease end soon, whatever the machine was busy with before."""
    with client.database.transaction() as connection:
        soon = now_ms(connection) + ms
        connection.execute(sa.update(HIVE_LEASE).where(HIVE_LEASE.c.LEASE_ID == lease.lease_id).values(END_UTC=soon))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- R7: what a lease means to Hive -------------------------------------------------------------------------------


@pytest.mark.rule("R7")
@pytest.mark.parametrize("kind", ["x", "s"])
@pytest.mark.parametrize(("lock", "state"), [(SR, ACQUIRED), (SW, WAITING), (XW, WAITING), (X, WAITING)])
def test_hives_writers_wait_for_a_lease_and_its_readers_do_not(
    ann: MetastoreClient, hive: MetastoreClient, kind: str, lock: LockType, state: LockState
) -> None:
    lease = ann.leases.grab_lease("db.t", 60, lease_type=kind)
    answer = writes(hive, kind=lock)
    assert answer.state is state
    ann.leases.drop_lease(lease)
    assert hive.check_lock(answer.lock_id).state is ACQUIRED


@pytest.mark.rule("R7")
def test_all_shared_leases_of_an_object_are_one_lock_that_the_last_of_them_removes(
    ann: MetastoreClient, metastore_url: str, rows: Any
) -> None:
    with somebody(metastore_url, "bob") as bob:
        first = ann.leases.grab_lease("db.t", 60, lease_type="s")
        second = bob.leases.grab_lease("db.t", 600, lease_type="s")
        ((ext, kind, txn, beat),) = rows.select(
            "HIVE_LOCKS", "HL_LOCK_EXT_ID", "HL_LOCK_TYPE", "HL_TXNID", "HL_LAST_HEARTBEAT"
        )
        assert (kind, txn, beat) == ("x", 0, second.end_utc)
        bob.leases.drop_lease(second)
        assert rows.select("HIVE_LOCKS", "HL_LOCK_EXT_ID", "HL_LAST_HEARTBEAT") == [(ext, first.end_utc)]
        longer = ann.leases.extend_lease(first, lease_duration_sec=900)
        assert rows.select("HIVE_LOCKS", "HL_LAST_HEARTBEAT") == [(longer.end_utc,)]
        ann.leases.drop_lease(longer)
    assert rows.count("HIVE_LOCKS") == 0


@pytest.mark.rule("R7")
def test_hives_reaper_does_not_remove_the_lock_of_a_live_lease(ann: MetastoreClient, hive: MetastoreClient) -> None:
    """It removes locks whose last heartbeat is older than the time-out; a lease's is in the future."""
    lease = ann.leases.grab_lease("db.t", 3600)
    with hive.database.transaction() as connection:  # an hour less a second passes
        from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS

        connection.execute(sa.update(HIVE_LOCKS).values(HL_LAST_HEARTBEAT=HIVE_LOCKS.c.HL_LAST_HEARTBEAT - 3_599_000))
    assert hive.housekeeping.perform_time_outs().locks == 0
    assert ann.leases.confirm_lease(lease)


@pytest.mark.rule("R7")
def test_a_lock_that_was_removed_ends_the_lease(ann: MetastoreClient, metastore_url: str, rows: Any) -> None:
    lease = ann.leases.grab_lease(["db.t", "db.u"], 60)
    txn = ann.begin({"db.t": "insert"}, lease=lease)
    rows.delete("HIVE_LOCKS", HL_TXNID=0, HL_TABLE="t")
    for verb in (ann.leases.require_lease, ann.leases.extend_lease, ann.leases.drop_lease):
        with pytest.raises(LeaseEndedError, match="the lock that stood for it in Hive was removed"):
            verb(lease)
    with pytest.raises(LeaseEndedError):
        txn.commit()
    with somebody(metastore_url, "bob") as bob:
        assert bob.leases.grab_lease("db.t", 60).lease_id > lease.lease_id


@pytest.mark.rule("R7")
def test_a_grab_waits_for_hives_writers_and_they_for_it(ann: MetastoreClient, hive: MetastoreClient, rows: Any) -> None:
    """
    t1  Hive's W1 writes
    t2                   A wants a lease: waits, in Hive's queue, too
    t3  Hive's W2 wants to write: behind A, though W1 would let it
    t4  W1 commits
    t5                   A is granted
    t6                   A drops
    t7  W2 is granted
    """
    one = writes(hive)
    with pytest.raises(LeaseAlreadyExistsError, match=r"txn \d+ of hive .* writes db\.t"):
        ann.leases.grab_lease("db.t", 60)
    got: list[Lease] = []
    thread = threading.Thread(target=lambda: got.append(ann.leases.grab_lease("db.t", 60, 60)))
    thread.start()
    wait_for(lambda: rows.count("HIVE_LOCKS", HL_TXNID=0) == 1)
    two = writes(hive)
    assert two.state is WAITING
    hive.commit_txn(rows.select("HIVE_LOCKS", "HL_TXNID", HL_LOCK_EXT_ID=one.lock_id)[0][0])
    thread.join(60)
    assert hive.check_lock(two.lock_id).state is WAITING
    ann.leases.drop_lease(got[0])
    assert hive.check_lock(two.lock_id).state is ACQUIRED


@pytest.mark.rule("R7")
def test_a_writer_that_waits_for_an_ended_lease_removes_what_is_left_of_it(
    ann: MetastoreClient, hive: MetastoreClient, rows: Any
) -> None:
    lease = ann.leases.grab_lease("db.t", 60)
    waiting = writes(hive)
    assert hive.check_lock(waiting.lock_id).state is WAITING
    end(ann, lease)
    assert hive.check_lock(waiting.lock_id).state is ACQUIRED
    assert (rows.count("HIVE_LEASE"), rows.count("HIVE_LOCKS")) == (0, 1)


def test_without_mirror_hive_sees_nothing(metastore_url: str, hive: MetastoreClient, rows: Any) -> None:
    with somebody(metastore_url, "ann", "off") as ann:
        ann.leases.grab_lease("db.t", 60)
        assert writes(hive).state is ACQUIRED
        assert rows.count("HIVE_LOCKS", HL_TXNID=0) == 0
        assert ann.leases.mirrors(True)


def test_leases_stop_writers_without_one_on_every_metastore(client: MetastoreClient) -> None:
    assert client.leases.mirrors()


# --- R6: a lease does not block its holder ------------------------------------------------------------------------


@pytest.mark.rule("R6")
@pytest.mark.parametrize("kind", ["x", "s"])
def test_a_the_holders_writes_do_not_wait_for_its_own_lease(ann: MetastoreClient, kind: str) -> None:
    lease = ann.leases.grab_lease("db.t", 60, lease_type=kind)
    with ann.transaction({"db.t": "update"}, lease=lease) as txn:
        assert txn.write_ids["db.t"] == 1
    with ann.leases.under(lease):
        assert writes(ann, kind=X).state is ACQUIRED


@pytest.mark.rule("R6")
@pytest.mark.parametrize("first", [XW, X])
def test_b_nor_for_hives_writers_that_wait_for_nothing_else(
    ann: MetastoreClient, hive: MetastoreClient, first: LockType
) -> None:
    """
    t1  A holds the lease
    t2            Hive's W wants to write: behind the lease
    t3            Hive's V wants to write: behind W
    t4  A writes: passes both, and would otherwise wait for ever
    """
    lease = ann.leases.grab_lease("db.t", 60)
    w, v = writes(hive, kind=first), writes(hive, kind=XW)
    assert (w.state, v.state) == (WAITING, WAITING)
    with ann.transaction({"db.t": "update"}, lease=lease):
        assert hive.check_lock(w.lock_id).state is WAITING
    ann.leases.drop_lease(lease)
    assert hive.check_lock(w.lock_id).state is ACQUIRED


@pytest.mark.rule("R6")
def test_c_nor_does_a_tool_that_writes_through_hive_under_a_lease_without_mirror(
    ann: MetastoreClient, hive: MetastoreClient, metastore_url: str, rows: Any
) -> None:
    """
    t1  A takes a lease without mirror, for a tool that is a client of Hive
    t2            B waits for A's lease: in our queue, and not in Hive's
    t3  the tool writes: it would otherwise wait for B, who waits for A
    t4  A drops its lease while the tool still writes
    t5            B waits for Hive's writer, in Hive's queue, then is granted
    """
    with somebody(metastore_url, "bob") as bob:
        lease = ann.leases.grab_lease("db.t", 60, mirror=False)
        got: list[Lease] = []
        thread = threading.Thread(target=lambda: got.append(bob.leases.grab_lease("db.t", 60, 60)))
        thread.start()
        wait_for(lambda: rows.count("HIVE_ACID_LEASE_QUEUE") == 1)
        tool = writes(hive)
        assert tool.state is ACQUIRED
        ann.leases.drop_lease(lease)
        wait_for(lambda: rows.count("HIVE_LOCKS", HL_LOCK_STATE="w") == 1)
        late = writes(hive)
        assert late.state is WAITING
        hive.commit_txn(rows.select("HIVE_LOCKS", "HL_TXNID", HL_LOCK_EXT_ID=tool.lock_id)[0][0])
        thread.join(60)
        assert bob.leases.confirm_lease(got[0])
        assert hive.check_lock(late.lock_id).state is WAITING
        assert rows.select("HIVE_LOCKS", "HL_LOCK_TYPE", HL_TXNID=0, HL_LOCK_STATE="a") == [("x",)]
        bob.leases.drop_lease(got[0])
        assert hive.check_lock(late.lock_id).state is ACQUIRED


@pytest.mark.rule("R6")
def test_but_for_what_hive_holds_already(ann: MetastoreClient, hive: MetastoreClient, metastore_url: str) -> None:
    """A reader that was there before the lease makes the holder's exclusive lock wait; and so do those behind it."""
    writes(hive, "db", kind=SR)
    reader = writes(hive, kind=SR)
    lease = ann.leases.grab_lease("db.t", 60)
    with ann.leases.under(lease):
        waiting = writes(ann, kind=X)
        assert (waiting.state, waiting.blocked_by) == (WAITING, f"{reader.lock_id}.1")


@pytest.mark.rule("R6")
def test_the_holder_of_one_of_several_shared_leases_cannot_write(ann: MetastoreClient, metastore_url: str) -> None:
    """The others took theirs so that nobody does."""
    with somebody(metastore_url, "bob") as bob:
        mine = ann.leases.grab_lease("db.t", 60, lease_type="s")
        theirs = bob.leases.grab_lease("db.t", 60, lease_type="s")
        with ann.leases.under(mine):
            answer = writes(ann)
            assert answer.state is WAITING
            bob.leases.drop_lease(theirs)
            assert ann.check_lock(answer.lock_id).state is ACQUIRED


@pytest.mark.rule("R6")
def test_somebody_elses_id_passes_nothing(ann: MetastoreClient, hive: MetastoreClient) -> None:
    lease = ann.leases.grab_lease("db.t", 60)
    forged = Lease(lease.lease_id, "guessed", lease.objects, "eve", lease.start_utc, lease.end_utc, 60)
    with pytest.raises(LeaseEndedError), hive.leases.under(forged):
        writes(hive)
    with pytest.raises(LeaseEndedError):
        hive.begin({"db.t": "insert"}, lease=forged)


# --- R8: commits ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["on", "off"])
def holder(request: pytest.FixtureRequest, metastore_url: str) -> Iterator[MetastoreClient]:
    with somebody(metastore_url, "ann", request.param) as client:
        yield client


@pytest.mark.rule("R8")
@pytest.mark.parametrize("operation", ["insert", "update"])
def test_a_commit_under_an_ended_lease_is_refused_and_aborted(
    holder: MetastoreClient, rows: Any, operation: str
) -> None:
    lease = holder.leases.grab_lease("db.t", 60)
    txn = holder.begin({"db.t": operation}, lease=lease)
    end(holder, lease)
    with pytest.raises(LeaseEndedError, match=r"ended 0\.\d s ago.*Grab a new one"):
        txn.commit()
    assert rows.txn_state(txn.txn_id)[0] == "a"
    assert rows.count("COMPLETED_TXN_COMPONENTS") == 0


@pytest.mark.rule("R8")
def test_a_commit_that_waits_for_the_global_lock_until_its_lease_has_ended_is_refused(
    holder: MetastoreClient, rows: Any, backend: str
) -> None:
    """
    t1  A's commit finds its lease live, waits for the open-txn lock
    t2            the lease ends
    t3  A gets the lock, looks again
    """
    if backend == "sqlite":
        return  # there the write transaction is the lock: nothing can happen between the two looks
    lease = holder.leases.grab_lease("db.t", 600)
    txn = holder.begin({"db.t": "update"}, lease=lease)
    end_in(holder, lease, 1500)
    failed: list[BaseException] = []

    def commit() -> None:
        try:
            txn.commit()
        except LeaseEndedError as error:
            failed.append(error)

    thread = threading.Thread(target=commit)
    with holder.database.transaction() as connection:
        lock_open_txns(connection, exclusive=False)
        thread.start()
        time.sleep(1.7)
    thread.join(60)
    assert failed
    assert rows.txn_state(txn.txn_id)[0] == "a"


@pytest.mark.rule("R8")
def test_a_thief_waits_for_a_commit_that_has_found_the_lease_live(
    holder: MetastoreClient, metastore_url: str, backend: str
) -> None:
    """The rows that the commit has locked are those that a grab locks."""
    lease = holder.leases.grab_lease("db.t", 600)
    txn = holder.begin({"db.t": "insert"}, lease=lease)
    end_in(holder, lease, 1500)
    order: list[str] = []
    found_live, thief_at_it = threading.Event(), threading.Event()

    def slow(connection: Any) -> None:
        found_live.set()
        thief_at_it.wait(30)
        time.sleep(1.7)  # the lease ends meanwhile
        order.append("committed")

    txn.check_lease_at_commit(lambda connection: None)
    txn._leases.append(slow)

    def fenced_first(connection: Any) -> None:
        from airflow_hive_acid.metastore.leases.holders import fence

        fence(connection, lease)

    txn._leases.insert(0, fenced_first)
    txn._lease = None  # without the second look, which would refuse it: here only the order counts

    def steal() -> None:
        found_live.wait(30)
        thief_at_it.set()
        with somebody(metastore_url, "bob", holder.settings.string("hive.acid.lease.mirror")) as bob:
            bob.leases.grab_lease("db.t", 60, 30)
            order.append("stolen")

    thread = threading.Thread(target=steal)
    thread.start()
    txn.commit()
    thread.join(60)
    assert order == ["committed", "stolen"]


@pytest.mark.rule("R8")
def test_a_transaction_that_goes_on_in_another_process_needs_its_lease(holder: MetastoreClient) -> None:
    lease = holder.leases.grab_lease("db.t", 60)
    document = holder.begin({"db.t": "insert"}, lease=lease).release()
    assert lease.secret not in repr(document)
    with pytest.raises(InvalidArgumentsError, match=f"began under lease {lease.lease_id}"):
        holder.resume_transaction(document)
    holder.resume_transaction(document, lease=lease).commit()


def test_locks_can_be_asked_for_without_waiting_under_a_lease(ann: MetastoreClient, hive: MetastoreClient) -> None:
    lease = ann.leases.grab_lease("db.t", 60)
    held = writes(hive, "db.u", kind=X)
    pending = ann.start({"db.t": "update", "db.u": "insert"}, lease=lease)
    assert not pending.check()
    hive.abort_txn(1)
    with pytest.raises(NoSuchLockError):
        hive.check_lock(held.lock_id)
    assert pending.check()
    txn = ann.finish(pending)
    assert txn is not None
    end(ann, lease)
    with pytest.raises(LeaseEndedError):
        txn.commit()


# --- a real process -------------------------------------------------------------------------------------

_HOLDER = """
import sys, pathlib
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.errors import LeaseEndedError, TxnAbortedError
from airflow_hive_acid.settings import Settings, Source

url, mirror, home = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
client = MetastoreClient(url, Settings({Source.REQUEST: {"hive.acid.lease.mirror": mirror}}), user="ann")
lease = client.leases.grab_lease("db.t", 600)
txn = client.begin({"db.t": "update"}, lease=lease)
(home / f"delta_{txn.write_ids['db.t']}").mkdir()
print(txn.txn_id, lease.lease_id, flush=True)
sys.stdin.readline()
refused = []
for name, verb in (
    ("commit", txn.commit),
    ("confirm", lambda: client.leases.require_lease(lease)),
    ("extend", lambda: client.leases.extend_lease(lease)),
    ("drop", lambda: client.leases.drop_lease(lease)),
    ("begin", lambda: client.begin({"db.t": "insert"}, lease=lease)),
):
    try:
        verb()
    except (LeaseEndedError, TxnAbortedError):
        refused.append(name)
print(*refused, flush=True)
"""


@pytest.mark.rule("R8")
@pytest.mark.parametrize("mirror", ["on", "off"])
def test_a_holder_that_slept_past_its_end_is_refused_everything(
    metastore_url: str, rows: Any, tmp_path: Any, mirror: str
) -> None:
    """
    t1  A grabs, begins, writes its delta
    t2  A is stopped (SIGSTOP)
    t3            the lease ends, B is granted, reads: sees nothing of A
    t4  A goes on (SIGCONT), commits: refused, like every verb
    t5            B reads: still nothing
    """
    arguments = [sys.executable, "-c", _HOLDER, metastore_url, mirror, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            txn_id, lease_id = map(int, process.stdout.readline().split())
            process.send_signal(signal.SIGSTOP)
            rows.update("HIVE_LEASE", {"END_UTC": 1}, LEASE_ID=lease_id)  # it sleeps for long
            with somebody(metastore_url, "bob", mirror) as thief:
                if mirror == "on":
                    # The lock of its txn is Hive's, and goes when the txn has been silent for long.
                    rows.age_txns(3_600_000, [txn_id])
                taken = thief.leases.grab_lease("db.t", 60, 60)
                process.send_signal(signal.SIGCONT)
                answers, _ = process.communicate("go on\n", timeout=60)
                assert answers.split() == ["commit", "confirm", "extend", "drop", "begin"]
                with thief.snapshot(["db.t"]) as snapshot:
                    assert not snapshot.snapshot["db.t"].is_valid(1)  # its delta_1 is no part of the table
                assert thief.leases.confirm_lease(taken)
            assert rows.txn_state(txn_id)[0] == "a"
        finally:
            process.kill()
