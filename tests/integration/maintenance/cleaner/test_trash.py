"""The trash: what compaction replaced can be wanted back; what aborted txns wrote never can (R13)."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.errors import (
    ActionRefusedError,
    AlreadyExistsError,
    InvalidArgumentsError,
    NoSuchObjectError,
    WarehouseMissingError,
)
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.filesystem.uris import local_path
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.names import delta_name
from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.maintenance.cleaner.trash import purge_trash, restore_as_table, restore_into
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.maintenance.warehouse.expected import counted_of
from airflow_hive_acid.maintenance.warehouse.places import Places
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.schema.cleaning import HIVE_ACID_TRASH
from airflow_hive_acid.metastore.schema.hive_catalog import TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, TXNS
from airflow_hive_acid.settings import Source
from tests.integration.maintenance.cycles.steps import change, pass_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]

pytestmark = [pytest.mark.rule("R13"), pytest.mark.backends("sqlite")]


class Killed(BaseException):
    """As if the process had been killed."""


@pytest.fixture
def bin(warehouse: str) -> str:
    return f"{warehouse}.trash"


@pytest.fixture
def settings(settings: dict[str, str], bin: str) -> dict[str, str]:
    return {**settings, "hive.acid.cleaner.trash.dir": bin}


def lines(client: MetastoreClient, table: Any) -> list[str]:
    with client.snapshot([table.name]) as snapshot:
        return list(table.read(snapshot))


def below(fs: Filesystem, place: str) -> list[str]:
    """Names of the ACID directories below a place, at any depth."""
    if not fs.exists(place):
        return []
    return sorted(i.name for i in fs.list_files(place, recursive=True) if i.name.startswith(("base", "delta", "del")))


def breaking_at_the_second(rename: Any, failure: BaseException) -> Any:
    """Renaming as a process does that breaks off at its second step."""
    done: list[str] = []

    def breaking(self: Any, source: str, target: str) -> None:
        done.append(source)
        if len(done) == 2:
            raise failure
        rename(self, source, target)

    return breaking


@contextmanager
def no_space_for_the_second(fs: Filesystem, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first directory can be renamed, the second one cannot."""
    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "rename", breaking_at_the_second(type(fs).rename, OSError("No space left on device")))
        yield


def clean(client: MetastoreClient, fs: Filesystem) -> Any:
    pass_time(client)
    (outcome,) = run_cleaner(client, fs)
    assert outcome.kind is Kind.CLEANED, outcome
    return outcome


@pytest.fixture
def trashed(client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob) -> str:
    """The batch of a major compaction over a base and a delta: the whole table as it was, three lines."""
    for lines_of in (1, 1):
        table.insert(lines=lines_of)
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    clean(client, fs)
    table.insert(lines=1)
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    assert clean(client, fs).reason == (
        "2 obsolete or aborted directories and files were removed, 2 of them to the trash"
    )
    return client.trash.show("default", "t")[-1].batch


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


@pytest.mark.backends("sqlite", "postgresql")
def test_a_batch_becomes_a_table_that_shows_the_rows_as_they_were(
    client: MetastoreClient, fs: Filesystem, table: Any, trashed: str
) -> None:
    before = lines(client, table)
    restored = restore_as_table(client, fs, trashed, "default.rescued")
    rescued = type(table)(client, fs, "default.rescued", False)
    assert len(restored.names) == 2
    assert lines(client, rescued) == before
    assert client.trash.batch(trashed) == []
    assert lines(client, table) == before
    assert rescued.insert() == 4
    assert len(lines(client, rescued)) == len(before) + 1
    assert client.compactions.enqueue("default.rescued").accepted


def test_what_becomes_of_a_batch_is_not_called_empty(client: MetastoreClient, fs: Filesystem, trashed: str) -> None:
    """A Hive answers count(*) from a number of rows that is called exact, and reads compare with one that is not."""
    restore_as_table(client, fs, trashed, "default.rescued")
    rescued = client.catalog.get_table("default.rescued")
    assert not {"COLUMN_STATS_ACCURATE", "numRows", "numFiles", "totalSize"} & rescued.properties.keys()
    assert counted_of(client, rescued, [""]) == {}


def test_a_table_made_of_a_batch_is_read_as_the_one_that_its_files_were_written_for(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob
) -> None:
    """Whether columns had other names, by which hash rows lie in buckets, and where a line of text is divided."""
    of_rows = {"bucketing_version": "1", "serialization.null.format": "-"}
    client.catalog.create_table(
        TableDefinition(
            "default", "t", (Column("line", "string"),), properties=of_rows, serde_properties={"field.delim": "|"}
        )
    )
    table = type(make_table("default.other"))(client, fs, "default.t", False)
    fs.make_directory(table.location)

    def batch() -> str:
        table.insert()
        table.insert()
        client.compactions.enqueue("default.t")
        run_worker(client, fs, compact_lines, "w")
        clean(client, fs)
        return client.trash.show("default", "t")[-1].batch

    restore_as_table(client, fs, batch(), "default.first")
    assert not client.catalog.get_table("default.first").is_altered
    client.catalog.change_column("default.t", "line", Column("label", "string"))
    restore_as_table(client, fs, batch(), "default.rescued")
    rescued = client.catalog.get_table("default.rescued")
    assert rescued.is_altered
    assert of_rows.items() <= rescued.properties.items()
    assert rescued.serde_properties["field.delim"] == "|"


