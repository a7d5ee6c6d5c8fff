"""From the words of a script to the text that Spark runs: tables become views, everything else stays as written.

The text is not generated from the tree: sqlglot's generator changes what some functions do (``trunc`` of a date
becomes a timestamp). Instead names are exchanged in place: ``db.t`` becomes ``ha1_t AS `t``` and ``db.t.c`` becomes
`` `t`.c``, so that columns still resolve. Temporary views and queries of WITH clauses keep their names.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format import changes
from airflow_hive_acid.format.identifiers import quoted_name
from airflow_hive_acid.python_versions import add_note
from airflow_hive_acid.sql.model.plans import TableFacts, TableLookup, TableRead, is_external
from airflow_hive_acid.sql.model.pruning import PartitionFilter, partition_filter
from airflow_hive_acid.sql.model.statements import Select
from airflow_hive_acid.sql.planning.char_texts import char_text_edits, may_have_chars
from airflow_hive_acid.sql.planning.columns import column_names, no_such_column, unknown_column
from airflow_hive_acid.sql.planning.looks import USUAL, Look, look_by, refuse_look
from airflow_hive_acid.sql.planning.pushed_conditions import PushedConditions
from airflow_hive_acid.sql.planning.scopes import PSEUDO_COLUMNS, Relation, Scope, Scopes
from airflow_hive_acid.sql.planning.view_texts import (
    Edit,
    Parse,
    as_relation,
    is_view,
    no_parser,
    query_of_view,
    require_shallow,
    star_edits,
)
from airflow_hive_acid.sql.text.casts import cast_edits, double_colon
from airflow_hive_acid.sql.text.null_order import null_order_edits
from airflow_hive_acid.sql.text.projections import missing_names
from airflow_hive_acid.sql.text.query_checks import span
from airflow_hive_acid.sql.text.source import SAMPLE_END, SourceText, describe
from airflow_hive_acid.sql.text.table_options import OPTIONS, ChangesOption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlglot.tokenizer_core import Token

    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.sql.model.statements import DataStatement, Fragment
    from airflow_hive_acid.sql.model.views import CreateTemporaryQuery
    from airflow_hive_acid.sql.planning.common import Common
    from airflow_hive_acid.sql.text.table_options import Option

_NOWHERE = Scope([])
_SORT_OR_LENGTH = re.compile(r"\b(?:ORDER|SORT|VARCHAR|CHAR|CHARACTER)\b", re.IGNORECASE)
_BLANK_AT_AN_END = re.compile(" ['\"]")


@dataclass(slots=True)
class References:
    """All that the query texts of one statement refer to; grows as its fragments are rewritten.

    :param views: temporary views of the session over files, by lower-case name; ``queries`` those of a query.
    :param path: the views whose text this is, the outermost first.
    :ivar views_read: views of the catalog that were met.
    :ivar scripts: the texts around this one.
    :param outside: conditions around the view whose text this is; ``outside_names`` its columns as they call them.
    :param common: what it has in common with the other queries of its statement.
    :param for_catalog: the text is to be kept as a view's: tables keep their names, ``*`` becomes columns.
    """

    statement: DataStatement
    table_of: TableLookup
    views: Mapping[str, Source]
    reads: dict[tuple[str, bool, Look], TableRead] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    queries: Mapping[str, CreateTemporaryQuery] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    views_read: dict[str, None] = field(default_factory=dict)
    scripts: list[str] = field(default_factory=list)
    for_catalog: bool = False
    parse: Parse = no_parser
    outside: Sequence[exp.Expr] = ()
    outside_names: Sequence[str] = ()
    common: Common | None = None

    def rewrite(
        self,
        fragment: Fragment,
        outer: Scope = _NOWHERE,
        *,
        qualified: bool = False,
        instead: Sequence[Edit] = (),
    ) -> str:
        """The fragment as Spark SQL.

        :param outer: what its names may mean outside of its own queries.
        :param qualified: columns of ``outer`` get its name, because more is there where the fragment runs.
        :param instead: what stands in the place of words that are no names.
        :raises InvalidArgumentsError: for a column that nothing offers.
        :raises NoSuchObjectError: for a table that is not in the catalog.
        """
        if fragment.text is not None:
            return fragment.text
        for call in fragment.tree.find_all(exp.Anonymous):
            if call.name.upper() == "IDENTIFIER":
                problem = "IDENTIFIER(…) names what nobody can lock or look for; write the name itself"
                raise self._unsupported(problem, call, fragment)
        scopes = Scopes(fragment.tree, outer, self._resolve, self._by_place)
        self._add_nested_tables(scopes)
        pushed = self._pushed(scopes)
        edits: list[Edit] = [*instead, *(self.common.edits(self.statement.script, fragment) if self.common else ())]
        # Hints name relations, and those keep their names.
        hinted = {id(column) for hint in fragment.tree.find_all(exp.Hint) for column in hint.find_all(exp.Column)}
        for column in fragment.tree.find_all(exp.Column):
            if id(column) in hinted:
                continue
            edits.extend(self._column_edits(scopes, column, fragment))
            if qualified:
                edits.extend(_qualifier(scopes, column, outer))
        edits.extend(self._meant_edits(fragment, scopes))
        edits.extend(self._table_edits(scopes, fragment, pushed))
        for scope in () if self.for_catalog else scopes.scopes.values():
            edits.extend(_star_edits(scope))
        if self.for_catalog:
            edits.extend(star_edits(scopes))
        elif self._by_place:
            edits.extend(self._name_edits(fragment))
        parts = [_apply(self.statement.script, begin, end, edits) for begin, end in fragment.ranges]
        return " ".join([*parts[:-1], *([fragment.lead] if fragment.lead else []), parts[-1]])

    @property
    def _by_place(self) -> bool:
        """Whether columns without a name are called by their place: in views of the catalog (``db.view``)."""
        return bool(self.path) and "." in self.path[-1]

    def _pushed(self, scopes: Scopes) -> PushedConditions:
        """Conditions that hold inside of queries by what is around them; views get their texts by these."""
        for scope in scopes.scopes.values():
            _give_each_its_name(scope)
        pushed = PushedConditions(scopes, belongs, self.outside, self.outside_names)
        for scope in scopes.scopes.values():
            for relation in scope.relations:
                if relation.pending is not None:
                    relation.query = relation.pending(pushed.of(relation, scope))
        return pushed

    def relation(self, table: exp.Table) -> Relation:
        """What a table name means outside of a query: the source of a MERGE."""
        return self._resolve(table)

    def describe(self, problem: str, node: exp.Expr, fragment: Fragment) -> str:
        """A problem with its place in the script."""
        return describe(self.statement.script, problem, *span(node, fragment.span))

    def invalid(self, problem: str, node: exp.Expr, fragment: Fragment) -> InvalidArgumentsError:
        """An error at a place of the script."""
        return InvalidArgumentsError(self.describe(problem, node, fragment))

    def _resolve(self, table: exp.Table) -> Relation:
        name, database = table.name.lower(), table.db.lower()
        alias, aliased = table.alias_or_name.lower(), bool(table.alias)
        if not database and name in self.views:
            source = self.sources[name] = self.views[name]
            columns = tuple(column.name.lower() for column in source.columns) or None
            return Relation(alias, columns, table, aliased=aliased)
        if not database and name in self.queries:
            return self._temporary(self.queries[name], alias, table, aliased)
        facts = self.table_of(f"{database or self.statement.default_database}.{name}")
        if is_view(facts):
            return self._view(facts, alias, table, aliased)
        own = changes.COLUMNS if isinstance(table.meta.get(OPTIONS), ChangesOption) else ()
        return Relation(alias, (*column_names(facts), *own), table, facts, aliased)

    def _view(self, facts: TableFacts, alias: str, table: exp.Table, aliased: bool) -> Relation:
        """A view of the catalog: its columns are the catalog's, whatever its query calls them."""
        name, columns = facts.qualified_name, column_names(facts)
        select = query_of_view(facts, self.path, self.parse)
        self.views_read.setdefault(name)
        if self.for_catalog:
            return Relation(alias, columns, table, facts, aliased)
        if table.meta.get(OPTIONS) is not None:
            raise UnsupportedStatementError(f"{name} is a view, and {table.meta[OPTIONS].shown} is said of tables")

        def text(conditions: Sequence[exp.Expr]) -> str:
            return as_relation(self._inside(select, name, table, {}, {}, conditions, columns), alias, columns)

        return Relation(alias, columns, table, facts, aliased, pending=text)

    def _temporary(self, view: CreateTemporaryQuery, alias: str, table: exp.Table, aliased: bool) -> Relation:
        if self.for_catalog:
            raise UnsupportedStatementError(f"{view.name} is a temporary view; a view of the catalog would outlive it")
        if view.name in self.path:
            raise InvalidArgumentsError(f"temporary view {view.name} reads itself")
        require_shallow(view.name, self.path)
        # It sees what was there before it: a table or view of its own name is another one.
        earlier = {name: query for name, query in self.queries.items() if name != view.name}
        select = Select(view.query, text=view.text, script=view.script, default_database=view.default_database)
        tree = view.query.tree
        scopes = functools.cache(lambda: Scopes(tree, _NOWHERE, self._inner_relation(select, earlier)))
        columns = view.columns or scopes().columns_of(tree)

        def text(conditions: Sequence[exp.Expr]) -> str:
            query = self._inside(select, view.name, table, self.views, earlier, conditions, columns or ())
            return as_relation(query, view.name, view.columns)

        return Relation(alias, columns or None, table, None, aliased, pending=text, inner=lambda: (scopes(), tree))

    def _inside(
        self,
        select: Select,
        name: str,
        place: exp.Table,
        views: Mapping[str, Source],
        queries: Mapping[str, CreateTemporaryQuery],
        conditions: Sequence[exp.Expr],
        columns: Sequence[str],
    ) -> str:
        """The text of a view as part of this query.

        :param place: where it is read; ``conditions`` those around it on its columns.
        """
        common = self.common and self.common.of_view(place)
        inner = References(
            select, self.table_of, views, self.reads, self.sources, queries, (*self.path, name), self.views_read,
            [*self.scripts, self.statement.script], parse=self.parse, outside=conditions,
            outside_names=columns, common=common,
        )  # fmt: skip
        try:
            return inner.rewrite(select.query)
        except HiveAcidError as error:
            add_note(error, f"in the text of view {name}")
            raise

    def _inner_relation(
        self, select: Select, queries: Mapping[str, CreateTemporaryQuery]
    ) -> Callable[[exp.Table], Relation]:
        inner = References(select, self.table_of, self.views, queries=queries, path=self.path, parse=self.parse)
        return inner.relation

    def _meant_edits(self, fragment: Fragment, scopes: Scopes) -> list[Edit]:
        """What Spark would take for something else than Hive does; a view of the catalog keeps its words."""
        script = self.statement.script
        sorts, blanks = (
            any(sought.search(script, begin, end) for begin, end in fragment.ranges)
            for sought in (_SORT_OR_LENGTH, _BLANK_AT_AN_END)
        )
        # Most texts have nothing of it, and their words are not looked at one by one.
        if self.for_catalog or not (sorts or (blanks and may_have_chars(scopes))):
            return []
        tokens = self._tokens(fragment)
        unclear = double_colon(tokens)
        if unclear is not None:
            problem = "write CAST(… AS CHAR(n)) or CAST(… AS VARCHAR(n)): a text is cut only there"
            raise SourceText(script).unsupported(problem, unclear.start, unclear.end)
        casts = cast_edits(tokens, None if self._by_place else fragment.tree)
        return [*casts, *null_order_edits(tokens), *char_text_edits(tokens, scopes, self.views)]

    def _tokens(self, fragment: Fragment) -> list[Token]:
        """Those of the fragment, with their places in the script."""
        found: list[Token] = []
        for begin, end in sorted(fragment.ranges):
            # Not of the whole script: a fragment of each of its statements would read all of them.
            for token in SourceText(self.statement.script[begin:end]).tokens:
                token.start += begin
                token.end += begin
                found.append(token)
        return found

    def _name_edits(self, fragment: Fragment) -> list[Edit]:
        """Names that the query of a Hive's view may use and Spark does not give."""
        tokens = self._tokens(fragment)
        return [(at + 1, at + 1, f" AS {quoted_name(name)}") for at, name in missing_names(fragment.tree, tokens)]

    def _add_nested_tables(self, scopes: Scopes) -> None:
        """Tables of joins in parentheses are no relations of their own; they are exchanged, and not pruned."""
        bound = {id(r.node) for scope in scopes.scopes.values() for r in scope.relations}
        for table in scopes.tree.find_all(exp.Table):
            select = table.find_ancestor(exp.Select)
            if id(table) in bound or select is None or not isinstance(table.this, exp.Identifier):
                continue
            if isinstance(table.parent, exp.From | exp.Join) and table.find_ancestor(exp.Table) is None:
                continue
            relation = scopes.table(table)
            relation.optional = True
            scopes.of(select).relations.append(relation)

    def _column_edits(self, scopes: Scopes, column: exp.Column, fragment: Fragment) -> list[Edit]:
        parts = [part for part in column.parts if not isinstance(part, exp.Star)]
        names = [part.name.lower() for part in parts]
        self._mark_pseudo(scopes, column, names, fragment)
        relation = _database_qualified(scopes, column, names) if len(names) > 2 or column.is_star else None
        if relation is None or relation.facts is None:
            problem = unknown_column(scopes, column)
            if problem is not None:
                raise self.invalid(problem, column, fragment)
            return []
        if len(names) > 2 and not relation.offers(names[2]):
            raise self.invalid(no_such_column(relation.facts, names[2]), parts[2], fragment)
        return [(parts[0].meta["start"], parts[1].meta["end"] + 1, quoted_name(relation.alias))]

    def _mark_pseudo(self, scopes: Scopes, column: exp.Column, names: list[str], fragment: Fragment) -> None:
        """Note which relations must offer ROW__ID and ROW__IS__DELETED."""
        asked = next((name for name in names if name in PSEUDO_COLUMNS), None)
        if asked is None:
            return
        qualifier = names[names.index(asked) - 1] if names.index(asked) > 0 else None
        for scope in scopes.around(column):
            for relation in scope.relations:
                if relation.facts is None or qualifier not in (None, relation.alias):
                    continue
                if not relation.facts.is_transactional or relation.facts.is_insert_only:
                    what = relation.facts.qualified_name
                    raise self._unsupported(
                        f"{what} has no {asked.upper()}: it is not a full ACID table", column, fragment
                    )
                relation.pseudo = True
            if any(relation.pseudo or asked in (relation.columns or ()) for relation in scope.relations):
                return

    def _table_edits(self, scopes: Scopes, fragment: Fragment, pushed: PushedConditions) -> list[Edit]:
        """``db.t`` → ``view AS t``, in the order in which the script names them."""
        found = [
            (relation.node, relation.facts, relation, scope)
            for scope in scopes.scopes.values()
            for relation in scope.relations
            if relation.node is not None and (relation.facts is not None or relation.query is not None)
        ]
        edits: list[Edit] = []
        for node, facts, relation, scope in sorted(found, key=lambda item: item[0].this.meta["start"]):
            parts = [part for part in (node.args.get("db"), node.this) if part is not None]
            if relation.query is not None or facts is None or self.for_catalog:
                edits.append((parts[0].meta["start"], parts[-1].meta["end"] + 1, self._exchanged(relation, facts)))
                continue
            look, end = self._look(node, facts, fragment)
            view = self.read(facts, _pruned(facts, relation, scope, pushed), relation.pseudo, look).view
            sample_end = node.meta.get(SAMPLE_END)
            text = view if relation.aliased or sample_end else f"{view} AS {quoted_name(relation.alias)}"
            if sample_end and not relation.aliased:
                # Spark wants the alias behind the sample.
                edits.append((sample_end + 1, sample_end + 1, f" AS {quoted_name(relation.alias)}"))
            edits.append((parts[0].meta["start"], (end or parts[-1].meta["end"]) + 1, text))
        return edits

    def _exchanged(self, relation: Relation, facts: TableFacts | None) -> str:
        """What stands for a view, or in the text of one for a table."""
        own, name = False, relation.query or ""
        if self.for_catalog and facts is not None:
            own = relation.alias == facts.qualified_name.rpartition(".")[2]
            name = quoted_name(*facts.qualified_name.split(".", 1))
        return name if relation.aliased or own else f"{name} AS {quoted_name(relation.alias)}"

    def _look(self, node: exp.Table, facts: TableFacts, fragment: Fragment) -> tuple[Look, int | None]:
        """What the option behind a table's name asks for, and where that ends."""
        option: Option | None = node.meta.get(OPTIONS)
        if option is None:
            return USUAL, None
        refusal = refuse_look(option, facts)
        if refusal is not None:
            raise self._unsupported(refusal, node, fragment)
        return look_by(option), option.end

    def read(
        self,
        facts: TableFacts,
        partitions: PartitionFilter,
        pseudo_columns: bool = False,
        look: Look = USUAL,
    ) -> TableRead:
        """Note that the statement reads a table; what it reads twice is one view of all it needs."""
        key = (facts.qualified_name, pseudo_columns, look)
        known = self.reads.get(key)
        if known is not None:
            partitions = known.partitions.either(partitions)
        view = known.view if known is not None else self._new_view(facts)
        transactional, external = facts.is_transactional, is_external(facts)
        read = TableRead(
            facts.qualified_name, view, partitions, pseudo_columns, transactional, external, look.deleted_rows,
            look.pin, look.changes, look.as_of,
        )  # fmt: skip
        self.reads[key] = read
        return read

    def _new_view(self, facts: TableFacts) -> str:
        prefix = "ha"
        scripts = "\n".join([self.statement.script, *self.scripts])
        while re.search(rf"\b{prefix}[0-9]", scripts, re.IGNORECASE):
            prefix += "a"
        return f"{prefix}{len(self.reads) + 1}_{facts.qualified_name.rpartition('.')[2]}"

    def _unsupported(self, problem: str, node: exp.Expr, fragment: Fragment) -> UnsupportedStatementError:
        return UnsupportedStatementError(self.describe(problem, node, fragment))


