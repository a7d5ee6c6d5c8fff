"""A plan: everything about a statement that can be decided before its transaction exists.

The planner makes plans from a statement and facts of the catalog; the engine opens the transaction a plan asks for,
takes the snapshots it names, and lets the plan build the step of the Spark job once write id and statement ids exist.
Plans are values: the same plan may be run again after a lost conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format import jobs
from airflow_hive_acid.format.partitions import partition_name

if TYPE_CHECKING:
    from airflow_hive_acid.format.changes import Changes
    from airflow_hive_acid.sql.model.pruning import PartitionFilter
    from airflow_hive_acid.sql.model.statements import DataStatement

STRENGTH = ("select", "insert", "delete", "update", "overwrite")
"""Operations from weakest to strongest: a table declared for one of them allows those before it."""


class ColumnFacts(Protocol):
    """A column of a table: its name, its Hive type text, whether it is declared NOT NULL, and its DEFAULT."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def required(self) -> bool: ...
    @property
    def default(self) -> str | None: ...


class TableFacts(Protocol):
    """What the planner asks of a table; the catalog's ``Table`` has it all."""

    @property
    def qualified_name(self) -> str: ...
    @property
    def columns(self) -> Sequence[ColumnFacts]: ...
    @property
    def partition_columns(self) -> Sequence[ColumnFacts]: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_insert_only(self) -> bool: ...
    @property
    def bucket_columns(self) -> Sequence[str]: ...
    @property
    def type(self) -> str: ...
    @property
    def view_text(self) -> str | None: ...


def is_external(facts: TableFacts) -> bool:
    """Whether a table's files belong to somebody else."""
    return facts.type == "EXTERNAL_TABLE"


TableLookup = Callable[[str], TableFacts]
"""``db.table`` → facts; raises NoSuchObjectError (with near names) when there is none."""


@dataclass(frozen=True, slots=True)
class TableRead:
    """A warehouse table that the query texts of a step refer to as ``view``.

    :param table: ``db.table``.
    :param view: name under which the Spark job offers the snapshot.
    :param partitions: which partitions can matter: ``partitions.keeps(values)``.
    :param pseudo_columns: the statement asks for ROW__ID or ROW__IS__DELETED of this table.
    :param transactional: false for a plain ORC table.
    :param external: its files belong to somebody else.
    :param deleted_rows: whether the query asks for deleted rows; None: it leaves that to the table's property.
    :param pin: name of the pin as which it is read.
    :param changes: read what these write ids have changed instead of the rows.
    :param as_of: read it as it was: a write id, or a time as its text.
    """

    table: str
    view: str
    partitions: PartitionFilter
    pseudo_columns: bool = False
    transactional: bool = True
    external: bool = False
    deleted_rows: bool | None = None
    pin: str | None = None
    changes: Changes | None = None
    as_of: int | str | None = None

    def view_of(self, snapshot: jobs.TableSnapshot) -> jobs.View:
        """The table as a job offers it to the query texts."""
        return jobs.View(self.view, snapshot, self.pseudo_columns, self.deleted_rows, self.changes)


@dataclass(frozen=True, slots=True)
class TableWrite:
    """The table a statement changes.

    :param table: ``db.table``.
    :param operation: ``insert``, ``overwrite``, ``update`` or ``delete``: the strongest the statement needs.
    :param partitions: which existing partitions the statement can change; an insert without PARTITION values: all.
    :param partitioned: whether the table has partition columns; the ones written are then named at commit (R12).
    :param static_partition: columns and values the statement fixes.
    :param dynamic_partition: partition columns whose values come from the rows.
    :param transactional: false for a plain table.
    :param external: its files belong to somebody else.
    """

    table: str
    operation: str
    partitions: PartitionFilter
    partitioned: bool = False
    static_partition: tuple[tuple[str, str], ...] = ()
    dynamic_partition: tuple[str, ...] = ()
    transactional: bool = True
    external: bool = False

    @property
    def only_partition(self) -> str | None:
        """Name of the partition that the statement writes, None when there may be others."""
        fixed = self.partitioned and self.static_partition and not self.dynamic_partition
        return partition_name(self.static_partition) if fixed else None


