"""ANALYZE TABLE: one query counts, under the snapshot of the txn that writes down what it found.

The query is an ordinary one, and so is its job; what is made of its rows is said here, type by type, as Hive's
ColumnStatsSemanticAnalyzer and StatObjectConverter have it.
"""

from __future__ import annotations

import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_hive_acid.engine.outcomes.results import Rows, StatementResult
from airflow_hive_acid.engine.queries.query import run_query
from airflow_hive_acid.engine.statements.plans import plan_of
from airflow_hive_acid.engine.tables.partitions import KnownPartitions
from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError, WarehouseMissingError
from airflow_hive_acid.filesystem.listing import enter, list_many
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.maintenance.warehouse.directories import DirectorySizes, entries
from airflow_hive_acid.metastore.catalog import ColumnStatistics, Counted
from airflow_hive_acid.metastore.names import normal_value
from airflow_hive_acid.metastore.protocol import patiently
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.statements import Select
from airflow_hive_acid.sql.text.quoting import identifier, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.transactions.claims import ToApply
    from airflow_hive_acid.format.jobs import PartitionRef
    from airflow_hive_acid.metastore.catalog import Look, Table
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.statistics import Analyze

_COLUMNS = (
    Column("partition", "string"), Column("rows", "bigint"), Column("files", "bigint"), Column("bytes", "bigint"),
    Column("columns", "string"), Column("exact", "boolean"), Column("reason", "string"),
)  # fmt: skip
_ERROR = 0.02
"""Of the estimates of distinct values: their relative standard deviation."""


def analyze(context: Context, statement: Analyze, claim: ToApply, patience: Patience | None = None) -> StatementResult:
    """Count, and write the statistics down.

    :param patience: how long it waits for its lock here; by default as long as the settings say.
    :return: a row for each partition, or one for the table: what was counted, and whether Hive may answer from it.
    :raises InvalidArgumentsError: for columns and partitions that there are not.
    :raises UnsupportedStatementError: for views, and columns of a type that has no statistics.
    """
    started, name = time.monotonic(), str(statement.table)
    table = context.table(name)
    if table.is_view:
        raise UnsupportedStatementError(f"{name} is a view; analyze the tables that it reads")
    context.locking.require([table])
    columns = _columns(table, statement)
    _check_partition(table, statement)
    if statement.scans:
        context.application.ready()  # nobody should wait for our lock while a JVM starts
    with claim.changing(lambda: StatementResult(statement.text, statement.kind_text)), patiently(patience):
        counted, doubt = context.client.catalog.analyze(
            name,
            lambda look: _count(context, statement, look, columns),
            of_columns=bool(columns),
            agent_info=context.agent_info,
        )
    rows: list[list[Any]] = [
        [
            part or None, one.rows, one.files, one.bytes, ", ".join(c.name for c in one.columns) or None,
            doubt is None if statement.scans else None, doubt if statement.scans else "NOSCAN reads no rows",
        ]
        for part, one in sorted(counted.items())
    ]  # fmt: skip
    return StatementResult(
        statement.text, statement.kind_text, rows=Rows(_COLUMNS, rows), seconds=time.monotonic() - started
    )


def _columns(table: Table, statement: Analyze) -> list[Column]:
    """The columns to count in; those of a type without statistics are left out unless they are named."""
    if statement.columns is None:
        return []
    known = {column.name: column for column in table.columns}
    for name in statement.columns:
        if name not in known:
            raise InvalidArgumentsError(
                f"{table.qualified_name} has no column {name}; it has {', '.join(known)} (statistics of partition "
                "columns are not needed: every partition has one value)"
            )
        if _measure_of(known[name].type) is None:
            raise UnsupportedStatementError(
                f"column {name} of {table.qualified_name} is {known[name].type}; Hive has no statistics of that type"
            )
    wanted = [known[name] for name in statement.columns] or list(known.values())
    return [column for column in wanted if _measure_of(column.type) is not None]


def _check_partition(table: Table, statement: Analyze) -> None:
    names = [column.name for column in table.partition_columns]
    for name, _ in statement.partition:
        if name not in names:
            raise InvalidArgumentsError(
                f"{table.qualified_name} has no partition column {name}; it has {', '.join(names) or 'none'}"
            )


