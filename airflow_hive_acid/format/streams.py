"""What a streaming application and the process beside it say to each other, as JSON documents (decision 3).

The application asks, the other side answers; there is one question at a time. ``open`` is answered by ``opened``;
``begin`` of a micro-batch by ``step`` (what to write, and where), or by ``committed`` when it was committed before;
``result`` of that step by ``committed``; ``close`` by ``closed``; and every question may be answered by ``error``.
``refuse`` says why a micro-batch cannot even begin, and is answered by that error: so both sides know it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
ALIVE, HERE = "alive", "here"
"""Signs of life: of the process that answers, in the spool; of the application, in the stream's own directory."""
OPENED, OVER = "open.json", "over"
"""In the stream's directory: its first question is there; nothing is answered any more."""
ALIVE_SECONDS = 5.0
SPOOL = "spark.hive.acid.stream.spool"
"""Spark setting that names the spool; operator and command line set it."""
JOB = "spark.hive.acid.stream.job"
"""Spark setting that describes the query of ``spark_jobs/stream.py``."""
NO_QUERY = "-"
"""Source of micro-batches that a program gives the sink by itself, outside of a query."""
BATCH_VIEW = "hive_acid_batch"
"""The micro-batch as statements call it."""
DELETED = "__acid_deleted"
"""Column of a micro-batch that says of each row whether it deletes the row of its key; never NULL."""
CHOICES: dict[str, tuple[str, ...]] = {
    "mode": ("append", "upsert"),
    "on_new_column": ("fail", "add", "ignore"),
    "on_missing_column": ("fail", "null", "default"),
    "on_type_change": ("fail", "convert"),
    "on_bad_record": ("fail", "quarantine"),
    "on_gap": ("fail", "ignore"),
}
SINK: dict[str, Any] = {
    "mode": "append", "keys": (), "latest_by": None, "delete_when": None, "partition": None, "on_new_column": "fail",
    "on_missing_column": "fail", "on_type_change": "fail", "on_bad_record": "fail", "quarantine": None,
    "on_gap": "fail", "start_over": False, "spool": None,
}  # fmt: skip
"""Arguments of the sink beside ``table`` and ``stream``, and what they are by default."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a stream is.

    :param stream: its name; with the number of the micro-batch it makes a commit unique (R14).
    :param table: ``database.table`` that it writes.
    :param source: which checkpoint it comes from.
    :param mode: ``append``, or ``upsert`` by ``keys``.
    :param deletes: rows of an upsert may delete: the micro-batch has the column :data:`DELETED`.
    :param partition: value by partition column, None where it comes from the rows.
    :param view: global temporary view under which the application has the micro-batch.
    """

    stream: str
    table: str
    source: str
    mode: str = "append"
    keys: tuple[str, ...] = ()
    partition: dict[str, Any] = field(default_factory=dict)
    start_over: bool = False
    on_new_column: str = "fail"
    on_missing_column: str = "fail"
    on_type_change: str = "fail"
    on_bad_record: str = "fail"
    view: str = ""
    application_id: str = ""
    deletes: bool = False
    on_gap: str = "fail"

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> StreamOptions:
        """What :func:`open_question` made.

        :raises ValueError: when a field is missing or unknown.
        """
        given = {k: v for k, v in document.items() if k not in ("ask", "version")}
        try:
            return cls(**{**given, "keys": tuple(given.get("keys", ()))})
        except TypeError as problem:
            raise ValueError(f"a stream's options: {problem}") from None


def check_sink(given: Mapping[str, Any]) -> None:
    """Refuse arguments of the sink that do not go together; what they say of tables and rows is not looked at.

    :param given: arguments by name, without ``table`` and ``stream``.
    :raises InvalidArgumentsError: naming the argument and the remedy.
    """
    unknown = next((name for name in given if name not in SINK), None)
    if unknown is not None:
        raise InvalidArgumentsError(f"{unknown} is no argument of a sink; those are {', '.join(SINK)}")
    sink = {**SINK, **given}
    for name, values in CHOICES.items():
        if sink[name] not in values:
            raise InvalidArgumentsError(f"{name} must be one of {', '.join(values)}, not {sink[name]!r}")
    if isinstance(sink["keys"], str):
        raise InvalidArgumentsError(f"keys must be a list of columns, not the text {sink['keys']!r}")
    if (sink["on_bad_record"] == "quarantine") != (sink["quarantine"] is not None):
        raise InvalidArgumentsError("on_bad_record='quarantine' goes with quarantine=<URI of a directory>")
    _check_upsert(sink)


def _check_upsert(sink: Mapping[str, Any]) -> None:
    upsert = sink["mode"] == "upsert"
    if upsert != bool(sink["keys"]):
        raise InvalidArgumentsError("mode='upsert' goes with keys=[…], and keys with mode='upsert'")
    if sink["latest_by"] is not None and not upsert:
        raise InvalidArgumentsError("latest_by goes with mode='upsert'")
    condition = sink["delete_when"]
    if condition is not None and (not isinstance(condition, str) or not condition.strip()):
        raise InvalidArgumentsError(
            f"delete_when must be a condition over the stream's columns, such as \"op = 'd'\", not {condition!r}"
        )
    if condition is not None and not upsert:
        raise InvalidArgumentsError(
            "delete_when goes with mode='upsert' and keys=[…]; mode='append' has no keys to find the row by"
        )
    if upsert and sink["partition"]:
        raise InvalidArgumentsError("partition= goes with mode='append'; an upsert takes partitions from its rows")


def open_question(options: StreamOptions) -> dict[str, Any]:
    """The first question of a stream."""
    return {"ask": "open", "version": VERSION, **asdict(options)}


def to_text(document: dict[str, Any]) -> str:
    """A document as text."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def question_name(number: int) -> str:
    """File name of a question; the answer is :func:`answer_name`."""
    return f"{number:09d}.ask.json"


def answer_name(number: int) -> str:
    """File name of an answer."""
    return f"{number:09d}.answer.json"
