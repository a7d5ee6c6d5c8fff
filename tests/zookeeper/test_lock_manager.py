"""The document's recipe on a real ZooKeeper: nodes as it names them, denial, retries, and what ends with a session."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import ConfigurationError, LockTimeoutError, MetastoreUnavailableError, NoSuchLockError
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest
from airflow_hive_acid.metastore.locks.legacy.choice import legacy_lock_manager
from airflow_hive_acid.metastore.locks.legacy.zookeeper import ZooKeeperLockManager
from tests.zookeeper.server import running_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.settings import Settings

S, X = LockType.SHARED_READ, LockType.EXCLUSIVE
GRANTED, DENIED = LockState.ACQUIRED, LockState.NOT_ACQUIRED
Session = "Callable[..., ZooKeeperLockManager]"
Nodes = "Callable[[], dict[str, list[str]]]"


def request_of(*locks: tuple[str, LockType], user: str = "ann", query: str | None = None) -> LockRequest:
    """``request_of(("db.t/p=1", X), …)``."""
    components = []
    for place, kind in locks:
        name, _, partition = place.partition("/")
        database, _, table = name.partition(".")
        components.append(LockComponent(database, table or None, partition or None, kind, Operation.NO_TXN))
    return LockRequest(tuple(components), user, "host1", agent_info="tests", query_id="q1", query=query)


def wait_until(said: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize(("held", "asked", "answer"), [(S, S, GRANTED), (S, X, DENIED), (X, S, DENIED), (X, X, DENIED)])
def test_two_sessions_may_both_hold_an_object_only_in_s(
    session: Session, nodes: Nodes, held: LockType, asked: LockType, answer: LockState
) -> None:
    ann, bob = session(), session()
    first = ann.lock(request_of(("db.t", held)))
    second = bob.lock(request_of(("db.t", asked)))
    assert (first.state, second.state) == (GRANTED, answer)
    kept = "read-" if held is S else "write-"
    assert nodes() == {"/db/t": [kept, kept] if answer is GRANTED else [kept]}
    if answer is DENIED:
        assert (second.blocked_by, second.message) == (
            str(first.lock_id), f"lock {first.lock_id} on db.t is in the way"
        )  # fmt: skip
        ann.unlock(first.lock_id)
        ann.unlock(first.lock_id)
        assert bob.lock(request_of(("db.t", asked))).state is GRANTED


def test_parents_are_locked_shared_and_a_denied_request_keeps_nothing(session: Session, nodes: Nodes) -> None:
    """insert into T2(partition P.Q) select .. T1 partition P1: S on T2, T2.P, T1, T1.P1 and X on T2.P.Q."""
    ann, bob = session(), session()
    insert = request_of(("db.t2/p=1/q=2", X), ("db.t1/p=1", S))
    held = ann.lock(insert)
    everything = {
        "/db/t1": ["read-"],
        "/db/t1/p=1": ["read-"],
        "/db/t2": ["read-"],
        "/db/t2/p=1": ["read-"],
        "/db/t2/p=1/q=2": ["write-"],
    }
    assert nodes() == everything
    assert bob.lock(request_of(("db.a", X), ("db.t1/p=1", S), ("db.t2", X))).state is DENIED
    assert bob.lock(request_of(("db.t2/p=1", X))).state is DENIED
    assert nodes() == everything
    assert bob.lock(request_of(("db.t2/p=2", X))).state is GRANTED
    ann.unlock(held.lock_id)
    assert nodes() == {"/db/t2": ["read-"], "/db/t2/p=2": ["write-"]}


def test_objects_are_asked_for_in_lexicographic_order_so_that_one_of_two_gets_on(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  ann asks for b and a: creates below a
    t2                                         bob asks for a and b: is denied at a, and has nothing below b
    t3  ann goes on to b and is granted
    """
    ann, bob, answers, asked = session(), session(), [], []
    look = ZooKeeperLockManager._in_the_way

    def meanwhile(manager: Any, place: Any, mine: Any) -> Any:
        asked.append((manager is ann, place[1]))
        found = look(manager, place, mine)
        if manager is ann and place[1] == "a":
            answers.append(bob.lock(request_of(("db.a", X), ("db.b", X))).state)
        return found

    monkeypatch.setattr(ZooKeeperLockManager, "_in_the_way", meanwhile)
    answers.append(ann.lock(request_of(("db.b", X), ("db.a", X))).state)
    assert answers == [DENIED, GRANTED]
    assert asked == [(True, "a"), (False, "a"), (True, "b")]


