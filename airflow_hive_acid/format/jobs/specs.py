"""Job specs: the step that a Spark job runs, with its sources, its staging directory and its configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from airflow_hive_acid.format.jobs.tables import (  # noqa: TC001 - fields' types, looked up when JSON is read
    Column,
    TableSnapshot,
    View,
)

SPEC_VERSION = 1
HIVE_TEXT = "hive_text"
"""What an export calls lines as Hive's text tables have them."""


@dataclass(frozen=True, slots=True)
class Source:
    """Files outside the warehouse as a view: ``CREATE TEMPORARY VIEW name (columns) USING format OPTIONS (…)``.

    With ``columns`` every value must fit its column: the first that does not fails the job with file, row and column.
    """

    name: str
    format: str
    options: dict[str, str]
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class Insert:
    """Append the rows of a query (``overwrite``: replace, as a new base).

    :param query: Spark SQL over the views of the spec; its columns are matched to the target's by position:
        data columns first, then the partition columns that are not static.
    :param bucket_offset: first bucket number to write; for rows that join a base of the same txn.
    :param columns: target columns that the query fills, in the query's order; others get their DEFAULT, or NULL.
        Empty: all.
    :param static_partition: partition values given in the statement, ``(column, value)``.
    """

    kind: ClassVar[str] = "insert"
    target: TableSnapshot
    query: str
    write_id: int
    statement_id: int
    columns: tuple[str, ...] = ()
    static_partition: tuple[tuple[str, str], ...] = ()
    overwrite: bool = False
    bucket_offset: int = 0


@dataclass(frozen=True, slots=True)
class Append:
    """Append the rows of an insert to the open files of a transaction batch, and flush them.

    :param batch: uuid of the batch; its files stay open in the application from step to step.
    :param min_write_id: of the batch's directory ``delta_X_Y``, and ``max_write_id``.
    """

    kind: ClassVar[str] = "append"
    insert: Insert
    batch: str
    min_write_id: int
    max_write_id: int

    @property
    def target(self) -> TableSnapshot:
        """The table."""
        return self.insert.target


@dataclass(frozen=True, slots=True)
class CloseBatch:
    """Finish the files of a transaction batch.

    :param discard: what has been appended since the last flush that counts is of no interest.
    """

    kind: ClassVar[str] = "close_batch"
    batch: str
    discard: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """``column = expression``, the expression in Spark SQL over the aliases of the step."""

    column: str
    expression: str


@dataclass(frozen=True, slots=True)
class FirstRows:
    """Of the matching rows only the first.

    :param order: Spark SQL of an ORDER BY; where it does not say which rows are the first, the statement fails.
    """

    order: str
    count: int