def _count(context: Context, statement: Analyze, look: Look, columns: Sequence[Column]) -> dict[str, Counted]:
    table = look.table
    types = {column.name: column.type for column in table.partition_columns}
    given = {name: normal_value(name, types[name], v) for name, v in statement.partition if v is not None}
    parts = KnownPartitions(context.client.catalog, table).with_values(given)
    if given and not parts:
        raise InvalidArgumentsError(f"{table.qualified_name} has no partition {given}")
    _require_distinct(table, parts)
    sizes = dict(_sizes(context, look, parts))
    if not statement.scans:
        return {name: Counted(files, size) for name, (files, size) in sizes.items()}
    found = _rows(context, look, given, columns) if parts else {}
    empty = [0, *_nothing(columns)]
    counted = {}
    for part in parts:
        row = found.pop(_key(table, part.values), None) or empty
        counted[part.name] = Counted(*sizes[part.name], row[0], tuple(_statistics(columns, row)))
    if found:
        raise InvalidArgumentsError(
            f"{table.qualified_name}: rows of {next(iter(found))} belong to no partition of that name; nothing was "
            "written. Was it dropped just now? Try again"
        )
    return counted


def _require_distinct(table: Table, parts: Sequence[PartitionRef]) -> None:
    """The rows of partitions of the same values cannot be told from each other."""
    seen: dict[tuple[str, ...], str] = {}
    for part in parts:
        other = seen.setdefault(_key(table, part.values), part.name)
        if other != part.name:
            raise InvalidArgumentsError(
                f"{table.qualified_name} has two partitions of the same values, {other!r} and {part.name!r}; no "
                "statistics were written. Rename or drop one of them (ALTER TABLE … PARTITION … RENAME TO PARTITION …)"
            )