def partition_columns(facts: TableFacts) -> tuple[tuple[str, str], ...]:
    """Names and types of a table's partition columns."""
    return tuple((column.name, column.type) for column in facts.partition_columns)


def belongs(column: exp.Column, relation: Relation, scope: Scope) -> bool:
    """Whether a column of a condition on a scope is surely one of this relation."""
    parts = [part.name.lower() for part in column.parts]
    if len(parts) == 1:
        others = [other for other in scope.relations if other is not relation]
        return not any(other.is_open or other.offers(parts[0]) for other in others)
    if len(parts) == 2:
        return parts[0] == relation.alias
    named = relation.facts is not None and not relation.aliased and scope.by_alias(parts[0]) is None
    return (
        len(parts) == 3
        and named
        and relation.facts is not None
        and (relation.facts.qualified_name == ".".join(parts[:2]))
    )


def _pruned(facts: TableFacts, relation: Relation, scope: Scope, pushed: PushedConditions) -> PartitionFilter:
    """What the WHERE clause of its SELECT, and what is around that, say about the partitions of a relation."""
    around = [] if relation.optional else pushed.around(scope.select)
    where = scope.select.args.get("where") if scope.select is not None and not relation.optional else None
    return partition_filter(
        partition_columns(facts), where and where.this, lambda column: belongs(column, relation, scope), around
    )


