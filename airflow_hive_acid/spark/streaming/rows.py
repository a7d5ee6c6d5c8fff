"""The rows of a micro-batch: one per key for an upsert, and those that do not fit found and named.

Whether a value fits is decided while rows are written, at no cost where types agree. Only when one did not is the
micro-batch looked at a second time, for the rows that do not.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError
from airflow_hive_acid.format.jobs import MergeClause
from airflow_hive_acid.format.streams import DELETED
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import Shown, fail
from airflow_hive_acid.spark.write.assignment import assigned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from airflow_hive_acid.format.jobs import Merge
    from airflow_hive_acid.spark.schema import TableColumn

_NUMBER = f"{schema.INTERNAL_PREFIX}number"
_PROBLEM = f"{schema.INTERNAL_PREFIX}problem"
_COMPLEX = (T.ArrayType, T.MapType, T.StructType)
_STRINGS = (T.StringType, T.CharType, T.VarcharType)
_LONGEST = 2000


def keys_as_stored(rows: DataFrame, columns: Sequence[TableColumn], keys: Sequence[str], table: str) -> DataFrame:
    """The rows with their keys as the table would store them: ``'01'`` and ``'1'`` are one key where it is an int.

    A value that is none is a bad record, as it is in other columns.

    :param columns: those of the table.
    """
    wanted = {c.name: c for c in columns if c.name in {key.lower() for key in keys}}
    fields, values = rows.schema.fields, [schema.quoted(name) for name in rows.columns]
    for i, field in enumerate(fields):
        column = wanted.get(field.name.lower())
        if column is not None and field.dataType != column.type:
            values[i] = f"{assigned(values[i], field.dataType, column, table)} as {values[i]}"
    return rows.selectExpr(*values)


def one_per_key(rows: DataFrame, keys: Sequence[str], latest_by: str | None, stream: str) -> DataFrame:
    """For an upsert: of the rows with the same keys the latest one, or an error without an order among them.

    A key that is NULL is a bad record: no row is ever found by it, so it would neither change nor delete one.

    :raises InvalidArgumentsError: when ``latest_by`` is no column.
    """
    columns = {name.lower(): name for name in rows.columns}
    names = [schema.quoted(columns.get(key.lower(), key)) for key in keys]
    over, unknown = ", ".join(names), " or ".join(f"{name} is null" for name in names)
    no_key = fail(BadRecordError, f"stream {stream} has a row with a NULL in its keys {', '.join(keys)}")
    rows = rows.where(f"if({unknown}, {no_key}, true)")
    if latest_by is not None:
        if latest_by.lower() not in columns:
            raise InvalidArgumentsError(
                f"latest_by of stream {stream} names {latest_by}; its columns are {', '.join(rows.columns)}"
            )
        order = schema.quoted(columns[latest_by.lower()])
        ranked = rows.selectExpr("*", f"row_number() over (partition by {over} order by {order} desc) as {_NUMBER}")
        return ranked.where(f"{_NUMBER} = 1").drop(_NUMBER)
    several = fail(
        InvalidArgumentsError,
        f"stream {stream} has several rows with {', '.join(keys)} = (",
        Shown(f"concat_ws(', ', {over})"),
        ") in one micro-batch; say latest_by=<column> for the one that counts",
    )
    counted = rows.selectExpr("*", f"count(1) over (partition by {over}) as {_NUMBER}")
    return counted.where(f"if({_NUMBER} > 1, {several}, true)").drop(_NUMBER)


def without_moves(step: Merge, rows: DataFrame, keys: Sequence[str], stream: str) -> Merge:
    """The MERGE of an upsert that ends with an error where a row would have to move to another partition.

    An update changes no partition columns; without the error the row would stay where it is and that change be lost.

    :param rows: those of the micro-batch.
    """
    given = {field.name.lower(): field.dataType for field in rows.schema.fields}
    wanted = {key.lower() for key in keys}
    target, source = step.target_alias, step.source_alias
    staying = []
    for column in schema.table_columns(step.target.partition_columns, step.target.table):
        if column.name not in wanted and column.name in given:
            value = schema.quoted(source, column.name)
            if given[column.name] != column.type:
                value = assigned(value, given[column.name], column, step.target.table)
            staying.append((column.name, f"{schema.quoted(target, column.name)} <=> {value}"))
    if not staying:
        return step
    moved = fail(
        InvalidArgumentsError,
        f"stream {stream}: the row with {', '.join(keys)} = (",
        Shown(f"concat_ws(', ', {', '.join(schema.quoted(source, key.lower()) for key in keys)})"),
        f") is in another partition ({', '.join(name for name, _ in staying)}) than the stream says, and an upsert "
        "moves no rows; partition the table by what never changes, or name the partition columns among the keys",
    )
    # A clause that takes no row; behind the one of rows that delete, of which only the keys are looked at.
    check = MergeClause("delete", True, f"if({' and '.join(same for _, same in staying)}, false, {moved})")
    deletes = sum(clause.action == "delete" for clause in step.clauses)
    return replace(step, clauses=(*step.clauses[:deletes], check, *step.clauses[deletes:]))


class Misfits(NamedTuple):
    """Finds rows that do not fit their table.

    :param problem: SQL that says of a row what is wrong with it; NULL for a row that fits.
    """

    problem: str
    stream: str
    batch: int

    @classmethod
    def of(
        cls, rows: DataFrame, columns: Sequence[TableColumn], keys: Sequence[str], stream: str, batch: int
    ) -> Misfits:
        """For these columns of a table; of a row that deletes only the keys are looked at."""
        given = {field.name.lower(): field for field in rows.schema.fields}
        of_key: dict[bool, list[str]] = {True: [], False: []}
        for column in columns:
            is_key = column.name in {key.lower() for key in keys}
            case = _case(given[column.name], column, is_key) if column.name in given else None
            of_key[is_key] += [] if case is None else [case]
        of_keys, of_others = _first(of_key[True]), _first(of_key[False])
        if DELETED in given:
            of_others = f"if({DELETED}, null, {of_others})"
        return cls(f"coalesce({of_keys}, {of_others})", stream, batch)

    def fitting(self, rows: DataFrame) -> DataFrame:
        """The others."""
        return rows.where(f"({self.problem}) is null")

    def named(self, rows: DataFrame, found: BadRecordError) -> BadRecordError:
        """The error that shows the first such row."""
        first = self._bad(rows).limit(1).collect()
        if not first:
            return found
        return BadRecordError(
            f"micro-batch {self.batch} of stream {self.stream}: {first[0]['problem']}; the row is "
            f"{first[0]['row'][:_LONGEST]}. Nothing of the micro-batch was written; correct the source, or say "
            "on_bad_record='quarantine' to set such rows aside"
        )

    def set_aside(self, rows: DataFrame, directory: str) -> int:
        """Write such rows as JSON lines, in a directory of this micro-batch that a repetition replaces.

        :return: their number.
        """
        name = hashlib.sha256(self.stream.encode()).hexdigest()[:16]
        place = f"{directory.rstrip('/')}/{name}/batch-{self.batch:09d}"
        bad = self._bad(rows).selectExpr("problem", "row").coalesce(1)
        bad.write.mode("overwrite").json(place)
        return int(rows.sparkSession.read.schema("problem string, row string").json(place).count())

    def _bad(self, rows: DataFrame) -> DataFrame:
        own = ", ".join(schema.quoted(name) for name in rows.columns if name != DELETED)
        told = rows.selectExpr(f"{self.problem} as {_PROBLEM}", f"to_json(struct({own})) as row")
        return told.where(f"{_PROBLEM} is not null").withColumnRenamed(_PROBLEM, "problem")


def _first(cases: Sequence[str]) -> str:
    """What the first branch that applies says, NULL when none does."""
    return f"case {' '.join(cases)} end" if cases else "cast(null as string)"


def _case(field: T.StructField, column: TableColumn, is_key: bool) -> str | None:
    """The branch for a column, None when every value fits."""
    value, terms = schema.quoted(field.name), []
    if column.required or is_key:
        terms.append(
            f"when {value} is null then {_told(column, 'takes no NULL' if not is_key else 'is a key and NULL')}"
        )
    if isinstance(field.dataType, _COMPLEX) or isinstance(column.type, _COMPLEX):
        return terms[0] if terms else None
    shown = f"coalesce(substring(cast({value} as string), 1, 100), 'NULL')"
    if not (
        field.dataType == column.type
        or (isinstance(field.dataType, _STRINGS) and isinstance(column.type, T.StringType))
    ):
        cast = f"try_cast({value} as {schema.sql_type(column.type)})"
        terms.append(
            f"when {value} is not null and {cast} is null then {_told(column, f'is no {column.hive_type}', shown)}"
        )
    if column.length is not None:
        told = _told(column, f"is longer than {column.length} characters", shown)
        terms.append(f"when length(rtrim(cast({value} as string))) > {column.length} then {told}")
    return " ".join(terms) or None


def _told(column: TableColumn, complaint: str, shown: str | None = None) -> str:
    if shown is None:
        return schema.sql_text(f"column {column.name} {complaint}")
    return (
        f"concat({schema.sql_text(f'column {column.name}: the value ')}, {shown}, {schema.sql_text(f' {complaint}')})"
    )
