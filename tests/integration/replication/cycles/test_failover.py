"""Fail-over, fail-back, and what both sides wrote in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    ActionRefusedError,
    ClaimLostError,
    NoSuchObjectError,
    ReplicaDivergedError,
    ReplicationBusyError,
)
from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG, TXNS
from airflow_hive_acid.replication.acid.sync import sync_tables
from airflow_hive_acid.replication.cycles.failover import compare_for_fail_back, fail_back, fail_over
from tests.integration.replication import acid_world as world
from tests.integration.replication.world import pass_time

if TYPE_CHECKING:
    from airflow_hive_acid.replication.site import Site

T, begin, create, fill, rows, write = world.T, world.begin, world.create, world.fill, world.rows, world.write

pytestmark = pytest.mark.backends("sqlite")


def targets(site: Site) -> str | None:
    return site.client.catalog.get_database("default").properties.get("repl.target.for")


def test_there_and_back_again_without_copying_what_both_have(primary: Site, replica: Site) -> None:
    """A writer that was open at the old primary is aborted on both sides; the old primary then follows.

    t1  primary writes 1, 2 (open); sync
    t2  replica fails over, writes 3
    t3  old primary fails back: follows the new one, 3 alone travels
    """
    create(primary)
    write(primary, *(f"row {i}" for i in range(500)))
    lost = begin(primary)
    fill(primary, lost, "lost")
    sync_tables(primary, replica, "there", [T])
    assert targets(replica) == "there"
    ended = fail_over(replica, "there")
    assert targets(replica) is None
    assert len(ended.aborted) == 1
    assert ended.tables[T].high_watermark == 2
    assert fail_over(replica, "there").already
    write(replica, "new")
    with pytest.raises(ReplicationBusyError):
        _pretend_to_go_on(primary, replica)
    with pytest.raises(ActionRefusedError, match="was failed over"):
        sync_tables(primary, replica, "there", [T])
    with pytest.raises(ActionRefusedError, match="abort_open"):
        fail_back(primary, replica, "there", "back")
    found = fail_back(primary, replica, "there", "back", abort_open=True)
    assert (found.tables, found.diverged) == ({T: T}, {})
    report = sync_tables(replica, primary, "back", [T])
    assert rows(primary) == rows(replica)
    assert "3:new" in rows(primary)[""]
    assert report.bytes < 100
    assert targets(primary) == "back"
    fail_over(primary, "back")
    write(primary, "home")
    assert fail_back(replica, primary, "back", "there").proposal.startswith("all 1 tables can follow")
    sync_tables(primary, replica, "there", [T])
    assert rows(primary) == rows(replica)


def _pretend_to_go_on(primary: Site, replica: Site) -> None:
    """A sync that was under way when the replica was failed over."""
    from airflow_hive_acid.metastore.replica.records import require_attempt, require_target

    replica.client.database.run(lambda connection: require_target(connection, "default", "there"))
    replica.client.database.run(lambda connection: require_attempt(connection, "there", "gone"))


@pytest.mark.rule("R3")
def test_a_fail_over_in_the_middle_of_a_sync_wins(primary: Site, replica: Site) -> None:
    """What the sync had renamed into place is gone before anybody else can write under the same ids (R4)."""
    create(primary)
    write(primary, "a")
    sync_tables(primary, replica, "p", [T])
    write(primary, "never arrives")

    def meanwhile(step: str) -> None:
        if step == "advance":
            fail_over(replica, "p")

    with pytest.raises(ReplicationBusyError, match="failed over"):
        sync_tables(primary, replica, "p", [T], step=meanwhile)
    assert rows(replica) == {"": {"1:a"}}
    write(replica, "mine")
    assert rows(replica) == {"": {"1:a", "2:mine"}}


@pytest.mark.rule("R4")
def test_a_second_fail_over_leaves_what_was_compacted_since(primary: Site, replica: Site) -> None:
    """A write id that was open at the old primary is aborted here since the first, and compactions pass it.

    t1  primary writes 1, 2 (open), 3; sync
    t2  replica fails over; its Worker makes a base of 3, and its Cleaner removes the deltas
    t3  somebody else fails over, too
    """
    create(primary)
    write(primary, "a")
    fill(primary, begin(primary), "lost")
    write(primary, "b")
    sync_tables(primary, replica, "p", [T])
    fail_over(replica, "p")
    assert world.compact(replica, major=True, clean=True).startswith("base_0000003_v")
    assert rows(replica) == {"": {"1:a", "3:b"}}
    assert fail_over(replica, "p").already
    assert rows(replica) == {"": {"1:a", "3:b"}}


def test_what_the_old_primary_committed_alone_is_divergence_by_name(primary: Site, replica: Site) -> None:
    """It is named, kept until a bootstrap is asked for, and other tables go on."""
    for name in ("one", "two", "three", "four"):
        create(primary, f"default.{name}")
        write(primary, "a", table=f"default.{name}")
    tables = [f"default.{name}" for name in ("one", "two", "three", "four")]
    late = begin(primary, "default.two")
    fill(primary, late, "late", table="default.two")
    sync_tables(primary, replica, "p", tables)
    fail_over(replica, "p")
    write(primary, "beyond", table="default.one")
    late.commit()
    world.drop_table(primary, "default.three")
    found = compare_for_fail_back(primary, replica, "p")
    assert found.tables == {"default.four": "default.four"}
    assert "write ids 2 to 2 were given there after the last sync" in found.diverged["default.one"]
    assert "[2] were open at the last sync and have committed" in found.diverged["default.two"]
    assert "does not exist any more" in found.diverged["default.three"]
    assert "3 of 4 tables have diverged" in found.proposal
    fail_back(primary, replica, "p", "back")
    with pytest.raises(ReplicaDivergedError, match=r"bootstrap these tables again \(default.one, default.two\)"):
        sync_tables(replica, primary, "back", ["default.one", "default.two", "default.four"])
    assert "2:beyond" in rows(primary, "default.one")[""]
    again = ["default.one", "default.two"]
    sync_tables(replica, primary, "back", tables, bootstrap=again)
    for name in tables:
        assert rows(primary, name) == rows(replica, name)


def test_without_a_replication_there_is_nothing_to_fail_over(primary: Site, replica: Site) -> None:
    with pytest.raises(NoSuchObjectError, match="nothing to fail over"):
        fail_over(replica, "unknown")
    create(primary)
    sync_tables(primary, replica, "p", [T])
    with pytest.raises(ActionRefusedError, match="was not failed over"):
        compare_for_fail_back(primary, replica, "p")
    fail_over(replica, "p")
    with pytest.raises(ActionRefusedError, match="needs another name"):
        fail_back(primary, replica, "p", "p")


def test_names_that_were_swapped_at_the_new_primary_come_back_swapped(primary: Site, replica: Site) -> None:
    """Its log tells of it, which counts events by itself: fewer than the old primary's.

    t1  both partitions are written by one write, so that their files have the same names; sync
    t2  the replica fails over, and its partitions swap their names
    t3  the old primary follows
    """
    create(primary, "default.other")
    for _ in range(40):
        write(primary, "x", table="default.other")
    create(primary, partitioned=True)
    with begin(primary, partition="p=1") as transaction:
        fill(primary, transaction, "a", partition="p=1")
        fill(primary, transaction, "b", partition="p=2")
    sync_tables(primary, replica, "there", [T])
    fail_over(replica, "there")
    for old, new in (("p=1", "p=9"), ("p=2", "p=1"), ("p=9", "p=2")):
        world.rename_partition(replica, old, new)
    fail_back(primary, replica, "there", "back")
    sync_tables(replica, primary, "back", [T])
    assert rows(primary) == rows(replica) == {"p=1": {"1:b"}, "p=2": {"1:a"}}
    write(replica, "c", partition="p=1")
    assert not sync_tables(replica, primary, "back", [T]).tables[0].bootstrapped
    assert rows(primary) == rows(replica)


@pytest.mark.rule("R14")
def test_a_stream_goes_on_at_the_new_primary_behind_its_last_micro_batch_that_has_come(
    primary: Site, replica: Site
) -> None:
    """A repetition of one that has come would double its rows, and a start behind one that has not would lose them.

    t1  micro-batches 0 and 1 are committed; sync
    t2  the process is at 2 when the replica fails over
    t3  the query goes on at the new primary, where 1 is known as the last one, and commits 2
    t4  the old primary follows; the process that still runs there commits nothing more
    """
    create(primary)
    left = world.run_stream(primary, "the old one")
    world.micro_batch(primary, left, 0, "a")
    world.micro_batch(primary, left, 1, "b")
    at_work = begin(primary)
    primary.client.streams.begun(left, "2", [at_work.txn_id])
    fill(primary, at_work, "lost")
    sync_tables(primary, replica, "there", [T])
    fail_over(replica, "there")
    owner = world.run_stream(replica, "the new one")
    found = owner.found
    assert (found.batch, found.write_id, found.rows, found.batches, found.open_txns) == (1, 2, 2, 2, ())
    world.micro_batch(replica, owner, 2, "c")
    fail_back(primary, replica, "there", "back", abort_open=True)
    sync_tables(replica, primary, "back", [T])
    assert rows(primary) == rows(replica) == {"": {"1:a", "2:b", "4:c"}}
    with pytest.raises(ClaimLostError):
        primary.client.streams.beat(left)
    fail_over(primary, "back")
    assert world.run_stream(primary, "the old one, again").found.batch == 2


@pytest.mark.rule("R14")
def test_streams_that_are_forgotten_or_have_a_name_of_anothers(primary: Site, replica: Site) -> None:
    """What the source forgets is forgotten; a stream into another table of the replica stays what it is."""
    create(primary)
    owner = world.run_stream(primary, "it")
    world.micro_batch(primary, owner, 5, "a")
    sync_tables(primary, replica, "p", [T])
    assert replica.client.streams.find("s").batch == 5
    primary.client.streams.leave(owner)
    primary.client.streams.forget("s", silent_ms=30_000)
    write(primary, "b")
    sync_tables(primary, replica, "p", [T])
    assert replica.client.streams.all() == []
    replica.client.catalog.create_database("mine")
    create(replica, "mine.t")
    mine = world.run_stream(replica, "mine", "mine.t")
    world.micro_batch(primary, world.run_stream(primary, "it"), 0, "c")
    sync_tables(primary, replica, "p", [T])
    assert rows(replica) == rows(primary)
    replica.client.streams.beat(mine)
    assert replica.client.streams.find("s").table == "mine.t"


@pytest.mark.rule("R4")
def test_what_a_sync_has_left_whose_txn_was_timed_out_is_never_seen(primary: Site, replica: Site) -> None:
    """A txn that is forgotten counts as committed, and what carries its id would hide rows.

    t1  a sync brings row a; at the source its partition is made anew
    t2  the next sync puts an empty base in place, and is killed
    t3  its txn is timed out; the primary is lost, and the replica fails over
    t4  txns of which nothing is left are forgotten
    """
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    sync_tables(primary, replica, "p", [T])
    world.make_partition_anew(primary, "p=1")
    write(primary, "b", partition="p=2")

    def killed(step: str) -> None:
        if step == "advance":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sync_tables(primary, replica, "p", [T], step=killed)
    with replica.client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1))
    run_reaper(replica.client, replica.filesystem)
    fail_over(replica, "p")
    write(replica, "mine", partition="p=3")
    place = world.path_of(replica.client.catalog.get_partition(T, "p=1").location)
    for left in (["base_0000001_v0000003"], []):
        pass_time(replica)
        replica.client.housekeeping.clean_empty_txns()
        assert rows(replica) == {"p=1": {"1:a"}, "p=3": {"2:mine"}}
        assert [each.name for each in place.iterdir() if each.name.startswith("base")] == left
        with replica.client.database.transaction() as connection:  # hive.compactor.aborted.txn.time.threshold
            connection.execute(sa.update(TXNS).where(TXNS.c.TXN_STATE == "a").values(TXN_STARTED=1))
        run_cleaner(replica.client, replica.filesystem)


@pytest.mark.parametrize("is_told", [True, False], ids=["the log tells", "the log was purged"])
def test_a_partition_that_a_hive_made_anew_at_the_old_primary_is_divergence(
    primary: Site, replica: Site, *, is_told: bool
) -> None:
    """It took no write id for it, and left nothing there. Without its log, the first sync finds that rows are missing.

    t1  both have both partitions; the replica fails over
    t2  at the old primary a Hive drops p=1 and adds it again
    t3  the old primary is to follow
    """
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    write(primary, "b", partition="p=2")
    sync_tables(primary, replica, "there", [T])
    fail_over(replica, "there")
    world.compact(replica, major=True, partition="p=1", clean=True)
    world.make_partition_anew(primary, "p=1")
    if not is_told:
        with primary.client.database.transaction() as connection:
            connection.execute(sa.delete(NOTIFICATION_LOG))
    found = compare_for_fail_back(primary, replica, "there")
    assert ("its partition p=1 was dropped" in found.diverged.get(T, "")) is is_told
    fail_back(primary, replica, "there", "back")
    with pytest.raises(ReplicaDivergedError, match="bootstrap"):
        sync_tables(replica, primary, "back", [T])
    sync_tables(replica, primary, "back", [T], bootstrap=[T])
    assert rows(primary) == rows(replica) == {"p=1": {"1:a"}, "p=2": {"2:b"}}
    fail_over(primary, "back")
    assert not compare_for_fail_back(replica, primary, "back").diverged


def test_a_table_that_was_dropped_at_the_new_primary_stays_and_is_named(primary: Site, replica: Site) -> None:
    for name in ("default.kept", T):
        create(primary, name)
        write(primary, "a", table=name)
    sync_tables(primary, replica, "there", ["default.kept", T])
    fail_over(replica, "there")
    world.drop_table(replica)
    found = fail_back(primary, replica, "there", "back")
    assert (found.tables, found.dropped) == ({"default.kept": "default.kept"}, (T,))
    assert found.proposal.startswith("all 1 tables can follow")
    assert f"drop them there first, if nobody needs them: {T}" in found.proposal
    assert rows(primary) == {"": {"1:a"}}