@dataclass(frozen=True, slots=True)
class StepContext:
    """What only the open transaction knows.

    :param target: snapshot of the table that is written.
    :param statement_ids: as many as the plan asked for, ascending.
    :param rows_uri: where a select leaves its rows.
    :param limit: at most this many rows of a select.
    :param max_bytes: at most so many bytes of them, as JSON.
    """

    target: jobs.TableSnapshot | None = None
    write_id: int = 0
    statement_ids: tuple[int, ...] = ()
    rows_uri: str = ""
    limit: int | None = None
    max_bytes: int | None = None

    def written(self) -> jobs.TableSnapshot:
        """The target of a writing step."""
        if self.target is None or self.write_id <= 0:
            raise InvalidArgumentsError("a step that writes needs the snapshot of its target and a write id")
        return self.target


def _with_defaults(target: jobs.TableSnapshot, timed: tuple[tuple[str, str], ...]) -> jobs.TableSnapshot:
    """A target with the DEFAULTs of some columns as they are at the time of the statement."""
    known = dict(timed)
    columns = tuple(replace(c, default=known.get(c.name, c.default)) for c in target.columns)
    return replace(target, columns=columns) if timed else target


@dataclass(frozen=True, slots=True)
class InsertTemplate:
    """An insert without its ids.

    :param timed: the DEFAULTs that read the clock, at the time of the statement, by column.
    """

    query: str
    columns: tuple[str, ...] = ()
    static_partition: tuple[tuple[str, str], ...] = ()
    overwrite: bool = False
    timed: tuple[tuple[str, str], ...] = ()
    statement_id_count = 1

    def build(self, context: StepContext) -> jobs.Step:
        """The step."""
        return jobs.Insert(
            target=_with_defaults(context.written(), self.timed),
            query=self.query,
            write_id=context.write_id,
            statement_id=context.statement_ids[0],
            columns=self.columns,
            static_partition=self.static_partition,
            overwrite=self.overwrite,
        )


@dataclass(frozen=True, slots=True)
class UpdateTemplate:
    """An update without its ids; the delete event takes the lower statement id, as in Hive."""

    alias: str
    assignments: tuple[jobs.Assignment, ...]
    where: str | None
    first: jobs.FirstRows | None = None
    statement_id_count = 2

    def build(self, context: StepContext) -> jobs.Step:
        """The step."""
        return jobs.Update(
            target=context.written(),
            alias=self.alias,
            assignments=self.assignments,
            where=self.where,
            write_id=context.write_id,
            delete_statement_id=context.statement_ids[0],
            insert_statement_id=context.statement_ids[1],
            first=self.first,
        )


@dataclass(frozen=True, slots=True)
class DeleteTemplate:
    """A delete without its ids."""

    alias: str
    where: str | None
    first: jobs.FirstRows | None = None
    statement_id_count = 1

    def build(self, context: StepContext) -> jobs.Step:
        """The step."""
        return jobs.Delete(
            target=context.written(),
            alias=self.alias,
            where=self.where,
            write_id=context.write_id,
            statement_id=context.statement_ids[0],
            first=self.first,
        )


@dataclass(frozen=True, slots=True)
class MergeTemplate:
    """A merge without its ids; delete events take the lower statement id, as in Hive.

    :param timed: the DEFAULTs that read the clock, at the time of the statement, by column.
    """

    target_alias: str
    source: str
    source_alias: str
    on: str
    clauses: tuple[jobs.MergeClause, ...]
    bucketed: bool = False
    partition_pairs: tuple[tuple[str, str], ...] = ()
    timed: tuple[tuple[str, str], ...] = ()

    @property
    def statement_id_count(self) -> int:
        """As many as there are kinds of directories."""
        return 3 if self.bucketed else 2

    def build(self, context: StepContext) -> jobs.Step:
        """The step."""
        return jobs.Merge(
            target=_with_defaults(context.written(), self.timed),
            target_alias=self.target_alias,
            source=self.source,
            source_alias=self.source_alias,
            on=self.on,
            clauses=self.clauses,
            write_id=context.write_id,
            delete_statement_id=context.statement_ids[0],
            insert_statement_id=context.statement_ids[1],
            new_rows_statement_id=context.statement_ids[2] if self.bucketed else None,
            partition_pairs=self.partition_pairs,
        )


