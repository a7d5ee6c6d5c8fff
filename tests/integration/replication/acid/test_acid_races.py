"""ACID syncs that overlap, and such whose COMMITs lose their answers: the replica never goes back, rows come once."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    CopyFailedError,
    MetastoreUnavailableError,
    ReplicaDivergedError,
    ReplicationBusyError,
)
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.replica.records import read_sync
from airflow_hive_acid.metastore.replica.verbs import Replica
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS
from airflow_hive_acid.replication.acid import sync as acid_sync
from airflow_hive_acid.replication.acid.sync import sync_tables
from airflow_hive_acid.replication.cycles.failover import fail_over
from tests.integration.replication import acid_world as world
from tests.integration.replication.lost_answers import LostAnswers
from tests.integration.replication.world import clean, pass_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.replication.acid.snapshot import SourceState
    from airflow_hive_acid.replication.site import Site

T, begin, compact, create, fill, path_of, rows, write = (
    world.T, world.begin, world.compact, world.create, world.fill, world.path_of, world.rows, world.write
)  # fmt: skip

pytestmark = pytest.mark.backends("sqlite")
POLICY = "p"


def sync(primary: Site, replica: Site, step: Callable[[str], object] = lambda _name: None) -> int:
    return sync_tables(primary, replica, POLICY, [T], step=step).state_id


def state_of(replica: Site) -> int:
    return int(replica.client.catalog.get_table(T).property("repl.last.id") or 0)


def after_looking(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Something happens when the next sync has looked at the source."""
    looked = acid_sync.source_state
    happened: list[bool] = []

    @contextlib.contextmanager
    def source_state(*arguments: Any) -> Iterator[SourceState]:
        with looked(*arguments) as state:
            if not happened:
                happened.append(True)
                meanwhile()
            yield state

    monkeypatch.setattr(acid_sync, "source_state", source_state)


