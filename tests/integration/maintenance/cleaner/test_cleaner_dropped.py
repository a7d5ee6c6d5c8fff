"""Files of dropped tables and partitions go through the compaction queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance import run_cleaner, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.catalog import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionType, Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]


from tests.integration.maintenance.cycles.steps import soft_delete


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "1"}


@pytest.mark.every_database
@pytest.mark.conformance("K25")
def test_a_dropped_partition_loses_its_files_when_its_last_reader_has_gone(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    table = make_table("default.p", "k")
    table.insert(partition="k=a")
    table.insert(partition="k=b")
    reader = client.open_snapshot(["default.p"])
    dropped = client.catalog.drop_partition("default.p", "k=a")
    soft_delete(client, Resource("default", "p", "k=a"), dropped.location)
    table.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.WAITING
    assert len(table.read(reader, "k=a")) == 1
    reader.close()
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, outcome.removed) == (Kind.CLEANED, (dropped.location,))
    assert not fs.exists(dropped.location)
    assert len(table.directories("k=b")) == 1
    assert client.show_locks() == []


def test_a_dropped_table_loses_its_directory_but_not_a_new_tables_history(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    old = make_table("default.t")
    old.insert()
    gone = client.catalog.drop_table("default.t").locations[0]
    fs.rename_directory(gone, f"{gone}.v7")
    new = make_table("default.t")
    new.insert()
    soft_delete(client, Resource("default", "t"), f"{gone}.v7")
    new.settle()
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, outcome.removed) == (Kind.CLEANED, (f"{gone}.v7",))
    assert len(new.directories()) == 1
    assert len(client.compactions.find_candidates()) == 1


def test_who_gets_a_dropped_tables_directory_behind_the_look_keeps_his_files(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  the Cleaner has asked whose the directory of a dropped table is: nobody's
    t2            a table is made there, and gets a file
    t3  the Cleaner deletes what it had listed
    """
    old = make_table("default.t")
    old.insert()
    gone = client.catalog.drop_table("default.t").locations[0]
    soft_delete(client, Resource("default", "t"), gone)
    old.settle()
    owner_of = client.catalog.owner_of_location

    def looking(location: str, **named: Any) -> Any:
        found = owner_of(location, **named)
        if location == gone and not fs.exists(f"{gone}/000000_0"):
            columns = (Column("line", "string"),)
            client.catalog.create_table(TableDefinition("default", "x", columns, location=gone, external=True))
            fs.write_text(f"{gone}/000000_0", "a row")
        return found

    monkeypatch.setattr(client.catalog, "owner_of_location", looking)
    (outcome,) = run_cleaner(client, fs)
    assert (outcome.kind, "files that have come since" in outcome.reason) == (Kind.WAITING, True)
    assert [outcome.kind for outcome in run_cleaner(client, fs)] == [Kind.REFUSED]
    assert [entry.relative for entry in fs.list_files(gone)] == ["000000_0"]


def test_a_location_that_is_not_the_dropped_objects_is_never_removed(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], tmp_path: Any, warehouse: str
) -> None:
    table, other = make_table("default.p", "k"), make_table("default.other")
    table.insert(partition="k=a")
    other.insert()
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "precious").write_text("x")
    inside = f"{other.location}/delta_0000001_0000001_0000"
    for location in (f"file:{outside}", other.location, inside, f"{warehouse}/../elsewhere", warehouse):
        soft_delete(client, Resource("default", "t"), location)
    aborted = soft_delete(client, Resource("default", "p", "k=z"), table.place("k=a"), abort=True)
    taken = soft_delete(client, Resource("default", "p", "k=y"), table.place("k=a"))
    table.settle()
    kinds = {}
    for _ in range(3):
        kinds |= {o.request_id: o.kind for o in run_cleaner(client, fs)}
    assert kinds.pop(aborted) is Kind.FAILED
    assert kinds.pop(taken) is Kind.REFUSED
    assert set(kinds.values()) <= {Kind.REFUSED, Kind.ERROR}
    assert len(kinds) == 5
    assert (outside / "precious").exists()
    assert len(other.directories()) == len(table.directories("k=a")) == 1


def test_a_partition_that_was_added_again_is_judged_like_any_other(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    table = make_table("default.p", "k")
    table.insert(partition="k=a")
    soft_delete(client, Resource("default", "p", "k=a"), table.place("k=a"))
    table.settle()
    assert run_cleaner(client, fs)[0].removed == ()
    assert len(table.directories("k=a")) == 1


def test_a_minor_compaction_type_is_what_the_queue_says(client: MetastoreClient, fs: Filesystem, table: Any,
                                                        compact_lines: RunJob) -> None:  # fmt: skip
    for _ in range(3):
        table.insert()
    client.compactions.enqueue("default.t", type=CompactionType.MINOR)
    outcome = run_worker(client, fs, compact_lines, "w")[0]
    table.settle()
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert table.directories() == list(outcome.directories)
