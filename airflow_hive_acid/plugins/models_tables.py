"""What the API answers about tables: their sizes, what was decided about them, and why."""

from __future__ import annotations

from typing import Literal

from airflow_hive_acid.plugins.models import CleaningNote, Compaction, Decision, Model


class LastCompaction(Model):
    """A compaction in short."""

    id: int
    type: str
    state: str
    ended: int | None


class TableRow(Model):
    """A table, and how large it was when it was listed last."""

    database: str
    table: str
    object: str
    kind: str
    transactional: Literal["full", "insert_only", "no"]
    partitioned: bool
    owner: str | None
    files: int | None
    bytes: int | None
    deltas: int | None
    delete_deltas: int | None
    base_bytes: int | None
    delta_bytes: int | None
    delete_bytes: int | None
    delete_ratio: float | None
    measured: int | None
    partitions_measured: int
    last_compaction: LastCompaction | None


class TableDetail(Model):
    """A table with what was decided and asked for."""

    now: int
    row: TableRow
    location: str | None
    properties: dict[str, str]
    decisions: list[Decision]
    requests: list[Compaction]


class PartitionRow(Model):
    """A partition, and how large it was when it was listed last."""

    partition: str
    files: int | None
    bytes: int | None
    deltas: int | None
    delete_deltas: int | None
    base_bytes: int | None
    delta_bytes: int | None
    delete_bytes: int | None
    delete_ratio: float | None
    measured: int | None
    decision: Decision | None


class SeriesPoint(Model):
    """How large a table was from a moment on."""

    time: int
    files: int
    deltas: int
    delete_deltas: int
    base_bytes: int
    delta_bytes: int
    delete_bytes: int


class Series(Model):
    """How large a table was over time, and when it was compacted."""

    now: int
    object: str
    points: list[SeriesPoint]
    compactions: list[LastCompaction]


class Explanation(Model):
    """Why a table or partition was or was not compacted."""

    now: int
    object: str
    writes: int
    decision: Decision
    before: list[Decision]
    requests: list[Compaction]
    cleaning: list[CleaningNote]
    cleaned: list[CleaningNote]
