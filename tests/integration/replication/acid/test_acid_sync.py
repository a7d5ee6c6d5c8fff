"""Syncs of ACID tables between two sites: files are made by hand, metastores and filesystems are real."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine.tables.viewpoints import Looks
from airflow_hive_acid.errors import (
    ConfigurationError,
    NoSuchObjectError,
    ReplicaDivergedError,
    ReplicationBusyError,
    TxnAbortedError,
)
from airflow_hive_acid.format.changes import lost_history
from airflow_hive_acid.format.jobs import PartitionRef
from airflow_hive_acid.format.mirrors import MirrorState, decide, made_since
from airflow_hive_acid.format.names import base_name, delta_name
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.catalog.values.partition_alteration import PartitionAlteration
from airflow_hive_acid.mirrors.source import look
from airflow_hive_acid.replication.acid.sync import sync_tables
from airflow_hive_acid.sql.model.plans import TableRead
from airflow_hive_acid.sql.model.pruning import KEEP_ALL
from tests.integration.replication import acid_world as world

if TYPE_CHECKING:
    from airflow_hive_acid.replication.acid.report import SyncReport
    from airflow_hive_acid.replication.site import Site

T, begin, compact, create, fill, path_of, put, rows, write = (
    world.T, world.begin, world.compact, world.create, world.fill, world.path_of, world.put, world.rows, world.write
)  # fmt: skip


def sync(primary: Site, replica: Site, *tables: str, **rest) -> SyncReport:
    return sync_tables(primary, replica, "p", tables or (T,), **rest)


def equal(primary: Site, replica: Site, *tables: str) -> None:
    for table in tables or (T,):
        assert rows(replica, table) == rows(primary, table)


def staging(replica: Site, table: str = T) -> list[str]:
    place = path_of(replica.client.catalog.get_table(table).location)
    return [p.name for p in place.iterdir() if p.name.startswith("_tmp") and p.is_dir()]


@pytest.mark.every_database
def test_an_empty_replica_gets_the_table_and_then_what_is_new(primary: Site, replica: Site) -> None:
    """One row in a hundred changed: less than 3 % of the bytes travel, also after a compaction of the source."""
    create(primary)
    write(primary, *(f"row {i}" for i in range(1000)))
    first = sync(primary, replica)
    equal(primary, replica)
    assert first.tables[0].bootstrapped
    write(primary, *(f"new {i}" for i in range(10)), deletes=tuple(f"1:row {i}" for i in range(10)))
    compact(primary, major=True)
    second = sync(primary, replica)
    equal(primary, replica)
    assert 0 < second.bytes < 0.03 * first.bytes
    assert not second.tables[0].bootstrapped
    assert second.state_id > first.state_id
    assert replica.client.catalog.get_table(T).property("repl.last.id") == str(second.state_id)
    third = sync(primary, replica)
    assert third.bytes == 0
    assert staging(replica) == []


@pytest.mark.every_database
def test_open_and_aborted_write_ids_are_what_they_are_at_the_source(primary: Site, replica: Site) -> None:
    """An open write of the source stays invisible here, and comes when it commits; an aborted one never does."""
    create(primary)
    write(primary, "a")
    late, given_up = begin(primary), begin(primary)
    fill(primary, late, "late")
    fill(primary, given_up, "never")
    given_up.abort()
    write(primary, "b")
    sync(primary, replica)
    equal(primary, replica)
    ours = replica.client.get_valid_write_ids(T)[T]
    assert (ours.open, ours.aborted, ours.high_watermark) == ({2}, {3}, 4)
    place = path_of(replica.client.catalog.get_table(T).location)
    assert not (place / delta_name(2, 2, 0)).exists()
    assert not (place / delta_name(3, 3, 0)).exists()
    late.commit()
    sync(primary, replica)
    equal(primary, replica)
    assert replica.client.get_valid_write_ids(T)[T].open == set()


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_replica_is_not_read_as_of_a_write_id_of_which_it_never_had_the_state(
    primary: Site, replica: Site, *, partitioned: bool
) -> None:
    """
    write id 1  row a; the replica gets it
    write id 2  row b
    write id 3  INSERT OVERWRITE; the replica gets its base, and not what it hides
    write id 4  row d, and another sync
    """
    partition = "p=x" if partitioned else ""
    create(primary, partitioned=partitioned)
    write(primary, "a", partition=partition)
    sync(primary, replica)
    write(primary, "b", partition=partition)
    with primary.client.begin({T: "overwrite"}, partitioned=[T] if partitioned else []) as overwrite:
        put(primary, T, base_name(3), ["3:c"], partition)
        if partition:
            overwrite.add_partitions(T, [partition])
    sync(primary, replica)
    write(primary, "d", partition=partition)
    sync(primary, replica)
    equal(primary, replica)

    def lost(site: Site, write_id: int) -> object:
        table = site.client.catalog.get_table(T)
        place = table.location if not partition else site.client.catalog.get_partition(T, partition).location
        refs = [PartitionRef(partition, place, ("x",))] if partition else []
        with site.client.snapshot([T]) as reader:
            ids, txns = reader.snapshot[T], reader.valid_txns
            read = TableRead(T, "v", KEEP_ALL, as_of=write_id)
            then = Looks(site.client).snapshot(table, read, refs, ids, txns)
        assert then.as_of is not None
        cleaned = then.as_of.cleaned.get(partition, 0)
        found = world.listing(path_of(place))
        return lost_history(found, ValidWriteIdList.parse(then.write_ids), txns, cleaned=cleaned)

    assert [lost(primary, i) for i in (1, 2, 3, 4)] == [None] * 4
    assert [lost(replica, i) is None for i in (1, 2, 3, 4)] == [False, False, True, True]


@pytest.mark.rule("R4")
@pytest.mark.backends("sqlite")
def test_compactions_of_both_sides_do_not_disturb_it(primary: Site, replica: Site) -> None:
    create(primary)
    write(primary, "a")
    write(primary, "b")
    sync(primary, replica)
    compact(replica, major=True, clean=True)
    equal(primary, replica)
    write(primary, "c", deletes=("1:a",))
    write(primary, "d")
    made = compact(primary, major=True, clean=True)
    report = sync(primary, replica)
    equal(primary, replica)
    place = path_of(replica.client.catalog.get_table(T).location)
    assert not (place / made).exists(), "a txn id of the source came here"
    assert report.tables[0].directories == 1
    compact(primary, major=True)
    sync(primary, replica)
    equal(primary, replica)


def test_partitions_come_and_go(primary: Site, replica: Site) -> None:
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    write(primary, "b", partition="p=2")
    assert sync(primary, replica).tables[0].added == ("p=1", "p=2")
    equal(primary, replica)
    write(primary, "c", partition="p=3")
    world.drop_partition(primary, "p=1")
    report = sync(primary, replica).tables[0]
    assert (report.added, report.dropped) == (("p=3",), ("p=1",))
    equal(primary, replica)


@pytest.mark.backends("sqlite")
def test_a_partition_that_was_dropped_and_added_again_begins_anew(primary: Site, replica: Site) -> None:
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    sync(primary, replica)
    before, place = look(replica.client, T), replica.client.catalog.list_partitions(T)[0].location
    world.drop_partition_without_a_base(primary, "p=1")
    write(primary, "b", partition="p=1")
    report = sync(primary, replica)
    assert rows(replica) == {"p=1": {"3:b"}}
    assert "emptied without a write id" in report.tables[0].reasons[0]
    # A mirror of the replica is told by the partition's id, as one of the primary is.
    after = look(replica.client, T)
    assert decide(MirrorState(before.source, (), 1), after.source, None).partitions_changed
    assert made_since(before.source, after.partition_ids, after.altered) == {"p=1"}
    assert [p.location for p in replica.client.catalog.list_partitions(T)] == [place]


@pytest.mark.backends("sqlite")
def test_a_partition_takes_its_rows_along_to_a_new_name(primary: Site, replica: Site) -> None:
    """They are of write ids that have come here, under the old name."""
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    write(primary, "b", partition="p=2")
    write(primary, "c", partition="p=1", deletes=("1:a",))
    compact(primary, major=True, partition="p=1", clean=True)
    write(primary, "d", partition="p=1")
    sync(primary, replica)
    equal(primary, replica)
    world.rename_partition(primary, "p=1", "p=3")
    write(primary, "e", partition="p=3")
    report = sync(primary, replica).tables[0]
    assert (report.added, report.dropped, report.bootstrapped) == (("p=3",), ("p=1",), False)
    equal(primary, replica)
    assert {"3:c", "4:d", "6:e"} <= rows(replica)["p=3"]


@pytest.mark.parametrize("one_write", [False, True], ids=["of two writes", "of one write"])
def test_partitions_that_swap_their_names_are_copied_anew(primary: Site, replica: Site, one_write: bool) -> None:
    """Where both have files of one write id, no listing tells that they are others."""
    create(primary, partitioned=True)
    if one_write:
        with begin(primary, partition="p=1") as transaction:
            fill(primary, transaction, "a", partition="p=1")
            fill(primary, transaction, "b", partition="p=2")
    else:
        write(primary, "a", partition="p=1")
        write(primary, "b", partition="p=2")
    sync(primary, replica)
    equal(primary, replica)
    for old, new in (("p=1", "p=9"), ("p=2", "p=1"), ("p=9", "p=2")):
        world.rename_partition(primary, old, new)
    write(primary, "c", partition="p=1")
    assert sync(primary, replica).tables[0].bootstrapped
    equal(primary, replica)
    write(primary, "d", partition="p=2")
    assert not sync(primary, replica).tables[0].bootstrapped
    equal(primary, replica)


def test_a_partition_that_was_given_another_directory_is_copied_anew(primary: Site, replica: Site) -> None:
    """Files of the same names lie there, with other rows: no listing tells that they are others."""
    create(primary, partitioned=True)
    with begin(primary, partition="p=1") as transaction:
        fill(primary, transaction, "a", partition="p=1")
        fill(primary, transaction, "b", partition="p=2")
    sync(primary, replica)
    table = path_of(primary.client.catalog.get_table(T).location)
    elsewhere = shutil.copytree(table / "p=2", table.parent / "elsewhere").as_uri()
    primary.client.catalog.alter_partition(T, "p=1", PartitionAlteration(location=elsewhere))
    assert sync(primary, replica).tables[0].bootstrapped
    equal(primary, replica)
    assert rows(replica)["p=1"] == {"1:b"}
    assert not sync(primary, replica).tables[0].bootstrapped


def test_a_partition_that_gets_the_name_of_a_dropped_one_waits_for_the_cleaner(primary: Site, replica: Site) -> None:
    """Its rows do not fit in beside those that a reader here may still read."""
    create(primary, partitioned=True)
    write(primary, "a", partition="p=1")
    write(primary, "b", partition="p=2")
    sync(primary, replica)
    world.drop_partition(primary, "p=2")
    sync(primary, replica)
    equal(primary, replica)
    world.remove_all(path_of(primary.client.catalog.get_table(T).location) / "p=2")
    world.rename_partition(primary, "p=1", "p=2")
    with pytest.raises(ReplicaDivergedError, match=r"delta_0000001_0000001_0000 came here under another name.*Cleaner"):
        sync(primary, replica)
    world.remove_all(path_of(replica.client.catalog.get_table(T).location) / "p=2")
    sync(primary, replica)
    equal(primary, replica)
    assert rows(replica) == {"p=2": {"1:a"}}


def test_a_truncate_with_a_write_id_is_a_base_without_rows(primary: Site, replica: Site) -> None:
    create(primary)
    write(primary, "a")
    sync(primary, replica)
    with begin(primary, update=True) as transaction:
        put(primary, T, base_name(transaction.write_ids[T]), [])
    sync(primary, replica)
    assert rows(replica) == {"": set()}
    equal(primary, replica)


@pytest.mark.backends("sqlite")
def test_a_table_dropped_and_made_again_begins_anew(primary: Site, replica: Site) -> None:
    """Its write ids start at 1 again, below those of the replica."""
    create(primary)
    for text in "abc":
        write(primary, text)
    sync(primary, replica)
    world.drop_table(primary)
    create(primary)
    write(primary, "z")
    assert sync(primary, replica).tables[0].bootstrapped
    assert rows(replica) == {"": {"1:z"}}


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("killed_at", [1, 2, 3])
def test_a_drop_that_is_killed_anywhere_stands_in_nobodys_way(primary: Site, replica: Site, killed_at: int) -> None:
    """The catalog has forgotten the table, its files are still there: the next sync makes it anew all the same."""
    create(primary)
    write(primary, "a")
    sync(primary, replica)
    world.drop_table(primary)
    create(primary)
    write(primary, "z")

    class Dying:
        """The replica's filesystem, up to a certain change."""

        def __init__(self) -> None:
            self.left = killed_at

        def __getattr__(self, name: str):
            call = getattr(replica.filesystem, name)
            if name in ("rename_directory", "delete", "make_directory"):
                self.left -= 1
                if not self.left:
                    raise KeyboardInterrupt(name)
            return call

    with pytest.raises(KeyboardInterrupt):
        sync(primary, dataclasses.replace(replica, filesystem=Dying()))
    sync(primary, replica)
    assert rows(replica) == {"": {"1:z"}}
    database = path_of(replica.client.catalog.get_table(T).location).parent
    assert [p.name for p in database.iterdir() if p.name.startswith("_tmp")] == []


