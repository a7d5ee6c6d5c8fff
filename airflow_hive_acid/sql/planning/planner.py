"""A statement and facts of the catalog → a plan. Pure: the same statement and facts give the same plan.

What can be refused before a transaction is open is refused here, in Hive's words where Hive has them, and at its
place in the script: unknown columns, numbers of columns that differ, changes of partition and bucketing columns, and
changes of tables that have no transactions.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.format import jobs
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.sql.model.plans import (
    DeleteTemplate,
    InsertTemplate,
    MergeTemplate,
    Plan,
    SelectTemplate,
    StepTemplate,
    TableFacts,
    TableLookup,
    TableWrite,
    UpdateTemplate,
    is_external,
)
from airflow_hive_acid.sql.model.pruning import KEEP_ALL, PartitionFilter, equal_columns, partition_filter
from airflow_hive_acid.sql.model.statements import Delete, Insert, Merge, MergeWhen, Select, Update
from airflow_hive_acid.sql.planning import targets
from airflow_hive_acid.sql.planning.assignments import Assigned, defaults_in, timed_defaults
from airflow_hive_acid.sql.planning.columns import column_names
from airflow_hive_acid.sql.planning.references import References, belongs, partition_columns
from airflow_hive_acid.sql.planning.scopes import Relation, Scope, Scopes
from airflow_hive_acid.sql.planning.view_texts import Parse, no_parser, require_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.sql.model.statements import DataStatement, FirstRows, Fragment
    from airflow_hive_acid.sql.model.views import CreateTemporaryQuery
    from airflow_hive_acid.sql.planning.common import Common

_NO_VIEWS: Mapping[str, jobs.Source] = {}
_NO_QUERIES: Mapping[str, CreateTemporaryQuery] = {}


def plan(
    statement: DataStatement,
    table_of: TableLookup,
    views: Mapping[str, jobs.Source] = _NO_VIEWS,
    *,
    queries: Mapping[str, CreateTemporaryQuery] = _NO_QUERIES,
    path: tuple[str, ...] = (),
    parse: Parse = no_parser,
    guarded_merge: bool = True,
    replaced: TableFacts | None = None,
    common: Common | None = None,
) -> Plan:
    """Plan a statement that reads or changes data.

    :param table_of: facts of a table by ``db.table``; its NoSuchObjectError passes through.
    :param views: temporary views of the session, by lower-case name.
    :param queries: temporary views of a query, by lower-case name.
    :param path: the view whose query is planned, so that it is refused to read itself.
    :param parse: reads the text of a view.
    :param guarded_merge: a MERGE that only inserts conflicts with others as an UPDATE (``hive.txn.xlock.mergeinsert``).
    :param replaced: the table that an INSERT writes, if the statement gives it another definition; what the query reads
        of it has the old one.
    :param common: what its queries have in common.
    :raises InvalidArgumentsError: for columns that do not exist or do not fit.
    :raises UnsupportedStatementError: for changes that ACID tables do not allow.
    """
    # Expressions of one statement ask for its tables many times.
    references = References(
        statement, functools.cache(table_of), views, queries=queries, path=path, parse=parse, common=common
    )
    match statement:
        case Insert():
            return _plan_insert(statement, references, replaced)
        case Update():
            return _plan_update(statement, references)
        case Delete():
            return _plan_delete(statement, references)
        case Merge():
            return _plan_merge(statement, references, guarded_merge)
        case Select():
            query = references.rewrite(statement.query)
            return _plan(references, "select", None, SelectTemplate(query))


def _plan(references: References, kind: str, write: TableWrite | None, template: StepTemplate) -> Plan:
    reads = tuple(references.reads.values())
    sources = tuple(references.sources.values())
    return Plan(references.statement, kind, write, reads, sources, template, tuple(references.views_read))


def _plan_insert(statement: Insert, references: References, replaced: TableFacts | None) -> Plan:
    facts = replaced or references.table_of(str(statement.table))
    require_table(facts, "INSERT")
    static, dynamic = targets.insert_partition(statement, facts)
    if statement.by_name:
        given = Scopes(statement.query.tree, Scope([]), references.relation).columns_of(statement.query.tree)
        statement = targets.by_name(statement, facts, dynamic, given)
    filled = targets.filled_columns(statement, facts, static, dynamic)
    defaults = defaults_in(statement.query, filled, facts, references.common)
    query = references.rewrite(statement.query, instead=defaults)
    width = _width(statement.query.tree, references)
    if width is not None and width != len(filled):
        raise targets.invalid(
            statement,
            f"the query gives {width} column{'s' * (width != 1)}, but {facts.qualified_name} takes {len(filled)}: "
            f"{', '.join(filled)}",
            *statement.query.span,
        )
    usual = [column.name for column in (*facts.columns, *facts.partition_columns) if column.name not in dict(static)]
    columns = () if list(filled) == usual else filled
    timed = timed_defaults(facts, references.common)
    template = InsertTemplate(query, columns, static, statement.overwrite, timed)
    operation = "overwrite" if statement.overwrite else "insert"
    written = _static_filter(facts, static)
    partitioned = bool(facts.partition_columns)
    write = TableWrite(
        facts.qualified_name, operation, written, partitioned, static, dynamic, facts.is_transactional,
        is_external(facts),
    )  # fmt: skip
    return _plan(references, "insert", write, template)


def _plan_update(statement: Update, references: References) -> Plan:
    facts = references.table_of(str(statement.table))
    require_table(facts, type(statement).__name__.upper())
    targets.require_changeable(statement, facts)
    for column, value in statement.assignments:
        targets.check_assigned(statement, facts, column, value)
    scope = _target_scope(facts, statement.alias, statement.table.name)
    assigned = Assigned(statement, facts, references).of(statement.assignments, statement.alias, scope)
    where = references.rewrite(statement.where, scope) if statement.where is not None else None
    write = _change(facts, "update", _touched(facts, statement.where, scope))
    first = _first_rows(statement.first, references, scope)
    return _plan(references, "update", write, UpdateTemplate(statement.alias, assigned, where, first))


def _plan_delete(statement: Delete, references: References) -> Plan:
    facts = references.table_of(str(statement.table))
    require_table(facts, type(statement).__name__.upper())
    targets.require_changeable(statement, facts)
    scope = _target_scope(facts, statement.alias, statement.table.name)
    where = references.rewrite(statement.where, scope) if statement.where is not None else None
    write = _change(facts, "delete", _touched(facts, statement.where, scope))
    first = _first_rows(statement.first, references, scope)
    return _plan(references, "delete", write, DeleteTemplate(statement.alias, where, first))


def _plan_merge(statement: Merge, references: References, guarded_merge: bool) -> Plan:
    facts = references.table_of(str(statement.table))
    require_table(facts, type(statement).__name__.upper())
    targets.require_changeable(statement, facts)
    target = _target_scope(facts, statement.alias, statement.table.name).relations[0]
    query, source = _merge_source(statement, references)
    both = Scope([target, source])
    on = references.rewrite(statement.on, both)
    names = {column.name.lower() for column in facts.partition_columns}
    pairs = equal_columns(
        statement.on.tree,
        lambda column: column.name.lower() in names and belongs(column, target, both),
        lambda column: belongs(column, source, both),
    )
    clauses = tuple(_clause(statement, when, facts, references, both, pairs) for when in statement.whens)
    actions = {clause.action for clause in clauses}
    operation = next(name for name in ("update", "delete", "insert") if name in actions)
    if operation == "insert" and guarded_merge:
        operation = "update"  # two such MERGEs at a time would both insert what both missed
    touched = _touched(facts, statement.on, both)
    if any(when.by_source for when in statement.whens):
        # What no row of the source matches can lie anywhere.
        touched, pairs = _static_filter(facts, ()), ()
    write = _change(facts, operation, touched)
    template = MergeTemplate(
        statement.alias, query, statement.source_alias, on, clauses, bool(facts.bucket_columns), pairs,
        timed_defaults(facts, references.common),
    )  # fmt: skip
    return _plan(references, "merge", write, template)


def _merge_source(statement: Merge, references: References) -> tuple[str, Relation]:
    """The source as a query, and what its columns are called."""
    tree = statement.source.tree
    if isinstance(tree, exp.Table):
        relation = references.relation(tree)
        name = f"`{tree.name.lower()}`"
        if relation.pending is not None:
            relation.query = relation.pending(())
            relation.aliased = relation.aliased or statement.source_alias != tree.name.lower()
            relation.alias = statement.source_alias
            return f"SELECT * FROM {relation.query}", relation  # noqa: S608 - the text of the query itself
        if relation.facts is not None:
            name = references.read(relation.facts, PartitionFilter(partition_columns(relation.facts))).view
        query = f"TABLE {name}"
        relation.aliased = relation.aliased or statement.source_alias != tree.name.lower()
        relation.alias = statement.source_alias
        return query, relation
    query = references.rewrite(statement.source)
    scopes = Scopes(tree, Scope([]), references.relation)
    return query, Relation(statement.source_alias, scopes.columns_of(tree), inner=lambda: (scopes, tree))


def _clause(
    statement: Merge,
    when: MergeWhen,
    facts: TableFacts,
    references: References,
    both: Scope,
    pairs: tuple[tuple[str, str], ...],
) -> jobs.MergeClause:
    target, source = both.relations
    scope = both if when.matched else Scope([target if when.by_source else source])
    condition = None
    if when.condition is not None:
        condition = references.rewrite(when.condition, scope, qualified=when.by_source)
    assigned = when.assignments
    if when.star is not None:
        _require_columns(statement, when.star, facts, source)
        assigned = targets.of_source(statement, when.star, facts)
    elif when.action == "insert":
        assigned = targets.inserted_columns(statement, when, facts)
    if when.action == "update":
        if when.star is not None:
            # What ON demands to be equal does not change, so no row moves for it.
            assigned = tuple((column, value) for column, value in assigned if (column, column) not in pairs)
        for column, value in assigned:
            targets.check_assigned(statement, facts, column, value)
    assignments = Assigned(statement, facts, references, when.by_source).of(assigned, statement.alias, scope)
    match when.action:
        case "update":
            return jobs.MergeClause("update", when.matched, condition, assignments, when.by_source)
        case "delete":
            return jobs.MergeClause("delete", when.matched, condition, (), when.by_source)
        case _:
            return jobs.MergeClause("insert", when.matched, condition, assignments)


def _require_columns(statement: Merge, star: tuple[int, int], facts: TableFacts, source: Relation) -> None:
    """What ``*`` needs: a column of the source for each of the target."""
    missing = [name for name in column_names(facts) if not source.is_open and not source.offers(name)]
    if missing:
        raise targets.invalid(
            statement,
            f"* takes a column of {statement.source_alias} for each column of {facts.qualified_name}, and there is no "
            f"{', '.join(missing)}; name the columns to fill",
            *star,
        )


def _first_rows(first: FirstRows | None, references: References, scope: Scope) -> jobs.FirstRows | None:
    if first is None:
        return None
    order = ", ".join(f"({references.rewrite(key, scope)}) {direction}" for key, direction in first.order)
    return jobs.FirstRows(order, first.count)


def _target_scope(facts: TableFacts, alias: str, name: str) -> Scope:
    """The scope of expressions over the table that is changed."""
    columns = tuple(column.name for column in (*facts.columns, *facts.partition_columns))
    return Scope([Relation(alias, columns, None, facts, aliased=alias != name)])


def _touched(facts: TableFacts, condition: Fragment | None, scope: Scope) -> PartitionFilter:
    """The partitions that the rows matched by a condition can lie in."""
    tree = condition.tree if condition is not None else None
    target = scope.relations[0]
    return partition_filter(partition_columns(facts), tree, lambda column: belongs(column, target, scope))


def _change(facts: TableFacts, operation: str, touched: PartitionFilter) -> TableWrite:
    dynamic = tuple(column.name for column in facts.partition_columns)
    return TableWrite(facts.qualified_name, operation, touched, bool(dynamic), (), dynamic)


def _static_filter(facts: TableFacts, static: tuple[tuple[str, str], ...]) -> PartitionFilter:
    if not static:
        return PartitionFilter(partition_columns(facts)) if facts.partition_columns else KEEP_ALL
    terms: list[exp.Expr] = []
    for name, value in static:
        if value == DEFAULT_PARTITION:
            terms.append(exp.Is(this=exp.column(name), expression=exp.Null()))
        else:
            terms.append(exp.EQ(this=exp.column(name), expression=exp.Literal.string(value)))
    return PartitionFilter(partition_columns(facts), (tuple(terms),))


def _width(query: exp.Expr, references: References) -> int | None:
    """How many columns a query gives, None when that cannot be known here."""
    columns = Scopes(query, Scope([]), references.relation).columns_of(query)
    return None if columns is None else len(columns)
