"""A table of another format becomes one of ours, in one commit, however often it is tried.

The rows are those of one version of the source, which is chosen once and kept as a property of the table. Files of
plain ORC can stay where they are: the table lies around them then, and Hive reads them as its original files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from airflow_hive_acid.engine.definitions.ctas import hive_type
from airflow_hive_acid.engine.queries.query import run_query
from airflow_hive_acid.engine.statements.plans import plan_of
from airflow_hive_acid.engine.statements.replacement import make_table
from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError
from airflow_hive_acid.format.jobs import Source
from airflow_hive_acid.format.mirrors.foreign_tables import (
    DELTA_LOG,
    IMPORTED_FROM,
    IMPORTED_VERSION,
    ForeignTable,
    newest_delta_version,
    require_plain,
)
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.parsing.builders import literal, quoted_column, quoted_table, table_name
from airflow_hive_acid.sql.text.quoting import identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.outcomes.results import StatementResult
    from airflow_hive_acid.engine.transactions.claims import ToApply
    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.statements import CreateTable, Select


@dataclass(frozen=True, slots=True)
class TableImport:
    """What is asked for.

    :param table: ``[db.]table`` to make.
    :param version: of the source; by default the newest.
    :param partition_by: columns of the source that the table is partitioned by.
    :param columns: names in the table by name in the source, where they differ.
    :param properties: more table properties.
    :param replace: whether a table of that name that is there becomes this one.
    :param reuse_files: leave plain ORC files where they are; the table lies there and owns them.
    """

    source: ForeignTable
    table: str
    version: str | None = None
    partition_by: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    replace: bool = False
    reuse_files: bool = False

    @classmethod
    def of(
        cls,
        source: object,
        table: str,
        *,
        version: object = None,
        partition_by: Sequence[str] | str = (),
        columns: Mapping[str, str] | None = None,
        properties: Mapping[str, object] | None = None,
        replace: bool = False,
        reuse_files: bool = False,
    ) -> TableImport:
        """The same from arguments that nobody has checked.

        :raises InvalidArgumentsError: naming the argument that is wrong.
        """
        found = ForeignTable.parse(source)
        keys = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        given = {str(key): str(value) for key, value in (properties or {}).items()}
        if reuse_files and found.format != "orc":
            raise InvalidArgumentsError(f"reuse_files: only files of plain ORC can stay as they are, not {found}")
        if reuse_files and (replace or columns):
            what = "replace" if replace else "columns"
            raise InvalidArgumentsError(f"{what}: files that stay as they are make a new table of their own columns")
        return cls(
            found, str(table_name(table)), found.checked_version(version), tuple(keys), dict(columns or {}), given,
            replace, reuse_files,
        )  # fmt: skip

    @property
    def text(self) -> str:
        """What identifies it: the same for all tries, whatever version they find."""
        said = [f"IMPORT {self.source} INTO {self.table}"]
        said += [f"VERSION {self.version}"] if self.version is not None else []
        said += [f"PARTITIONED BY ({', '.join(self.partition_by)})"] if self.partition_by else []
        said += [f"COLUMNS {dict(self.columns)}"] if self.columns else []
        said += [f"TBLPROPERTIES {dict(self.properties)}"] if self.properties else []
        return " ".join([*said, *(["OR REPLACE"] if self.replace else []), *(["REUSE"] if self.reuse_files else [])])

    @property
    def view(self) -> str:
        """Name of the view of the source."""
        return f"foreign_{hashlib.sha256(str(self.source).encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import has made.

    :param wanted: what was asked for.
    :param version: the version of the source that it is a copy of; None where it has none.
    :param rows: how many it got.
    :param results: of the statements that made it.
    """

    wanted: TableImport
    version: str | None
    rows: int
    results: tuple[StatementResult, ...]

    def __str__(self) -> str:
        at = "" if self.version is None else f" at version {self.version}"
        return f"{self.wanted.table} holds {self.rows} rows of {self.wanted.source}{at}"

    def to_document(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "table": self.wanted.table,
            "source": str(self.wanted.source),
            "version": self.version,
            "imported": self.rows,
        }


def statement_of(wanted: TableImport) -> CreateTable:
    """The import as a statement, to be claimed and told by; its columns are not known yet."""
    return _created(wanted, "*", wanted.partition_by)


