"""Files of what is dropped that cannot be deleted: the statement says so, the doctor finds them and finishes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.engine import Engine
from airflow_hive_acid.filesystem.local import LocalFilesystem
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.maintenance.doctor.doctor import examine_metastore
from airflow_hive_acid.maintenance.doctor.rules import Check
from airflow_hive_acid.maintenance.warehouse.ddl_work import DdlManifest, Move, finish, places_left
from airflow_hive_acid.metastore.catalog import TableDefinition
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_ACID_JOB
from airflow_hive_acid.metastore.txns import DDL_KIND, Job, JobState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient


MADE = (
    "CREATE DATABASE d; CREATE TABLE d.t (a int); "
    "CREATE TABLE d.p (a int) PARTITIONED BY (k int) TBLPROPERTIES ('transactional'='false'); "
    "ALTER TABLE d.p ADD PARTITION (k=1)"
)
DROPS = {
    "table": ("DROP TABLE d.t", "d.t"),
    "partition": ("ALTER TABLE d.p DROP PARTITION (k=1)", "d.p"),
    "database": ("DROP DATABASE d CASCADE", "database d"),
}


@pytest.fixture
def hive_acid(metastore_url: str, warehouse: str, client: MetastoreClient) -> Callable[..., Any]:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["--metastore-url", metastore_url, "--warehouse", warehouse, *arguments])

    made = run("sql", "-e", MADE)
    assert made.exit_code == 0, made.output
    return run


def refuse(*_: Any, **__: Any) -> Any:
    raise PermissionError(13, "the disk says no")


def age_jobs(client: MetastoreClient) -> None:
    """As if what has committed had done so more than a minute ago."""
    with client.database.transaction() as connection:
        connection.execute(sa.update(HIVE_ACID_JOB).values(HAJ_UPDATED=HIVE_ACID_JOB.c.HAJ_UPDATED - 61_000))


def undeleted(client: MetastoreClient, fs: Filesystem) -> list[str]:
    timeout = client.settings.milliseconds("hive.txn.timeout")
    return [found.text for found in examine_metastore(client, timeout, fs) if found.check is Check.UNDELETED]


@pytest.mark.parametrize("what", DROPS)
def test_a_drop_whose_files_cannot_be_deleted_says_so_and_the_doctor_finishes_it(
    hive_acid: Callable[..., Any], client: MetastoreClient, fs: Filesystem, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    sql, name = DROPS[what]
    home = client.catalog.get_database("d").location
    with monkeypatch.context() as patched:
        patched.setattr(LocalFilesystem, "delete", refuse)
        done = hive_acid("sql", "-e", sql)
        assert done.exit_code == 0, done.output
        assert "could not be deleted (PermissionError" in " ".join(done.stderr.split())
        age_jobs(client)
        assert all(name in text for text in undeleted(client, fs))
        assert undeleted(client, fs)
        failed = " ".join(hive_acid("doctor", "--finish", "--no-files").stderr.split())
        assert f"of {name} still cannot be deleted: PermissionError" in failed
    finished = hive_acid("doctor", "--finish", "--format", "json")
    assert f"of {name} is deleted" in finished.stderr
    assert undeleted(client, fs) == []
    assert fs.exists(home) is (what != "database")
    assert "nothing is left to delete" in hive_acid("doctor", "--finish", "--no-files").stderr


def test_the_result_of_a_drop_holds_what_could_not_be_deleted(
    hive_acid: Callable[..., Any], client: MetastoreClient, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator returns this document as its XCom."""
    del hive_acid
    monkeypatch.setattr(LocalFilesystem, "delete", refuse)
    no_spark: Any = None
    with Engine(client, no_spark, warehouse) as engine:
        made, dropped = engine.run("CREATE TABLE d.u (a int); DROP TABLE d.t")
    assert made.notes == ()
    assert "notes" not in made.to_document()
    (note,) = dropped.to_document()["notes"]
    assert "could not be deleted" in note
    assert "hive-acid doctor --finish" in note


