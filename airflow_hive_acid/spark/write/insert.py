"""INSERT: the rows of a query as a delta, or as a new base for INSERT OVERWRITE.

No shuffle: each task writes what it reads, as the bucket of its own number; only rows of a bucketed table go to the
task of their bucket first. With dynamic partitions each task sorts its rows by partition first and numbers them
afterwards, so numbers have gaps per partition, which the format allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError
from airflow_hive_acid.format.names import base_name, delta_name
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION, partition_name
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.events import insert_event, row_of
from airflow_hive_acid.spark.failures import fail
from airflow_hive_acid.spark.parsed_texts import rows_of
from airflow_hive_acid.spark.write.assignment import assign_all, assigned
from airflow_hive_acid.spark.write.bucketing import Buckets, buckets_of, spread
from airflow_hive_acid.spark.write.output import Destination, start_directory, write_events
from airflow_hive_acid.spark.write.sink import FinalNames, sink_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import Insert, TableSnapshot, WrittenDirectory
    from airflow_hive_acid.spark.write.output import Staging

FEW_ROWS = 10_000
_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def insert(
    spark: SparkSession, step: Insert, staging: Staging, given: DataFrame | None = None
) -> list[WrittenDirectory]:
    """Run an INSERT.

    :param given: the rows instead of the query's, of a session with our settings; columns have the target's names.
    :return: the directories written: none for an insert of no rows, an empty base for an overwrite with no rows
        (unless the partitions are dynamic: then no partition is touched).
    """
    columns, partition_columns, static, dynamic, rows = prepared(spark, step, given)
    name = base_name(step.write_id) if step.overwrite else delta_name(step.write_id, step.write_id, step.statement_id)
    buckets = buckets_of(step.target)
    writer = InsertWriter(step.write_id, step.statement_id, name, columns, partition_columns, static, buckets)
    # Of rows that are given nobody knows how many there are before they are computed; looking would cost a plan.
    rows = in_one_file_if_small(rows) if given is None else rows
    written = writer.write(rows, staging, step.target.properties, bucket_offset=step.bucket_offset)
    if not written and step.overwrite and not dynamic:
        written = [start_directory(staging, writer.destination(()))]
    return written


class Prepared(NamedTuple):
    """An insert whose rows are of the table's types.

    :param static: values of the partition columns that are the same for all rows; ``dynamic`` are the others.
    :param rows: data columns and dynamic partition columns by name, in any order.
    """

    columns: tuple[schema.TableColumn, ...]
    partition_columns: tuple[schema.TableColumn, ...]
    static: dict[str, str]
    dynamic: list[schema.TableColumn]
    rows: DataFrame


def prepared(spark: SparkSession, step: Insert, given_rows: DataFrame | None = None) -> Prepared:
    """Run the query of an insert, unless its rows are given, and convert its columns."""
    table = step.target.table
    columns = schema.table_columns(step.target.columns, table)
    partition_columns = schema.table_columns(step.target.partition_columns, table)
    static = _static_values(step, partition_columns)
    dynamic = [c for c in partition_columns if c.name not in static]
    filled = _filled_columns(step, columns, dynamic)
    source = rows_of(spark, step.query) if given_rows is None else given_rows
    given = {c.name for c in filled}
    missing = [without_value(source, c, table) for c in columns if c.name not in given]
    rows = assign_all(source, filled, table, more=missing, by_name=given_rows is not None)
    return Prepared(columns, partition_columns, static, dynamic, checked(rows, step.target))


def partition_of(
    columns: Sequence[schema.TableColumn], static: dict[str, str], dynamic_values: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """Name and values of the partition of rows with these values in the dynamic partition columns."""
    remaining = iter(dynamic_values)
    values = tuple(static[c.name] if c.name in static else next(remaining) for c in columns)
    names = [c.name for c in columns]
    return partition_name(zip(names, values, strict=True)) if names else "", values


def in_one_file_if_small(rows: DataFrame) -> DataFrame:
    """Let one task write what is known to be little: INSERT … VALUES should not make a file per core."""
    most = rows._jdf.queryExecution().optimizedPlan().maxRows()
    return rows.coalesce(1) if most.isDefined() and int(str(most.get())) <= FEW_ROWS else rows


class InsertWriter:
    """Writes rows that are already of the table's types into new directories of one name.

    :param static: values of the partition columns that are the same for all rows.
    :param buckets: where rows have to lie in a bucketed table.
    """

    def __init__(
        self,
        write_id: int,
        statement_id: int,
        name: str,
        columns: Sequence[schema.TableColumn],
        partition_columns: Sequence[schema.TableColumn],
        static: dict[str, str],
        buckets: Buckets | None = None,
    ) -> None:
        self._write_id = write_id
        self._statement_id = statement_id
        self._name = name
        self._columns = columns
        self._partition_columns = partition_columns
        self._static = static
        self._buckets = buckets

    def destination(self, dynamic_values: tuple[str, ...]) -> Destination:
        """The directory for rows with these values in the dynamic partition columns."""
        partition, values = partition_of(self._partition_columns, self._static, dynamic_values)
        return Destination(partition, values, self._name)

    def write(
        self,
        rows: DataFrame,
        staging: Staging,
        properties: dict[str, str],
        label: str = "write_1",
        bucket_offset: int = 0,
    ) -> list[WrittenDirectory]:
        """Write the rows.

        :param rows: data columns and dynamic partition columns by name, in any order.
        :param bucket_offset: first bucket number to use, where others are taken.
        """
        dynamic = [c for c in self._partition_columns if c.name not in self._static]
        rows = spread(rows, self._buckets, bucket_offset)
        keys = [f"{schema.INTERNAL_PREFIX}p{i}" for i in range(len(dynamic))]
        if keys:
            texts = [f"{partition_text(c)} as {key}" for c, key in zip(dynamic, keys, strict=True)]
            rows = rows.selectExpr("*", *texts).sortWithinPartitions(*keys)
        sink = sink_for(rows.sparkSession, self._columns, properties)
        if sink is not None:
            flat = rows.selectExpr(*[schema.quoted(c.name) for c in self._columns], *keys)
            ids = {"writeId": self._write_id, "statementId": self._statement_id, "offset": bucket_offset}
            columns = tuple(c.name for c in self._partition_columns)
            names = FinalNames(columns, tuple(map(self._static.get, columns)), self._name)
            return sink.write_inserts(staging, flat, keys, self.destination, label, names, **ids)
        # The last projection before the write: see events.py.
        row = row_of((c.name, schema.quoted(c.name)) for c in self._columns)
        event = insert_event(row, self._write_id, self._statement_id, bucket_offset=bucket_offset)
        return write_events(staging, rows.selectExpr(*event, *keys), keys, self.destination, properties, label)


def partition_text(column: schema.TableColumn) -> str:
    """A partition value the way Hive spells it in names and in the catalog; never NULL."""
    text = f"cast({schema.quoted(column.name)} as string)"
    if isinstance(column.type, T.DecimalType):
        # Hive's decimals have no trailing zeros.
        text = f"if(contains({text}, '.'), rtrim('.', rtrim('0', {text})), {text})"
    if column.is_char:
        # Hive's names have a char with its blanks.
        text = f"rpad(nullif(rtrim({text}), ''), {column.length}, ' ')"
    return f"coalesce(nullif({text}, ''), {schema.sql_text(DEFAULT_PARTITION)})"


def null_as(column: schema.TableColumn) -> str:
    """A column without values."""
    return f"cast(null as {schema.sql_type(column.type)}) as {schema.quoted(column.name)}"


def without_value(rows: DataFrame, column: schema.TableColumn, table: str) -> str:
    """A column that a statement gives no value: its DEFAULT, or NULL."""
    if column.default is None:
        return null_as(column)
    return f"{default_of(rows, column, table)} as {schema.quoted(column.name)}"


def default_of(rows: DataFrame, column: schema.TableColumn, table: str) -> str:
    """The DEFAULT of a column, as the column stores it."""
    value = f"({column.default})"
    kind = rows.sparkSession.range(0).selectExpr(f"{value} as value").schema["value"].dataType
    return assigned(value, kind, column, table)


def checked(rows: DataFrame, table: TableSnapshot, when: str = "true", told: str | None = None) -> DataFrame:
    """The rows of a table under their columns' names; one that does not keep a CHECK ends the job.

    :param when: which of them are new rows of the table.
    :param told: the column that is not given on without a look at the conditions; by default the first one.
    """
    if not table.checks:
        return rows
    column = told or rows.columns[0]
    value = schema.quoted(column)
    for name, condition in sorted(table.checks.items(), reverse=True):
        broken = fail(BadRecordError, f"CHECK constraint violated! {name} of {table.table}: {_one_line(condition)}")
        # A condition that is NULL is kept, as in Hive and in the SQL standard.
        value = f"if(({when}) and not coalesce(({condition}), true), {broken}, {value})"
    # No WHERE: Spark would judge rows before a join, or before a condition of the query, leaves them out.
    others = [value if name == column else schema.quoted(name) for name in rows.columns]
    return rows.selectExpr(*[f"{v} as {schema.quoted(n)}" for v, n in zip(others, rows.columns, strict=True)])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _static_values(step: Insert, partition_columns: Sequence[schema.TableColumn]) -> dict[str, str]:
    known = {c.name: c for c in partition_columns}
    static: dict[str, str] = {}
    for name, value in step.static_partition:
        column = known.get(name.lower())
        if column is None:
            raise InvalidArgumentsError(f"{step.target.table} has no partition column {name}; it has {[*known]}")
        static[column.name] = _static_text(value, column, step.target.table)
    return static


def _static_text(value: str, column: schema.TableColumn, table: str) -> str:
    """``PARTITION (month='01')`` of an int column is month=1, as in Hive."""
    if isinstance(column.type, _INTEGERS) and value != DEFAULT_PARTITION:
        try:
            return str(int(value))
        except ValueError:
            raise InvalidArgumentsError(
                f"partition column {column.name} of {table} is {column.hive_type}; {value!r} is not"
            ) from None
    return value or DEFAULT_PARTITION


def _filled_columns(
    step: Insert, columns: Sequence[schema.TableColumn], dynamic: Sequence[schema.TableColumn]
) -> list[schema.TableColumn]:
    """The columns that the query fills, in the query's order."""
    if not step.columns:
        return [*columns, *dynamic]
    known = {c.name: c for c in (*columns, *dynamic)}
    filled = []
    for name in (n.lower() for n in step.columns):
        if name not in known:
            raise InvalidArgumentsError(
                f"{step.target.table} has no column {name} for the query to fill; it has {', '.join(known)}"
            )
        filled.append(known[name])
    if len({c.name for c in filled}) != len(filled):
        raise InvalidArgumentsError(f"a column is named twice in the column list of the insert: {step.columns}")
    # Partition columns need not be listed: Hive takes them after the listed ones.
    filled.extend(c for c in dynamic if c not in filled)
    return filled