@pytest.mark.rule("R3")
def test_a_sync_with_an_older_snapshot_does_not_undo_one_that_has_ended(
    primary: Site, replica: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that goes on last has looked first.

    t1  A looks at the source: write 2 is open
    t2  2 commits, 3 is written; B syncs both
    t3  A goes on: it changes nothing, above all write 2 is not open again
    """
    create(primary)
    write(primary, "a")
    late = begin(primary)
    fill(primary, late, "late")
    sync(primary, replica)
    reached: list[int] = []

    def meanwhile() -> None:
        late.commit()
        write(primary, "b")
        reached.append(sync(primary, replica))

    after_looking(monkeypatch, meanwhile)
    with pytest.raises(ReplicationBusyError):
        sync(primary, replica)
    assert state_of(replica) == reached[0]
    assert rows(replica) == rows(primary)
    write(primary, "c")
    sync(primary, replica)
    assert rows(replica) == rows(primary)


@pytest.mark.rule("R4")
def test_a_sync_that_was_taken_over_does_not_rename_the_places_of_the_one_that_counts(
    primary: Site, replica: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both bring the same state, so they have the same txn; its places are what keeps it from being forgotten.

    t1  A is about to open its txn
    t2              B takes over, with one table more, opens it, and dies with its directories in place
    t3  A goes on: the places are B's
    """
    tables = (T, "default.u")
    for table in tables:
        create(primary, table)
        write(primary, "a", table=table)
        compact(primary, table, major=True, clean=True)
    opened = Replica.open_txns
    named: list[list[str]] = []

    def killed(name: str) -> None:
        if name == "advance":
            raise KeyboardInterrupt(name)

    def places() -> list[str]:
        c = TXN_COMPONENTS.c
        found = sa.select(c.TC_TABLE).where(c.TC_OPERATION_TYPE == "c").order_by(c.TC_TABLE)
        return list(replica.client.database.read(lambda connection: connection.execute(found).scalars().all()))

    def taken_over_first(self: Replica, ids: Any) -> list[int]:
        if not named:
            named.append([])
            with pytest.raises(KeyboardInterrupt):
                sync_tables(primary, replica, POLICY, tables, step=killed)
            named.append(places())
        return opened(self, ids)

    monkeypatch.setattr(Replica, "open_txns", taken_over_first)
    with pytest.raises(ReplicationBusyError, match="taken over"):
        sync(primary, replica)
    assert places() == named[1] == ["t", "u"]
    sync_tables(primary, replica, POLICY, tables)
    for table in tables:
        assert rows(replica, table) == rows(primary, table)


@pytest.mark.rule("R17")
def test_a_sync_that_was_failed_over_drops_no_table_for_a_new_copy(
    primary: Site, replica: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table was made again at the source, so that the sync wants to begin anew; by now the replica is a primary."""
    create(primary)
    write(primary, "a")
    sync(primary, replica)
    world.drop_table(primary)
    create(primary)

    after_looking(monkeypatch, lambda: fail_over(replica, POLICY))
    with pytest.raises(ReplicationBusyError, match="failed over"):
        sync(primary, replica)
    write(replica, "mine")
    assert rows(replica) == {"": {"1:a", "2:mine"}}


def test_a_stream_stands_at_the_replica_where_its_rows_end_there(
    primary: Site, replica: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a fail-over it goes on from there: a position behind which rows are missing would lose them.

    t1  a stream has committed up to 2; a sync begins
    t2            it commits up to 3 before the sync looks at the table
    t3            it commits up to 4 when the sync has looked
    t4  the sync brings what it saw
    """
    create(primary)
    owner = world.run_stream(primary, "it")

    def commit(number: int, row: str) -> None:
        world.write_at(primary, str(number), row, owner=owner)

    def stands_at(number: int) -> bool:
        return (world.position_of(replica), replica.client.streams.find("s").batch) == (str(number), number)

    commit(1, "a")
    sync(primary, replica)
    commit(2, "b")
    snapshot = primary.client.snapshot

    @contextlib.contextmanager
    def slow(*arguments: Any, **named: Any) -> Iterator[Any]:
        with snapshot(*arguments, **named) as reader:
            commit(3, "c")
            yield reader

    with monkeypatch.context() as patch:
        patch.setattr(primary.client, "snapshot", slow)
        after_looking(patch, lambda: commit(4, "d"))
        sync(primary, replica)
    assert rows(replica) == {"": {"1:a", "2:b", "3:c"}}
    assert stands_at(3)
    sync(primary, replica)
    assert rows(replica) == rows(primary)
    assert stands_at(4)


def test_a_foreign_write_that_comes_while_a_sync_looks_is_not_taken_for_its_own(
    primary: Site, replica: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a directory before the replica is listed, and had no write id yet when that was asked for."""
    create(primary)
    write(primary, "a")
    sync(primary, replica)
    write(primary, "b")
    looked = acid_sync.list_places

    def list_places(*arguments: Any) -> Any:
        write(replica, "foreign")
        return looked(*arguments)

    monkeypatch.setattr(acid_sync, "list_places", list_places)
    with pytest.raises(ReplicaDivergedError, match="write ids up to 2 were given here"):
        sync(primary, replica)
    assert rows(replica) == {"": {"1:a", "2:foreign"}}


class Watched:
    """A filesystem that tells before it renames a directory that was copied."""

    def __init__(self, inner: Any, tell: Callable[[], object]) -> None:
        self._inner, self._tell = inner, tell

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._inner, verb)

    def rename_directory(self, source: str, target: str) -> None:
        if "_tmp_" not in target:
            self._tell()
        self._inner.rename_directory(source, target)


@pytest.mark.rule("R5")
@pytest.mark.parametrize("at", ["first copy", "second copy", "publish", "rename", "advance"])
def test_a_sync_that_was_taken_over_says_so_wherever_it_is(primary: Site, replica: Site, at: str) -> None:
    """It neither goes wrong with an error of its files, nor takes the policy back from who has it now.

    t1  A copies
    t2  B takes over, and is killed before its last step
    t3  A ends; B's attempt is still the one that counts
    """
    tables = (T, "default.u")
    for table in tables:
        create(primary, table)
        write(primary, "a", table=table)
    sync_tables(primary, replica, POLICY, tables)
    for table in tables:
        write(primary, "b", table=table)
    seen: list[str] = []
    attempts: list[str] = []

    def attempt() -> str:
        record = replica.client.database.read(lambda connection: read_sync(connection, POLICY))
        assert record is not None
        return record.attempt

    def killed(name: str) -> None:
        if name == "advance":
            raise KeyboardInterrupt(name)

    def take_over() -> None:
        if not attempts:
            attempts.append("")
            with pytest.raises(KeyboardInterrupt):
                sync_tables(primary, replica, POLICY, tables, step=killed)
            attempts[0] = attempt()

    def meanwhile(name: str) -> None:
        seen.append({("copy", 0): "first copy", ("copy", 1): "second copy"}.get((name, seen.count("first copy")), name))
        if seen[-1] == at:
            take_over()

    watched = replace(replica, filesystem=Watched(replica.filesystem, take_over)) if at == "rename" else replica
    with pytest.raises(ReplicationBusyError, match="taken over"):
        sync_tables(primary, watched, POLICY, tables, step=meanwhile)
    assert attempts == [attempt()]
    assert [rows(replica, table) for table in tables] == [{"": {"1:a"}}] * 2
    sync_tables(primary, replica, POLICY, tables)
    for table in tables:
        assert rows(replica, table) == rows(primary, table)


@pytest.mark.rule("R17")
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
def test_a_sync_may_lose_the_answer_to_any_commit_at_the_replica(
    primary: Site, replica: Site, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, *, for_good: bool
) -> None:
    """Every COMMIT (in the suite: every fourth; ``--programs 1`` for all).

    A compacted base and an open write travel, a sync that was killed is taken over: whether a COMMIT happened is
    found out, or left alone; the next sync ends it, and leaves nothing behind.
    """
    create(primary)
    write(primary, "a")
    sync(primary, replica)

    def killed(name: str) -> None:
        if name == "advance":
            raise KeyboardInterrupt(name)

    first, apart = (1, 1) if request.config.getoption("programs") else (2 if for_good else 1, 4)
    for number in range(first, 100, apart):
        write(primary, f"b {number}", deletes=(f"{rows(primary)[''].copy().pop()}",))
        compact(primary, major=True, clean=True)
        late = begin(primary)
        fill(primary, late, f"late {number}")
        with pytest.raises(KeyboardInterrupt):
            sync(primary, replica, killed)
        before, expected = rows(replica), rows(primary)
        with monkeypatch.context() as patched:
            lost = LostAnswers(replica, number, patched, for_good=for_good)
            try:
                sync(primary, replica)
                ended = True
            except MetastoreUnavailableError:
                ended = False
        assert rows(replica) in ([expected] if ended else [before, expected])
        late.commit()
        sync(primary, replica)
        assert rows(replica) == rows(primary)
        place = path_of(replica.client.catalog.get_table(T).location)
        assert [p.name for p in place.iterdir() if p.name.startswith("_tmp") and p.is_dir()] == []
        assert not [t for t in replica.client.show_transactions() if t.state.value == "o"]
        if not lost.happened:
            break
    assert not lost.happened
    assert number > 4


def test_a_partition_that_comes_again_while_the_cleaner_removes_it_keeps_its_rows(primary: Site, replica: Site) -> None:
    """
    t1  sync: p=1 is dropped; its directory waits for the replica's Cleaner
    t2  primary: p=1 is added again; sync puts its files into place
    t3  Cleaner: p=1 is in no catalog
    t4  sync commits: p=1 is in the catalog
    """
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    sync(primary, replica)
    world.drop_partition_without_a_base(primary, "p=1")
    sync(primary, replica)
    write(primary, "b", partition="p=1")

    def cleaner(name: str) -> None:
        if name == "advance":
            clean(replica)

    pass_time(replica)
    sync(primary, replica, cleaner)
    assert rows(replica) == rows(primary) == {"p=1": {"3:b"}}


@pytest.mark.rule("R3")
def test_a_partition_that_is_added_again_just_before_the_cleaner_locks_it_stays(
    primary: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    world.drop_partition(primary, "p=1")
    pass_time(primary)
    lock = primary.client.lock
    asked: list[bool] = []

    def after_adding(*arguments: Any, **named: Any) -> Any:
        asked.append(True)
        if len(asked) == 1:
            write(primary, "b", partition="p=1")
        return lock(*arguments, **named)

    monkeypatch.setattr(primary.client, "lock", after_adding)
    clean(primary)
    assert rows(primary) == {"p=1": {"3:b"}}


def test_a_killed_sync_keeps_nobody_from_dropping_its_table(primary: Site, replica: Site) -> None:
    """The lock by which it kept the Cleaner away is let go of when the next one takes over."""
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")

    def killed(name: str) -> None:
        if name == "advance":
            assert [lock.table for lock in replica.client.show_locks()] == ["t"]
            raise KeyboardInterrupt(name)

    with pytest.raises(KeyboardInterrupt):
        sync(primary, replica, killed)
    write(primary, "b", partition="p=2")
    seen: list[int] = []
    sync(primary, replica, lambda name: seen.append(len(replica.client.show_locks())) if name == "copy" else None)
    assert seen == [0]
    assert rows(replica) == rows(primary)


def abort_what_waits(replica: Site) -> None:
    """An admin or the reaper ends the txns that stand for open ones of the source."""
    waiting = [replica.client.txn_of_write_id(T, w) for w in replica.client.get_valid_write_ids(T)[T].open]
    replica.client.abort_txns([txn_id for txn_id in waiting if txn_id is not None])


@pytest.mark.parametrize("end", ["abort", "commit", "commit, forgotten here", "stay open"])
def test_what_was_compacted_past_an_id_that_others_aborted_here_is_kept(primary: Site, replica: Site, end: str) -> None:
    """Others end a txn that stands for one of the source's; then compactions pass its write id."""
    create(primary)
    write(primary, "a")
    late = begin(primary)
    fill(primary, late, "late")
    write(primary, "b")
    sync(primary, replica)
    abort_what_waits(replica)
    assert compact(replica, major=True, clean=True).startswith("base_0000003_v")
    if end == "abort":
        late.abort("a test")
        write(primary, "c")
        sync(primary, replica)
        assert rows(replica) == rows(primary)
        return
    if end == "commit, forgotten here":
        pass_time(replica)
        replica.client.housekeeping.clean_empty_txns()
        replica.client.housekeeping.clean_txn_to_write_id()
        assert replica.client.txn_of_write_id(T, 2) is None
    if end.startswith("commit"):
        late.commit()
    write(primary, "c")
    with pytest.raises(ReplicaDivergedError, match="write id 2 was aborted here by others"):
        sync(primary, replica)
    assert rows(replica) == {"": {"1:a", "3:b"}}
    sync_tables(primary, replica, POLICY, [T], bootstrap=[T])
    assert rows(replica) == rows(primary)


def test_what_is_compacted_past_an_id_that_others_abort_during_a_sync_is_kept(
    primary: Site, replica: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  write id 2 is open, 3 commits; sync; the primary aborts 2
    t2  sync B has seen that 2 waits here
    t3  others abort it here, the Worker makes a base of 3, the Cleaner removes the deltas
    t4  B lists the replica: the base reaches across an id that waited
    """
    create(primary)
    write(primary, "a")
    late = begin(primary)
    fill(primary, late, "late")
    write(primary, "b")
    sync(primary, replica)
    late.abort("a test")
    write(primary, "c")
    listed = acid_sync.list_places
    bases: list[str] = []

    def compacted_first(*arguments: Any) -> Any:
        if not bases:
            abort_what_waits(replica)
            bases.append(compact(replica, major=True, clean=True))
        return listed(*arguments)

    monkeypatch.setattr(acid_sync, "list_places", compacted_first)
    sync(primary, replica)
    assert bases[0].startswith("base_0000003_v")
    assert rows(replica) == rows(primary) == {"": {"1:a", "3:b", "4:c"}}


@pytest.mark.rule("R4")
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "under way"])
def test_a_compaction_of_the_replica_does_not_show_what_a_sync_hides(
    primary: Site, replica: Site, *, ended: bool
) -> None:
    """Its base is of the same write id as the empty one, and the later of the two counts.

    t1  row a is at both sides; at the source its partition is made anew
    t2  a sync is about to put an empty base in place
    t3            the replica's Worker begins, and compacts what it sees: row a
    t4  the sync looks again, when it has ended
    """
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    write(primary, "b", partition="p=2")
    sync(primary, replica)
    world.make_partition_anew(primary, "p=1")
    write(primary, "c", partition="p=2")
    begun: list[int] = []

    def compacting(step: str) -> None:
        if step == "publish" and not begun:
            begun.append(0 if ended else replica.client.open_txn(type=TxnType.COMPACTION))
            if ended:
                compact(replica, major=True, partition="p=1")

    if not ended:
        with pytest.raises(CopyFailedError, match=r"compacts default\.t here"):
            sync(primary, replica, compacting)
        assert rows(replica) == {"p=1": {"1:a"}, "p=2": {"2:b"}}
        replica.client.commit_txn(begun[0])
    sync(primary, replica, compacting)
    assert rows(replica) == rows(primary) == {"p=1": set(), "p=2": {"2:b", "3:c"}}
