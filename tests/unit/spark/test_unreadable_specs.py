"""What a driver answers to a spec that it cannot read."""

from __future__ import annotations

import pytest

from airflow_hive_acid.format.jobs import JobError
from airflow_hive_acid.format.jobs.documents import result_from_json, to_json
from airflow_hive_acid.spark.jobs.spool import unreadable


@pytest.mark.parametrize("text", ["", "7", "[" * 100_000, '{"job_id": "\\ud800"}', '{"job_id": "j"}'])
def test_a_spec_that_cannot_be_read_has_an_answer_that_can(text: str) -> None:
    document = to_json(unreadable(text, ValueError("so"), "app"))
    answer = result_from_json(document.encode().decode())
    assert answer.job_id == ("j" if '"j"' in text else "")
    assert answer.error == JobError("InvalidArgumentsError", "so")