@pytest.mark.backends("sqlite")
def test_an_insert_only_table_is_followed_through_compactions(primary: Site, replica: Site) -> None:
    """Its rows carry no write id: a compacted delta takes the place of what is here."""
    create(primary, transactional="true", transactional_properties="insert_only")
    write(primary, "a")
    sync(primary, replica)
    write(primary, "b")
    compact(primary, major=False, clean=True)
    report = sync(primary, replica)
    equal(primary, replica)
    assert "takes the place" in report.tables[0].reasons[0]
    compact(replica, major=True, clean=True)
    write(primary, "c")
    compact(primary, major=False, clean=True)
    report = sync(primary, replica)
    equal(primary, replica)
    assert "travel as one base" in report.tables[0].reasons[0]


@pytest.mark.backends("sqlite")
def test_files_of_a_converted_table_come_with_the_first_copy(primary: Site, replica: Site) -> None:
    made = create(primary)
    (path_of(made.location) / "000000_0").write_text("0:before")
    write(primary, "after")
    sync(primary, replica)
    assert rows(replica) == {"": {"0:before", "1:after"}}
    assert sync(primary, replica).bytes == 0


@pytest.mark.backends("sqlite")
def test_rows_of_a_directory_that_is_here_in_part_need_spark(primary: Site, replica: Site) -> None:
    create(primary)
    write(primary, "a")
    sync(primary, replica)
    write(primary, "b")
    compact(primary, major=False, clean=True)
    before = rows(replica)
    with pytest.raises(ConfigurationError, match="no Spark"):
        sync(primary, replica)
    assert rows(replica) == before


