"""EXPORT of an ACID table under a snapshot, and IMPORT of it into a new one (bootstrap)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import ClaimLostError, CorruptDumpError, InvalidArgumentsError
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.changes import as_of, lost_history, partition_changes
from airflow_hive_acid.format.names import base_name, delta_name
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.schema.streams import HIVE_ACID_STREAM
from airflow_hive_acid.replication.dumps import exports
from airflow_hive_acid.replication.dumps.dump import Scope, parse_metadata, read_dump
from airflow_hive_acid.replication.dumps.exports import export_metadata, export_table
from airflow_hive_acid.replication.dumps.import_plan import Asked
from airflow_hive_acid.replication.dumps.imports import import_table
from airflow_hive_acid.replication.dumps.metadata_imports import import_metadata
from tests.integration.replication import acid_world as world
from tests.integration.replication.dumps.exim import contents, location, make_table, objects, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_hive_acid.replication.site import Site

ACID: dict[str, object] = {"properties": {"transactional": "true"}, "stored_as": "orc"}
INSERT_ONLY: dict[str, object] = {
    "properties": {"transactional": "true", "transactional_properties": "insert_only"}, "stored_as": "text"
}  # fmt: skip


def insert(site: Site, content: bytes, *, abort: bool = False, name: str = "w.t") -> int:
    """A txn that writes one file."""
    transaction = site.client.begin({name: "insert"})
    write_id = transaction.write_ids[name]
    write(site, location(site, name), {f"delta_{write_id:07d}_{write_id:07d}_0000/bucket_00000": content})
    if abort:
        transaction.abort()
    else:
        transaction.commit()
    return write_id


def test_a_stream_stands_in_a_dump_where_the_rows_of_the_dump_end(
    primary: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It commits while the export begins: who goes on from the imported position misses no row."""
    world.create(primary)
    world.write_at(primary, "1", "a")
    read = exports._read

    def late(*arguments: Any) -> Any:
        world.write_at(primary, "2", "b")
        return read(*arguments)

    monkeypatch.setattr(exports, "_read", late)
    export_table(primary, world.T, f"{tmp_path}/dump")
    dump = read_dump(primary.filesystem, f"{tmp_path}/dump")
    assert dump.table is not None
    assert dump.table.properties[world.POSITION] == "2"
    assert [file.path.partition("/")[0] for file in dump.files if "bucket" in file.path] == [
        delta_name(1, 1, 0), delta_name(2, 2, 0)
    ]  # fmt: skip


def stands(site: Site, table: str = world.T) -> tuple[str, int, int, bool]:
    """Which table the stream ``s`` of a site is in, its last micro-batch there, and whether the table counts as his."""
    found = site.client.streams.find("s")
    return found.table, found.batch, found.rows, found.table_id == site.client.catalog.get_table(table).id


def dump_with_stream(site: Site, uri: str) -> None:
    """A table with two micro-batches, and one of which the checkpoint knows more than the dump."""
    world.create(site)
    owner = world.run_stream(site, "it")
    for number in (0, 1):
        world.micro_batch(site, owner, number, f"of {number}")
    export_table(site, world.T, uri)
    world.micro_batch(site, owner, 2, "of 2")


def drop_as_a_hive(site: Site) -> None:
    """It knows nothing of the records of streams, and leaves them."""
    with site.client.database.transaction() as connection:
        left = connection.execute(sa.select(HIVE_ACID_STREAM)).mappings().all()
    world.drop_table(site)
    with site.client.database.transaction() as connection:
        connection.execute(sa.insert(HIVE_ACID_STREAM), [dict(row) for row in left])


@pytest.mark.rule("R14")
def test_an_imported_table_knows_which_micro_batches_it_has(primary: Site, replica: Site, tmp_path: Path) -> None:
    """A query that is pointed there repeats none, and a gap is noticed; the table it came from stays what it is."""
    dump_with_stream(primary, f"{tmp_path}/dump")
    import_table(replica, f"{tmp_path}/dump")
    assert stands(replica) == (world.T, 1, 2, True)
    assert world.run_stream(replica, "another").found.batch == 1
    import_table(primary, f"{tmp_path}/dump", Asked(TableName("default", "copy")))
    assert stands(primary) == (world.T, 2, 3, True)