@dataclass(frozen=True, slots=True)
class Update:
    """Change matching rows: a delete event and an insert event each (split update).

    A row whose partition columns change moves: its delete event lies in the old partition, its insert event in the new.

    :param alias: name by which ``where`` and the assignments refer to the target.
    """

    kind: ClassVar[str] = "update"
    target: TableSnapshot
    alias: str
    assignments: tuple[Assignment, ...]
    where: str | None
    write_id: int
    delete_statement_id: int
    insert_statement_id: int
    first: FirstRows | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete matching rows."""

    kind: ClassVar[str] = "delete"
    target: TableSnapshot
    alias: str
    where: str | None
    write_id: int
    statement_id: int
    first: FirstRows | None = None


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One WHEN clause, in statement order; the first whose condition holds decides.

    :param matched: WHEN MATCHED (update, delete) or WHEN NOT MATCHED (insert).
    :param condition: the AND part, Spark SQL over both aliases (source alias only when not matched), or None.
    :param assignments: for update the changed columns; for insert the filled ones, partition columns included.
    :param by_source: WHEN NOT MATCHED BY SOURCE (update, delete); condition and assignments are over the target alone.
    """

    action: Literal["update", "delete", "insert"]
    matched: bool
    condition: str | None = None
    assignments: tuple[Assignment, ...] = ()
    by_source: bool = False

    @property
    def of_target(self) -> bool:
        """Whether the clause is about rows that are in the target."""
        return self.matched or self.by_source


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE in one pass over the target; several source rows for one target row are an error (R18).

    :param source: Spark SQL text of the source relation, without alias.
    :param partition_pairs: what ON demands to be equal: a partition column of the target and a column of the source.
    :param new_rows_statement_id: of the rows of WHEN NOT MATCHED in a bucketed table: their buckets are those of the
        updated rows, and a bucket of a directory has one writer. Elsewhere None: they share ``insert_statement_id``.
    """

    kind: ClassVar[str] = "merge"
    target: TableSnapshot
    target_alias: str
    source: str
    source_alias: str
    on: str
    clauses: tuple[MergeClause, ...]
    write_id: int
    delete_statement_id: int
    insert_statement_id: int
    new_rows_statement_id: int | None = None
    partition_pairs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Select:
    """Run a query; its rows go to ``rows_uri`` as JSON lines, its columns into the result.

    :param limit: at most this many rows are fetched; None for all.
    :param max_bytes: rows that take more, as JSON, are an error; None for no bound.
    """

    kind: ClassVar[str] = "select"
    query: str
    rows_uri: str
    limit: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Compact:
    """Compact one unpartitioned table or one partition; the Cleaner removes the sources later.

    Ids are kept, except by a rebalance.

    :param target: snapshot under the compactor's write id list, exactly one entry in ``partitions``.
    :param visibility_txn_id: the compaction txn, suffix ``_vTXN`` of the result.
    :param buckets: of a rebalance; None: as many as there are.
    :param order_by: of a rebalance: what follows ORDER BY.
    :param above: of a minor one: only deltas whose write ids are all larger than this one.
    """

    kind: ClassVar[str] = "compact"
    target: TableSnapshot
    type: Literal["minor", "major", "rebalance"]
    visibility_txn_id: int
    buckets: int | None = None
    order_by: str | None = None
    above: int = 0


@dataclass(frozen=True, slots=True)
class Export:
    """Write the rows of a query as files that belong to no table; the control plane gives the directory its name.

    :param uri: directory that does not exist yet.
    :param format: Spark's name of the format; ``options`` are its own. ``HIVE_TEXT``: lines as Hive's text tables have
        them, and ``options`` are properties of their serde.
    :param rows_uri: where the number of rows goes, as the only row.
    """

    kind: ClassVar[str] = "export"
    query: str
    uri: str
    format: str
    options: dict[str, str]
    partition_by: tuple[str, ...]
    rows_uri: str


@dataclass(frozen=True, slots=True)
class Program:
    """Call a function of somebody's own; what it wants to write it says, and the control plane has it written.

    :param name: what messages call it.
    :param source: text of the Python file that holds the function, None if ``module`` is imported instead.
    :param function: its name; it gets the job as its first argument.
    :param arguments: its other arguments, plain JSON values.
    :param rows_uri: where the statements it asks for, and what it returned, go as the only row.
    """

    kind: ClassVar[str] = "program"
    name: str
    source: str | None
    module: str | None
    function: str
    arguments: dict[str, Any]
    rows_uri: str


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file that is to be copied, or was.

    :param checksum: ``sha256:…``; None when it is to be found out.
    :param reused: it was there already, whole.
    """

    source: str
    target: str
    size: int
    checksum: str | None = None
    reused: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy files as they are, verified on both sides; the directories of the targets exist."""

    kind: ClassVar[str] = "copy"
    files: tuple[CopiedFile, ...]


Step = Insert | Append | CloseBatch | Update | Delete | Merge | Select | Compact | Export | Program | Copy

DATAFRAME = "dataframe"
"""Format of a source that is no file but a global temporary view, which a program of the same application has made."""
RECORDS = "records"
"""Format of a source that is no file but lines of JSON, which stand in its option ``lines``."""


@dataclass(frozen=True, slots=True)
class Uploads:
    """A job may upload files under their final names, in parts; publishing ends the uploads (decision 74).

    :param location: URI of the table directory.
    :param elsewhere: directories of the partitions that do not lie where their names say, by name; an empty one: the
        partition's files go to staging.
    """

    location: str
    elsewhere: dict[str, str] = field(default_factory=dict)

    def place_of(self, partition: str) -> str:
        """Where the directories of a partition are made, of the table for an empty name; empty: in staging."""
        home = self.location.rstrip("/")
        return self.elsewhere.get(partition, f"{home}/{partition}" if partition else home).rstrip("/")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One statement for a Spark job.

    :param job_id: uuid of this attempt; part of the staging directory's name.
    :param staging: URI ``<table>/_tmp_<job_id>`` below which the job writes ``data/[<partition>/]<directory>/<file>``;
        None for a select.
    :param name: what Spark's own pages call the jobs of this step; None: nothing in particular.
    :param uploads: what files may be uploaded under their final names; None: all files go to staging.
    """

    job_id: str
    step: Step
    views: tuple[View, ...] = ()
    sources: tuple[Source, ...] = ()
    staging: str | None = None
    conf: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    uploads: Uploads | None = None
