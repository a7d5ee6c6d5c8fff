"""Taking a batch out of the trash: it becomes a table of its own or goes into a directory, as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance import run_reaper, run_worker
from airflow_hive_acid.maintenance.cleaner.undo import restore_as_table, restore_into
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.maintenance.warehouse.expected import counted_of
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.schema.cleaning import HIVE_ACID_TRASH
from airflow_hive_acid.metastore.schema.hive_catalog import TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from tests.integration.maintenance.cleaner.trash.steps import Killed, below, breaking_at_the_second, clean, lines
from tests.integration.maintenance.cycles.steps import change

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]

pytestmark = [pytest.mark.rule("R13"), pytest.mark.backends("sqlite")]


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
