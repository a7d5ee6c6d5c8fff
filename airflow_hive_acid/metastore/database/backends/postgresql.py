"""PostgreSQL: batches in one round trip, statements of several writes, and waiters that are called.

Its statements are prepared on the server (:mod:`.pipeline`), a hot verb keeps its connection, and whoever lets
go of locks can tell those who wait.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import func
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles

from airflow_hive_acid.metastore.database.backend import (
    APART,
    APART_WITH_NEXT,
    COMMIT_SENT,
    LOCK_COUNT,
    Backend,
    PairList,
    Result,
    Step,
    server_engine,
)
from airflow_hive_acid.metastore.database.backends import pipeline
from airflow_hive_acid.metastore.database.clock import (
    clock_ms,
    clock_timestamp,
    clock_timestamp_before,
    statement_ms,
)
from airflow_hive_acid.metastore.database.connections import KeptConnections
from airflow_hive_acid.metastore.database.expressions import (
    as_decimal,
    as_whole,
    bytewise,
    halt_if,
    if_number,
    within_ranges,
)
from airflow_hive_acid.metastore.database.layouts import find_layout, layout_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.sql.base import Executable
    from sqlalchemy.sql.selectable import NamedFromClause

    from airflow_hive_acid.metastore.schema.layouts import Layout

_HURRY = "-c statement_timeout=20000"
"""A statement of somebody who is not patient takes no longer than 20 s."""
_LOCK_OPENS_SHARED = sa.text('LOCK TABLE "TXN_LOCK_TBL" IN SHARE MODE')
_LOCK_OPENS_EXCLUSIVE = sa.text('LOCK TABLE "TXN_LOCK_TBL" IN EXCLUSIVE MODE')
_PREFER_INDEXES = sa.text(
    "SELECT set_config(name, CASE name WHEN 'plan_cache_mode' THEN 'force_generic_plan' ELSE 'off' END, false) "
    "FROM pg_settings WHERE name IN ('enable_seqscan', 'jit', 'plan_cache_mode')"
)
"""Without just-in-time compilation as well: before PostgreSQL 18 a table that has to be read as a whole makes a plan so
dear, where ``enable_seqscan`` is off, that a statement of a few rows is compiled each time, in 100 to 500 ms. And by
the plan that is there: of a statement with many parts the server believes that one made for the values would be
cheaper, as soon as the tables have been analysed, and makes one each time, which takes longer than to run it."""
_AS_USUAL = sa.text(
    "SELECT set_config(name, reset_val, false) FROM pg_settings "
    "WHERE name IN ('enable_seqscan', 'jit', 'plan_cache_mode')"
)
LISTEN = sa.text("LISTEN hive_acid_locks")
UNLISTEN = sa.text("UNLISTEN *")
NOT_DURABLE = sa.text("SET LOCAL synchronous_commit = off")
"""Of a transaction whose loss in a crash would do no harm: nobody waits for the disk behind its locks."""
_CLASS = sa.table("pg_class", sa.column("oid"), sa.column("relname"), sa.column("relkind"), sa.column("relnamespace"),
                  schema="pg_catalog")  # fmt: skip
_ATTRIBUTE = sa.table("pg_attribute", sa.column("attrelid"), sa.column("attname"), sa.column("attnum"),
                      sa.column("attisdropped"), schema="pg_catalog")  # fmt: skip
_NAMESPACE = sa.table("pg_namespace", sa.column("oid"), sa.column("nspname"), schema="pg_catalog")
_COLUMNS = (
    sa.select(sa.cast(_CLASS.c.relname, sa.Text), sa.cast(_ATTRIBUTE.c.attname, sa.Text))
    .join_from(_CLASS, _NAMESPACE, _NAMESPACE.c.oid == _CLASS.c.relnamespace)
    .join(_ATTRIBUTE, _ATTRIBUTE.c.attrelid == _CLASS.c.oid)
    .where(
        _NAMESPACE.c.nspname == func.current_schema(), _CLASS.c.relkind.in_(["r", "p"]),
        _ATTRIBUTE.c.attnum > 0, sa.not_(_ATTRIBUTE.c.attisdropped),
    )
)  # fmt: skip
"""Tables, views left out, and their columns. From the catalogs, where everybody sees all: information_schema hides what
the user has no right to, and a table that is hidden is none that is not there."""
_CREATION_UNTIL_COMMIT = sa.select(func.pg_advisory_xact_lock(func.hashtext("hive_acid_schema")))
_DIVISION_BY_ZERO = "22012"
"""SQLSTATE of what :class:`halt_if` raises."""
_COMPILED: dict[tuple[str, Executable], pipeline.ServerStatement] = {}
_TOGETHER: dict[tuple[Executable, ...], Executable] = {}
_BETWEEN = {id(APART): pipeline.Between(), id(APART_WITH_NEXT): pipeline.Between(NOT_DURABLE.text.encode())}
"""What stands between two transactions of a batch; known by identity. WAL is written in order: what commits
without waiting for the disk is there once the transaction behind it is."""
_ANSWER = Step(sa.select(sa.literal(1)))


class _Arrays(PairList):
    """Two arrays, so that a statement for any number of pairs can be prepared."""

    def holds(self, first: Any, second: Any) -> sa.ColumnElement[bool]:
        """See :class:`PairList`."""
        arrays = (sa.cast(sa.bindparam(name, type_=sa.Text), ARRAY(sa.Text)) for name in ("firsts", "seconds"))
        asked = func.unnest(*arrays).table_valued("first", "second").render_derived(name="asked")
        return sa.tuple_(first, second).in_(sa.select(asked.c.first, asked.c.second))

    def parameters(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """See :class:`PairList`."""
        return {"firsts": _array(first for first, _ in pairs), "seconds": _array(second for _, second in pairs)}


def _array(words: Iterable[str]) -> str:
    """PostgreSQL's text form of an array of texts."""
    quoted = (word.replace("\\", "\\\\").replace('"', '\\"') for word in words)
    return "{" + ",".join(f'"{word}"' for word in quoted) + "}"