@pytest.mark.every_database
def test_a_process_that_dies_between_commit_and_deletion_leaves_what_the_doctor_finishes(
    hive_acid: Callable[..., Any], client: MetastoreClient, fs: Filesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("airflow_hive_acid.maintenance.warehouse.ddl_files.finish", die)
        with pytest.raises(Killed):
            hive_acid("sql", "-e", "DROP TABLE d.t")
    assert client.catalog.find_tables(["d.t"]) == {}
    age_jobs(client)
    (said,) = undeleted(client, fs)
    assert "on d.t has committed, and what it dropped or replaced is not deleted" in said
    assert "of d.t is deleted" in hive_acid("doctor", "--finish", "--no-files").stderr
    assert undeleted(client, fs) == []


def test_what_has_deleted_everything_itself_or_only_made_something_is_no_finding(
    hive_acid: Callable[..., Any], client: MetastoreClient, fs: Filesystem
) -> None:
    done = hive_acid("sql", "-e", "ALTER TABLE d.t RENAME TO d.u; DROP TABLE d.u; CREATE DATABASE e; DROP DATABASE e")
    assert done.exit_code == 0, done.output
    age_jobs(client)
    assert undeleted(client, fs) == []
    told = hive_acid("doctor", "--finish", "--no-files").stderr
    assert "nothing is left to delete" in told
    assert "is deleted" not in told


def test_what_nobody_looked_for_is_said_to_be_possible(
    hive_acid: Callable[..., Any], client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hive_acid("sql", "-e", "DROP TABLE d.t").exit_code == 0
    age_jobs(client)
    findings = json.loads(hive_acid("doctor", "--no-files", "--format", "json").stdout)
    (found,) = [finding for finding in findings if finding["check"] == Check.UNDELETED.value]
    assert "may not be deleted" in found["finding"]
    assert "nobody could look" in found["finding"]
    monkeypatch.setattr(LocalFilesystem, "exists", refuse)
    (said,) = undeleted(client, LocalFilesystem())
    assert "nobody could look" in said


def test_a_drop_that_may_not_move_the_files_changes_nothing_and_says_what_it_needs(
    hive_acid: Callable[..., Any], client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = LocalFilesystem.rename_directory

    def refuse_table(self: LocalFilesystem, source: str, target: str) -> None:
        refuse() if source.endswith("d.db/t") else rename(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFilesystem, "rename_directory", refuse_table)
        refused = hive_acid("sql", "-e", "DROP TABLE d.t")
    assert refused.exit_code == 1
    said = str(refused.exception)
    assert "d.db/t cannot be moved out of the way" in said
    assert "nothing was changed. Let the user of this process write in" in said
    assert list(client.catalog.find_tables(["d.t"])) == ["d.t"]
    assert hive_acid("sql", "-e", "DROP TABLE d.t").exit_code == 0


def test_a_database_that_is_made_again_keeps_its_directory(
    hive_acid: Callable[..., Any], client: MetastoreClient, fs: Filesystem, tmp_path: Path
) -> None:
    """The record of the first one's drop is still there when the reaper passes."""
    made = f"CREATE DATABASE e LOCATION '{tmp_path.as_uri()}/e'"
    done = hive_acid("sql", "-e", f"{made}; DROP DATABASE e; {made}")
    assert done.exit_code == 0, done.output
    before = [entry.name for entry in fs.list_files(f"{tmp_path.as_uri()}/e")]
    run_reaper(client, fs)
    assert [entry.name for entry in fs.list_files(f"{tmp_path.as_uri()}/e")] == before != []
    age_jobs(client)
    assert undeleted(client, fs) == []


def test_what_was_dropped_by_its_name_is_left_alone_where_a_database_lies_now(
    client: MetastoreClient, fs: Filesystem, tmp_path: Path
) -> None:
    """Object stores delete a dropped table by its name, as often as it takes; meanwhile others may have the place."""
    place = f"{tmp_path.as_uri()}/e"
    manifest = DdlManifest((Move(place, ""),)).to_document()
    job = Job(
        "j", 1, "d.t", None, 0, 1, DDL_KIND, tmp_path.as_uri(), None, None, JobState.COMMITTED, manifest, None, 0, 0
    )
    assert places_left(job) == (place,)
    fs.make_directory(place)
    client.catalog.create_database("e", location=place)
    assert not finish(client, fs, job)
    assert fs.exists(place)
    client.catalog.drop_database("e")
    assert finish(client, fs, job)
    assert not fs.exists(place)


@pytest.fixture
def asked(client: MetastoreClient, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Looks at the catalog for owners of directories that are deleted by their names."""
    asked, taken_places = [], client.catalog.taken_places

    def looking(places: Any, **named: Any) -> Any:
        asked.append(places)
        return taken_places(places, **named)

    monkeypatch.setattr(client.catalog, "taken_places", looking)
    return asked


def dropped_by_name(fs: Filesystem, root: Path, names: str) -> tuple[list[str], Job]:
    """Directories with a file each, and the committed job that deletes them."""
    places = [f"{root.as_uri()}/{name}" for name in names]
    for place in places:
        fs.make_directory(place)
        fs.write_text(f"{place}/000000_0", "x")
    manifest = DdlManifest(tuple(Move(place, "") for place in places)).to_document()
    return places, Job(
        "j", 1, "d.t", None, 0, 1, DDL_KIND, root.as_uri(), None, None, JobState.COMMITTED, manifest, None, 0, 0
    )


def test_many_directories_on_an_object_store_are_asked_about_together(
    client: MetastoreClient, fs: Filesystem, tmp_path: Path, asked: list[Any]
) -> None:
    places, job = dropped_by_name(fs, tmp_path, "abc")
    client.catalog.create_database("e", location=places[1])
    assert finish(client, fs, job)
    assert [fs.exists(place) for place in places] == [False, True, False]
    assert len(asked) == 1


def test_a_table_that_gets_the_place_of_one_of_many_that_are_deleted_keeps_its_files(
    client: MetastoreClient, fs: Filesystem, tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  DROP has committed; three directories are to be deleted by their names, and one look says that they may
    t2  the first is deleted
    t3            a table is made in the place of the second, and gets a row
    t4  the second has its turn
    """
    places, job = dropped_by_name(fs, tmp_path, "abc")
    delete = type(fs).delete

    def deleting(self: Any, uri: str, **named: Any) -> bool:
        if uri == places[0]:
            columns = (Column("v", "int"),)
            client.catalog.create_table(TableDefinition("default", "b", columns, location=places[1], external=True))
            fs.write_text(f"{places[1]}/000001_0", "y")
        return delete(self, uri, **named)

    monkeypatch.setattr(type(fs), "delete", deleting)
    assert finish(client, fs, job)
    assert [fs.exists(place) for place in places] == [False, True, False]
    assert fs.read_text(f"{places[1]}/000001_0") == "y"
    assert len(asked) == 2


def test_a_dropped_partition_that_the_cleaner_cannot_delete_is_found(
    make_table: Callable[..., Any], hive_acid: Callable[..., Any], client: MetastoreClient, fs: Filesystem,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It is hidden from new readers with the commit; the Cleaner deletes it, and tries again."""
    table = make_table("default.q", "k")
    table.insert(partition="k=a")
    place = client.catalog.get_partition("default.q", "k=a").location
    dropped = hive_acid("sql", "-e", "ALTER TABLE default.q DROP PARTITION (k='a')")
    assert dropped.exit_code == 0, dropped.output
    assert undeleted(client, fs) == []
    table.settle()
    with monkeypatch.context() as patched:
        patched.setattr(LocalFilesystem, "delete", refuse)
        run_cleaner(client, fs)
    (said,) = undeleted(client, fs)
    assert "the Cleaner could not delete what was dropped of default.q partition k=a" in said
    assert "the disk says no" in said
    assert fs.exists(place)