@dataclass(frozen=True, slots=True)
class SelectTemplate:
    """A query."""

    query: str
    statement_id_count = 0

    def build(self, context: StepContext) -> jobs.Step:
        """The step."""
        return jobs.Select(
            query=self.query, rows_uri=context.rows_uri, limit=context.limit, max_bytes=context.max_bytes
        )


@dataclass(frozen=True, slots=True)
class ExportTemplate:
    """A query whose rows become files; see :class:`~airflow_hive_acid.format.jobs.Export`."""

    query: str
    uri: str
    format: str
    options: dict[str, str]
    partition_by: tuple[str, ...] = ()
    statement_id_count = 0

    def build(self, context: StepContext) -> jobs.Step:
        """The step."""
        return jobs.Export(self.query, self.uri, self.format, self.options, self.partition_by, context.rows_uri)


@dataclass(frozen=True, slots=True)
class ProgramTemplate:
    """A function of somebody's own; see :class:`~airflow_hive_acid.format.jobs.Program`."""

    name: str
    source: str | None
    module: str | None
    function: str
    arguments: dict[str, Any]
    statement_id_count = 0

    def build(self, context: StepContext) -> jobs.Step:
        """The step."""
        return jobs.Program(self.name, self.source, self.module, self.function, self.arguments, context.rows_uri)


StepTemplate = (
    InsertTemplate | UpdateTemplate | DeleteTemplate | MergeTemplate | SelectTemplate | ExportTemplate | ProgramTemplate
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A planned statement.

    :param kind: ``insert``, ``update``, ``delete``, ``merge`` or ``select``.
    :param write: the table it changes, None for a select.
    :param reads: the tables its query texts read, in the order of their first appearance; the target of an UPDATE,
        DELETE or MERGE is among them only if a query of the statement mentions it once more.
    :param sources: the temporary views it reads.
    :param template: the step without the ids of its transaction.
    :param views_read: views of the catalog that its query texts go through, ``db.view``.
    """

    statement: DataStatement
    kind: str
    write: TableWrite | None
    reads: tuple[TableRead, ...]
    sources: tuple[jobs.Source, ...]
    template: StepTemplate
    views_read: tuple[str, ...] = ()

    @property
    def statement_id_count(self) -> int:
        """How many statement ids the step needs, allocated in ascending order."""
        return self.template.statement_id_count

    @property
    def operations(self) -> dict[str, str]:
        """Table → operation: the tables a transaction for this plan must be begun with, plain ones included."""
        operations = {read.table: "select" for read in self.reads}
        if self.write is not None:
            operations[self.write.table] = self.write.operation
        return operations

    def step(
        self,
        *,
        target: jobs.TableSnapshot | None = None,
        write_id: int = 0,
        statement_ids: Sequence[int] = (),
        rows_uri: str = "",
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> jobs.Step:
        """The step of the Spark job.

        :raises InvalidArgumentsError: when the statement ids do not fit the plan.
        """
        ids = tuple(statement_ids)
        if len(ids) != self.statement_id_count or list(ids) != sorted(set(ids)):
            raise InvalidArgumentsError(
                f"{self.kind} needs {self.statement_id_count} ascending statement ids, not {list(ids)}"
            )
        return self.template.build(StepContext(target, write_id, ids, rows_uri, limit, max_bytes))

    def views(self, snapshots: Mapping[str, jobs.TableSnapshot]) -> tuple[jobs.View, ...]:
        """The views of the job spec.

        :param snapshots: snapshot by view name, one for each of ``reads``.
        """
        return tuple(read.view_of(snapshots[read.view]) for read in self.reads)


def combine_operations(plans: Sequence[Plan]) -> dict[str, str]:
    """Tables and operations of one transaction that runs all these plans: the strongest operation of each table."""
    combined: dict[str, str] = {}
    for plan in plans:
        for table, operation in plan.operations.items():
            combined[table] = max(combined.get(table, "select"), operation, key=STRENGTH.index)
    return combined
