"""Progress of the engine as small values; ``str`` of each is one readable line.

``on_event`` of the engine is called with them in the thread that runs the statement. What it raises ends the
statement, so a listener must not raise what it does not mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.engine.outcomes.results import StatementResult
    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.compaction import Resource
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.views import CreateTemporaryQuery


@dataclass(frozen=True, slots=True)
class SparkStarting:
    """A Spark application is being started in the background."""

    def __str__(self) -> str:
        return "starting Spark"


@dataclass(frozen=True, slots=True)
class SparkReady:
    """The application is ready for steps.

    :param seconds: how long we had to wait for it, not how long it took.
    """

    application_id: str
    seconds: float

    def __str__(self) -> str:
        return f"Spark is ready ({self.application_id}, waited {self.seconds:.1f} s)"


@dataclass(frozen=True, slots=True)
class StatementStarted:
    """A statement of a script begins.

    :param number: from 1 to ``total``.
    :param line: line of the script it begins on.
    """

    number: int
    total: int
    kind: str
    line: int
    text: str

    def __str__(self) -> str:
        first = " ".join(self.text.split())
        return f"[{self.number}/{self.total}] {first[:100]}{'…' if len(first) > 100 else ''}"


@dataclass(frozen=True, slots=True)
class TransactionOpened:
    """Locks are granted, the snapshot is taken, write ids are allocated.

    :param operations: what the transaction declared, by table.
    """

    txn_id: int
    operations: dict[str, str]
    write_ids: dict[str, int]
    seconds: float

    def __str__(self) -> str:
        tables = ", ".join(f"{operation} {table}" for table, operation in sorted(self.operations.items()))
        return f"txn {self.txn_id} is open ({tables}; {self.seconds:.1f} s)"


@dataclass(frozen=True, slots=True)
class StatementPlanned:
    """A statement is about to run, or was applied by an earlier try: what its lineage is derived from.

    :param tables: by full name, as the catalog knows them now that the locks are granted; the target among them.
    :param views: the session's temporary views, by name.
    :param txn_id: the txn it runs in, None when it needs none, or when it is not run again.
    :param snapshot: up to which write id it sees each transactional table that it reads or changes.
    :param write_ids: write ids of its txn, by table.
    :param catalog_views: views of the catalog that it reads through; ``queries`` the session's temporary views of a
        query.
    """

    plan: Plan
    tables: Mapping[str, Table]
    views: Mapping[str, Source]
    txn_id: int | None = None
    snapshot: Mapping[str, int] = field(default_factory=dict)
    write_ids: Mapping[str, int] = field(default_factory=dict)
    catalog_views: Mapping[str, Table] = field(default_factory=dict)
    queries: Mapping[str, CreateTemporaryQuery] = field(default_factory=dict)

    def __str__(self) -> str:
        reads = ", ".join(
            f"{read.table} up to write id {self.snapshot[read.table]}" if read.table in self.snapshot else read.table
            for read in self.plan.reads
        )
        written = "" if self.plan.write is None else f", writes {self.plan.write.table}"
        return f"{self.plan.kind} reads {reads or 'no table'}{written}"


@dataclass(frozen=True, slots=True)
class JobFinished:
    """A Spark job has answered; nothing of it is visible yet."""

    kind: str
    table: str | None
    inserted: int
    updated: int
    deleted: int
    rows: int
    seconds: float

    def __str__(self) -> str:
        counts = {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted, "rows": self.rows}
        told = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n) or "nothing to do"
        return f"{self.kind}{f' {self.table}' if self.table else ''}: {told} ({self.seconds:.1f} s in Spark)"


@dataclass(frozen=True, slots=True)
class Published:
    """Directories of a write id are in place; files and bytes are those of the data.

    :param uploaded: how many of the files were uploaded under their names; the others were renamed or copied.
    """

    table: str
    directories: int
    files: int
    bytes: int
    seconds: float
    uploaded: int = 0

    def __str__(self) -> str:
        uploaded = f", {self.uploaded} of them uploaded under their names" if self.uploaded else ""
        return (
            f"published {self.directories} directories of {self.table}: {self.files} files{uploaded}, "
            f"{self.bytes:,} bytes ({self.seconds:.1f} s)"
        )


@dataclass(frozen=True, slots=True)
class TransactionCommitted:
    """Everything the transaction did is visible."""

    txn_id: int
    seconds: float

    def __str__(self) -> str:
        return f"txn {self.txn_id} is committed ({self.seconds:.1f} s)"


@dataclass(frozen=True, slots=True)
class TransactionAborted:
    """Nothing the transaction did will ever be visible."""

    txn_id: int
    reason: str

    def __str__(self) -> str:
        return f"txn {self.txn_id} is aborted: {self.reason}"


@dataclass(frozen=True, slots=True)
class CompactionAsked:
    """A compaction was asked for, or one was found not to be needed.

    :param request_id: of the request, or of one that was there already; None when there is none.
    :param accepted: whether it is a new one.
    :param said: what became of the wish.
    """

    resource: Resource
    request_id: int | None
    accepted: bool
    said: str

    def __str__(self) -> str:
        return self.said


@dataclass(frozen=True, slots=True)
class Noted:
    """What somebody should know who reads the result of a statement.

    :param said: a sentence.
    """

    said: str

    def __str__(self) -> str:
        return f"note: {self.said}"


@dataclass(frozen=True, slots=True)
class StatementFinished:
    """A statement of a script is done."""

    number: int
    total: int
    result: StatementResult

    def __str__(self) -> str:
        return f"[{self.number}/{self.total}] {self.result}"


@dataclass(frozen=True, slots=True)
class AppliedBefore:
    """A statement was applied by an earlier try (R14).

    :param txn_id: the txn that applied it, if it needed one.
    :param again: this is a deliberate re-run, and it is applied once more.
    """

    what: str
    txn_id: int | None
    again: bool

    def __str__(self) -> str:
        if self.again:
            return f"WARNING: {self.what} succeeded before; its task was run anew on purpose, so it is applied again"
        txn = "" if self.txn_id is None else f" as txn {self.txn_id}"
        return f"{self.what} was applied by an earlier try{txn}; it is not applied again"


@dataclass(frozen=True, slots=True)
class EarlierTryFenced:
    """An earlier try did not finish a statement; whatever it is doing, nothing of it becomes visible (R4, R14)."""

    what: str
    txn_ids: tuple[int, ...]

    def __str__(self) -> str:
        txns = ", ".join(map(str, self.txn_ids)) or "none was open"
        return f"{self.what} was begun by an earlier try, which is fenced; aborted txns: {txns}"


@dataclass(frozen=True, slots=True)
class SettingUnread:
    """A script has set what nothing here reads; ``${hiveconf:key}`` gives its value."""

    key: str

    def __str__(self) -> str:
        return f"SET {self.key}: nothing reads that here, it changes nothing"


Event = (
    SettingUnread
    | SparkStarting
    | SparkReady
    | StatementStarted
    | TransactionOpened
    | StatementPlanned
    | JobFinished
    | Published
    | TransactionCommitted
    | TransactionAborted
    | CompactionAsked
    | Noted
    | StatementFinished
    | AppliedBefore
    | EarlierTryFenced
)
