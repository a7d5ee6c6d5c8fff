"""A job of one's own, without Spark: what it may read and ask for, where its function comes from, how it fails."""

from __future__ import annotations

import json
import sys

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError
from airflow_hive_acid.format.jobs import Export, JobSpec, Program, TableSnapshot, View
from airflow_hive_acid.format.jobs.documents import spec_from_json, to_json
from airflow_hive_acid.spark.jobs import program
from airflow_hive_acid.spark.jobs.program import Job, call

VIEWS = [
    View(name, TableSnapshot(name, "file:/w/t", (), (), (), "db.t:5:9:", "9:9:")) for name in ("db.t", "default.u")
]


class Rows:
    """A DataFrame, as far as a job is concerned with it."""

    def __init__(self):
        self.names = []

    def createGlobalTempView(self, name):
        self.names.append(name)


@pytest.fixture
def answer(monkeypatch):
    """Calls a function; what it answers, as the control plane reads it."""
    written = []

    class Writer:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def write(self, text):
            written.append(text)

    class Filesystem:
        @staticmethod
        def of(spark):
            return Filesystem()

        def writer(self, uri):
            return Writer()

    monkeypatch.setattr(program, "HadoopFilesystem", Filesystem)

    def ask(source, function="main", module=None, **arguments):
        written.clear()
        call(None, Program("job.py", source, module, function, arguments, "rows"), VIEWS)
        (line,) = written
        changes, returned = json.loads(line)
        return json.loads(changes), json.loads(returned)

    return ask


def test_job_notes_what_is_to_be_done_and_keeps_the_rows_under_names_of_their_own():
    job, rows = Job(None, VIEWS), Rows()
    job.insert("DB.t", rows, columns=["a"], partition={"p": 1})
    job.overwrite("u", rows)
    job.update("db.t", {"a": "1"}, where=None, values={"b": "x"})
    job.delete("db.t", where="a = :v", parameters={"v": 1})
    job.merge("u", rows, on="t.a = s.a", clauses=[{"action": "update", "set": {"a": "s.a"}}])
    first, second, third = rows.names
    assert len({first, second, third}) == 3
    assert job.changes == [
        {"action": "insert", "table": "db.t", "source": first, "columns": ["a"], "partition": {"p": 1}},
        {"action": "overwrite", "table": "default.u", "source": second, "columns": [], "partition": None},
        {"action": "update", "table": "db.t", "set": {"a": "1"}, "values": {"b": "x"}, "where": None,
         "parameters": None},
        {"action": "delete", "table": "db.t", "where": "a = :v", "parameters": {"v": 1}},
        {"action": "merge", "table": "default.u", "source": third, "on": "t.a = s.a", "parameters": None,
         "clauses": [{"action": "update", "set": {"a": "s.a"}}]},
    ]  # fmt: skip


def test_table_that_the_task_does_not_name_is_refused():
    job = Job(None, VIEWS)
    for ask in (lambda: job.read("db.x"), lambda: job.insert("x", Rows()), lambda: job.delete("t", where=None)):
        with pytest.raises(InvalidArgumentsError, match=r"not among the tables of this task: \['db.t', 'default.u'\]"):
            ask()
    assert job.changes == []


def test_function_of_a_text_gets_job_and_arguments_and_answers(answer):
    source = "def main(job, *, a):\n    job.delete('db.t', where='a = 1')\n    return {'a': a}"
    changes, returned = answer(source, a=[1, None, "x"])
    assert [change["action"] for change in changes] == ["delete"]
    assert returned == {"a": [1, None, "x"]}


def test_function_of_a_module_is_called(answer, tmp_path, monkeypatch):
    (tmp_path / "their_job.py").write_text("def go(job):\n    return sorted(job._views)")
    monkeypatch.syspath_prepend(tmp_path)
    assert answer(None, "go", "their_job") == ([], ["db.t", "default.u"])
    sys.modules.pop("their_job")


def test_dataclasses_with_deferred_annotations_work_in_a_text(answer):
    source = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
        "@dataclass\nclass Pair:\n    a: int\n\n\ndef main(job):\n    return Pair(3).a\n"
    )
    assert answer(source) == ([], 3)


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (
            "def main(job):\n    raise ValueError('a reason')",
            JobFailedError,
            r"ValueError: a reason; in main \(job.py:2\)",
        ),
        ("def main(job, x): ...", JobFailedError, "missing 1 required positional argument: 'x'"),
        ("def main(job:", JobFailedError, "SyntaxError"),
        ("import nothing_like_this", JobFailedError, "ModuleNotFoundError"),
        ("x = 1", InvalidArgumentsError, r"job.py has no function main\(job, …\)"),
        ("def main(job):\n    return object()", InvalidArgumentsError, "what JSON can hold"),
        (
            "def main(job):\n    job.delete('db.t', where='a = :v', parameters={'v': b'x'})",
            InvalidArgumentsError,
            "JSON",
        ),
        ("def main(job):\n    return 'x' * 300_000", InvalidArgumentsError, "300,002 bytes of JSON"),
        ("def main(job):\n    job.read('no.table')", InvalidArgumentsError, "not among the tables"),
    ],
)
def test_function_that_fails_says_why_and_where(answer, source, error, words):
    with pytest.raises(error, match=words):
        answer(source)


@pytest.mark.parametrize(
    "step",
    [
        Program("job.py", "def main(job): ...", None, "main", {"a": [1, {"b": None}], "c": 1.5}, "rows"),
        Program("m", None, "m", "go", {}, "rows"),
        Export("SELECT 1", "file:/x", "csv", {"header": "true"}, ("day",), "rows"),
    ],
)
def test_step_travels_as_json(step):
    spec = JobSpec("j", step, tuple(VIEWS))
    assert spec_from_json(to_json(spec)) == spec