@pytest.mark.rule("R14")
@pytest.mark.parametrize("drop", [world.drop_table, drop_as_a_hive], ids=["ours", "a Hive's"])
def test_a_table_that_comes_back_from_a_dump_has_the_micro_batches_of_the_dump(
    primary: Site, tmp_path: Path, drop: Callable[[Site], object]
) -> None:
    """It was dropped while its stream ran: that one commits nothing into the new one before it has looked."""
    dump_with_stream(primary, f"{tmp_path}/dump")
    running = world.run_stream(primary, "it")
    drop(primary)
    import_table(primary, f"{tmp_path}/dump")
    assert stands(primary) == (world.T, 1, 2, True)
    with pytest.raises(ClaimLostError, match="taken over"):
        primary.client.streams.beat(running)


def test_a_stream_of_another_checkpoint_stays_what_it_is(primary: Site, replica: Site, tmp_path: Path) -> None:
    """As one that fills the table at a site for tests, where a Hive drops it and it is imported again."""
    dump_with_stream(primary, f"{tmp_path}/dump")
    world.create(replica)
    table_id = replica.client.catalog.get_table(world.T).id
    owner = replica.client.streams.open("s", world.T, "own", "tests", table_id=table_id, silent_ms=1)
    world.micro_batch(replica, owner, 7, "own")
    drop_as_a_hive(replica)
    import_table(replica, f"{tmp_path}/dump")
    found = replica.client.streams.find("s")
    assert (found.source, found.batch, found.running) == ("own", 7, True)


@pytest.mark.parametrize(
    "said", [[{}], [1], 7, "s", {"name": "s"}, [{"batch": -1}], [{"batch": True}], [{"offsets": "[]"}],
             [{"source": "x" * 129}], [{"more": 1}], [{"write_id": "1"}]],
)  # fmt: skip
def test_a_dump_that_says_nonsense_of_streams_is_no_dump(primary: Site, tmp_path: Path, said: Any) -> None:
    dump_with_stream(primary, f"{tmp_path}/dump")
    document = json.loads((tmp_path / "dump" / "_metadata").read_text())
    (mark,) = document["hive.acid.streams"]
    assert parse_metadata(json.dumps(document)).streams[0].batch == 1
    if isinstance(said, list) and isinstance(said[0], dict) and said[0]:
        said = [{**mark, **said[0]}]
    with pytest.raises(CorruptDumpError, match="_metadata cannot be read"):
        parse_metadata(json.dumps({**document, "hive.acid.streams": said}))


def test_metadata_alone_does_not_move_streams(primary: Site, replica: Site) -> None:
    for site, position in ((primary, "2"), (replica, "1")):
        world.create(site)
        world.write_at(site, position, "a")
    primary.client.catalog.alter_properties(world.T, {"about": "birds"})
    (done,) = import_metadata(replica, export_metadata(primary, [(world.T, None)]))
    assert done.done
    assert replica.client.catalog.get_table(world.T).properties["about"] == "birds"
    assert world.position_of(replica) == "1"


def test_a_dump_of_some_partitions_does_not_say_where_streams_stand(primary: Site, tmp_path: Path) -> None:
    world.create(primary, partitioned=True)
    world.write(primary, "a", partition="p=1")
    world.write_at(primary, "1")
    for number, (partitions, position) in enumerate(((["p=1"], None), (None, "1"))):
        export_table(primary, world.T, f"{tmp_path}/{number}", partitions)
        dump = read_dump(primary.filesystem, f"{tmp_path}/{number}")
        assert dump.table is not None
        assert dump.table.properties.get(world.POSITION) == position


@pytest.mark.rule("R4")
@pytest.mark.parametrize("kind", [ACID, INSERT_ONLY], ids=["full", "insert-only"])
def test_a_snapshot_becomes_a_new_table(primary: Site, replica: Site, tmp_path: Path, kind: dict[str, object]) -> None:
    """Visibility txn ids stay at home, aborted and open write ids are aborted, and the replica's next id is higher.

    write id 1 2 3   compacted to delta_1_3_v<txn>, of which 2 was aborted
    write id 4       aborted
    write id 5       committed
    write id 6       open while the export runs
    """
    make_table(primary, **kind)
    for number, ends_badly in enumerate((False, True, False, True, False), start=1):
        assert insert(primary, b"%d" % number, abort=ends_badly) == number
    compactor = primary.client.open_txn()
    write(primary, location(primary), {f"delta_0000001_0000003_v{compactor:07d}/bucket_00000": b"1 and 3"})
    primary.client.commit_txn(compactor)
    still_open = primary.client.begin({"w.t": "insert"})
    write(primary, location(primary), {"delta_0000006_0000006_0000/bucket_00000": b"6"})
    uri = f"{tmp_path}/dump"
    result = export_table(primary, "w.t", uri, scope=Scope.ALL)
    still_open.commit()
    assert sorted(f.place for f in read_dump(primary.filesystem, uri).files) == [
        "data/delta_0000001_0000003/bucket_00000", "data/delta_0000005_0000005_0000/bucket_00000"
    ]  # fmt: skip
    replica.client.catalog.create_database("w")
    done = import_table(replica, uri)
    assert (done.action, done.files, done.state_id) == ("created", 2, result.state_id)
    assert contents(replica, location(replica)) == {
        "delta_0000001_0000003/bucket_00000": b"1 and 3", "delta_0000005_0000005_0000/bucket_00000": b"5"
    }  # fmt: skip
    with replica.client.snapshot(["w.t"]) as snapshot:
        seen = snapshot.snapshot["w.t"]
    assert seen.high_watermark == 6
    assert [i for i in range(1, 7) if seen.is_valid(i)] == [1, 3, 5]
    assert [i for i in range(1, 7) if seen.is_aborted(i)] == [2, 4, 6]
    assert insert(replica, b"7") == 7
    assert location(replica).startswith(replica.client.catalog.get_database("w").managed_location)


