"""A statement and facts of the catalog → where its columns come from. Pure, like the planner, and asked after it.

What the planner has accepted is understood here as Spark does: names by their scopes, ``*``, USING, queries of WITH
clauses, set operations, generators. Where only Spark knows the columns (files without a schema, a PIVOT), what can be
said is said, and ``complete`` is False.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.sql.lineage.frames import Frame, Offer, offer_of_table
from airflow_hive_acid.sql.lineage.queries import Walker
from airflow_hive_acid.sql.lineage.values import NOTHING, How, Lineage, Uses, through
from airflow_hive_acid.sql.model.statements import Delete, Insert, Merge, Select, Update
from airflow_hive_acid.sql.planning import targets
from airflow_hive_acid.sql.planning.assignments import is_default
from airflow_hive_acid.sql.planning.columns import column_names
from airflow_hive_acid.sql.planning.view_texts import Parse, no_parser

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.sql.model.plans import TableFacts, TableLookup
    from airflow_hive_acid.sql.model.statements import DataStatement, Fragment, TableName
    from airflow_hive_acid.sql.model.views import CreateTemporaryQuery


_NO_QUERIES: Mapping[str, CreateTemporaryQuery] = {}


def lineage_of(
    statement: DataStatement,
    table_of: TableLookup,
    views: Mapping[str, Source],
    *,
    queries: Mapping[str, CreateTemporaryQuery] = _NO_QUERIES,
    parse: Parse = no_parser,
) -> Lineage:
    """The column lineage of a statement that has been planned.

    :param table_of: facts of a table by ``db.table``; its NoSuchObjectError passes through.
    :param views: temporary views of the session over files, by lower-case name; ``queries`` those of a query.
    :param parse: reads the text of a view of the catalog.
    :raises HiveAcidError: for a statement that the planner refuses, too.
    """
    walker = Walker(table_of, views, statement.default_database, queries=queries, parse=parse)
    match statement:
        case Select():
            found = walker.query(statement.query.tree)
            return Lineage(None, found.columns, found.rows, tuple(walker.inputs), not found.is_open)
        case Insert():
            return _insert(walker, statement, table_of(str(statement.table)))
        case Update() | Delete():
            return _change(walker, statement, table_of(str(statement.table)))
        case Merge():
            return _merge(walker, statement, table_of(str(statement.table)))


def _insert(walker: Walker, statement: Insert, facts: TableFacts) -> Lineage:
    static, dynamic = targets.insert_partition(statement, facts)
    found = walker.query(statement.query.tree)
    if statement.by_name:
        statement = targets.by_name(statement, facts, dynamic, [name for name, _ in found.columns])
    filled = targets.filled_columns(statement, facts, static, dynamic)
    given = [] if found.is_open else [uses for _, uses in found.columns]
    by_name = dict(zip(filled, given, strict=False)) | {name: NOTHING for name, _ in static}
    columns = tuple((name, by_name[name]) for name in column_names(facts) if name in by_name)
    return Lineage(facts.qualified_name, columns, found.rows, tuple(walker.inputs), not found.is_open)


def _change(walker: Walker, statement: Update | Delete, facts: TableFacts) -> Lineage:
    frame = Frame([_target(walker, facts, statement.table, statement.alias)])
    assigned = statement.assignments if isinstance(statement, Update) else ()
    columns = tuple((column, _assigned(walker, frame, value)) for column, value in assigned)
    rows = _condition(walker, frame, statement.where, How.FILTER)
    return Lineage(facts.qualified_name, columns, rows, tuple(walker.inputs))


def _merge(walker: Walker, statement: Merge, facts: TableFacts) -> Lineage:
    target = _target(walker, facts, statement.table, statement.alias)
    tree = statement.source.tree
    if isinstance(tree, exp.Table):
        source = walker.table(tree)
        source.alias, source.qualified_name = statement.source_alias, None
        rows = source.rows
    else:
        found = walker.query(tree)
        source, rows = Offer(statement.source_alias, found.columns, is_open=found.is_open), found.rows
    both, source_only, target_only = Frame([target, source]), Frame([source]), Frame([target])
    rows |= _condition(walker, both, statement.on, How.JOIN)
    columns: dict[str, Uses] = {}
    for when in statement.whens:
        frame = target_only if when.by_source else both if when.matched else source_only
        rows |= _condition(walker, frame, when.condition, How.FILTER)
        assigned = when.assignments
        if when.star is not None:
            assigned = targets.of_source(statement, when.star, facts)
        elif when.action == "insert":
            assigned = tuple(zip(when.columns or column_names(facts), when.values, strict=False))
        for column, value in assigned:
            columns[column] = columns.get(column, NOTHING) | _assigned(walker, frame, value)
    ordered = tuple((name, columns[name]) for name in column_names(facts) if name in columns)
    return Lineage(facts.qualified_name, ordered, rows, tuple(walker.inputs))


def _target(walker: Walker, facts: TableFacts, table: TableName, alias: str) -> Offer:
    """The table that is changed; its rows are read to be changed."""
    walker.inputs.setdefault(facts.qualified_name)
    return offer_of_table(facts, alias, aliased=alias != table.name)


def _assigned(walker: Walker, frame: Frame, value: Fragment) -> Uses:
    return NOTHING if is_default(value.tree) else walker.value(frame, value.tree)


def _condition(walker: Walker, frame: Frame, condition: Fragment | None, how: How) -> Uses:
    return NOTHING if condition is None else through(walker.value(frame, condition.tree), how)