def test_of_many_at_once_exactly_one_gets_the_exclusive_lock(session: Session) -> None:
    """In any order of objects, all at the same moment, and again and again: nobody waits for anybody."""
    managers = [session(lock_numretries="1000") for _ in range(4)]
    inside, most, done = [], [], []

    def work(manager: ZooKeeperLockManager, names: list[str]) -> None:
        for _ in range(5):
            lock = manager.acquire(request_of(*((name, X) for name in names)), lambda _: time.sleep(0.002))
            inside.append(manager)
            most.append(len(inside))
            inside.remove(manager)
            manager.unlock(lock.lock_id)
            done.append(manager)

    orders = [["db.a", "db.b"], ["db.b", "db.a"], ["db.b", "db.c", "db.a"], ["db.a", "db.c", "db.b"]]
    threads = [threading.Thread(target=work, args=pair) for pair in zip(managers, orders, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert (len(done), max(most)) == (20, 1)


def test_a_denied_request_is_tried_again_after_the_pause(session: Session) -> None:
    ann, bob = session(), session(lock_numretries="3", lock_sleep_between_retries="7s")
    held, pauses = ann.lock(request_of(("db.t", X))), []
    with pytest.raises(LockTimeoutError, match=rf"db.t could not be locked in 4 tries .* lock {held.lock_id} on db.t"):
        bob.acquire(request_of(("db.t", S)), pauses.append)
    assert pauses == [7, 7, 7]

    def release(seconds: float) -> None:
        pauses.append(seconds)
        ann.unlock(held.lock_id)

    assert bob.acquire(request_of(("db.t", S)), release).state is GRANTED
    assert pauses == [7, 7, 7, 7]


def test_readers_that_overlap_starve_a_writer(session: Session) -> None:
    """The document says so: the recipe has no queue, and whoever waits leaves nothing that others would respect."""
    first, second, writer = session(), session(), session()
    held = first.lock(request_of(("db.t", S)))
    for reader, other in [(second, first), (first, second)] * 3:
        assert writer.lock(request_of(("db.t", X))).state is DENIED
        following = reader.lock(request_of(("db.t", S)))
        assert following.state is GRANTED
        other.unlock(held.lock_id)
        held = following
    assert writer.lock(request_of(("db.t", X))).state is DENIED


def test_show_locks_is_read_from_the_nodes(session: Session) -> None:
    ann, bob = session(), session()
    began = time.time() * 1000
    one = ann.lock(request_of(("db.t/p=1", X), user="ann", query="INSERT INTO t -- it's 12:00"))
    two = bob.lock(request_of(("db.u", S), user="bob"))
    rows = session().show_locks()
    assert [(r.lock_id, r.internal_id, r.describe(), r.type, r.user) for r in rows] == [
        (one.lock_id, 1, "db.t", S, "ann"),
        (one.lock_id, 2, "db.t/p=1", X, "ann"),
        (two.lock_id, 1, "db.u", S, "bob"),
    ]
    row = rows[1]
    assert (row.query_id, row.query, row.host, row.agent_info, row.txn_id, row.state) == (
        "q1", "INSERT INTO t -- it's 12:00", "host1", "tests", 0, GRANTED
    )  # fmt: skip
    assert row.acquired_at is not None
    assert began - 60_000 < row.acquired_at < began + 60_000
    shown = session()
    assert [r.table for r in shown.show_locks("DB", "U")] == ["u"]
    assert [r.partition for r in shown.show_locks("db", "t")] == [None, "p=1"]
    assert [r.partition for r in shown.show_locks("db", "t", "p=1")] == ["p=1"]
    assert shown.show_locks("db", "nowhere") == shown.show_locks("other") == []
    assert [r.table for r in shown.stream_locks(limit=1)] == ["t"]


def test_hostile_names_are_locks_of_their_own(session: Session, nodes: Nodes) -> None:
    manager = session()
    values = ["..", "a%2Fb", "read-0000000001", "ü ☃", "x:y"]
    locks = [manager.lock(request_of((f"db.t/p={value}", X))) for value in values]
    assert {lock.state for lock in locks} == {GRANTED}
    shown = [(r.lock_id, r.partition) for r in manager.show_locks() if r.partition]
    names = ["p=..", "p=a%2Fb", "p=read-0000000001", "p=ü ☃", "p=x%3Ay"]
    assert sorted(shown) == [(lock.lock_id, name) for lock, name in zip(locks, names, strict=True)]
    assert [name for _, name in shown] == sorted(names)
    advisory = LockRequest(
        (LockComponent("__global_locks", "../read-0000000000", None, X, Operation.NO_TXN),), "ann", "host1"
    )
    assert manager.lock(advisory).state is GRANTED
    assert session().lock(advisory).state is DENIED
    assert "/__global_locks/..%2Fread-0000000000" in nodes()


def test_extra_nodes_are_cleaned_where_that_is_wanted(session: Session, server: Any, zookeeper: Any) -> None:
    from kazoo.client import KazooClient

    tidy, other = session(zookeeper_clean_extra_nodes="true"), session()
    lock = tidy.lock(request_of(("db.t/p=1", X), ("db.u", X)))
    kept = other.lock(request_of(("db.t/p=2", S)))
    look = KazooClient(hosts=server.address)
    look.start()
    try:
        root = f"/{zookeeper['hive.zookeeper.namespace']}"
        tidy.unlock(lock.lock_id)
        assert look.get_children(f"{root}/db") == ["t"]
        assert [name for name in look.get_children(f"{root}/db/t") if "=" in name] == ["p=2"]
        other.unlock(kept.lock_id)
        assert look.exists(f"{root}/db/t/p=2") is not None
        assert tidy.lock(request_of(("db.u", X))).state is GRANTED
    finally:
        look.stop()
        look.close()


def test_without_concurrency_nothing_is_locked(session: Session, nodes: Nodes) -> None:
    manager = session(support_concurrency="false")
    first, second = (manager.lock(request_of(("db.t", X))) for _ in range(2))
    assert first.state is second.state is GRANTED
    assert manager.check_lock(first.lock_id).state is GRANTED
    manager.unlock(first.lock_id)
    assert nodes() == {}


def test_any_session_can_release_a_lock_and_its_holder_finds_out(session: Session) -> None:
    ann, bob = session(), session()
    held = ann.lock(request_of(("db.t/p=1", X)))
    assert ann.check_lock(held.lock_id).state is bob.check_lock(held.lock_id).state is GRANTED
    bob.unlock(held.lock_id)
    for manager in (ann, bob):
        with pytest.raises(NoSuchLockError, match=f"no lock {held.lock_id}"):
            manager.check_lock(held.lock_id)


def test_locks_end_with_the_session_and_a_new_node_of_that_name_is_not_taken_for_them(
    session: Session, end_session: Any
) -> None:
    ann, bob = session(zookeeper_clean_extra_nodes="true"), session(zookeeper_clean_extra_nodes="true")
    held = ann.lock(request_of(("db.t", X)))
    end_session(ann)
    wait_until(lambda: bob.lock(request_of(("db.t", X))).state is GRANTED)
    with pytest.raises(NoSuchLockError):
        ann.check_lock(held.lock_id)
    with pytest.raises(NoSuchLockError):
        ann.bind(held.lock_id, 1)
    ann.unlock(held.lock_id)
    assert [r.user for r in session().show_locks()] == ["ann"]


@pytest.mark.rule("R4")
def test_a_lost_session_does_not_free_what_an_open_txn_writes(
    client: MetastoreClient, session: Session, nodes: Nodes, end_session: Any
) -> None:
    """
    t1  ann: X on db.t, S on db.u, txn open; she works
    t2  her session ends; the txn is open
    t3                         bob: X on db.u is granted, any lock of db.t is denied
    t4  the reaper ends the txn
    t5                         bob: X on db.t is granted, and the txn's node is gone
    """
    ann, bob = session(), session()
    held = ann.lock(request_of(("db.t", X), ("db.u", S)))
    txn_id = client.open_txns(1)[0]
    ann.bind(held.lock_id, txn_id)
    assert {r.txn_id for r in bob.show_locks()} == {txn_id}
    end_session(ann)
    wait_until(lambda: bob.lock(request_of(("db.u", X))).state is GRANTED)
    for mode in (S, X):
        denied = bob.lock(request_of(("db.t", mode)))
        assert (denied.state, denied.message) == (DENIED, f"the open txn {txn_id} on db.t is in the way")
    with pytest.raises(NoSuchLockError):
        ann.check_lock(held.lock_id)
    client.abort_txn(txn_id)
    assert bob.lock(request_of(("db.t", S))).state is GRANTED
    assert nodes() == {"/db/t": ["read-"], "/db/u": ["write-"]}


def test_a_txn_of_the_holder_is_forgotten_with_its_locks(client: MetastoreClient, session: Session, nodes: Any) -> None:
    ann = session()
    txn_id = client.open_txns(1)[0]
    held = ann.lock(request_of(("db.t/p=1", X)))
    ann.bind(held.lock_id, txn_id)
    assert nodes()["/db/t/p=1"] == [f"txn-{txn_id}", "write-"]
    client.commit_txn(txn_id)
    ann.unlock(held.lock_id)
    assert nodes() == {}


_HOLDER = textwrap.dedent(
    """
    import json, sys
    from airflow_hive_acid.errors import HiveAcidError
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.database.codes import LockType, Operation
    from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest
    from airflow_hive_acid.metastore.locks.legacy.zookeeper import ZooKeeperLockManager
    from airflow_hive_acid.settings import Settings, Source

    url, settings = sys.argv[1], json.loads(sys.argv[2])
    with MetastoreClient(url) as client:
        manager = ZooKeeperLockManager(client.database, Settings({Source.REQUEST: settings}))
        component = LockComponent("db", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN)
        lock = manager.lock(LockRequest((component,), "holder", "host2"))
        print(lock.state.name, flush=True)
        sys.stdin.readline()
        try:
            print(manager.check_lock(lock.lock_id).state.name, flush=True)
        except HiveAcidError as error:
            print(type(error).__name__, flush=True)
    """
)


@contextlib.contextmanager
def holder(metastore_url: str, settings: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process that holds X on db.t, and looks at its lock once it is spoken to."""
    import json

    command = [sys.executable, "-c", _HOLDER, metastore_url, json.dumps(settings)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ACQUIRED\n"
            yield process
        finally:
            process.kill()


def test_the_nodes_of_a_killed_process_vanish(
    metastore_url: str, session: Session, nodes: Nodes, zookeeper: dict[str, str]
) -> None:
    with holder(metastore_url, zookeeper) as process:
        mine = session()
        assert mine.lock(request_of(("db.t", S))).state is DENIED
        process.kill()
        process.wait()
        wait_until(lambda: nodes() == {})
        assert mine.lock(request_of(("db.t", X))).state is GRANTED


def test_who_slept_past_its_session_knows_that_its_locks_are_gone(
    metastore_url: str, session: Session, zookeeper: dict[str, str]
) -> None:
    """SIGSTOP; somebody else takes the lock; SIGCONT: the first holder is told, and must not publish."""
    with holder(metastore_url, zookeeper) as process:
        os.kill(process.pid, signal.SIGSTOP)
        mine = session()
        wait_until(lambda: mine.lock(request_of(("db.t", X))).state is GRANTED)
        os.kill(process.pid, signal.SIGCONT)
        said, _ = process.communicate("now\n", timeout=60)
        assert said == "NoSuchLockError\n"


def test_a_server_that_is_gone_is_no_lock_and_no_answer(
    client: MetastoreClient, settings_of: Callable[..., Settings], tmp_path: Path
) -> None:
    """Denying would be wrong, and so would granting; locks outlive a server that comes back in time."""
    with running_server(tmp_path) as server, contextlib.ExitStack() as stack:
        settings = {"zookeeper_quorum": server.address, "zookeeper_connection_timeout": "1s"}
        ann, bob = (
            stack.enter_context(
                contextlib.closing(ZooKeeperLockManager(client.database, settings_of(**settings, **more)))
            )
            for more in ({"zookeeper_session_timeout": "40s"}, {})
        )
        held = ann.lock(request_of(("db.t", X)))
        server.stop()
        with pytest.raises(MetastoreUnavailableError, match=r"hive.zookeeper.quorum\) does not answer within 1 s"):
            ann.check_lock(held.lock_id)
        with pytest.raises(MetastoreUnavailableError):
            bob.lock(request_of(("db.u", X)))
        server.start()
        wait_until(lambda: _held(ann, held.lock_id))
        assert bob.lock(request_of(("db.t", S))).state is DENIED


def _held(manager: ZooKeeperLockManager, lock_id: int) -> bool:
    try:
        return manager.check_lock(lock_id).state is GRANTED
    except MetastoreUnavailableError:
        return False


def test_the_manager_is_chosen_by_hives_name_and_needs_a_quorum(
    client: MetastoreClient, settings_of: Callable[..., Settings]
) -> None:
    assert isinstance(legacy_lock_manager(client.database, settings_of()), ZooKeeperLockManager)
    for setting, text in [("zookeeper_quorum", "quorum is empty"), ("zookeeper_namespace", "namespace is empty")]:
        with pytest.raises(ConfigurationError, match=text):
            legacy_lock_manager(client.database, settings_of(**{setting: "/" if "name" in setting else ""}))
