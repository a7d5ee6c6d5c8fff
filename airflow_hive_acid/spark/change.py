"""UPDATE and DELETE: events about rows that exist.

The matching rows (few, usually) are brought together by partition and bucket, because a delete event must lie in the
bucket file of its row's own number. An update writes its delete and its insert event from the same row in the same
task, so both sides always agree, whatever the query's expressions are, and the table is scanned once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.names import delete_delta_name, delta_name
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.assign import assigned, stored
from airflow_hive_acid.spark.events import delete_event, insert_event, task_row_number
from airflow_hive_acid.spark.output import Destination, write_events
from airflow_hive_acid.spark.reader import OpenTable, identity_columns, row_id_column, table_rows
from airflow_hive_acid.spark.scan import bucket_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql import types as T

    from airflow_hive_acid.format.jobs import Assignment, Delete, Update, WrittenDirectory
    from airflow_hive_acid.spark.output import Staging

_GROUP = f"{schema.INTERNAL_PREFIX}group"
_NUMBER = f"{schema.INTERNAL_PREFIX}number"
_KEY = f"{schema.INTERNAL_PREFIX}out"
_BUCKET_INDEX = f"{schema.INTERNAL_PREFIX}bucket_index"
NEW = f"{schema.INTERNAL_PREFIX}new_"
"""Prefix of the columns that hold the new values of a changed row."""
CHANGED = f"{schema.INTERNAL_PREFIX}changed"
"""Whether a row is changed (it gets an insert event too) or only deleted."""


def delete(spark: SparkSession, step: Delete, table: OpenTable, staging: Staging) -> list[WrittenDirectory]:
    """Run a DELETE; no directory when nothing matches."""
    rows = matching(spark, table, step.alias, step.where)
    writer = ChangeWriter(table, step.write_id, step.statement_id, None)
    return writer.write(spark, rows.select(*identity_columns(), schema.PARTITION), staging)


def update(spark: SparkSession, step: Update, table: OpenTable, staging: Staging) -> list[WrittenDirectory]:
    """Run an UPDATE; no directory when nothing matches."""
    rows = matching(spark, table, step.alias, step.where)
    check_assignable(table, step.assignments, "UPDATE")
    new = assigned_expressions(rows, step.assignments, table.columns, table.name)
    changed = rows.select(
        *identity_columns(),
        schema.PARTITION,
        F.lit(True).alias(CHANGED),
        *[new.get(c.name, F.col(f"`{step.alias}`.`{c.name}`")).alias(NEW + c.name) for c in table.columns],
    )
    writer = ChangeWriter(table, step.write_id, step.delete_statement_id, step.insert_statement_id)
    return writer.write(spark, changed, staging)


def matching(spark: SparkSession, table: OpenTable, alias: str, where: str | None) -> DataFrame:
    """The rows of the target that a statement is about, with their identity, under its alias."""
    rows = target_rows(spark, table, alias)
    return rows if where is None else rows.where(F.expr(where))


def target_rows(spark: SparkSession, table: OpenTable, alias: str) -> DataFrame:
    """All rows of the target under its alias, with identity columns and ``row__id``."""
    return table_rows(spark, table, identity=True).select("*", row_id_column()).alias(alias)


def check_assignable(table: OpenTable, assignments: Sequence[Assignment], statement: str) -> None:
    """Refuse assignments to columns that do not exist, come twice, or decide where a row lies.

    :raises InvalidArgumentsError: for unknown or repeated columns.
    :raises UnsupportedStatementError: for partition columns.
    """
    known = {c.name for c in table.columns}
    names = [a.column.lower() for a in assignments]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentsError(f"{statement} of {table.name}: {name} is assigned twice")
        if name in {c.name for c in table.partition_columns}:
            raise UnsupportedStatementError(
                f"{statement} of {table.name}: {name} is a partition column; a row cannot change its partition: "
                "delete it and insert it again"
            )
        if name not in known:
            raise InvalidArgumentsError(f"{statement} of {table.name}: there is no column {name}; it has {[*known]}")


def assigned_expressions(
    rows: DataFrame, assignments: Sequence[Assignment], columns: Sequence[schema.TableColumn], table: str
) -> dict[str, Column]:
    """The new values that assignments over ``rows`` give to columns, by column name."""
    known = {c.name: c for c in columns}
    types = expression_types(rows, [a.expression for a in assignments])
    return {
        a.column.lower(): assigned(F.expr(a.expression), given, known[a.column.lower()], table)
        for a, given in zip(assignments, types, strict=True)
    }


@dataclass(frozen=True, slots=True)
class ChangeWriter:
    """Writes delete events, and insert events beside them where rows are changed.

    :param insert_statement_id: None when rows are only deleted.
    """

    table: OpenTable
    write_id: int
    delete_statement_id: int
    insert_statement_id: int | None

    def write(
        self, spark: SparkSession, rows: DataFrame, staging: Staging, label: str = "write_1"
    ) -> list[WrittenDirectory]:
        """Write the events of these rows.

        :param rows: identity columns and partition ordinal; with an insert statement also ``CHANGED`` and the
            ``NEW`` columns. One row per row of the table: two delete events for one row may cost other deletes.
        """
        buckets = self.table.files.buckets()
        if not buckets:
            return []
        groups = len(buckets) * len(self.table.snapshot.partitions)
        tasks = min(groups, int(spark.conf.get("spark.sql.shuffle.partitions") or 200))
        group = F.col(schema.PARTITION) * F.lit(len(buckets)) + F.col(_BUCKET_INDEX)
        index = bucket_index(bucket_number(identity_columns()[1]), buckets)
        # One task per group: a bucket of a directory has exactly one writer.
        gathered = (
            rows.select("*", index.alias(_BUCKET_INDEX))
            .select("*", group.alias(_GROUP))
            .repartitionById(tasks, F.col(_GROUP) % F.lit(tasks))
        )
        # Sorted by key first, so that Spark adds no sort of its own; then as delete files must be, which insert
        # events, numbered before, satisfy as well.
        events = self._events(gathered, len(buckets)).sortWithinPartitions(_KEY, *schema.IDENTITY)
        properties = self.table.snapshot.properties
        return write_events(staging, events, [_KEY], lambda v: self._place(int(v[0]), len(buckets)), properties, label)

    def _events(self, rows: DataFrame, buckets: int) -> DataFrame:
        """One or two events per row, with the key of the file they belong to."""
        # Slot 0 of a partition takes its insert events, slot i + 1 the delete events of its i-th bucket.
        first = F.col(schema.PARTITION) * F.lit(buckets + 1)
        row = schema.row_type(self.table.columns)
        deleted = delete_event(identity_columns(), self.write_id, row)
        delete_key = (first + F.col(_BUCKET_INDEX) + F.lit(1)).alias(_KEY)
        if self.insert_statement_id is None:
            return rows.select(*deleted, delete_key)
        numbered = rows.select("*", task_row_number().alias(_NUMBER))
        renamed = F.struct(*[stored(F.col(f"`{NEW}{c.name}`"), c).alias(c.name) for c in self.table.columns]).cast(row)
        inserted = [
            *insert_event((), self.write_id, self.insert_statement_id, row_number=F.col(_NUMBER))[:-1],
            renamed.alias(schema.ROW),
        ]
        pair = F.array(F.struct(*deleted, delete_key), F.struct(*inserted, first.alias(_KEY)))
        only = F.array(F.struct(*deleted, delete_key))
        return numbered.select(F.inline(F.when(F.col(CHANGED), pair).otherwise(only)))

    def _place(self, key: int, buckets: int) -> Destination:
        ordinal, slot = divmod(key, buckets + 1)
        if slot == 0 and self.insert_statement_id is not None:
            name = delta_name(self.write_id, self.write_id, self.insert_statement_id)
        else:
            name = delete_delta_name(self.write_id, self.write_id, self.delete_statement_id)
        partition = self.table.snapshot.partitions[ordinal]
        return Destination(partition.name, partition.values, name)


def expression_types(rows: DataFrame, expressions: Sequence[str]) -> list[T.DataType]:
    """The types of expressions over ``rows``, in one look at the plan."""
    probe = rows.select(*[F.expr(e).alias(f"e{i}") for i, e in enumerate(expressions)])
    return [field.dataType for field in probe.schema.fields]


def bucket_index(bucket: Column, buckets: Sequence[int]) -> Column:
    """Position of a bucket number among those of the table; usually they are 0, 1, 2 … and it is the number."""
    if list(buckets) == list(range(len(buckets))):
        return bucket
    return (F.array_position(F.array(*[F.lit(b) for b in buckets]), bucket) - F.lit(1)).cast("int")
