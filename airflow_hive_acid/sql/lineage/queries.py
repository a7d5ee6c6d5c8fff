"""Column lineage of queries and expressions: a walk over sqlglot's tree that follows names to columns of tables.

Each query becomes what it offers: its columns with the uses behind them, and the columns that decide about its rows.
An outer query composes what the inner ones offer; so nothing is expanded, and the work grows with the text. What a text
may hold many of is gone through in loops: branches of a set operation, terms of a condition, queries of a WITH clause.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.format import changes
from airflow_hive_acid.sql.lineage.frames import Derived, Frame, Named, Offer, called, offer_of_table, renamed
from airflow_hive_acid.sql.lineage.parts import choices_of, composed, is_generator, parts_of
from airflow_hive_acid.sql.lineage.values import NOTHING, How, Use, Uses, through
from airflow_hive_acid.sql.planning.columns import column_names
from airflow_hive_acid.sql.planning.scopes import visible_cte
from airflow_hive_acid.sql.planning.view_texts import Parse, is_view, no_parser, query_of_view
from airflow_hive_acid.sql.text.table_options import OPTIONS, ChangesOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.sql.model.plans import TableLookup
    from airflow_hive_acid.sql.model.views import CreateTemporaryQuery

_SORTS = ("order", "sort", "cluster", "distribute")


@dataclass(slots=True)
class Walker:
    """Follows the names of one statement.

    :param inputs: what it reads, in the order of first appearance: of a view the tables below.
    :param queries: temporary views of a query, by lower-case name.
    :param parse: reads the text of a view; ``path`` are the views around this text.
    :param together: the uses of a column that has now the value of the one, now of the other, as in a UNION.
    :param one_of: the uses of a value that is one of several, as of a CASE. Without it something is made of each; with
        it the conditions by which one is chosen are left out.
    :param typed: the uses that stand for a value whose type its words say, None for any other.
    """

    table_of: TableLookup
    views: Mapping[str, Source]
    default_database: str
    inputs: dict[str, None] = field(default_factory=dict)
    queries: Mapping[str, CreateTemporaryQuery] = field(default_factory=dict)
    parse: Parse = no_parser
    path: tuple[str, ...] = ()
    together: Callable[[Uses, Uses], Uses] = operator.or_
    one_of: Callable[[Sequence[Uses]], Uses] | None = None
    typed: Callable[[exp.Expr], Uses | None] = lambda _: None
    _ctes: dict[int, Derived] = field(default_factory=dict)

    def query(self, node: exp.Expr, outer: Frame | None = None) -> Derived:
        """What a query offers.

        :param outer: what names mean around it, if it may use them.
        """
        self._name_queries(node)
        match node:
            case exp.Subquery():
                found = self.query(node.this, outer)
                return self._sorted(node, found, outer)
            case exp.SetOperation():
                return self._set_operations(node, outer)
            case exp.Select():
                return self._select(node, outer)
            case exp.Values():
                return self._values(node, outer)
            case exp.Table():
                offer = self.table(node)
                return Derived(offer.columns, offer.rows, offer.is_open)
        return Derived((), is_open=True)

    def value(self, frame: Frame, node: exp.Expr, aliases_first: bool = False) -> Uses:
        """What an expression is made of."""
        found: set[Use] = set()
        # No recursion: a condition of a thousand terms is a tree as deep.
        stack: list[tuple[exp.Expr, How, bool]] = [(node, How.IDENTITY, False)]
        while stack:
            part, how, masking = stack.pop()
            if how is How.IDENTITY and (said := self.typed(part)) is not None:
                found |= said
            elif isinstance(part, exp.Column):
                names = [p.name.lower() for p in part.parts if not isinstance(p, exp.Star)]
                found |= through(frame.column(names, aliases_first) if names else NOTHING, how, masking)
            elif isinstance(part, exp.Exists) and isinstance(part.this, exp.Query):
                found |= through(self.query(part.this, frame).rows, how, masking)
            elif isinstance(part, exp.Query):
                found |= through(self._scalar(part, frame), how, masking)
            elif self.one_of is not None and how is How.IDENTITY and (choices := choices_of(part)) is not None:
                found |= self.one_of([self.value(frame, choice, aliases_first) for choice in choices])
            else:
                parts = parts_of(part, frame.named_windows)
                stack += [(child, composed(how, inner), masking or masks) for child, inner, masks in parts]
        return frozenset(found)

    def table(self, item: exp.Table) -> Offer:
        """The relation that a table name means."""
        alias, name, database = item.alias_or_name.lower(), item.name.lower(), item.db.lower()
        cte = None if database else visible_cte(item)
        if cte is not None:
            found = self._cte(cte)
            return Offer(alias, found.columns, found.is_open)
        if not database and name in self.views:
            self.inputs.setdefault(name)
            columns = tuple(column.name.lower() for column in self.views[name].columns)
            uses = tuple((column, frozenset({Use(name, column)})) for column in columns)
            return Offer(alias, uses, is_open=not columns, view=None if columns else name)
        view = self._view(item)
        if view is not None:
            return Offer(alias, view.columns, view.is_open, rows=view.rows)
        facts = self.table_of(f"{database or self.default_database}.{name}")
        self.inputs.setdefault(facts.qualified_name)
        offer = offer_of_table(facts, alias, aliased=bool(item.alias))
        if isinstance(item.meta.get(OPTIONS), ChangesOption):
            offer.columns = (*offer.columns, *((name, NOTHING) for name in changes.COLUMNS))
        return offer

    def _view(self, item: exp.Table) -> Derived | None:
        """What a view offers, by its query; None for a table."""
        name, database = item.name.lower(), item.db.lower()
        temporary = None if database or name in self.views else self.queries.get(name)
        if temporary is not None:
            earlier = {other: query for other, query in self.queries.items() if other != name}
            inner = replace(self, default_database=temporary.default_database, queries=earlier, _ctes={})
            found = inner.query(temporary.query.tree)
            return called(found, temporary.columns)
        if not database and name in self.views:
            return None
        facts = self.table_of(f"{database or self.default_database}.{name}")
        if not is_view(facts):
            return None
        select = query_of_view(facts, self.path, self.parse)
        inner = replace(
            self, views={}, queries={}, default_database=select.default_database, _ctes={},
            path=(*self.path, facts.qualified_name),
        )  # fmt: skip
        return called(inner.query(select.query.tree), column_names(facts))

    def _name_queries(self, node: exp.Expr) -> None:
        """Look at the queries of a WITH clause that are read, the first first: each may read the one before it."""
        clause = node.args.get("with_")
        if not isinstance(clause, exp.With):
            return
        used = {id(cte) for table in node.find_all(exp.Table) if (cte := _cte_outside(table, clause)) is not None}
        for cte in reversed(clause.expressions):
            if id(cte) in used:
                used |= {id(other) for table in cte.find_all(exp.Table) if (other := visible_cte(table)) is not None}
        for cte in clause.expressions:
            if id(cte) in used:
                self._cte(cte)

    def _cte(self, cte: exp.CTE) -> Derived:
        if id(cte) not in self._ctes:
            found = self.query(cte.this)
            self._ctes[id(cte)] = Derived(renamed(found.columns, cte.args["alias"]), found.rows, found.is_open)
        return self._ctes[id(cte)]

    def _scalar(self, query: exp.Expr, frame: Frame) -> Uses:
        """A query in the place of a value."""
        found = self.query(query, frame)
        return frozenset().union(found.rows, *(uses for _, uses in found.columns))

    def _values(self, node: exp.Values, outer: Frame | None) -> Derived:
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        frame = Frame([], outer)
        columns = tuple(
            (f"col{i + 1}", reduce(self.together, (self.value(frame, row[i]) for row in rows if i < len(row))))
            for i in range(len(rows[0]) if rows else 0)
        )
        return Derived(renamed(columns, node.args.get("alias")))

    def _set_operations(self, node: exp.SetOperation, outer: Frame | None) -> Derived:
        """Several in a row are a tree as deep to the left: one branch after the other."""
        operations: list[exp.SetOperation] = []
        first: exp.Expr = node
        while isinstance(first, exp.SetOperation):
            operations.append(first)
            first = first.left
        found = self.query(first, outer)
        for operation in reversed(operations):
            both = self._set_operation(operation, found, self.query(operation.right, outer))
            found = self._sorted(operation, both, outer)
        return found

    def _set_operation(self, node: exp.SetOperation, left: Derived, right: Derived) -> Derived:
        rows = left.rows | right.rows
        if isinstance(node, exp.Union):
            there = dict(enumerate(uses for _, uses in right.columns))
            columns = tuple(
                (name, self.together(uses, there.get(i, NOTHING))) for i, (name, uses) in enumerate(left.columns)
            )
        else:
            columns = left.columns
            for _, uses in (*left.columns, *right.columns):
                rows |= through(uses, How.FILTER)
        if node.args.get("distinct"):
            rows |= through((use for _, uses in columns for use in uses), How.GROUP_BY)
        return Derived(columns, rows, left.is_open or right.is_open)

    def _sorted(self, node: exp.Expr, found: Derived, outer: Frame | None) -> Derived:
        """ORDER BY behind a set operation or parentheses: it names columns of the result."""
        frame = Frame([Offer("", found.columns, found.is_open)], outer)
        rows = found.rows | self._sort_keys(node, frame, found.columns)
        return Derived(found.columns, rows, found.is_open)

    def _select(self, select: exp.Select, outer: Frame | None) -> Derived:
        frame = Frame([], outer)
        for window in select.args.get("windows") or []:
            frame.named_windows[window.name.lower()] = window
        first = select.args.get("from_")
        if first is not None:
            self._bind(frame, first.this)
        for join in select.args.get("joins") or []:
            self._join(frame, join)
        for lateral in select.args.get("laterals") or []:
            self._bind(frame, lateral)
        self._decide(frame, select.args.get("where"), How.FILTER)
        columns, is_open = self._select_list(frame, select)
        self._group(frame, select, columns)
        for clause in ("having", "qualify"):
            self._decide(frame, select.args.get(clause), How.FILTER)
        if select.args.get("distinct"):
            frame.rows |= through((use for _, uses in columns for use in uses), How.GROUP_BY)
        frame.rows |= self._sort_keys(select, frame, columns)
        return Derived(columns, frame.rows, is_open)

    def _select_list(self, frame: Frame, select: exp.Select) -> tuple[Named, bool]:
        columns: list[tuple[str, Uses]] = []
        is_open = False
        for projection in select.expressions:
            star = projection.this if isinstance(projection, exp.Column) else projection
            if isinstance(star, exp.Star):
                qualifier = ".".join(p.name.lower() for p in projection.parts[:-1]) if star is not projection else None
                named, opened = frame.star(qualifier)
                columns += self._edited(frame, star, named)
                is_open = is_open or opened
                continue
            generated = self._generated(frame, projection)
            for name, uses in generated if generated is not None else [(projection.alias_or_name.lower(), None)]:
                uses = self.value(frame, projection) if uses is None else uses
                columns.append((name, uses))
                if name and (isinstance(projection, exp.Alias) or generated is not None):
                    frame.aliases.setdefault(name, uses)
            is_open = is_open or generated == []
        return tuple(columns), is_open

    def _edited(self, frame: Frame, star: exp.Star, columns: Named) -> Iterator[tuple[str, Uses]]:
        """The columns of a star with ``EXCEPT`` and ``REPLACE``."""
        left_out = {e.name.lower() for e in star.args.get("except_") or []}
        replaced = {e.alias.lower(): self.value(frame, e) for e in star.args.get("replace") or []}
        renamed = {e.this.name.lower(): e.alias.lower() for e in star.args.get("rename") or []}
        for name, uses in columns:
            if name not in left_out:
                yield renamed.get(name, name), replaced.get(name, uses)

    def _generated(self, frame: Frame, projection: exp.Expr) -> list[tuple[str, Uses]] | None:
        """The columns of a generator in a select list; none when only Spark knows how many; None for anything else."""
        inner = projection.this if isinstance(projection, exp.Alias | exp.Aliases) else projection
        if not is_generator(inner) and not isinstance(projection, exp.Aliases):
            return None
        uses = through(self.value(frame, inner), How.TRANSFORMATION)
        if isinstance(projection, exp.Aliases):
            return [(alias.name.lower(), uses) for alias in projection.expressions]
        if isinstance(projection, exp.Alias):
            return [(projection.alias.lower(), uses)]
        return []

    def _bind(self, frame: Frame, item: exp.Expr) -> Offer:
        """Add a relation to a frame; of several in parentheses the last one is returned."""
        if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table):
            inner = item.this
            offer = self._bind(frame, inner)
            for join in inner.args.get("joins") or []:
                offer = self._join(frame, join)
            return offer
        offer = self._offer(frame, item)
        alias = item.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns and not isinstance(item, exp.Lateral):
            offer.columns = renamed(offer.columns, alias)
        if item.args.get("pivots"):
            anything = frozenset().union(*(uses for _, uses in offer.columns), offer.anything)
            offer = Offer(offer.alias, (), is_open=True, anything=through(anything, How.AGGREGATION))
        frame.offers.append(offer)
        return offer

    def _offer(self, frame: Frame, item: exp.Expr) -> Offer:
        alias = item.alias_or_name.lower()
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            cte = None if item.db else visible_cte(item)
            if cte is not None:
                frame.rows |= self._cte(cte).rows
            offer = self.table(item)
            frame.rows |= offer.rows
            return offer
        if isinstance(item, exp.Lateral) and not isinstance(item.this, exp.Subquery):
            uses = through(self.value(frame, item.this), How.TRANSFORMATION)
            named = item.args.get("alias")
            columns = tuple((c.name.lower(), uses) for c in named.columns) if named is not None else ()
            return Offer(alias, columns, is_open=not columns, anything=uses)
        if isinstance(item, exp.Lateral):
            found = self.query(item.this, frame)
            columns = renamed(found.columns, item.args.get("alias"))
        elif isinstance(item, exp.Query | exp.Values):
            found = self.query(item, frame.outer)
            columns = found.columns
        else:
            # A function that gives rows: its columns are its own.
            return Offer(alias, (), is_open=True, anything=through(self.value(frame, item), How.TRANSFORMATION))
        frame.rows |= found.rows
        return Offer(alias, columns, found.is_open)

    def _join(self, frame: Frame, join: exp.Join) -> Offer:
        before = list(frame.offers)
        offer = self._bind(frame, join.this)
        using = [name.name.lower() for name in join.args.get("using") or []]
        if join.method == "NATURAL":
            using = [name for name, _ in offer.columns if any(o.find(name) is not None for o in before)]
        left = Frame(before, joined=frame.joined)
        for name in using:
            here, there = left.column([name]), offer.find(name) or offer.guess(name)
            frame.rows |= through(here | there, How.JOIN)
            frame.joined[name] = {"RIGHT": there, "FULL": here | there}.get(join.side, here)
        self._decide(frame, join.args.get("on"), How.JOIN)
        offer.hidden = join.kind in ("SEMI", "ANTI")
        return offer

    def _decide(self, frame: Frame, clause: exp.Expr | None, how: How) -> None:
        if clause is not None:
            frame.rows |= through(self.value(frame, clause), how)

    def _group(self, frame: Frame, select: exp.Select, columns: Named) -> None:
        group = select.args.get("group")
        if group is None:
            return
        if group.args.get("all"):
            keys = [uses for (_, uses), p in zip(columns, select.expressions, strict=False) if not p.find(exp.AggFunc)]
        else:
            keys = [self._key(frame, key, columns) for key in group.iter_expressions()]
        frame.rows |= through((use for uses in keys for use in uses), How.GROUP_BY)

    def _sort_keys(self, node: exp.Expr, frame: Frame, columns: Named) -> Uses:
        clauses = [clause for name in _SORTS if (clause := node.args.get(name)) is not None]
        keys = [self._key(frame, key, columns, True) for clause in clauses for key in clause.iter_expressions()]
        return through((use for uses in keys for use in uses), How.SORT)

    def _key(self, frame: Frame, key: exp.Expr, columns: Named, aliases_first: bool = False) -> Uses:
        """A key of GROUP BY or ORDER BY, which may be the number of a column."""
        plain = key.this if isinstance(key, exp.Ordered) else key
        if isinstance(plain, exp.Literal) and not plain.is_string:
            number = int(plain.name) if plain.name.isdecimal() else 0
            return columns[number - 1][1] if 0 < number <= len(columns) else NOTHING
        return self.value(frame, key, aliases_first)


def _cte_outside(table: exp.Table, clause: exp.With) -> exp.CTE | None:
    """The query of a WITH clause that a table outside of it means."""
    cte = None if table.db else visible_cte(table)
    return cte if cte is not None and table.find_ancestor(exp.With) is not clause else None