@pytest.mark.every_database
def test_what_exists_is_brought_up_to_date_by_the_synchronisation(primary: Site, replica: Site, tmp_path: Path) -> None:
    make_table(primary, **ACID)
    insert(primary, b"1")
    export_table(primary, "w.t", f"{tmp_path}/one", scope=Scope.ALL)
    replica.client.catalog.create_database("w")
    import_table(replica, f"{tmp_path}/one")
    assert not import_table(replica, f"{tmp_path}/one").done
    insert(primary, b"2")
    export_table(primary, "w.t", f"{tmp_path}/two", scope=Scope.ALL)
    before = contents(replica, location(replica))
    with pytest.raises(InvalidArgumentsError, match="synchronisation"):
        import_table(replica, f"{tmp_path}/two")
    assert contents(replica, location(replica)) == before


@pytest.mark.backends("sqlite")
def test_an_acid_dump_becomes_no_external_table(primary: Site, replica: Site, tmp_path: Path) -> None:
    make_table(primary, **ACID)
    export_table(primary, "w.t", f"{tmp_path}/one")
    replica.client.catalog.create_database("w")
    with pytest.raises(InvalidArgumentsError, match="leave out EXTERNAL"):
        import_table(replica, f"{tmp_path}/one", Asked(TableName("w", "e"), external=True))
    assert objects(replica, "w.e")[0] is None


def seen(site: Site, partition: str | None = None) -> list[bytes]:
    """The data files of ``w.t`` that a reader of now reads."""
    place = location(site, "w.t", partition)
    there = contents(site, place)
    with site.client.snapshot(["w.t"]) as snapshot:
        listing = [FileEntry(path, len(content)) for path, content in there.items()]
        state = acid_state(listing, snapshot.snapshot["w.t"], snapshot.valid_txns)
    return [there[file.path] for found in state.inserts for file in found.files]


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "no rows"])
def test_the_base_of_a_compaction_that_ends_with_an_aborted_write_is_seen_in_the_copy(
    primary: Site, replica: Site, tmp_path: Path, rows: bool
) -> None:
    """Without its visibility txn it is called like one of an INSERT OVERWRITE, whose own write id counts.

    write id 1       committed (or aborted, too)
    write id 2       aborted
    base_2_v<txn>    a major compaction
    write id 3       committed
    """
    make_table(primary, **ACID)
    insert(primary, b"1", abort=not rows)
    insert(primary, b"2", abort=True)
    compactor = primary.client.open_txn()
    write(primary, location(primary), {f"{base_name(2, compactor)}/bucket_00000": b"1" if rows else b""})
    primary.client.commit_txn(compactor)
    insert(primary, b"3")
    export_table(primary, "w.t", f"{tmp_path}/dump")
    replica.client.catalog.create_database("w")
    import_table(replica, f"{tmp_path}/dump")
    assert seen(replica) == ([b"1", b"3"] if rows else [b"3"])


