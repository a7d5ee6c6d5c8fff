"""The trash: what compaction replaced is moved there; what aborted txns wrote never is (R13)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.errors import ActionRefusedError, InvalidArgumentsError, WarehouseMissingError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.filesystem.uris import local_path
from airflow_hive_acid.format.names import delta_name
from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.maintenance.cleaner.trash import purge_trash
from airflow_hive_acid.maintenance.cleaner.undo import restore_as_table, restore_into
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.maintenance.warehouse.places import Places
from airflow_hive_acid.metastore.schema.cleaning import HIVE_ACID_TRASH
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE
from airflow_hive_acid.settings import Source
from tests.integration.maintenance.cleaner.trash.steps import below, clean, lines, no_space_for_the_second
from tests.integration.maintenance.cycles.steps import change, pass_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]

pytestmark = [pytest.mark.rule("R13"), pytest.mark.backends("sqlite")]


def test_what_aborted_txns_wrote_is_deleted_while_the_rest_can_be_wanted_back(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob, bin: str
) -> None:
    """Of a streaming writer's delta only a part may be committed; it is deleted, too."""
    table.insert()
    table.abort()
    committed, aborted = table.begin(), table.begin()
    table.directory(delta_name(committed.write_ids["default.t"], aborted.write_ids["default.t"]))
    committed.commit()
    aborted.abort("a test")
    table.insert()
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    outcome = clean(client, fs)
    assert below(fs, bin) == [delta_name(1, 1, 0), delta_name(5, 5, 0)]
    assert sorted(uri.rpartition("/")[2] for uri in outcome.trashed) == below(fs, bin)
    assert len(outcome.removed) == 4
    assert [name.split("_")[0] for name in table.directories()] == ["base"]


@pytest.mark.backends("sqlite", "postgresql")
def test_what_a_pin_holds_back_is_missed_in_its_batch_until_the_pin_ends(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob, bin: str, metastore_url: str
) -> None:
    """
    t1  a delta, which is pinned; two more; a major compaction
    t2  the Cleaner moves two of the three to the trash: no table is made of these
    t3  one more delta and compaction: its batch is whole, because the base in it has what the pin holds back
    t4  the pin ends, and the Cleaner moves the first delta into the first batch
    t5  a table is made of that: the rows as they were before t1's compaction
    """
    table.insert(lines=2)
    client.pins.pin("p", ["default.t"], expires=3600)
    table.insert()
    table.insert()
    before = lines(client, table)
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    assert len(clean(client, fs).trashed) == 2
    (first,) = {item.batch for item in client.trash.show()}
    listed = CliRunner().invoke(
        app, ["--metastore-url", metastore_url, "cleaning", "trash", "--format", "csv"]
    ).output  # fmt: skip
    assert [line.split(",")[4:] for line in listed.splitlines()].count([delta_name(1, 1, 0), "", ""]) == 1
    with pytest.raises(ActionRefusedError, match=rf"{first} lacks {delta_name(1, 1, 0)}, .*pin"):
        restore_as_table(client, fs, first, "default.rescued")
    assert "rescued" not in client.catalog.list_tables()

    table.insert()
    then = lines(client, table)
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    clean(client, fs)
    (second,) = {item.batch for item in client.trash.show()} - {first}
    restore_as_table(client, fs, second, "default.second")
    assert lines(client, type(table)(client, fs, "default.second", False)) == then

    client.pins.unpin("p")
    assert len(clean(client, fs).trashed) == 1
    assert len(table.directories()) == 1
    assert {item.batch for item in client.trash.show()} == {first}
    assert len(restore_as_table(client, fs, first, "default.rescued").names) == 3
    assert lines(client, type(table)(client, fs, "default.rescued", False)) == before


