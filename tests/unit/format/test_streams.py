"""Documents of streams, and which arguments of a sink go together."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.streams import (
    StreamOptions,
    answer_name,
    check_sink,
    open_question,
    question_name,
    to_text,
)


def test_a_document_is_text_without_spaces_and_with_its_letters() -> None:
    assert to_text({"ask": "é", "n": [1, 2]}) == '{"ask":"é","n":[1,2]}'


def test_questions_and_answers_sort_by_their_number() -> None:
    assert (question_name(7), answer_name(7)) == ("000000007.ask.json", "000000007.answer.json")


def test_the_first_question_of_a_stream_gives_its_options_back() -> None:
    options = StreamOptions("s", "w.t", "q", "upsert", ("id", "x"), {"day": "1"}, True, deletes=True)
    question = open_question(options)
    assert (question["ask"], question["version"]) == ("open", 1)
    assert StreamOptions.from_document(json.loads(to_text(question))) == options
    assert StreamOptions.from_document({"stream": "s", "table": "w.t", "source": "q"}) == StreamOptions("s", "w.t", "q")


@pytest.mark.parametrize("document", [{"stream": "s"}, {"stream": "s", "table": "t", "source": "q", "evil": 1}])
def test_options_with_a_field_too_many_or_too_few_are_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^a stream's options: .*argument"):
        StreamOptions.from_document(document)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"mode": "append", "partition": {"day": "1"}},
        {"mode": "upsert", "keys": ["id"]},
        {"mode": "upsert", "keys": ("id",), "latest_by": "ts", "delete_when": "op = 'd'"},
        {"on_bad_record": "quarantine", "quarantine": "file:/q"},
        {"on_new_column": "ignore", "on_missing_column": "null", "on_type_change": "convert", "start_over": True},
    ],
)
def test_arguments_that_go_together_are_taken(given: dict[str, Any]) -> None:
    check_sink(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"mood": 1},
            "mood is no argument of a sink; those are mode, keys, latest_by, delete_when, partition, on_new_column, "
            "on_missing_column, on_type_change, on_bad_record, quarantine, on_gap, start_over, spool",
        ),
        ({"mode": "x"}, "mode must be one of append, upsert, not 'x'"),
        ({"on_gap": "x"}, "on_gap must be one of fail, ignore, not 'x'"),
        ({"on_new_column": "x"}, "on_new_column must be one of fail, add, ignore, not 'x'"),
        ({"keys": "id", "mode": "upsert"}, "keys must be a list of columns, not the text 'id'"),
        (
            {"quarantine": "file:/q"},
            "on_bad_record='quarantine' goes with quarantine=<URI of a directory>",
        ),
        (
            {"on_bad_record": "quarantine"},
            "on_bad_record='quarantine' goes with quarantine=<URI of a directory>",
        ),
        ({"mode": "upsert"}, "mode='upsert' goes with keys=[…], and keys with mode='upsert'"),
        ({"keys": ["id"]}, "mode='upsert' goes with keys=[…], and keys with mode='upsert'"),
        ({"latest_by": "ts"}, "latest_by goes with mode='upsert'"),
        (
            {"mode": "upsert", "keys": ["id"], "delete_when": " "},
            "delete_when must be a condition over the stream's columns, such as \"op = 'd'\", not ' '",
        ),
        (
            {"mode": "upsert", "keys": ["id"], "delete_when": 7},
            "delete_when must be a condition over the stream's columns, such as \"op = 'd'\", not 7",
        ),
        (
            {"delete_when": "x"},
            "delete_when goes with mode='upsert' and keys=[…]; mode='append' has no keys to find the row by",
        ),
        (
            {"mode": "upsert", "keys": ["id"], "partition": {"day": "1"}},
            "partition= goes with mode='append'; an upsert takes partitions from its rows",
        ),
    ],
)
def test_arguments_that_do_not_go_together_are_told(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=rf"^{re.escape(message)}$"):
        check_sink(given)