@pytest.mark.backends("sqlite")
def test_transactions_over_several_tables_stay_whole_under_another_name(primary: Site, replica: Site) -> None:
    """Also in a database that is called otherwise."""
    replica.client.catalog.create_database("copy")
    create(primary, "default.one")
    create(primary, "default.two")
    with primary.client.begin({"default.one": "insert", "default.two": "insert"}) as both:
        fill(primary, both, "x", table="default.one")
        fill(primary, both, "y", table="default.two")
    sync_tables(primary, replica, "p", {"default.one": "copy.one", "default.two": "copy.two"})
    assert rows(replica, "copy.one") == {"": {"1:x"}}
    assert rows(replica, "copy.two") == {"": {"1:y"}}


@pytest.mark.rule("R5")
@pytest.mark.parametrize("step", ["begin", "copy", "publish", "advance", "done"])
@pytest.mark.backends("sqlite")
def test_a_sync_that_is_killed_changes_nothing_and_the_next_one_goes_on(
    primary: Site, replica: Site, step: str
) -> None:
    """Whatever was copied before the kill is used; what was renamed is invisible, and makes way."""
    create(primary)
    write(primary, "a")
    sync(primary, replica)
    before = rows(replica)
    write(primary, "b", deletes=("1:a",))
    compact(primary, major=True, clean=True)

    def killed(name: str) -> None:
        if name == step:
            raise KeyboardInterrupt(name)

    with pytest.raises(KeyboardInterrupt):
        sync(primary, replica, step=killed)
    assert rows(replica) == (rows(primary) if step == "done" else before)
    write(primary, "c")
    sync(primary, replica)
    equal(primary, replica)
    assert staging(replica) == []
    assert not [t for t in replica.client.show_transactions() if t.state.value == "o"]


