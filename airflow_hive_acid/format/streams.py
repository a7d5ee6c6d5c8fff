"""What a streaming application and the process beside it say to each other, as JSON documents (decision 3).

The application asks, the other side answers; there is one question at a time. ``open`` is answered by ``opened``;
``begin`` of a micro-batch by ``step`` (what to write, and where), or by ``committed`` when it was committed before;
``result`` of that step by ``committed``; ``close`` by ``closed``; and every question may be answered by ``error``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

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
BATCH_VIEW = "hive_acid_batch"
"""The micro-batch as statements call it."""
CHOICES: dict[str, tuple[str, ...]] = {
    "mode": ("append", "upsert"),
    "on_new_column": ("fail", "add", "ignore"),
    "on_missing_column": ("fail", "null"),
    "on_type_change": ("fail", "convert"),
    "on_bad_record": ("fail", "quarantine"),
}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a stream is.

    :param stream: its name; with the number of the micro-batch it makes a commit unique (R14).
    :param table: ``database.table`` that it writes.
    :param source: which checkpoint it comes from.
    :param mode: ``append``, or ``upsert`` by ``keys``.
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