def bring_in(context: Context, wanted: TableImport, claim: ToApply, patience: Patience | None) -> StatementResult:
    """Make the table.

    :param claim: the claim on it, if it is to be applied once (R14).
    :raises InvalidArgumentsError: for a source that is not there or is another one, for columns that no table can have.
    :raises AlreadyExistsError: when there is such a table.
    """
    there = context.client.catalog.find_tables([wanted.table]).get(wanted.table)
    if there is not None and not wanted.replace:
        before = there.properties.get(IMPORTED_FROM)
        known = f" (imported from {before})" if before else ""
        raise AlreadyExistsError(
            f"table {wanted.table} exists already{known}; drop it, choose another name, or say that it is replaced"
        )
    version = _version(context, wanted)
    context.views[wanted.view] = _source(wanted, version)
    try:
        columns = _columns(context, wanted, patience)
        listed = ", ".join(_selected(column, wanted) for column in columns)
        keys = tuple(name.lower() for name in wanted.partition_by)
        statement = _created(wanted, listed, keys)
        properties = {**wanted.properties, **origin_of(wanted, version)}
        return make_table(context, replace(statement, properties=properties), claim, patience)
    finally:
        context.views.pop(wanted.view, None)


def origin_of(wanted: TableImport, version: str | None) -> dict[str, str]:
    """Properties that say where a table came from."""
    return {IMPORTED_FROM: str(wanted.source)} | ({IMPORTED_VERSION: version} if version is not None else {})


def imported(context: Context, wanted: TableImport, result: StatementResult) -> Imported:
    """What a result means; the version is that of the try that made the table."""
    table = context.client.catalog.get_table(wanted.table)
    return Imported(wanted, table.properties.get(IMPORTED_VERSION), result.inserted, (result,))


def is_adopted(context: Context, wanted: TableImport) -> bool:
    """Whether the table lies around these files already, by an earlier try.

    :raises AlreadyExistsError: when there is another table of that name.
    """
    there = context.client.catalog.find_tables([wanted.table]).get(wanted.table)
    if there is None:
        return False
    if there.properties.get(IMPORTED_FROM) != str(wanted.source):
        raise AlreadyExistsError(f"table {wanted.table} exists already; drop it, or choose another name")
    return there.is_transactional


def adopting(context: Context, wanted: TableImport, patience: Patience | None) -> str:
    """The script that lays a table around files of plain ORC.

    :raises InvalidArgumentsError: for a directory that is not one, or is a table of another format.
    """
    _require_directory(context, wanted.source)
    context.views[wanted.view] = _source(wanted, None)
    try:
        columns = _columns(context, wanted, patience)
    finally:
        context.views.pop(wanted.view, None)
    keys = [name.lower() for name in wanted.partition_by]
    unknown = set(keys) - {column.name.lower() for column in columns}
    if unknown:
        raise InvalidArgumentsError(
            f"partition_by: {wanted.source} has no column {min(unknown)}; it has {', '.join(c.name for c in columns)}"
        )
    typed = {c.name.lower(): f"{identifier(c.name.lower())} {hive_type(c.type)}" for c in columns}
    data = ", ".join(text for name, text in typed.items() if name not in keys)
    partitioned = f" PARTITIONED BY ({', '.join(typed[key] for key in keys)})" if keys else ""
    properties = {**wanted.properties, **origin_of(wanted, None)}
    table = quoted_table(wanted.table)
    script = [
        f"CREATE EXTERNAL TABLE IF NOT EXISTS {table} ({data}){partitioned} STORED AS ORC "
        f"LOCATION {literal(wanted.source.place, 'source')} TBLPROPERTIES ({_pairs(properties)})"
    ]
    script += [f"MSCK REPAIR TABLE {table}"] if keys else []
    script.append(f"ALTER TABLE {table} SET TBLPROPERTIES ({_pairs({'EXTERNAL': 'FALSE', 'transactional': 'true'})})")
    return "; ".join(script)


def adopted(context: Context, wanted: TableImport, results: Sequence[StatementResult]) -> Imported:
    """What is there once the files are a table's; their rows are counted in their footers."""
    (query,) = parse_script(f"SELECT count(*) FROM {quoted_table(wanted.table)}")  # noqa: S608 - checked and quoted
    found = run_query(context, plan_of(context, cast("Select", query)))
    if found.rows is None:
        raise AssertionError("a count without a number")
    return Imported(wanted, None, int(found.rows.rows[0][0]), tuple(results))


