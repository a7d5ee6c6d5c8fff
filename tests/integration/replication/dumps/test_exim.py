"""EXPORT and IMPORT of tables without transactions: what arrives, what is refused, and what a crash leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import (
    AlreadyExistsError,
    CopyFailedError,
    CorruptDumpError,
    InvalidArgumentsError,
    NoSuchObjectError,
    ReadOnlyReplicaError,
    UnsafePathError,
)
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.replication.dumps.drops import drop_partitions, drop_table
from airflow_hive_acid.replication.dumps.dump import (
    COMPLETE,
    FILE_LIST,
    METADATA,
    Scope,
    file_list_text,
    read_dump,
    write_documents,
)
from airflow_hive_acid.replication.dumps.exports import export_metadata, export_table, open_export
from airflow_hive_acid.replication.dumps.import_plan import Asked
from airflow_hive_acid.replication.dumps.imports import import_dump, import_table
from airflow_hive_acid.replication.dumps.metadata_imports import import_metadata
from tests.integration.replication.dumps.exim import (
    FILES,
    add_partition,
    contents,
    exported,
    location,
    make_table,
    objects,
    path_of,
    state_ids,
    whole,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_hive_acid.replication.site import Site


@pytest.mark.every_database
def test_a_table_arrives_with_its_files_and_its_state(pair: tuple[Site, Site], dump: str) -> None:
    primary, replica = pair
    make_table(primary)
    write(primary, location(primary), {**FILES, "_hidden/x": b"no", ".tmp": b"no"})
    state = primary.client.notifications.current_event_id()
    result = export_table(primary, "w.t", dump, scope=Scope.ALL, event_id="1")
    assert (result.state_id, result.files, result.bytes) == (state, 2, 12)
    done = import_table(replica, dump)
    assert (done.table, done.action, done.files, done.bytes) == ("w.t", "created", 2, 12)
    assert contents(replica, location(replica)) == FILES
    assert state_ids(replica) == {"": str(state)}
    assert {**whole(replica), "files": 0} == {**whole(primary), "files": 0}
    assert objects(replica)[0].type == objects(primary)[0].type  # type: ignore[union-attr]
    assert location(replica).startswith(replica.client.catalog.get_database("w").location)


@pytest.mark.conformance("E11")
def test_importing_again_changes_nothing_and_says_so(pair: tuple[Site, Site], dump: str) -> None:
    primary, replica = pair
    make_table(primary)
    write(primary, location(primary), FILES)
    exported(primary, dump)
    import_table(replica, dump)
    before, events = whole(replica), replica.client.notifications.current_event_id()
    again = import_table(replica, dump)
    assert not again.done
    assert "not older" in again.reason
    assert whole(replica) == before
    assert replica.client.notifications.current_event_id() == events


def test_a_newer_export_replaces_every_file_also_those_of_the_same_name(
    pair: tuple[Site, Site], tmp_path: Path
) -> None:
    primary, replica = pair
    make_table(primary)
    write(primary, location(primary), FILES)
    exported(primary, f"{tmp_path}/one")
    import_table(replica, f"{tmp_path}/one")
    primary.filesystem.delete(f"{location(primary)}/sub", inside=location(primary))
    write(primary, location(primary), {"000000_0": b"other\n", "000002_0": b"new\n"})
    primary.client.catalog.touch("w.t")
    exported(primary, f"{tmp_path}/two")
    assert import_table(replica, f"{tmp_path}/two").action == "replaced"
    assert contents(replica, location(replica)) == {"000000_0": b"other\n", "000002_0": b"new\n"}
    assert not import_table(replica, f"{tmp_path}/one").done, "an older export came late"
    assert contents(replica, location(replica)) == {"000000_0": b"other\n", "000002_0": b"new\n"}


def test_partitions_arrive_alone_and_together(pair: tuple[Site, Site], tmp_path: Path) -> None:
    primary, replica = pair
    make_table(primary, partitioned=True)
    for day in ("1", "2", "a/b"):
        add_partition(primary, f"ds={day.replace('/', '%2F')}", {"000000_0": day.encode()})
    exported(primary, f"{tmp_path}/two", partitions=[{"ds": "2"}, {"ds": "a/b"}])
    done = import_table(replica, f"{tmp_path}/two")
    assert (done.action, done.partitions) == ("created", ("ds=2", "ds=a%2Fb"))
    assert state_ids(replica)[""] == "0", "the table as a whole is not here"
    exported(primary, f"{tmp_path}/all")
    primary.client.catalog.drop_partition("w.t", "ds=2")
    done = import_table(replica, f"{tmp_path}/all")
    assert (done.partitions, done.unchanged) == (("ds=1",), ("ds=2", "ds=a%2Fb")), "as new as the others are"
    assert contents(replica, location(replica)) == {
        "ds=1/000000_0": b"1", "ds=2/000000_0": b"2", "ds=a%2Fb/000000_0": b"a/b"
    }  # fmt: skip
    exported(primary, f"{tmp_path}/later")
    done = import_table(replica, f"{tmp_path}/later")
    assert (done.action, done.dropped) == ("replaced", ("ds=2",)), "a whole table is what it is at the source"
    assert whole(replica) == {**whole(primary), "files": contents(replica, location(replica))}
    assert contents(replica, location(replica)) == {"ds=1/000000_0": b"1", "ds=a%2Fb/000000_0": b"a/b"}


def test_an_export_that_is_still_open_is_imported_without_a_dump(pair: tuple[Site, Site]) -> None:
    primary, replica = pair
    make_table(primary)
    write(primary, location(primary), FILES)
    with open_export(primary, "w.t", event_id="1") as dump:
        done = import_dump(replica, dump, primary.filesystem, Asked(table=TableName("w", "other")))
    assert done.table == "w.other"
    assert contents(replica, location(replica, "w.other")) == FILES


def test_an_object_that_is_gone_is_a_dump_of_nothing(pair: tuple[Site, Site], dump: str) -> None:
    primary, replica = pair
    primary.client.catalog.create_database("w")
    assert export_table(primary, "w.t", dump, scope=Scope.ALL).noop
    done = import_table(replica, dump)
    assert not done.done
    assert "did not exist any more" in done.reason
    with pytest.raises(NoSuchObjectError):
        export_table(primary, "w.t", f"{dump}2")


@pytest.mark.every_database
def test_many_dumps_of_metadata_are_one_transaction(pair: tuple[Site, Site], dump: str) -> None:
    primary, replica = pair
    make_table(primary, partitioned=True)
    add_partition(primary, "ds=1", FILES)
    exported(primary, dump)
    import_table(replica, dump)
    files = contents(replica, location(replica))
    primary.client.catalog.alter_properties("w.t", {"about": "birds"})
    one, two = export_metadata(primary, [("w.t", None), ("w.t", ["ds=1"])])
    later = export_metadata(primary, [("w.gone", None)])[0]
    results = import_metadata(replica, [one, two, later])
    assert [r.action for r in results] == ["replaced", "partitions", "unchanged"]
    assert objects(replica)[0].properties["about"] == "birds"  # type: ignore[union-attr]
    assert contents(replica, location(replica)) == files
    table, parts = objects(replica)
    assert table is not None
    assert state_ids(replica) == {
        "": table.properties["repl.last.id"],
        "ds=1": parts["ds=1"].properties["repl.last.id"],
    }
    assert table.properties["hive.acid.repl.last.metadata.id"] == str(one.state_id)
    assert "COLUMN_STATS_ACCURATE" not in table.properties, "they would be said of other files"
    assert not any(r.done for r in import_metadata(replica, [one, two]))


def test_metadata_of_a_table_that_is_not_there_does_nothing(pair: tuple[Site, Site]) -> None:
    primary, replica = pair
    make_table(primary)
    result = import_metadata(replica, export_metadata(primary, [("w.t", None)]))[0]
    assert not result.done
    assert objects(replica)[0] is None


def test_columns_change_for_partitions_that_share_them(pair: tuple[Site, Site], dump: str) -> None:
    primary, replica = pair
    make_table(primary, partitioned=True)
    add_partition(primary, "ds=1", FILES)
    exported(primary, dump)
    import_table(replica, dump)
    primary.client.catalog.add_columns("w.t", [Column("c", "double")], cascade=True)
    import_metadata(replica, export_metadata(primary, [("w.t", None)]))
    assert {**whole(replica), "files": 0} == {**whole(primary), "files": 0}


def test_a_database_is_never_created(primary: Site, replica: Site, dump: str) -> None:
    make_table(primary)
    exported(primary, dump)
    with pytest.raises(NoSuchObjectError, match="no database w"):
        import_table(replica, dump)
    assert replica.client.catalog.list_databases() == ["default"]
    assert contents(replica, f"{replica.client.catalog.get_database('default').location}") == {}


def _truncated(uri: str) -> None:
    (path_of(uri) / COMPLETE).unlink()


def _shorter(uri: str) -> None:
    (path_of(uri) / "data/000000_0").write_bytes(b"1")


def _other_bytes(uri: str) -> None:
    (path_of(uri) / "data/000000_0").write_bytes(b"9,one\n")


def _missing(uri: str) -> None:
    (path_of(uri) / "data/000000_0").unlink()


def _linked(uri: str) -> None:
    other = path_of(uri).parent / "elsewhere"
    other.write_bytes(b"1,one\n")
    file = path_of(uri) / "data/000000_0"
    file.unlink()
    file.symlink_to(other)


def _linked_directory(uri: str) -> None:
    data = path_of(uri) / "data"
    data.rename(path_of(uri).parent / "moved")
    data.symlink_to(path_of(uri).parent / "moved")


def _edited_metadata(uri: str) -> None:
    file = path_of(uri) / METADATA
    file.write_text(file.read_text().replace("textfile", "orc").replace("t", "u", 1))


def _edited_list(uri: str) -> None:
    file = path_of(uri) / FILE_LIST
    file.write_text(file.read_text().splitlines()[0] + "\n")


@pytest.mark.parametrize("spoil", [
    _truncated, _shorter, _other_bytes, _missing, _linked, _linked_directory, _edited_metadata, _edited_list,
])  # fmt: skip
@pytest.mark.backends("sqlite")
def test_a_dump_that_is_not_whole_is_refused_and_nothing_is_left(
    pair: tuple[Site, Site], dump: str, spoil: Callable[[str], None]
) -> None:
    primary, replica = pair
    make_table(primary)
    write(primary, location(primary), FILES)
    exported(primary, dump)
    spoil(dump)
    with pytest.raises((CorruptDumpError, UnsafePathError, CopyFailedError)):
        import_table(replica, dump)
    assert objects(replica) == (None, {})
    assert contents(replica, replica.client.catalog.get_database("w").location) == {}


@pytest.mark.parametrize("path", [
    "../x", "a/../../x", "/etc/x", "a//b", "./a", "%2e%2e/x", "..%2fx", "a\\..\\x", "file:/x", "",
    "_tmp_1/x", "_repl_1/x", "a\x00b",
])  # fmt: skip
@pytest.mark.backends("sqlite")
def test_paths_that_leave_the_table_are_refused(pair: tuple[Site, Site], dump: str, path: str) -> None:
    primary, replica = pair
    make_table(primary)
    write(primary, location(primary), FILES)
    exported(primary, dump)
    whole_dump = read_dump(primary.filesystem, dump)
    bad = replace(whole_dump, files=(replace(whole_dump.files[0], path=path),))
    write_documents(primary.filesystem, dump, bad)
    with pytest.raises((UnsafePathError, CorruptDumpError)):
        import_table(replica, dump)
    with pytest.raises((UnsafePathError, CorruptDumpError)):
        import_dump(replica, bad, primary.filesystem)
    assert objects(replica) == (None, {})
    assert contents(replica, replica.client.catalog.get_database("w").location) == {}


@pytest.mark.backends("sqlite")
def test_a_dump_of_another_kind_of_table_is_refused(pair: tuple[Site, Site], dump: str) -> None:
    primary, replica = pair
    make_table(primary)
    exported(primary, dump)
    make_table(replica, partitioned=True)
    with pytest.raises(InvalidArgumentsError, match="partitioned by"):
        import_table(replica, dump)
    replica.client.catalog.drop_table("w.t")
    replica.client.catalog.create_table(TableDefinition("w", "t", (Column("a", "int"),)))
    with pytest.raises(InvalidArgumentsError, match="full ACID table here"):
        import_table(replica, dump)


@pytest.mark.backends("sqlite")
def test_an_import_outside_of_replication_changes_nothing_that_is_there(pair: tuple[Site, Site], dump: str) -> None:
    primary, replica = pair
    make_table(primary)
    write(primary, location(primary), FILES)
    export_table(primary, "w.t", dump)
    assert import_table(replica, dump).action == "created"
    assert state_ids(replica) == {"": None}
    with pytest.raises(AlreadyExistsError, match="exists already"):
        import_table(replica, dump)
    place = f"{replica.client.catalog.get_database('w').location}/taken"
    write(replica, place, {"x": b""})
    with pytest.raises(AlreadyExistsError, match="not empty"):
        import_table(replica, dump, Asked(table=TableName("w", "taken")))
    assert contents(replica, place) == {"x": b""}
    done = import_table(replica, dump, Asked(table=TableName("w", "there"), location=f"{place}_too"))
    assert done.files == 2
    assert location(replica, "w.there") == f"{place}_too".replace("file:///", "file:/")


@pytest.mark.backends("sqlite")
def test_what_a_policy_writes_takes_imports_of_replication_only(pair: tuple[Site, Site], dump: str) -> None:
    primary, replica = pair
    make_table(primary)
    replica.client.catalog.alter_database("w", {"repl.target.for": "dr"})
    export_table(primary, "w.t", dump)
    with pytest.raises(ReadOnlyReplicaError, match="policy dr"):
        import_table(replica, dump)
    exported(primary, f"{dump}2")
    assert import_table(replica, f"{dump}2").done


@pytest.mark.backends("sqlite")
def test_an_external_table_without_a_location_takes_the_dump_as_its_own(pair: tuple[Site, Site], dump: str) -> None:
    primary, replica = pair
    make_table(primary)
    write(primary, location(primary), FILES)
    export_table(primary, "w.t", dump)
    done = import_table(replica, dump, Asked(external=True))
    assert (done.action, done.files) == ("created", 0)
    assert location(replica) == f"{dump}/data".replace("file:///", "file:/")
    table = objects(replica)[0]
    assert table is not None
    assert table.properties["EXTERNAL"] == "TRUE"
    assert "external.table.purge" not in table.properties


@pytest.mark.backends("sqlite")
def test_external_tables_of_replication_lie_below_the_root_that_is_given(
    pair: tuple[Site, Site], dump: str, tmp_path: Path
) -> None:
    primary, replica = pair
    make_table(primary, external=True, location=(tmp_path / "somewhere/t").as_uri())
    write(primary, location(primary), FILES)
    exported(primary, dump)
    import_table(replica, dump, Asked(external_root=(tmp_path / "root").as_uri()))
    assert location(replica) == f"file:{tmp_path}/root{tmp_path}/somewhere/t"
    assert contents(replica, location(replica)) == FILES


@pytest.mark.backends("sqlite")
def test_dumps_and_tables_may_lie_on_an_object_store(pair: tuple[Site, Site], tmp_path: Path) -> None:
    primary, replica = pair
    make_table(primary)
    store = f"memory://bucket/{tmp_path.name}"
    for number, files in enumerate((FILES, {"000000_0": b"other"}, {})):
        for info in primary.filesystem.list_files(location(primary)) if number else ():
            primary.filesystem.delete(info.path, inside=location(primary))
        write(primary, location(primary), files)
        primary.client.catalog.touch("w.t")
        exported(primary, f"{tmp_path}/dump{number}")
        with open_export(primary, "w.t", event_id="1") as dump:
            done = import_dump(replica, dump, primary.filesystem, Asked(location=None if number else f"{store}/t"))
        assert done.done
        assert contents(replica, location(replica)) == files
    assert location(replica) == f"{store}/t"
    assert export_table(replica, "w.t", f"{store}/dump").files == 0
    assert drop_table(replica, "w.t", 10**6).done
    assert contents(replica, f"{store}/t") == {}
    write(primary, location(primary), FILES)
    export_table(primary, "w.t", f"{store}/other")
    import_table(replica, f"{store}/other")
    assert contents(replica, location(replica)) == FILES


@pytest.mark.backends("sqlite")
def test_a_destination_of_an_export_is_its_own(primary: Site, tmp_path: Path) -> None:
    make_table(primary)
    write(primary, location(primary), FILES)
    with pytest.raises(UnsafePathError, match="share files"):
        export_table(primary, "w.t", f"{location(primary)}/dump")
    export_table(primary, "w.t", f"{tmp_path}/one")
    with pytest.raises(AlreadyExistsError, match="holds a dump"):
        export_table(primary, "w.t", f"{tmp_path}/one")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("")
    with pytest.raises(AlreadyExistsError, match="holds something"):
        export_table(primary, "w.t", f"{tmp_path}/full")


@pytest.mark.backends("sqlite")
def test_a_dump_of_hive_is_taken_when_one_says_so(pair: tuple[Site, Site], dump: str) -> None:
    primary, replica = pair
    make_table(primary, partitioned=True)
    add_partition(primary, "ds=1", {"000000_0": b"1"})
    export_table(primary, "w.t", dump)
    for name in (COMPLETE, FILE_LIST):
        (path_of(dump) / name).unlink()
    with pytest.raises(CorruptDumpError, match="unmarked"):
        import_table(replica, dump)
    import_table(replica, dump, unmarked=True)
    assert contents(replica, location(replica)) == {"ds=1/000000_0": b"1"}


@pytest.mark.parametrize(
    ("kind", "dropped", "beside"),
    [("decimal(10,2)", "k=2", "k=2.0"), ("decimal(10,2)", "k=2.0", "k=2"), ("char(3)", "k=a", "k=a  ")],
)
def test_a_drop_that_comes_twice_drops_no_other_partition_of_the_same_value(
    pair: tuple[Site, Site], dump: str, kind: str, dropped: str, beside: str
) -> None:
    """An event is replayed after a crash; its partition is gone, and the one beside it has its value."""
    primary, replica = pair
    primary.client.catalog.create_database("w")
    keys, properties = (Column("k", kind),), {"transactional": "false"}
    primary.client.catalog.create_table(
        TableDefinition("w", "t", (Column("a", "int"),), keys, properties=properties, stored_as="text")
    )
    for name in (dropped, beside):
        add_partition(primary, name, {"f": b"x"})
    exported(primary, dump)
    import_table(replica, dump)
    event = int(str(state_ids(replica)[""])) + 1
    assert drop_partitions(replica, "w.t", [dropped], event).dropped == (dropped,)
    assert drop_partitions(replica, "w.t", [dropped], event).dropped == ()
    assert contents(replica, location(replica)) == {f"{beside}/f": b"x"}


@pytest.mark.conformance("E12")
def test_drops_go_by_state(pair: tuple[Site, Site], dump: str) -> None:
    primary, replica = pair
    make_table(primary, partitioned=True)
    for day in ("1", "2"):
        add_partition(primary, f"ds={day}", {"f": b"x"})
    exported(primary, dump)
    import_table(replica, dump)
    state = int(str(state_ids(replica)[""]))
    kept = drop_partitions(replica, "w.t", ["ds=1", "ds=9"], state)
    assert not kept.done
    assert [name for name, _ in kept.kept] == ["ds=1", "ds=9"]
    gone = drop_partitions(replica, "w.t", ["ds=1", "ds=9"], state + 1)
    assert gone.dropped == ("ds=1",)
    assert contents(replica, location(replica)) == {"ds=2/f": b"x"}
    place = location(replica)
    assert not drop_table(replica, "w.t", state).done
    assert drop_table(replica, "w.t", state + 1).done
    assert contents(replica, place) == {}
    assert not drop_table(replica, "w.t", state + 1).done
    make_table(replica)
    assert "did not come by replication" in drop_table(replica, "w.t", state + 99).kept[0][1]


@pytest.mark.backends("sqlite")
def test_the_list_of_files_names_lengths_and_checksums(primary: Site, dump: str) -> None:
    make_table(primary)
    write(primary, location(primary), {"000000_0": b"abc"})
    export_table(primary, "w.t", dump)
    assert json.loads((path_of(dump) / FILE_LIST).read_text()) == {
        "partition": "", "path": "000000_0", "size": 3,
        "checksum": "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }  # fmt: skip
    assert file_list_text(read_dump(primary.filesystem, dump).files) == (path_of(dump) / FILE_LIST).read_text()
