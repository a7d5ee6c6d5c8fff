"""CREATE TEMPORARY TABLE: files in a staging directory that end with their script, and that only its queries read.

Nothing of it is in the metastore but a txn without locks, whose record names the directory: when the script ends the
directory goes, and when its process dies the reaper takes it with the txn, as it takes all staging. Each INSERT adds a
directory of Parquet files below the table's, which gets its name when it is complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.definitions.ctas import columns_of, with_declared_types
from airflow_hive_acid.engine.definitions.ddl import definition_like, settle_warehouse, warehouse_files
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.engine.queries.query import run_query
from airflow_hive_acid.engine.statements.plans import plan_of, plans_of
from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.jobs import Column, Source
from airflow_hive_acid.metastore.protocol import ddl_transaction
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.plans import ExportTemplate, SelectTemplate
from airflow_hive_acid.sql.model.statements import (
    CreateTemporaryTable,
    Delete,
    DropTable,
    Fragment,
    Insert,
    Merge,
    MultiInsert,
    Select,
    Truncate,
    Update,
)
from airflow_hive_acid.sql.text.quoting import identifier, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.statements import Statement

_FORMAT = "parquet"
_WITH_LENGTH = re.compile(r"(?:char|varchar)\(([0-9]+)\)")


@dataclass(slots=True)
class _TemporaryTable:
    """A temporary table.

    :param reads: the tables that its rows came from.
    :param changed: the one of them that the script itself has changed in an earlier try: what is in it now is not what
        the try that went before had.
    """

    columns: tuple[Column, ...]
    place: str
    hidden: Source | None
    inserts: int = field(default=0)
    reads: set[str] = field(default_factory=set)
    changed: str | None = None


class TemporaryTables:
    """The temporary tables of one script; :meth:`entered` is around it.

    :param context: its views of files are what queries read the tables by.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tables: dict[str, _TemporaryTable] = {}
        self._stack = contextlib.ExitStack()
        self._staging: str | None = None

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Around the script: its temporary tables end with it, however it ends."""
        with self._stack:
            try:
                yield
            finally:
                for name in list(self._tables):
                    self._forget(name)

    def takes(self, statement: Statement) -> bool:
        """Whether a statement makes, changes or names one of them, so that :meth:`run` runs it."""
        if isinstance(statement, CreateTemporaryTable):
            return True
        inserts = statement.inserts if isinstance(statement, MultiInsert) else (statement,)
        return any(self._named_by(each) is not None for each in inserts)

    def require_none(self, statement: Statement) -> None:
        """Refuse what would write one of them inside of a transaction.

        :raises UnsupportedStatementError: naming what can be done.
        """
        if self.takes(statement):
            raise UnsupportedStatementError(
                f"line {statement.line}: a temporary table is no part of a transaction, and a ROLLBACK would not take "
                "its rows back; write it before the BEGIN. It can be read inside"
            )

    @property
    def are_there(self) -> bool:
        """Whether there are any now."""
        return bool(self._tables)

    def changed_before(self, statements: Sequence[Statement], written: Sequence[str]) -> None:
        """An earlier try of the script has applied statements: those that were filled anew from what these changed are
        not what they were.

        :param written: tables that they wrote, beside those that they name.
        """
        inserts = [i for s in statements for i in (s.inserts if isinstance(s, MultiInsert) else (s,))]
        named = [getattr(i, "table", None) for i in inserts]
        changed = {str(table) for table in named if table is not None} | set(written)
        for table in self._tables.values():
            table.changed = table.changed or min(table.reads & changed, default=None)

    def require_kept(self, statement: Statement) -> None:
        """Refuse to go on with rows that are not those that an earlier try has gone on with.

        :raises InvalidArgumentsError: naming what can be done.
        """
        if any(table.changed is not None for table in self._tables.values()):
            for plan in self._plans_of(statement):
                self._read_by(plan)

    def _plans_of(self, statement: Statement) -> list[Plan]:
        query = getattr(statement, "query", None)
        if isinstance(statement, Select | Insert | MultiInsert | Update | Delete | Merge):
            return plans_of(self._context, statement)
        return [plan_of(self._context, Select(query, **statement.origin))] if isinstance(query, Fragment) else []

    def _not_kept(self, name: str, changed: str) -> InvalidArgumentsError:
        return InvalidArgumentsError(
            f"the temporary table {name} was filled from {changed}, which this script has changed in an earlier try: "
            "what it held then is gone, and other rows would be gone on with. Put the statements that belong together "
            "between BEGIN and COMMIT, or use a table that is not temporary"
        )

    def run(self, statement: Statement, patience: Patience | None = None) -> StatementResult:
        """Run a statement about a temporary table.

        :param patience: how long it waits here for the locks of what it reads; by default as long as the settings say.
        :raises UnsupportedStatementError: for what they cannot do.
        """
        name = self._named_by(statement)
        inserted = 0
        match statement:
            case CreateTemporaryTable():
                inserted = self._create(statement, patience)
            case Insert(partition=()) if name is not None:
                inserted = self._insert(self._tables[name], statement, patience)
                self._show(name)
            case Truncate(partition=()) if name is not None:
                self._empty(self._tables[name])
                self._tables[name].reads, self._tables[name].changed = set(), None
                self._none(self._tables[name])
                self._show(name)
            case DropTable() if name is not None:
                self._forget(name)
            case _:
                raise UnsupportedStatementError(
                    f"{statement.kind_text.replace('_', ' ').upper()} of the temporary table "
                    f"{name or 'of this script'}: its rows have no ids, and it is in no catalog. INSERT INTO or "
                    "OVERWRITE, TRUNCATE, SELECT and DROP TABLE are possible; for everything else CREATE TABLE"
                )
        return StatementResult(statement.text, statement.kind_text, inserted=inserted)

    def _named_by(self, statement: Statement) -> str | None:
        """The temporary table that a statement is about: it hides the table of its name in the script's database."""
        table = getattr(statement, "table", None)
        if table is None or table.database != statement.default_database or table.name not in self._tables:
            return None
        return str(table.name)

    def _create(self, statement: CreateTemporaryTable, patience: Patience | None) -> int:
        name = statement.create.table.name
        if name in self._tables:
            if statement.create.if_not_exists:
                return 0
            raise AlreadyExistsError(f"temporary table {name} exists already; DROP TABLE it, or TRUNCATE it")
        create = statement.create
        if create.like is not None:
            create = definition_like(self._context, create)
        columns = tuple(Column(c.name, c.type) for c in (*create.columns, *create.partition_columns))
        query: tuple[Plan, tuple[str, ...]] | None = None
        if create.query is not None:
            plan, found = self._planned(statement, create.query, patience)
            columns = tuple(Column(c.name, c.type) for c in found)
            query = plan, tuple(c.name for c in columns)
        table = _TemporaryTable(columns, "", self._context.views.get(name))
        self._empty(table)
        try:
            inserted = self._none(table) if query is None else self._add(table, *query, patience)
        except BaseException:
            self._delete(table.place)
            raise
        self._tables[name] = table
        self._context.queries.pop(name, None)
        self._show(name)
        return inserted

    def _planned(
        self, statement: Statement, query: Fragment, patience: Patience | None
    ) -> tuple[Plan, Sequence[Column]]:
        """The plan of a query, and its columns."""
        select = Select(query, **statement.origin)
        plan = plan_of(self._context, select)
        looked = with_declared_types(self._context, select, run_query(self._context, plan, limit=0, patience=patience))
        return plan, [Column(c.name, c.type) for c in columns_of(looked)]

    def _insert(self, table: _TemporaryTable, statement: Insert, patience: Patience | None) -> int:
        plan, given = self._planned_insert(statement, patience)
        known = [column.name for column in table.columns]
        filled = tuple(given) if statement.by_name else statement.columns or tuple(known)
        unknown = [name for name in filled if name not in known]
        if unknown:
            raise InvalidArgumentsError(f"{statement.table.name} has no column {unknown[0]}; it has {', '.join(known)}")
        if len(given) != len(filled):
            raise InvalidArgumentsError(
                f"the query gives {len(given)} columns, but the temporary table {statement.table.name} takes "
                f"{len(filled)}: {', '.join(filled)}"
            )
        if not statement.overwrite:
            return self._add(table, plan, filled, patience)
        # Beside what is there, which the query may read.
        new = dataclasses.replace(table, reads=set())
        self._empty(new, delete=False)
        inserted = self._add(new, plan, filled, patience)
        self._delete(table.place)
        table.place, table.inserts, table.reads, table.changed = new.place, new.inserts, new.reads, None
        return inserted

    def _planned_insert(self, statement: Insert, patience: Patience | None) -> tuple[Plan, list[str]]:
        plan = plan_of(self._context, Select(statement.query, **statement.origin))
        result = run_query(self._context, plan, limit=0, patience=patience)
        if result.rows is None:
            raise AssertionError("a query without columns")
        return plan, [column.name.lower() for column in result.rows.columns]

    def _add(
        self, table: _TemporaryTable, plan: Plan, filled: tuple[str, ...], patience: Patience | None = None
    ) -> int:
        """Write the rows of a query into a directory of their own.

        :param filled: the columns that the query fills, in its order.
        """
        if not isinstance(plan.template, SelectTemplate):
            raise AssertionError("a select without its template")
        table.reads |= self._read_by(plan)
        names = [f"c{number}" for number in range(len(filled))]
        values = dict(zip(filled, names, strict=True))
        wanted = ", ".join(
            f"{_assigned(values.get(column.name, 'NULL'), column)} AS {identifier(column.name)}"
            for column in table.columns
        )
        query = f"SELECT {wanted} FROM ({plan.template.query}) AS q({', '.join(names)})"  # noqa: S608 - the user's query
        table.inserts += 1
        written = paths.join(table.place, f"_{table.inserts}")
        template = ExportTemplate(query, written, _FORMAT, {}, ())
        result = run_query(self._context, dataclasses.replace(plan, template=template), patience=patience)
        if result.rows is None:
            raise AssertionError("an export without an answer")
        self._context.filesystem.rename_directory(written, paths.join(table.place, str(table.inserts)))
        return int(result.rows.rows[0][0])

    def _read_by(self, plan: Plan) -> set[str]:
        """The tables whose rows a query reads, over other temporary tables, too.

        :raises InvalidArgumentsError: for a temporary table that is not what it was in an earlier try.
        """
        found = {read.table for read in plan.reads}
        for source in plan.sources:
            other = self._tables.get(source.name)
            if other is not None and other.changed is not None:
                raise self._not_kept(source.name, other.changed)
            found |= set() if other is None else other.reads
        return found

    def _none(self, table: _TemporaryTable) -> int:
        """Files without rows: where there are none, Spark does not know the columns."""
        (select,) = parse_script(f"SELECT {', '.join('NULL' for _ in table.columns)} LIMIT 0")
        if not isinstance(select, Select):
            raise AssertionError("no query")
        return self._add(table, plan_of(self._context, select), tuple(column.name for column in table.columns))

    def _empty(self, table: _TemporaryTable, *, delete: bool = True) -> None:
        """Give it a new directory."""
        before, table.place = table.place, paths.join(self._lent(), uuid.uuid4().hex)
        self._context.filesystem.make_directory(table.place)
        if before and delete:
            self._delete(before)

    def _lent(self) -> str:
        """The directory in which all of them lie; lent until the script ends, however it ends."""
        if self._staging is None:
            context = self._context
            settle_warehouse(context)
            database = context.client.catalog.get_database("default")
            ddl = self._stack.enter_context(ddl_transaction(context.client, (), agent_info=context.agent_info))
            lent = warehouse_files(context).lending(ddl, database.name, database.managed_location)
            self._staging = self._stack.enter_context(lent)
        return self._staging

    def _show(self, name: str) -> None:
        """Let queries read it as it is now."""
        table = self._tables[name]
        options = {"path": table.place, "recursiveFileLookup": "true"}
        self._context.views[name] = Source(name, _FORMAT, options, table.columns)

    def _forget(self, name: str) -> None:
        table = self._tables.pop(name)
        if table.hidden is not None:
            self._context.views[name] = table.hidden
        else:
            self._context.views.pop(name, None)
        self._delete(table.place)

    def _delete(self, place: str) -> None:
        if self._staging is not None:
            self._context.filesystem.delete(place, inside=self._staging)


def _assigned(value: str, column: Column) -> str:
    """A value as the column stores it. What is too long is refused, as by other tables: each query would fail later."""
    found = _WITH_LENGTH.fullmatch(column.type)
    if found is None:
        return f"CAST({value} AS {column.type})"
    text = f"CAST({value} AS STRING)"
    before = quoted(f"[hive-acid BadRecordError] column {column.name} of the temporary table: the value '")
    behind = quoted(
        f"' is longer than {found[1]} characters; cut it, or CAST the column AS STRING in the query that makes the "
        "table [end hive-acid]"
    )
    refused = f"raise_error(concat({before}, substring({text}, 1, 100), {behind}))"
    return f"IF(length(rtrim({text})) > {found[1]}, {refused}, substring({text}, 1, {found[1]}))"