def test_a_batch_becomes_no_table_of_another_ones_columns(
    client: MetastoreClient, fs: Filesystem, table: Any, trashed: str, warehouse: str
) -> None:
    """The table was dropped, and another one has its name."""
    change(client, sa.update(HIVE_ACID_TRASH).values(HTR_MOVED=HIVE_ACID_TRASH.c.HTR_MOVED - 2000))
    client.catalog.drop_table("default.t")
    client.catalog.create_table(TableDefinition("default", "t", (Column("other", "int"),)))
    for _ in range(2):
        with pytest.raises(NoSuchObjectError, match=r"is not of default.t that is there now: it is another table"):
            restore_as_table(client, fs, trashed, "default.rescued")
    assert len(restore_into(client, fs, trashed, warehouse.rpartition("/")[0] + "/rescue").names) == 2


def test_a_batch_becomes_no_table_of_the_columns_of_one_that_was_given_the_name(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], trashed: str, warehouse: str
) -> None:
    """
    t1  a batch of t is in the trash; another table, u, is as old as t
    t2  t is dropped, and u is renamed to t
    """
    make_table("default.u")
    change(client, sa.update(TBLS).values(CREATE_TIME=1))
    (place,) = client.catalog.drop_table("default.t").locations
    fs.delete(place, inside=warehouse)
    client.catalog.rename_table("default.u", "default.t", files=WarehouseFiles(client, fs))
    with pytest.raises(NoSuchObjectError, match=r"is not of default.t that is there now"):
        restore_as_table(client, fs, trashed, "default.rescued")
    assert len(client.trash.batch(trashed)) == 2


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


def test_a_batch_goes_into_a_directory_of_its_own_and_never_into_a_tables(
    client: MetastoreClient, fs: Filesystem, table: Any, trashed: str, bin: str, warehouse: str
) -> None:
    """A table of that place might take the files for its own rows: write ids begin anew when it is created again."""
    for place, why in (
        (table.location, "belongs to default.t"), (f"{table.location}/sub", "belongs to default.t"),
        (warehouse, "belongs to default.t"), (f"{bin}/other", "lies in the trash"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentsError, match=why):
            restore_into(client, fs, trashed, place)
    assert len(client.trash.batch(trashed)) == 2
    target = warehouse.rpartition("/")[0] + "/rescue"
    restored = restore_into(client, fs, trashed, target)
    assert below(fs, target) == sorted(restored.names)
    with pytest.raises(NoSuchObjectError, match="there is no batch"):
        restore_into(client, fs, trashed, target + "2")


def test_an_undo_that_fails_leaves_everything_in_the_trash(
    client: MetastoreClient, fs: Filesystem, table: Any, trashed: str, bin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = below(fs, bin)
    with monkeypatch.context() as patch:
        patch.setattr(
            type(fs), "rename_directory", breaking_at_the_second(type(fs).rename_directory, OSError("No space left"))
        )
        with pytest.raises(OSError, match="No space"):
            restore_as_table(client, fs, trashed, "default.rescued")
    assert below(fs, bin) == before
    assert "rescued" not in client.catalog.list_tables()
    with pytest.raises(AlreadyExistsError):
        restore_as_table(client, fs, trashed, "default.t")
    assert below(fs, bin) == before
    assert len(restore_as_table(client, fs, trashed, "default.rescued").names) == 2


@pytest.mark.rule("R4")
def test_an_undo_that_is_killed_half_way_can_be_repeated(
    client: MetastoreClient, fs: Filesystem, table: Any, trashed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  an undo has begun to move, and is killed; nobody sees a table of half of the rows
    t2  the reaper finds its txn silent
    t3  the same undo again
    """
    before = lines(client, table)
    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "rename_directory", breaking_at_the_second(type(fs).rename_directory, Killed()))
        patch.setattr(WarehouseFiles, "_give_up", lambda *_: None)
        patch.setattr(client, "abort_txn", lambda *_: None)
        with pytest.raises(Killed):
            restore_as_table(client, fs, trashed, "default.rescued")
    assert "rescued" not in client.catalog.list_tables()
    change(client, sa.update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1))
    run_reaper(client, fs)
    restore_as_table(client, fs, trashed, "default.rescued")
    assert lines(client, type(table)(client, fs, "default.rescued", False)) == before
    assert client.show_locks() == []


def test_an_undo_makes_no_table_of_what_another_one_has_taken_out(
    client: MetastoreClient, fs: Filesystem, trashed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  A has looked what there is of the batch
    t2            B moves it, and is killed
    t3  A finds nothing to move: what the trash knows of the batch must stay, as it comes back
    """
    place = client.trash.batch(trashed)[0].path.rpartition("/")[0]
    moving = WarehouseFiles.moving

    def too_late(*arguments: Any, **how: Any) -> Any:
        fs.rename_directory(place, f"{place}.b")
        return moving(*arguments, **how)

    with monkeypatch.context() as patch:
        patch.setattr(WarehouseFiles, "moving", too_late)
        with pytest.raises(NoSuchObjectError, match="it is being taken out"):
            restore_as_table(client, fs, trashed, "default.rescued")
    with pytest.raises(NoSuchObjectError, match="comes back when that txn has timed out"):
        restore_as_table(client, fs, trashed, "default.rescued")
    assert "rescued" not in client.catalog.list_tables()
    fs.rename_directory(f"{place}.b", place)
    assert len(restore_as_table(client, fs, trashed, "default.rescued").names) == 2


def test_an_undo_into_a_directory_moves_the_batch_as_a_whole(
    client: MetastoreClient, fs: Filesystem, trashed: str, bin: str, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was killed half way left two halves in two places, of which neither was the batch."""
    target = f"{warehouse.rpartition('/')[0]}/rescue"

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "rename_directory", breaking_at_the_second(type(fs).rename_directory, Killed()))
        patch.setattr(type(client.trash), "forget", killed)
        with pytest.raises(Killed):
            restore_into(client, fs, trashed, target)
    assert (len(below(fs, target)), len(below(fs, bin))) == (2, 2)


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
