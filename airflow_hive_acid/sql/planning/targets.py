"""What may be done to the table a statement changes; refusals in Hive's words where Hive has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.metastore.catalog import check_partition_value
from airflow_hive_acid.metastore.names import as_stored, insertable_value
from airflow_hive_acid.sql.model.origins import Fragment
from airflow_hive_acid.sql.planning.columns import column_names, no_such_column
from airflow_hive_acid.sql.text.quoting import identifier
from airflow_hive_acid.sql.text.source import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.sql.model.plans import TableFacts
    from airflow_hive_acid.sql.model.statements import DataStatement, Insert, Merge, MergeWhen, Origin

Assignments = tuple[tuple[str, "Fragment"], ...]
Partition = tuple[tuple[str, str], ...]


def require_changeable(statement: DataStatement, facts: TableFacts) -> None:
    """Refuse UPDATE, DELETE and MERGE of a table without row ids, in Hive's words."""
    if not facts.is_transactional:
        raise _refused(
            statement,
            f"Attempt to do update or delete on table {facts.qualified_name} that is not transactional; "
            "create it with TBLPROPERTIES ('transactional'='true')",
        )
    if facts.is_insert_only:
        raise _refused(
            statement,
            f"Attempt to do update or delete on table {facts.qualified_name} that is insert-only transactional; "
            "create it without transactional_properties=insert_only",
        )


def check_assigned(statement: DataStatement, facts: TableFacts, column: str, value: Fragment) -> None:
    """Refuse SET of a column that is not there or that decides in which bucket a row lies."""
    if column in {name.lower() for name in facts.bucket_columns}:
        raise UnsupportedStatementError(
            _at(
                statement,
                f"Updating values of bucketing columns is not supported. Column {column} of {facts.qualified_name}; "
                "INSERT the changed row and DELETE the old one",
                *value.span,
            )
        )
    if column not in column_names(facts):
        raise invalid(statement, no_such_column(facts, column), *value.span)


def insert_partition(statement: Insert, facts: TableFacts) -> tuple[Partition, tuple[str, ...]]:
    """Static values and dynamic columns of an INSERT, the static ones in the order of the table.

    Without a PARTITION clause all partition columns are dynamic, as in Hive.
    """
    names = [column.name for column in facts.partition_columns]
    given = dict(statement.partition)
    if not given:
        return (), tuple(names)
    if not names:
        raise _invalid(statement, f"{facts.qualified_name} is not partitioned; leave PARTITION out")
    if set(given) != set(names):
        missing = [name for name in names if name not in given]
        unknown = [name for name in given if name not in names]
        problem = f"lacks {', '.join(missing)}" if missing else f"names {', '.join(unknown)}"
        raise _invalid(
            statement,
            f"the PARTITION clause {problem}; the partition columns of {facts.qualified_name} are {', '.join(names)}",
        )
    static: list[tuple[str, str]] = []
    for column in facts.partition_columns:
        value = given[column.name]
        if value is None:
            continue
        if value in ("", DEFAULT_PARTITION):
            static.append((column.name, DEFAULT_PARTITION))
            continue
        value = as_stored(column.type, value)  # '01' is 1, as in Hive
        try:
            check_partition_value(f"{column.name} of {facts.qualified_name}", column.type, value)
            # As the rows of a query would have it, or an OVERWRITE would leave theirs beside it.
            value = insertable_value(f"{column.name} of {facts.qualified_name}", column.type, value)
        except InvalidArgumentsError as error:
            raise _invalid(statement, str(error)) from None
        static.append((column.name, value))
    return tuple(static), tuple(name for name, value in statement.partition if value is None)