def _pairs(properties: Mapping[str, str]) -> str:
    quoted = {literal(key, "properties"): literal(value, "properties") for key, value in properties.items()}
    return ", ".join(f"{key}={value}" for key, value in quoted.items())


def _created(wanted: TableImport, listed: str, keys: Sequence[str]) -> CreateTable:
    partitioned = f" PARTITIONED BY ({', '.join(quoted_column(k, 'partition_by') for k in keys)})" if keys else ""
    made = "CREATE OR REPLACE TABLE" if wanted.replace else "CREATE TABLE"
    query = f"SELECT {listed} FROM {wanted.view}"  # noqa: S608 - names of our own making, or quoted
    text = f"{made} {quoted_table(wanted.table)}{partitioned} STORED AS ORC AS {query}"
    (statement,) = parse_script(text)
    return replace(cast("CreateTable", statement), text=wanted.text)


def _source(wanted: TableImport, version: str | None) -> Source:
    return Source(wanted.view, wanted.source.format, wanted.source.options(version))


def _version(context: Context, wanted: TableImport) -> str | None:
    """The version to read: chosen once, so that columns and rows are of one."""
    source = wanted.source
    if source.format == "iceberg":
        return wanted.version or _newest_snapshot(context, wanted)
    _require_directory(context, source)
    if source.format != "delta":
        return None
    entries = context.filesystem.list_files(f"{source.place}/{DELTA_LOG}")
    newest = newest_delta_version(entry.name for entry in entries)
    if newest is None:
        raise InvalidArgumentsError(f"{source} is no Delta table: its {DELTA_LOG} holds no version")
    return wanted.version or str(newest)


def _newest_snapshot(context: Context, wanted: TableImport) -> str | None:
    """The Iceberg table's snapshot; None for a table that nobody has written."""
    view = f"{wanted.view}_history"
    context.views[view] = Source(view, "iceberg", {"path": f"{wanted.source.place}.history"})
    try:
        (query,) = parse_script(f"SELECT snapshot_id FROM {view} ORDER BY made_current_at DESC LIMIT 1")  # noqa: S608
        found = run_query(context, plan_of(context, cast("Select", query)))
    finally:
        context.views.pop(view, None)
    if found.rows is None:
        raise AssertionError("a query without rows")
    return str(found.rows.rows[0][0]) if found.rows.rows else None


def _require_directory(context: Context, source: ForeignTable) -> None:
    try:
        names = [entry.name for entry in context.filesystem.list_files(source.place)]
    except FileNotFoundError:
        raise InvalidArgumentsError(f"source {source}: there is no such directory") from None
    if source.format == "delta":
        if DELTA_LOG not in names:
            raise InvalidArgumentsError(f"{source} is no Delta table: it holds no {DELTA_LOG}")
        return
    require_plain(source, names)


def _columns(context: Context, wanted: TableImport, patience: Patience | None) -> tuple[Column, ...]:
    """The columns of the source.

    :raises InvalidArgumentsError: for a name that no table of Hive can have, or that comes twice in its writing.
    """
    (query,) = parse_script(f"SELECT * FROM {wanted.view}")  # noqa: S608 - a name of our own making
    found = run_query(context, plan_of(context, cast("Select", query)), limit=0, patience=patience)
    if found.rows is None:
        raise AssertionError("a query without columns")
    columns = tuple(found.rows.columns)
    unknown = sorted(set(wanted.columns) - {column.name for column in columns})
    if unknown:
        raise InvalidArgumentsError(
            f"columns: {wanted.source} has no column {unknown[0]}; it has {', '.join(c.name for c in columns)}"
        )
    taken: dict[str, str] = {}
    for column in columns:
        name = wanted.columns.get(column.name, column.name).lower()
        if not name.isascii() or not name.replace("_", "a").isalnum():
            raise InvalidArgumentsError(
                f"{wanted.source} has a column {column.name!r}, which no Hive table can have: name it otherwise, "
                f"columns={{{column.name!r}: 'another_name'}}"
            )
        if name in taken:
            raise InvalidArgumentsError(
                f"{wanted.source}: the columns {taken[name]!r} and {column.name!r} would both be {name}: name one of "
                "them otherwise with columns"
            )
        taken[name] = column.name
    return columns


def _selected(column: Column, wanted: TableImport) -> str:
    name = wanted.columns.get(column.name, column.name).lower()
    return f"{identifier(column.name)} AS {identifier(name)}"