def test_what_a_pin_held_back_for_longer_than_the_trash_keeps_is_a_batch_of_its_own(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    table.insert(lines=2)
    seen = lines(client, table)
    client.pins.pin("p", ["default.t"], expires=3600)
    table.insert()
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    clean(client, fs)
    assert purge_trash(client, fs, -1) == 1
    assert client.trash.show() == []
    client.pins.unpin("p")
    clean(client, fs)
    (batch,) = {item.batch for item in client.trash.show()}
    restore_as_table(client, fs, batch, "default.rescued")
    assert lines(client, type(table)(client, fs, "default.rescued", False)) == seen


def test_a_batch_without_a_delta_that_held_aborted_rows_among_others_becomes_no_table(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob, warehouse: str
) -> None:
    """The committed rows of a streaming writer's delta were deleted with the aborted ones: they would be missing."""
    table.insert()
    committed, aborted = table.begin(), table.begin()
    mixed = delta_name(committed.write_ids["default.t"], aborted.write_ids["default.t"])
    table.directory(mixed)
    committed.commit()
    aborted.abort("a test")
    table.insert()
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    clean(client, fs)
    (batch,) = {item.batch for item in client.trash.show()}
    with pytest.raises(ActionRefusedError, match=rf"lacks {mixed}, .*aborted"):
        restore_as_table(client, fs, batch, "default.rescued")
    restored = restore_into(client, fs, batch, warehouse.rpartition("/")[0] + "/rescue")
    assert len(restored.names) == 2
    assert str(restored).endswith(f"; the batch lacked {mixed}")


@pytest.mark.rule("R17")
@pytest.mark.parametrize("mount_point", [False, True])
def test_a_trash_whose_disk_is_away_is_not_forgotten_and_not_made_anew(
    client: MetastoreClient, fs: Filesystem, trashed: str, bin: str, *, mount_point: bool
) -> None:
    place = Path(local_path(bin))
    place.rename(place.with_name("disk"))
    if mount_point:
        place.mkdir()
    assert purge_trash(client, fs, 0) == 0
    with pytest.raises(WarehouseMissingError, match="is not there"):
        Places(client, fs).open_trash("default", bin)
    assert len(client.trash.batch(trashed)) == 2
    if mount_point:
        place.rmdir()
    place.with_name("disk").rename(place)
    assert purge_trash(client, fs, 0) > 0
    assert client.trash.batch(trashed) == []


@pytest.mark.backends("sqlite", "postgresql")
@pytest.mark.conformance("K27")
def test_the_trash_follows_a_table_that_is_renamed(
    client: MetastoreClient, fs: Filesystem, table: Any, trashed: str
) -> None:
    client.catalog.rename_table("default.t", "default.renamed", files=WarehouseFiles(client, fs))
    assert {str(item.resource) for item in client.trash.show()} == {"default.renamed"}
    assert {str(record.resource) for record in client.cleanings.newest()} == {"default.renamed"}
    restore_as_table(client, fs, trashed, "default.rescued")
    assert len(lines(client, type(table)(client, fs, "default.rescued", False))) == 3


@pytest.mark.parametrize("properties", [{"auto.purge": "true"}, {"AUTO.PURGE": "TRUE"}])
def test_auto_purge_bypasses_the_trash(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob, bin: str,
    properties: dict[str, str],
) -> None:  # fmt: skip
    table = make_table(properties=properties)
    table.insert()
    table.insert()
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    assert len(clean(client, fs).removed) == 2
    assert below(fs, bin) == []


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.setting("hive.acid.cleaner.trash.dir")
def test_a_dropped_partition_goes_to_the_trash_unless_it_is_purged(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], bin: str, purge: bool
) -> None:
    table = make_table("default.p", "k")
    table.insert(partition="k=a")
    table.abort(partition="k=a")
    table.insert(partition="k=b")
    place = table.place("k=a")
    client.catalog.drop_partitions("default.p", ["k=a"], files=WarehouseFiles(client, fs), purge=purge)
    clean(client, fs)
    assert not fs.exists(place)
    assert below(fs, bin) == ([] if purge else [delta_name(1, 1, 0)])
    assert [item.resource.partition for item in client.trash.show()] == ([] if purge else ["k=a"])


@pytest.mark.backends("sqlite", "postgresql")
@pytest.mark.setting("hive.acid.cleaner.trash.retention")
def test_the_reaper_deletes_what_is_older_than_the_retention(
    client: MetastoreClient, fs: Filesystem, trashed: str, bin: str
) -> None:
    assert run_reaper(client, fs).purged["trash"] == 0
    change(client, sa.update(HIVE_ACID_TRASH).where(HIVE_ACID_TRASH.c.HTR_BATCH != trashed)
           .values(HTR_MOVED=HIVE_ACID_TRASH.c.HTR_MOVED - 86_401_000))  # fmt: skip
    assert run_reaper(client, fs).purged["trash"] == 2
    assert len(below(fs, bin)) == 2
    assert {item.batch for item in client.trash.show()} == {trashed}
    change(client, sa.update(HIVE_ACID_TRASH).values(HTR_MOVED=HIVE_ACID_TRASH.c.HTR_MOVED - 7_200_000))
    assert run_reaper(client, fs).purged["trash"] == 0
    client.settings = client.settings.with_overrides(Source.REQUEST, {"hive.acid.cleaner.trash.retention": "1h"})
    assert run_reaper(client, fs).purged["trash"] == 2
    assert below(fs, bin) == []