@pytest.mark.backends("sqlite")
def test_a_directory_that_vanishes_while_it_is_copied_makes_the_sync_begin_anew(primary: Site, replica: Site) -> None:
    """A Hive that cleans without regard for our lock; the next snapshot sees what took its place."""
    create(primary)
    write(primary, "a")
    asked = []

    def vanish(name: str) -> None:
        if name == "copy" and not asked:
            asked.append(name)
            compact(primary, major=True, clean=True)

    sync(primary, replica, step=vanish)
    assert asked
    equal(primary, replica)


@pytest.mark.backends("sqlite")
def test_nothing_that_an_attempt_before_has_copied_slips_in(primary: Site, replica: Site) -> None:
    """The source has compacted the same write ids again, and the new base has fewer files than the one copied first."""
    create(primary)
    write(primary, "a")
    first = compact(primary, major=True, clean=True)
    place = path_of(primary.client.catalog.get_table(T).location)
    (place / first / "bucket_00001").write_text("1:b")

    def killed(name: str) -> None:
        if name == "publish":
            raise KeyboardInterrupt(name)

    with pytest.raises(KeyboardInterrupt):
        sync(primary, replica, step=killed)
    world.remove(place / first)
    put(primary, T, base_name(1, 1), ["1:a", "1:b"])
    sync(primary, replica)
    assert rows(replica) == {"": {"1:a", "1:b"}}


