"""Exports: files appear all at once, replace only what an export has left, and a retry knows its own work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.statements.exports import Destination
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import (
    AlreadyExistsError,
    InvalidArgumentsError,
    JobFailedError,
    SqlSyntaxError,
    UnsafePathError,
)
from airflow_hive_acid.format.jobs import Column, Export, JobResult
from airflow_hive_acid.metastore.records.claim_rules import Rerun


class Session:
    """Writes a file for an export, as Spark would."""

    application_id = "local-1"
    is_alive = True

    def __init__(self):
        self.steps: list[Export] = []
        self.meanwhile = lambda step: None

    def wait_ready(self):
        return self.application_id

    def rows_uri(self, job_id):
        return f"rows/{job_id}"

    def run(self, spec):
        self.steps.append(spec.step)
        directory = Path(spec.step.uri)
        directory.mkdir()
        (directory / "part-00000.csv").write_text("1\n2\n")
        (directory / ".part-00000.csv.crc").write_text("x")
        self.meanwhile(spec.step)
        return JobResult(spec.job_id, "local-1", columns=(Column("rows", "bigint"),), rows=1)

    def read_rows(self, uri):
        return iter([[2]])

    def cancel(self):
        pass

    def close(self):
        pass


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def engine(client, tmp_path, session):
    class Launcher:
        def start(self, application=None):
            return session

    (tmp_path / "out").mkdir()
    with Engine(client, Launcher(), str(tmp_path / "warehouse")) as engine:
        yield engine


def names(directory):
    return sorted(entry.name for entry in directory.iterdir())


def test_files_get_their_name_when_all_are_there_and_success_says_who_made_them(engine, session, tmp_path):
    place = Destination(str(tmp_path / "out" / "t"), "csv", {"header": "true", "secret": "hidden"})
    seen = []
    session.meanwhile = lambda step: seen.append(names(tmp_path / "out"))
    exported = engine.export("SELECT 1", place)
    assert (exported.rows, exported.files, exported.bytes) == (2, 1, 4)
    ((hidden,),) = seen
    assert hidden.startswith("_t_")
    assert names(tmp_path / "out") == ["t"]
    assert names(tmp_path / "out" / "t") == [".part-00000.csv.crc", "_SUCCESS", "part-00000.csv"]
    mark = (tmp_path / "out" / "t" / "_SUCCESS").read_text()
    assert json.loads(mark)["result"]["rows"] == 2
    assert "hidden" not in mark


@pytest.mark.rule("R14")
def test_retry_returns_what_an_earlier_try_has_left_and_a_deliberate_rerun_exports_again(engine, session, tmp_path):
    path = str(tmp_path / "out" / "t")
    first = engine.export("SELECT 1", Destination(path), once=Once(("a",), "1"))
    assert engine.export("SELECT 1", Destination(path), once=Once(("a",), "1")) == first
    assert len(session.steps) == 1
    with pytest.raises(AlreadyExistsError, match="mode='overwrite'"):
        engine.export("SELECT 1", Destination(path), once=Once(("a",), "2"))
    assert engine.export("SELECT 1", Destination(path), once=Once(("a",), "2", Rerun.SKIP)) == first
    engine.export("SELECT 1", Destination(path, overwrite=True), once=Once(("a",), "2"))
    engine.export("SELECT 2", Destination(path, overwrite=True), once=Once(("a",), "2"))
    assert len(session.steps) == 3
    assert names(tmp_path / "out") == ["t"]


def test_what_no_export_has_made_is_replaced_only_when_that_is_said(engine, session, tmp_path):
    place = tmp_path / "out" / "t"
    place.mkdir()
    (place / "thesis.txt").write_text("years of work")
    with pytest.raises(AlreadyExistsError, match="no export has left there"):
        engine.export("SELECT 1", Destination(str(place), overwrite=True))
    assert session.steps == []
    assert names(place) == ["thesis.txt"]
    engine.export("SELECT 1", Destination(str(place), overwrite=True, replace_anything=True))
    assert "part-00000.csv" in names(place)
    assert names(tmp_path / "out") == ["t"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"made_by": "s3a"}', '{"made_by": "airflow-hive-acid", "result": {"uri": 1}}']
)
def test_success_file_of_somebody_else_is_no_export(engine, session, tmp_path, text):
    place = tmp_path / "out" / "t"
    place.mkdir()
    (place / "_SUCCESS").write_text(text)
    with pytest.raises(AlreadyExistsError, match="no export has left there"):
        engine.export("SELECT 1", Destination(str(place), overwrite=True))
    assert session.steps == []


def test_what_appears_while_the_query_runs_stays(engine, session, tmp_path):
    place = tmp_path / "out" / "t"
    session.meanwhile = lambda step: (place.mkdir(), (place / "theirs").write_text("x"))
    with pytest.raises(AlreadyExistsError, match="no export has left there"):
        engine.export("SELECT 1", Destination(str(place), overwrite=True))
    assert names(tmp_path / "out") == ["t"]
    assert names(place) == ["theirs"]


def test_failed_export_leaves_what_was_there_and_nothing_else(engine, session, tmp_path):
    place = Destination(str(tmp_path / "out" / "t"), overwrite=True)
    engine.export("SELECT 1", place)
    before = (tmp_path / "out" / "t" / "_SUCCESS").read_text()

    def fail(step):
        raise JobFailedError("the disk is full")

    session.meanwhile = fail
    with pytest.raises(JobFailedError, match="the disk is full"):
        engine.export("SELECT 2", place)
    assert (tmp_path / "out" / "t" / "_SUCCESS").read_text() == before
    assert names(tmp_path / "out") == ["t"]


@pytest.mark.parametrize("path", ["{}/warehouse", "{}/warehouse/db/t", "{}", "/", "/tmp", "relative/path", "{}/a/../b"])  # noqa: S108 - it is refused
def test_destination_that_is_no_place_for_files_is_refused(engine, session, tmp_path, path):
    with pytest.raises((UnsafePathError, InvalidArgumentsError)):
        engine.export("SELECT 1", Destination(path.format(tmp_path), overwrite=True, replace_anything=True))
    assert session.steps == []


@pytest.mark.parametrize("sql", ["", "SELECT 1; SELECT 2", "DROP TABLE db.t"])
def test_export_of_anything_but_one_query_is_refused(engine, session, tmp_path, sql):
    with pytest.raises((InvalidArgumentsError, SqlSyntaxError)):
        engine.export(sql, Destination(str(tmp_path / "out" / "t")))
    assert session.steps == []