def by_name(statement: Insert, facts: TableFacts, dynamic: tuple[str, ...], given: Sequence[str] | None) -> Insert:
    """INSERT … BY NAME as an INSERT with the list of the columns that its query gives.

    :param given: names of these columns, None where they cannot be known here.
    """
    if given is None or not all(given):
        raise _invalid(statement, "BY NAME needs a name for each column of the query; list them, each with a name")
    twice = [name for name in given if list(given).count(name) > 1]
    if twice:
        raise _invalid(statement, f"the query of this BY NAME gives two columns called {twice[0]}")
    missing = [name for name in dynamic if name not in given]
    if missing:
        raise _invalid(statement, f"the query gives no value for the partition column {', '.join(missing)}")
    return replace(statement, columns=tuple(given), by_name=False)


def filled_columns(
    statement: Insert, facts: TableFacts, static: Partition, dynamic: tuple[str, ...]
) -> tuple[str, ...]:
    """The columns that the query of an INSERT fills, in its order: those listed, then dynamic partition columns."""
    if not statement.columns:
        return (*(column.name for column in facts.columns), *dynamic)
    for column in statement.columns:
        if column in dict(static):
            raise _invalid(statement, f"{column} has a value in the PARTITION clause; take it out of the column list")
        if column not in column_names(facts):
            raise _invalid(statement, no_such_column(facts, column))
    missing = _unfilled(facts, statement.columns)
    if missing:
        raise _invalid(statement, missing)
    return (*statement.columns, *(column for column in dynamic if column not in statement.columns))


def inserted_columns(statement: Merge, when: MergeWhen, facts: TableFacts) -> Assignments:
    """Columns and values of a WHEN NOT MATCHED clause."""
    names = column_names(facts)
    if when.star is not None:
        return of_source(statement, when.star, facts)
    columns = when.columns or names
    begin, end = when.values[0].span[0], when.values[-1].span[1]
    for column in columns:
        if column not in names:
            raise invalid(statement, no_such_column(facts, column), begin, end)
    if len(columns) != len(when.values):
        raise invalid(
            statement,
            f"INSERT gives {len(when.values)} values, but {facts.qualified_name} has {len(names)} columns: "
            f"{', '.join(names)}",
            begin,
            end,
        )
    for partition_column in facts.partition_columns:
        if partition_column.name not in columns:
            raise invalid(
                statement, f"INSERT gives no value for the partition column {partition_column.name}", begin, end
            )
    missing = _unfilled(facts, columns)
    if missing:
        raise invalid(statement, missing, begin, end)
    return tuple(zip(columns, when.values, strict=True))


def of_source(statement: Merge, star: tuple[int, int], facts: TableFacts) -> Assignments:
    """What ``*`` stands for: each column of the target takes the source's column of its name, as in Spark."""
    place = ((star[0], star[1] + 1),)
    found: list[tuple[str, Fragment]] = []
    for column in column_names(facts):
        text = f"{identifier(statement.source_alias)}.{identifier(column)}"
        found.append((column, Fragment(exp.column(column, table=statement.source_alias), place, text=text)))
    return tuple(found)


def _unfilled(facts: TableFacts, columns: Sequence[str]) -> str | None:
    """What is wrong when a column that takes no NULL gets no value; in Hive's words."""
    missing = [c.name for c in facts.columns if c.required and c.default is None and c.name not in columns]
    if not missing:
        return None
    return (
        f"NOT NULL constraint violated! {', '.join(missing)} of {facts.qualified_name} would be NULL in every new row; "
        "give it a value"
    )


def invalid(statement: Origin, problem: str, begin: int, end: int) -> InvalidArgumentsError:
    """An error at a place of the script."""
    return InvalidArgumentsError(_at(statement, problem, begin, end))


def _invalid(statement: Origin, problem: str) -> InvalidArgumentsError:
    return invalid(statement, problem, *_whole(statement))


def _refused(statement: Origin, problem: str) -> UnsupportedStatementError:
    return UnsupportedStatementError(_at(statement, problem, *_whole(statement)))


def _whole(statement: Origin) -> tuple[int, int]:
    return statement.offset, statement.offset + len(statement.text) - 1


def _at(statement: Origin, problem: str, begin: int, end: int) -> str:
    return describe(statement.script, problem, begin, end)