@pytest.mark.backends("sqlite")
def test_foreign_writes_at_the_replica_are_named_and_kept(primary: Site, replica: Site) -> None:
    """A bootstrap that is asked for drops them."""
    create(primary)
    create(primary, "default.other")
    write(primary, "a")
    write(primary, "o", table="default.other")
    sync(primary, replica, T, "default.other")
    write(replica, "foreign")
    write(primary, "b")
    with pytest.raises(ReplicaDivergedError, match=r"default\.t: write ids up to 2 were given here") as raised:
        sync(primary, replica, T, "default.other")
    assert list(raised.value.tables) == [T]
    assert rows(replica) == {"": {"1:a", "2:foreign"}}
    sync(primary, replica, T, "default.other", bootstrap=[T])
    equal(primary, replica, T, "default.other")


@pytest.mark.backends("sqlite")
def test_a_table_that_was_there_before_is_not_taken_for_a_copy(primary: Site, replica: Site) -> None:
    create(primary)
    create(replica)
    write(replica, "mine")
    write(primary, "a")
    with pytest.raises(ReplicaDivergedError, match="write ids up to 1 were given here, replication left 0"):
        sync(primary, replica)
    assert rows(replica) == {"": {"1:mine"}}


@pytest.mark.backends("sqlite")
def test_a_primary_restored_from_a_backup_is_noticed(primary: Site, replica: Site) -> None:
    create(primary)
    write(primary, "a")
    write(primary, "b")
    sync(primary, replica)

    def back(connection) -> None:
        import sqlalchemy as sa

        from airflow_hive_acid.metastore.schema.hive_transactions import NEXT_WRITE_ID, TXN_TO_WRITE_ID

        connection.execute(sa.delete(TXN_TO_WRITE_ID))
        connection.execute(sa.update(NEXT_WRITE_ID).values(NWI_NEXT=2))

    primary.client.database.run(back)
    with pytest.raises(ReplicaDivergedError, match="went back in time"):
        sync(primary, replica)


@pytest.mark.backends("sqlite")
def test_the_database_must_exist_and_so_must_the_table(primary: Site, replica: Site) -> None:
    create(primary)
    with pytest.raises(NoSuchObjectError, match="database must exist before it is replicated"):
        sync_tables(primary, replica, "p", {T: "nowhere.t"})
    with pytest.raises(NoSuchObjectError):
        sync(primary, replica, "default.unknown")


@pytest.mark.rule("R3")
@pytest.mark.backends("sqlite")
def test_of_two_syncs_at_once_the_later_one_counts(primary: Site, replica: Site) -> None:
    """The earlier one wakes up, and finds that its attempt no longer counts.

    t1  A copies
    t2             B begins, takes over what A copied, commits
    t3  A goes on: refused
    """
    create(primary)
    write(primary, "a")
    met = []

    def meanwhile(name: str) -> None:
        if name == "publish" and not met:
            met.append(name)
            sync(primary, replica)

    with pytest.raises((ReplicationBusyError, TxnAbortedError)):
        sync(primary, replica, step=meanwhile)
    equal(primary, replica)


@pytest.mark.backends("sqlite")
def test_the_sources_locks_and_txns_are_let_go(primary: Site, replica: Site) -> None:
    create(primary)
    write(primary, "a")
    sync(primary, replica)
    assert primary.client.show_locks() == []
    assert not [t for t in primary.client.show_transactions() if t.state.value == "o"]