def _qualifier(scopes: Scopes, column: exp.Column, outer: Scope) -> list[Edit]:
    """The name of the one relation outside in front of a column of it that stands without one."""
    relation, first = outer.relations[0], column.parts[0]
    for scope in scopes.around(column):
        if scope is outer:
            bare = relation.offers(first.name.lower()) and first.name.lower() != relation.alias
            return [(first.meta["start"], first.meta["start"], f"{quoted_name(relation.alias)}.")] if bare else []
        if scope.by_alias(first.name.lower()) is not None or any(r.offers(first.name.lower()) for r in scope.relations):
            break
    return []


def _database_qualified(scopes: Scopes, column: exp.Column, names: list[str]) -> Relation | None:
    """The table that ``db.t.c`` or ``db.t.*`` means, unless ``db`` is an alias here."""
    for scope in scopes.around(column):
        if scope.by_alias(names[0]) is not None:
            return None
        for relation in scope.relations:
            if relation.facts is None or relation.aliased:
                continue
            if relation.facts.qualified_name == ".".join(names[:2]):
                return relation
    return None


def _star_edits(scope: Scope) -> list[Edit]:
    """ROW__ID and ROW__IS__DELETED are no part of ``*``."""
    edits: list[Edit] = []
    pseudo = [relation for relation in scope.relations if relation.pseudo]
    for projection in scope.select.expressions if pseudo and scope.select is not None else ():
        star = projection.this if isinstance(projection, exp.Column) else projection
        if not isinstance(star, exp.Star) or any(star.args.values()):
            continue
        names = [f"{quoted_name(relation.alias)}.{name}" for relation in pseudo for name in PSEUDO_COLUMNS]
        if isinstance(projection, exp.Column):
            names = [*PSEUDO_COLUMNS] if any(relation.alias == projection.table.lower() for relation in pseudo) else []
        if names:
            edits.append((star.meta["start"], star.meta["end"] + 1, f"* EXCEPT ({', '.join(names)})"))
    return edits


def _give_each_its_name(scope: Scope) -> None:
    """Tables of the same name from two databases get names that differ; db.t.c still finds its table."""
    names = [relation.alias for relation in scope.relations]
    for relation, name in zip(scope.relations, names, strict=True):
        if relation.facts is not None and not relation.aliased and names.count(name) > 1:
            relation.alias = relation.facts.qualified_name.replace(".", "__")


def _apply(script: str, begin: int, end: int, edits: list[Edit]) -> str:
    """The text of a range with its edits."""
    text: list[str] = []
    position = begin
    for start, stop, replacement in sorted(set(edits)):
        if position <= start and stop <= end:
            text.extend((script[position:start], replacement))
            position = stop
    text.append(script[position:end])
    return "".join(text)