class PostgresqlBackend(Backend):
    """PostgreSQL."""

    name = "postgresql"
    nulls_first = False
    sorts_by_bytes = False
    indexes_names = True
    compound = True
    one_trip = True
    calls_waiters = True
    pairs = _Arrays()

    def make_engine(self, url: sa.URL, pool_size: int, *, patient: bool) -> Engine:
        """See :class:`Backend`."""
        # No prepared statements of psycopg's own: it deallocates all, ours included, after each rollback.
        arguments: dict[str, Any] = {"application_name": "airflow-hive-acid", "prepare_threshold": None}
        if not patient:
            arguments["options"] = _HURRY
        return server_engine(self, url, pool_size, arguments, patient=patient)

    def kept_connections(self, engine: Engine, most: int) -> KeptConnections:
        """See :class:`Backend`."""
        return KeptConnections(engine, most, _PREFER_INDEXES, _AS_USUAL)

    @contextlib.contextmanager
    def reading(self, connection: Connection) -> Iterator[Connection]:
        """See :class:`Backend`. The driver begins transactions READ ONLY, and afterwards as the server has it.

        Not SQLAlchemy's ``postgresql_readonly``: what it leaves behind is READ WRITE, by which the next write on the
        same connection would pass a database whose ``default_transaction_read_only`` is on.
        """
        with super().reading(connection) as view:
            driver: Any = view.connection.driver_connection
            driver.read_only = True
            try:
                yield view
            finally:
                if not (driver.closed or driver.broken):
                    driver.read_only = None

    def find_layout(self, connection: Connection) -> Layout:
        """See :class:`Backend`."""
        return find_layout(connection, _COLUMNS)

    def by_bytes(self, name: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
        """See :class:`Backend`; as in an index of ours, without which it is a condition like others."""
        return bytewise(name)

    def one_beside(
        self, table: NamedFromClause[Any], belongs: sa.ColumnElement[bool], to: sa.FromClause
    ) -> tuple[sa.FromClause, sa.ColumnElement[bool]]:
        """See :class:`Backend`. Looked up for each row, so that no join has to be planned.

        The server may take a table of many rows for an empty one: it was analysed while who filled it had not committed
        yet. All ways to join cost the same then, and one that reads all of the table for each row was chosen.
        """
        found = sa.select(*table.c).where(belongs).limit(1).correlate(to)
        return found.lateral(table.name), sa.true()

    def open_txn_lock(self, *, exclusive: bool) -> Step:
        """See :class:`Backend`."""
        if self.layout.counts_txns:
            return LOCK_COUNT
        return Step(_LOCK_OPENS_EXCLUSIVE if exclusive else _LOCK_OPENS_SHARED)

    def execute(self, connection: Connection, steps: Sequence[Step]) -> list[Result]:
        """See :class:`Backend`; they travel together."""
        return _pipeline(connection, steps) if steps else []

    def finish(self, connection: Connection, steps: Sequence[Step]) -> list[Result]:
        """See :class:`Backend`; the COMMIT travels with them."""
        connection.info[COMMIT_SENT] = True
        return _pipeline(connection, steps, commit=True)

    def was_halted(self, error: BaseException) -> bool:
        """See :class:`Backend`."""
        return getattr(error, "sqlstate", None) == _DIVISION_BY_ZERO

    def together(self, steps: Sequence[Step]) -> list[Step]:
        """See :class:`Backend`; as the parts of a WITH."""
        return list(steps) if len(steps) < 2 else _as_parts(_ANSWER, steps)

    def unless_halted(self, halting: Step, steps: Sequence[Step]) -> list[Step]:
        """See :class:`Backend`; as the parts of a WITH, whose SELECT halts."""
        return _as_parts(halting, steps)

    @contextlib.contextmanager
    def creating(self, connection: Connection) -> Iterator[None]:
        """See :class:`Backend`."""
        connection.execute(_CREATION_UNTIL_COMMIT)
        yield

    def restart_ids(self, connection: Connection, key: sa.Column[int], following: int, row: Mapping[str, Any]) -> None:
        """See :class:`Backend`."""
        sequence = func.pg_get_serial_sequence(f'"{key.table.name}"', key.name)
        connection.execute(sa.select(func.setval(sequence, following, sa.false())))


def _as_parts(answer: Step, steps: Sequence[Step]) -> list[Step]:
    """One statement of several writes; more, where one parameter has two values.

    :param answer: the SELECT that they are parts of.
    """
    parameters: dict[str, Any] = {}
    for step in (answer, *steps):
        for name, value in step.parameters.items():
            if parameters.setdefault(name, value) != value:
                return [*([] if answer is _ANSWER else [answer]), *steps]
    statements = tuple(step.statement for step in (answer, *steps))
    found = _TOGETHER.get(statements)
    if found is None:
        select: Any = answer.statement
        parts = [s.cte(f"part_{i}") for i, s in enumerate(statements[1:])]  # type: ignore[attr-defined]
        found = _TOGETHER[statements] = select.add_cte(*parts)
    return [Step(found, parameters)]


def _pipeline(connection: Connection, steps: Sequence[Step], *, commit: bool = False) -> list[Result]:
    driver: Any = connection.connection.driver_connection
    if not commit and not connection.in_transaction():
        connection.begin()  # what the batch begins is committed, or undone, by SQLAlchemy
    try:
        sent = [_BETWEEN.get(id(s)) or (_compiled(connection, s.statement), s.parameters) for s in steps]
        answers = pipeline.run(driver, connection.info, sent, commit)
    except BaseException as error:
        if driver.closed or driver.broken:
            connection.invalidate(error if isinstance(error, Exception) else None)
        raise
    return [Result(*answer) for answer in answers]


def _compiled(connection: Connection, statement: Executable) -> pipeline.ServerStatement:
    key = (layout_tag(connection), statement)
    found = _COMPILED.get(key)
    if found is None:
        compiled = statement.compile(dialect=connection.dialect)  # type: ignore[attr-defined]
        if compiled.post_compile_params:
            raise AssertionError(f"a statement with an IN list cannot travel in a batch: {compiled.string}")
        found = _COMPILED[key] = pipeline.server_statement(compiled.string, compiled.params)
    return found


# --- spellings ----------------------------------------------------------------------------------------------------


@compiles(bytewise, "postgresql")
def _(element: bytewise, compiler: Any, **options: Any) -> str:
    return f'({compiler.process(element.clauses, **options)} COLLATE "C")'


# A CAST of a text that is no number is an error here, and the values of partitions of all tables stand in one column:
# the planner may look at those of others before it looks whose they are. What passes is inside of a double's range.
_NUMBER = (
    "^[+-]?([0-9]{1,38}([.][0-9]*)?([eE][+-]?[0-9]{1,2})?|[.][0-9]+"
    "|[0-9]([.][0-9]*)?[eE]([+]?([12][0-9]{2}|30[0-7])|-([12][0-9]{2}|3[01][0-9]))"
    "|1([.][0-7][0-9]*)?[eE][+]?308|NaN|Infinity)$"
)


@compiles(if_number, "postgresql")
def _(element: if_number, compiler: Any, **options: Any) -> str:
    text = compiler.process(element.clauses, **options)
    return f"CASE WHEN {text} ~ '{_NUMBER}' THEN {text} END"


@compiles(as_whole, "postgresql")
@compiles(as_decimal, "postgresql")
def _(element: as_whole | as_decimal, compiler: Any, **options: Any) -> str:
    # As large as its text; BIGINT has no room for all that another table may hold.
    return f"CAST({compiler.process(element.clauses, **options)} AS NUMERIC)"


@compiles(halt_if, "postgresql")
def _(element: halt_if, compiler: Any, **options: Any) -> str:
    # Nobody looks at an answer before the COMMIT behind it arrives, so that only an error of the server can stop it.
    # The server has no expression that raises one (RAISE belongs to functions, and we make none in somebody's
    # metastore); a division by zero is one that no other statement of ours can meet.
    return f"(1 / CASE WHEN {compiler.process(element.clauses, **options)} THEN 0 ELSE 1 END)"


@compiles(within_ranges, "postgresql")
def _(element: within_ranges, compiler: Any, **options: Any) -> str:
    number, edges = (compiler.process(part, **options) for part in element.clauses)
    # Behind an odd number of edges, and before the next one, is inside.
    return f"(mod(width_bucket({number}, CAST(string_to_array({edges}, ',') AS BIGINT[])), 2) != 0)"


@compiles(clock_ms, "postgresql")
def _(element: clock_ms, compiler: Any, **options: Any) -> str:
    return "CAST(ROUND(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)"


@compiles(statement_ms, "postgresql")
def _(element: statement_ms, compiler: Any, **options: Any) -> str:
    return "CAST(ROUND(EXTRACT(EPOCH FROM statement_timestamp()) * 1000) AS BIGINT)"


@compiles(clock_timestamp, "postgresql")
def _(element: clock_timestamp, compiler: Any, **options: Any) -> str:
    return "CAST(clock_timestamp() AS TIMESTAMP)"


@compiles(clock_timestamp_before, "postgresql")
def _(element: clock_timestamp_before, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"CAST(clock_timestamp() - {seconds} * INTERVAL '1 second' AS TIMESTAMP)"
