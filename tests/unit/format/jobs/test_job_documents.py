"""Specs and results as text: what strangers can write is a document or a ``ValueError``, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_hive_acid import errors
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.format.changes import Changes
from airflow_hive_acid.format.jobs import (
    JobResult,
    JobSpec,
    PartitionRef,
    Select,
    TableSnapshot,
    View,
    WrittenDirectory,
    WrittenFile,
)
from airflow_hive_acid.format.jobs.documents import result_from_json, spec_from_json, to_json
from airflow_hive_acid.format.jobs.errors import REPORTED, reported

SNAPSHOT = TableSnapshot("d.t", "file:/t", (), (), (PartitionRef("", "file:/t"),), "w", "x")
SPEC: dict[str, Any] = {"version": 1, "job_id": "j", "step": {"kind": "select", "query": "q", "rows_uri": "u"}}
RESULT: dict[str, Any] = {"version": 1, "job_id": "j", "application_id": "a"}
FILE = {"name": "bucket_00000", "rows": 1, "bytes": 1}
DIRECTORY = {"partition": "", "values": [], "name": "delta_1_1_0", "files": [FILE]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        '"x"',
        "[" * 100_000 + "]" * 100_000,
        '{"version":1,"job_id":' * 5000 + "1" + "}" * 5000,
        '{"version": NaN}',
        '{"version": true}',
        '{"version": 1.0}',
        '{"version": 99}',
        '{"version":1,"version":1,"job_id":"a","step":{"kind":"select","query":"q","rows_uri":"u"}}',
        *(
            json.dumps({**SPEC, **more})
            for more in (
                {"evil": 1},
                {"step": "select"},
                {"step": [1]},
                {"step": None},
                {"step": {}},
                {"step": {"kind": ["x"]}},
                {"step": {"kind": "shell"}},
                {"job_id": 7},
                {"conf": {"k": 1}},
                {"conf": []},
                {"views": "x"},
                {"views": [None]},
                {"step": {**SPEC["step"], "limit": True}},
                {"step": {**SPEC["step"], "limit": 2**63}},
                {"name": []},
            )
        ),
        '{"version":1,"job_id":"j","step":{"kind":"select","query":"q","rows_uri":"u","limit":' + "9" * 5000 + "}}",
    ],
)
def test_a_spec_that_does_not_fit_is_one_clear_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        spec_from_json(text)
    assert type(refused.value) in (ValueError, json.JSONDecodeError)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(
    "more",
    [
        {"rows": -1},
        {"rows": True},
        {"rows": 1.5},
        {"inserted": 2**63},
        {"seconds": -1},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"seconds": 10**400},
        {"error": "x"},
        {"error": {"type": 1, "message": "m"}},
        {"directories": "x"},
        {"directories": [{**DIRECTORY, "name": "../x"}]},
        {"directories": [{**DIRECTORY, "name": ""}]},
        {"directories": [{**DIRECTORY, "partition": "../../etc"}]},
        {"directories": [{**DIRECTORY, "partition": "/p=1"}]},
        {"directories": [{**DIRECTORY, "files": [{**FILE, "name": "a/b"}]}]},
        {"directories": [{**DIRECTORY, "files": [{**FILE, "name": "a\0b"}]}]},
        {"directories": [{**DIRECTORY, "files": [{**FILE, "rows": -1}]}]},
        {"directories": [{**DIRECTORY, "files": [{**FILE, "bytes": -1}]}]},
    ],
)
def test_a_result_whose_names_lead_elsewhere_or_whose_counts_are_none_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="JobResult"):
        result_from_json(json.dumps({**RESULT, **more}))
    assert result_from_json(json.dumps({**RESULT, "directories": [DIRECTORY]})).directories[0].files[0].rows == 1


def test_a_job_reports_only_errors_of_a_list() -> None:
    """R17: after CommitStateUnknownError nothing is cleaned up; a job that says so is a job that failed."""
    of_control_plane = (
        "CommitStateUnknownError",
        "LocksPendingError",
        "ReplicaDivergedError",
        "WriteConflictError",
        "TurnPendingError",
        "MetastoreUnavailableError",
        "HiveAcidError",
    )
    for name in (*of_control_plane, "SystemExit", "__class__", "annotations", ""):
        told = reported(name, "m")
        assert type(told) is JobFailedError
        assert str(told) == f"{name}: m"
    for name in REPORTED:
        assert type(reported(name, "m")) is getattr(errors, name)


def test_a_document_is_text_with_its_version_and_its_letters_and_is_read_again() -> None:
    spec = JobSpec("j", Select("é", "u"), (View("v", SNAPSHOT, changes=Changes(1, 2)),), conf={"k": "x"}, name="n")
    text = to_json(spec)
    step = '{"query":"é","rows_uri":"u","limit":null,"max_bytes":null,"kind":"select"}'
    assert text.startswith('{"version":1,"job_id":"j","step":' + step + ',"views":[')
    assert spec_from_json(text) == spec
    result = JobResult("j", "a", directories=(WrittenDirectory("p=1", ("1",), "d", (WrittenFile("b", 1, 2),)),), rows=3)
    assert to_json(result).startswith('{"version":1,"job_id":"j","application_id":"a","error":null,')
    assert result_from_json(to_json(result)) == result


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "JobSpec must be an object, not a list of 0"),
        ("[" * 100_000 + "]" * 100_000, "JobSpec is nested too deeply"),
        (
            '{"version": 2}',
            "JobSpec of version 2; this side understands 1. Run the same release of airflow-hive-acid on both sides.",
        ),
        (
            "{}",
            "JobSpec of version None; this side understands 1. Run the same release of airflow-hive-acid on both "
            "sides.",
        ),
        ('{"a":1,"b":2,"b":3}', "the field 'b' is there twice"),
        (json.dumps({**SPEC, "job_id": 7}), "JobSpec.job_id must be str, not 7"),
        (json.dumps({**SPEC, "job_id": "a\ud800"}), "JobSpec holds half a character (a surrogate), at 27"),
        (
            json.dumps(SPEC, ensure_ascii=False).replace('"q"', '"\udfff"'),
            "JobSpec holds half a character (a surrogate), at 67",
        ),
    ],
)
def test_what_is_wrong_with_a_spec_is_said(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        spec_from_json(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"seconds": -0.5}, "JobResult.seconds must be a time, not -0.5"),
        ({"seconds": 1e9}, "JobResult.seconds must be a time, not 1000000000.0"),
        ({"rows": -1}, "JobResult.rows must be a count, not -1"),
        ({"updated": -2}, "JobResult.updated must be a count, not -2"),
        (
            {"directories": [DIRECTORY, {**DIRECTORY, "name": ".."}]},
            "JobResult.directories[1].name must be a name, not '..'",
        ),
        ({"directories": [{**DIRECTORY, "name": "."}]}, "JobResult.directories[0].name must be a name, not '.'"),
        (
            {"directories": [{**DIRECTORY, "partition": "p=1//q=2"}]},
            "JobResult.directories[0].partition must be a name, not ''",
        ),
        (
            {"directories": [{**DIRECTORY, "files": [{**FILE, "name": "a/b"}]}]},
            "JobResult.directories[0].files.name must be a name, not 'a/b'",
        ),
        (
            {"directories": [{**DIRECTORY, "files": [{**FILE, "rows": -1}]}]},
            "JobResult.directories[0].files.rows must be a count, not -1",
        ),
        (
            {"directories": [{**DIRECTORY, "files": [{**FILE, "bytes": -1}]}]},
            "JobResult.directories[0].files.bytes must be a count, not -1",
        ),
    ],
)
def test_what_is_wrong_with_a_result_is_said(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="JobResult") as refused:
        result_from_json(json.dumps({**RESULT, **more}))
    assert str(refused.value) == message


def test_counts_begin_at_zero_and_partitions_have_as_many_parts_as_they_like() -> None:
    found = result_from_json(
        json.dumps({**RESULT, "rows": 0, "seconds": 0.0, "directories": [{**DIRECTORY, "partition": "p=1/q=2"}]})
    )
    assert (found.rows, found.directories[0].partition) == (0, "p=1/q=2")
    assert JobResult("j", "a", inserted=1, updated=2, deleted=3).counts() == {"inserted": 1, "updated": 2, "deleted": 3}


def test_an_errors_name_is_cut_and_its_message_is_not() -> None:
    assert str(reported("x" * 101, "m")) == "x" * 100 + ": m"
    assert str(reported("CorruptTableError", "m" * 500)) == "m" * 500


@pytest.mark.parametrize(
    ("properties", "wanted", "row_ids", "shown"),
    [
        ({}, None, True, False), ({"ACID.fetch.deleted.rows": "TRUE"}, None, True, True), ({}, True, True, True),
        ({"acid.fetch.deleted.rows": "true"}, False, True, False), ({}, True, False, False),
        ({"acid.fetch.deleted.rows": "yes"}, None, True, False),
    ],
)  # fmt: skip
def test_deleted_rows_are_shown_if_the_query_or_else_the_table_says_so(
    properties: dict[str, str], wanted: bool | None, row_ids: bool, shown: bool
) -> None:
    snapshot = replace(SNAPSHOT, properties=properties, insert_only=not row_ids)
    assert View("v", snapshot, deleted_rows=wanted).shows_deleted_rows is shown


@pytest.mark.parametrize("half", ["\\ud800", "\udc00"], ids=["escaped", "as it is"])
def test_a_result_with_half_a_character_is_refused_and_one_with_both_halves_is_read(half: str) -> None:
    text = json.dumps({**RESULT, "application_id": "HERE"})
    with pytest.raises(ValueError, match="half a character"):
        result_from_json(text.replace("HERE", half))
    assert result_from_json(text.replace("HERE", "\\ud83d\\ude00")).application_id == "\U0001f600"