def _sizes(context: Context, look: Look, parts: Sequence[PartitionRef]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Files and bytes of what the snapshot sees."""
    listed = list_many(context.filesystem, [part.location for part in parts], descend=enter)
    for part in parts:
        held = listed[part.location]
        if held is None:
            raise WarehouseMissingError(
                f"the directory {part.location} of {look.table.qualified_name} is not there, and the catalog says that "
                "it was not dropped; mount it, or restore what is missing"
            )
        found = entries(held)
        if look.write_ids is None or look.txns is None:
            files = [entry for entry in found if not entry.path.endswith("/")]
            yield part.name, (len(files), sum(entry.size for entry in files))
            continue
        sizes = DirectorySizes.of(acid_state(found, look.write_ids, look.txns))
        yield part.name, (sizes.files, sizes.base_bytes + sizes.delta_bytes)


def _rows(
    context: Context, look: Look, given: Mapping[str, str], columns: Sequence[Column]
) -> dict[tuple[str, ...], list[Any]]:
    """Rows of the query by partition values, without those."""
    keys = [column.name for column in look.table.partition_columns]
    text = query_text(look.table, keys, given, columns)
    (select,) = parse_script(text)
    if not isinstance(select, Select):
        raise AssertionError(f"no query: {text}")
    result = run_query(context, plan_of(context, select), look.document)
    rows = result.rows.rows if result.rows is not None else []
    return {_key(look.table, row[: len(keys)]): row[len(keys) :] for row in rows}


def _key(table: Table, values: Sequence[str | None]) -> tuple[str, ...]:
    """Values of partition columns in one spelling."""
    return tuple(
        normal_value(column.name, column.type, DEFAULT_PARTITION if value is None else value)
        for column, value in zip(table.partition_columns, values, strict=True)
    )


def query_text(table: Table, keys: Sequence[str], given: Mapping[str, str], columns: Sequence[Column]) -> str:
    """The query that counts: partition values, rows, and what is measured in each column."""
    wanted = [f"CAST({identifier(key)} AS STRING)" for key in keys]
    wanted.append("count(*)")
    for column in columns:
        measure = _measure_of(column.type)
        if measure is not None:
            wanted += [text.format(c=identifier(column.name)) for text in measure.texts]
    named = ", ".join(f"{text} AS c{number}" for number, text in enumerate(wanted))
    conditions = [
        f"{identifier(key)} IS NULL" if value == DEFAULT_PARTITION else f"{identifier(key)} = {quoted(value)}"
        for key, value in given.items()
    ]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    group = f" GROUP BY {', '.join(identifier(key) for key in keys)}" if keys else ""
    return f"SELECT {named} FROM {identifier(table.db)}.{identifier(table.name)}{where}{group}"  # noqa: S608


class _Measure(NamedTuple):
    """What is asked of a column, and what is made of the answers.

    :param texts: expressions, ``{c}`` stands for the column; the first counts its values.
    :param fields: fields of :class:`ColumnStatistics` of the answers, but for the number of nulls.
    """

    texts: tuple[str, ...]
    fields: Callable[..., dict[str, Any]]


_DISTINCT = f"approx_count_distinct({{c}}, {_ERROR})"


def _ordered(text: str, read: Callable[[Any], Any] = lambda value: value) -> _Measure:
    """A type whose values are ordered; ``text`` makes what is stored of the least and the greatest."""
    low, high = text.format("min({c})"), text.format("max({c})")

    def fields(distinct: int, low: Any, high: Any) -> dict[str, Any]:
        return {
            "distinct": distinct,
            "low": None if low is None else read(low),
            "high": None if high is None else read(high),
        }

    return _Measure(("count({c})", _DISTINCT, low, high), fields)


def _fields_of_fractions(distinct: int, low: float | None, high: float | None, nan: int | None) -> dict[str, Any]:
    # Whether NaN is the greatest is seen differently in different places.
    bounds = {"low": None if low is None else float(low), "high": None if high is None else float(high)}
    return {"distinct": distinct, **bounds, "exact": not nan}


def _fields_of_texts(distinct: int, mean: float | None, most: int | None) -> dict[str, Any]:
    return {"distinct": distinct, "mean_length": float(mean or 0), "most_length": most or 0}


def _fields_of_booleans(trues: int | None, falses: int | None) -> dict[str, Any]:
    return {"trues": trues or 0, "falses": falses or 0}


def _fields_of_bytes(mean: float | None, most: int | None) -> dict[str, Any]:
    return {"mean_length": float(mean or 0), "most_length": most or 0}


def _without_zeros(value: str) -> str:
    """As a HiveDecimal writes itself."""
    text = f"{Decimal(value):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_NUMBER = "CASE WHEN isnan({c}) THEN NULL ELSE {c} END"
_MEAN, _MOST = "avg(coalesce(length({c}), 0))", "max(length({c}))"
_WHOLE = _ordered("CAST({} AS BIGINT)")
_FRACTION = _Measure(
    (
        "count({c})", _DISTINCT, f"CAST(min({_NUMBER}) AS DOUBLE)", f"CAST(max({_NUMBER}) AS DOUBLE)",
        "sum(CASE WHEN isnan({c}) THEN 1 ELSE 0 END)",
    ),
    _fields_of_fractions,
)  # fmt: skip
_TEXT = _Measure(("count({c})", _DISTINCT, _MEAN, _MOST), _fields_of_texts)
_MEASURES = {
    "tinyint": _WHOLE,
    "smallint": _WHOLE,
    "int": _WHOLE,
    "bigint": _WHOLE,
    "float": _FRACTION,
    "double": _FRACTION,
    "decimal": _ordered("CAST({} AS STRING)", _without_zeros),
    "date": _ordered("datediff({}, DATE '1970-01-01')"),
    # Seconds of what a clock shows there; a timestamp of Hive's has no zone.
    "timestamp": _ordered("unix_seconds(from_utc_timestamp({}, current_timezone()))"),
    "string": _TEXT,
    "varchar": _TEXT,
    "char": _TEXT,
    "boolean": _Measure(
        (
            "count({c})", "sum(CASE WHEN {c} THEN 1 ELSE 0 END)", "sum(CASE WHEN NOT {c} THEN 1 ELSE 0 END)",
        ),
        _fields_of_booleans,
    ),
    "binary": _Measure(("count({c})", _MEAN, _MOST), _fields_of_bytes),
}  # fmt: skip


def _measure_of(type_text: str) -> _Measure | None:
    """None for nested types, of which Hive keeps nothing."""
    return _MEASURES.get(type_text.partition("(")[0])


def _statistics(columns: Sequence[Column], row: Sequence[Any]) -> Iterator[ColumnStatistics]:
    """Of the columns, from a row of the query: the number of rows, then the answers of each column."""
    rows, rest = row[0], list(row[1:])
    for column in columns:
        measure = _measure_of(column.type)
        if measure is None:
            continue
        (values, *answers), rest = rest[: len(measure.texts)], rest[len(measure.texts) :]
        yield ColumnStatistics(column.name, column.type, rows - values, **measure.fields(*answers))


def _nothing(columns: Sequence[Column]) -> list[Any]:
    """The answers about columns where there are no rows."""
    found: list[Any] = []
    for column in columns:
        measure = _measure_of(column.type)
        if measure is not None:
            found += [0 if text.startswith(("count", "approx")) else None for text in measure.texts]
    return found