@pytest.mark.parametrize("compacted", [True, False], ids=["compaction", "overwrite"])
@pytest.mark.parametrize("kind", [ACID, INSERT_ONLY], ids=["full", "insert-only"])
def test_a_copy_is_not_read_as_it_was_before_what_its_base_has_replaced(
    primary: Site, replica: Site, tmp_path: Path, kind: dict[str, object], compacted: bool
) -> None:
    """That has not come along: without a word it would have been an empty table then."""
    make_table(primary, **kind)
    insert(primary, b"1")
    with primary.client.begin({"w.t": "overwrite"}) as overwrite:
        compactor = primary.client.open_txn() if compacted else 0
        name = base_name(overwrite.write_ids["w.t"], compactor)
        write(primary, location(primary), {f"{name}/bucket_00000": b"2"})
    if compacted:
        primary.client.commit_txn(compactor)
    insert(primary, b"3")
    export_table(primary, "w.t", f"{tmp_path}/dump")
    replica.client.catalog.create_database("w")
    import_table(replica, f"{tmp_path}/dump")
    assert seen(replica) == [b"2", b"3"]
    listing = [FileEntry(path, 1) for path in contents(replica, location(replica))]
    with replica.client.snapshot(["w.t"]) as snapshot:
        now, txns = snapshot.snapshot["w.t"], snapshot.valid_txns
    insert_only = kind is INSERT_ONLY
    assert lost_history(listing, as_of(now, 1), txns, insert_only=insert_only) is not None
    assert lost_history(listing, as_of(now, 2), txns, insert_only=insert_only) is None
    assert partition_changes(listing, now, txns, 2, 3, insert_only=insert_only).available_from == 3
    assert partition_changes(listing, now, txns, 3, 3, insert_only=insert_only).parts is not None


def insert_into(site: Site, partition: str, content: bytes) -> int:
    with site.client.begin({"w.t": "insert"}, partitioned=["w.t"]) as transaction:
        write_id = transaction.write_ids["w.t"]
        site.client.catalog.add_partitions("w.t", [partition])
        place = location(site, "w.t", partition)
        write(site, place, {f"{delta_name(write_id, write_id, 0)}/bucket_00000": content})
        transaction.add_partitions("w.t", [partition])
    return write_id


def test_partitions_that_are_imported_one_after_the_other_are_not_read_as_they_never_were_here(
    primary: Site, replica: Site, tmp_path: Path
) -> None:
    """Of what an INSERT OVERWRITE has replaced in ds=2 nothing has come, whether its import makes the table or not."""
    make_table(primary, partitioned=True, **ACID)
    for number, partition in enumerate(("ds=1", "ds=2"), 1):
        insert_into(primary, partition, b"%d" % number)
    with primary.client.begin({"w.t": "overwrite"}, partitioned=["w.t"]) as overwrite:
        write(primary, location(primary, "w.t", "ds=2"), {f"{base_name(3)}/bucket_00000": b"3"})
        overwrite.add_partitions("w.t", ["ds=2"])
    replica.client.catalog.create_database("w")
    for partition in ("ds=1", "ds=2"):
        export_table(primary, "w.t", f"{tmp_path}/{partition}", [partition])
        import_table(replica, f"{tmp_path}/{partition}")
    assert (seen(replica, "ds=1"), seen(replica, "ds=2")) == ([b"1"], [b"3"])
    listing = [FileEntry(path, 1) for path in contents(replica, location(replica, "w.t", "ds=2"))]
    with replica.client.snapshot(["w.t"]) as snapshot:
        now, txns = snapshot.snapshot["w.t"], snapshot.valid_txns
    assert lost_history(listing, as_of(now, 2), txns) is not None
    assert lost_history(listing, as_of(now, 3), txns) is None
    assert partition_changes(listing, now, txns, 3, 3).available_from == 4


def test_a_partition_of_an_acid_table_goes_back_to_its_own_table_and_to_no_other(
    primary: Site, replica: Site, tmp_path: Path
) -> None:
    """Elsewhere its write ids are not given yet, or are those of others: its rows would not be seen."""
    make_table(primary, partitioned=True, **ACID)
    for number, partition in enumerate(("ds=1", "ds=2"), 1):
        assert insert_into(primary, partition, b"%d" % number) == number
        export_table(primary, "w.t", f"{tmp_path}/{number}", [partition])
    replica.client.catalog.create_database("w")
    import_table(replica, f"{tmp_path}/1")
    assert seen(replica, "ds=1") == [b"1"]
    with pytest.raises(InvalidArgumentsError, match=r"write id 2, under which delta_0000002_0000002_0000.* not commit"):
        import_table(replica, f"{tmp_path}/2")
    assert sorted(objects(replica, "w.t")[1]) == ["ds=1"]
    for place in [location(primary, "w.t", "ds=2")]:
        primary.client.catalog.drop_partition("w.t", "ds=2")
        primary.filesystem.delete(place, inside=location(primary))
    import_table(primary, f"{tmp_path}/2")
    assert seen(primary, "ds=2") == [b"2"]