def test_a_trash_among_a_tables_files_is_refused_and_nothing_is_cleaned(
    client: MetastoreClient, fs: Filesystem, compacted: Any, metastore_url: str
) -> None:
    from airflow_hive_acid.metastore import MetastoreClient as Client
    from airflow_hive_acid.settings import Settings, Source

    pass_time(client)
    before = compacted.directories()
    inside = {"hive.acid.cleaner.trash.dir": f"{compacted.location}/trash", "hive.txn.opentxn.timeout": "150ms"}
    with (
        Client(metastore_url, Settings({Source.CONNECTION: inside})) as wrong,
        pytest.raises(InvalidArgumentsError, match="name a directory that no table uses"),
    ):
        run_cleaner(wrong, fs)
    assert compacted.directories() == before


def test_where_a_rename_copies_objects_they_are_deleted(
    client: MetastoreClient, make_table: Callable[..., Any]
) -> None:
    from airflow_hive_acid.maintenance.cleaner.trash import Trash

    filesystem = open_filesystem("memory://bucket/w")
    assert not Trash(client, filesystem, "memory://bucket/trash").takes_from("memory://bucket/w/t")
    assert not Trash(client, filesystem, "file:/trash").takes_from("memory://bucket/w/t")


def test_a_move_that_fails_is_tried_again_and_deletes_nothing(
    client: MetastoreClient, fs: Filesystem, compacted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_time(client)
    before = compacted.directories()

    def refuse(*arguments: object) -> None:
        raise OSError("Invalid cross-device link")

    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "rename", refuse)
        assert run_cleaner(client, fs)[0].kind is Kind.ERROR
    assert compacted.directories() == before


@pytest.mark.parametrize("renamed", [False, True])
def test_what_a_clean_up_moves_after_a_failure_joins_what_it_had_moved(
    client: MetastoreClient, fs: Filesystem, compacted: Any, monkeypatch: pytest.MonkeyPatch, *, renamed: bool
) -> None:
    """Of two batches neither would be the table as it was."""
    pass_time(client)
    with no_space_for_the_second(fs, monkeypatch):
        assert run_cleaner(client, fs)[0].kind is Kind.ERROR
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_RETRY_RETENTION=0))
    if renamed:
        client.catalog.rename_table("default.t", "default.other", files=WarehouseFiles(client, fs))
    assert len(clean(client, fs).trashed) == 1
    (batch,) = {item.batch for item in client.trash.show()}
    restore_as_table(client, fs, batch, "default.rescued")
    assert len(lines(client, type(compacted)(client, fs, "default.rescued", False))) == 4


def test_the_rest_of_a_clean_up_that_failed_joins_its_batch_when_the_partition_was_renamed(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """And no other partition has anything to do with it that bears the name since."""
    table = make_table("default.p", "k")
    for partition in ("k=a", "k=a", "k=ab"):
        table.insert(partition=partition)
    client.compactions.enqueue("default.p", "k=a")
    run_worker(client, fs, compact_lines, "w")
    pass_time(client)
    with no_space_for_the_second(fs, monkeypatch):
        assert run_cleaner(client, fs)[0].kind is Kind.ERROR
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_RETRY_RETENTION=0))
    client.catalog.rename_partition("default.p", "k=a", {"k": "c"}, files=WarehouseFiles(client, fs))
    assert {record.resource.partition for record in client.cleanings.newest()} == {"k=c"}
    assert len(clean(client, fs).trashed) == 1
    (batch,) = {item.batch for item in client.trash.show()}
    assert {item.resource.partition for item in client.trash.show()} == {"k=c"}
    assert {item.source.rpartition("/")[0] for item in client.trash.show()} == {table.place("k=c")}
    assert len(restore_as_table(client, fs, batch, "default.rescued").names) == 2


def test_the_commands_list_undo_and_purge(
    client: MetastoreClient, table: Any, trashed: str, metastore_url: str, fs: Filesystem, bin: str
) -> None:
    def call(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["--metastore-url", metastore_url, "cleaning", *arguments])
        assert done.exit_code == code, done.output
        return done.output + str(done.exception or "")

    listed = call("trash", "default.t", "--format", "csv").splitlines()
    assert listed[0] == "batch,table,partition,request,name,moved,uri"
    assert len(listed) == 5
    assert "give either --table" in call("undo", trashed, code=1)
    assert "the table default.rescued" in call("undo", trashed, "--table", "default.rescued")
    assert "0 directories" in call("purge-trash")
    assert "2 directories" in call("purge-trash", "--all")
    assert below(fs, bin) == []
