"""What names mean in a query: which relations a SELECT has, what they are called and which columns they offer.

A relation whose columns cannot be known here (a function, a view over files without a column list) is *open*: nothing
is said about names that it may offer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.sql.text.projections import has_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hive_acid.sql.model.plans import TableFacts

ROW_ID, IS_DELETED = "row__id", "row__is__deleted"
PSEUDO_COLUMNS = (ROW_ID, IS_DELETED)
_GENERATORS = (exp.Explode, exp.Inline, exp.Stack, exp.Aliases)
_GENERATOR_NAMES = frozenset({"json_tuple", "inline_outer", "variant_explode", "variant_explode_outer"})
_OUTER_JOINS = ("RIGHT", "FULL")

Columns = tuple[str, ...] | None
"""Column names in order; an empty name for an expression without one; None when unknown."""


@dataclass(slots=True)
class Relation:
    """Something that a FROM clause names.

    :param alias: the name its columns are qualified with, lower-case.
    :param columns: what it offers.
    :param node: the table in the tree, None for anything else.
    :param facts: of a warehouse table.
    :param aliased: whether the script gives it an alias.
    :param optional: an outer join may put NULLs in the place of its rows.
    :param pseudo: the query asks for its ROW__ID or ROW__IS__DELETED.
    :param query: of a view: what it stands for, in parentheses.
    :param pending: makes that of the conditions on its columns that are around it.
    :param inner: gives the query that it is, where the script has that, with the scopes of its tree.
    """

    alias: str
    columns: Columns
    node: exp.Table | None = None
    facts: TableFacts | None = None
    aliased: bool = False
    optional: bool = False
    pseudo: bool = False
    query: str | None = None
    pending: Callable[[Sequence[exp.Expr]], str] | None = None
    inner: Callable[[], tuple[Scopes, exp.Expr]] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it may offer columns that are not known here."""
        return self.columns is None or "" in self.columns

    def offers(self, column: str) -> bool:
        """Whether it surely has this column."""
        return column in (self.columns or ()) or (column in PSEUDO_COLUMNS and self.facts is not None)


@dataclass(slots=True)
class Scope:
    """The relations of one SELECT, or of an UPDATE, DELETE or MERGE."""

    relations: list[Relation]
    select: exp.Select | None = None
    names: frozenset[str] = frozenset()
    """Names that the select list gives; later clauses may use them."""

    @property
    def is_open(self) -> bool:
        """Whether there may be columns that are not known here."""
        return any(relation.is_open for relation in self.relations)

    def by_alias(self, alias: str) -> Relation | None:
        """The relation of that name."""
        return next((relation for relation in self.relations if relation.alias == alias), None)


@dataclass(slots=True)
class Scopes:
    """All scopes of one tree.

    :param outer: scope around the tree: the target of an UPDATE, target and source of a MERGE.
    :param resolve: table node → relation; called once for each table.
    :param by_place: expressions without a name are called ``_c0``, ``_c1``, … as in the text of a view.
    """

    tree: exp.Expr
    outer: Scope
    resolve: Callable[[exp.Table], Relation]
    by_place: bool = False
    scopes: dict[int, Scope] = field(default_factory=dict)
    _around: dict[int, list[Scope]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Inner queries first: what they offer is asked for by the outer ones. Those of a WITH clause in their order,
        # for each may ask for the one before it.
        for clause in reversed(list(self.tree.find_all(exp.With))):
            for cte in clause.expressions:
                self._add(cte)
        self._add(self.tree)

    def _add(self, tree: exp.Expr) -> None:
        for select in reversed(list(tree.find_all(exp.Select))):
            self.of(select)

    def of(self, select: exp.Select) -> Scope:
        """The scope of a SELECT."""
        if id(select) not in self.scopes:
            names = frozenset(e.alias.lower() for e in select.expressions if isinstance(e, exp.Alias) and e.alias)
            scope = self.scopes[id(select)] = Scope([], select, names)
            self._add_relations(scope, select)
        return self.scopes[id(select)]

    def around(self, node: exp.Expr) -> list[Scope]:
        """The scopes whose names a column may use, innermost first."""
        # Remembered on the way up: five thousand conditions are a tree as deep, with a column at each step.
        inside: list[exp.Expr] = []
        place: exp.Expr | None = node
        while place is not None and id(place) not in self._around and not _is_closed(place):
            inside.append(place)
            place = place.parent
        if place is None:
            found = [self.outer] if self.outer.relations else []
        else:
            found = self._around.get(id(place), [])
        for part in reversed(inside):
            if isinstance(part, exp.Select):
                found = [self.of(part), *found]
            self._around[id(part)] = found
        return found

    def columns_of(self, query: exp.Expr | None) -> Columns:
        """What a query offers."""
        while isinstance(query, exp.Subquery | exp.SetOperation):
            query = query.this if isinstance(query, exp.Subquery) else query.left
        if isinstance(query, exp.Values):
            first = query.expressions[0] if query.expressions else None
            width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
            return tuple(f"col{i}" for i in range(1, width + 1))
        if not isinstance(query, exp.Select):
            return None
        offered: list[str] = []
        for place, projection in enumerate(query.expressions):
            columns = self._columns_of_projection(query, projection, place)
            if columns is None:
                return None
            offered.extend(columns)
        return tuple(offered)

    def table(self, item: exp.Table) -> Relation:
        """The relation that a table name means: a query of a WITH clause, or what ``resolve`` says."""
        cte = None if item.db else visible_cte(item)
        if cte is None:
            return self.resolve(item)
        named = cte.args["alias"].columns
        columns = tuple(column.name.lower() for column in named) if named else self.columns_of(cte.this)
        return Relation(item.alias_or_name.lower(), columns, aliased=bool(item.alias), inner=lambda: (self, cte.this))

    def _columns_of_projection(self, select: exp.Select, projection: exp.Expr, place: int) -> Columns:
        if isinstance(projection, exp.Star):
            return self._columns_of_star(select, projection)
        if isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star):
            relation = self.of(select).by_alias(projection.table.lower())
            simple = relation is not None and not any(projection.this.args.values())
            return relation.columns if relation is not None and simple else None
        if isinstance(projection, _GENERATORS):
            return None
        if isinstance(projection, exp.Anonymous) and projection.name.lower() in _GENERATOR_NAMES:
            return None
        if self.by_place and not has_name(projection):
            return (f"_c{place}",)
        return (projection.alias_or_name.lower() if _is_called(projection) else "",)

    def _columns_of_star(self, select: exp.Select, star: exp.Star) -> Columns:
        joins = select.args.get("joins") or []
        # USING and NATURAL show a common column once, SEMI and ANTI hide one side.
        plain = all(not j.args.get("using") and j.method != "NATURAL" and j.kind not in ("SEMI", "ANTI") for j in joins)
        if not plain or any(star.args.values()):
            return None
        offered: list[str] = []
        for relation in self.of(select).relations:
            if relation.columns is None:
                return None
            offered.extend(relation.columns)
        return tuple(offered) if self.of(select).relations else None

    def _add_relations(self, scope: Scope, select: exp.Select) -> None:
        first = select.args.get("from_")
        joins = select.args.get("joins") or []
        if first is not None:
            scope.relations.append(self._relation(first.this, _is_outer(joins)))
        for index, join in enumerate(joins):
            optional = join.side in ("LEFT", "FULL") or _is_outer(joins[index + 1 :])
            scope.relations.append(self._relation(join.this, optional))
        for lateral in select.args.get("laterals") or []:
            alias = lateral.args.get("alias")
            columns = tuple(column.name.lower() for column in alias.columns) if alias is not None else ()
            scope.relations.append(Relation(lateral.alias.lower(), columns or None))

    def _relation(self, item: exp.Expr, optional: bool) -> Relation:
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            relation = self.table(item)
        else:
            relation = Relation(item.alias_or_name.lower(), self.columns_of(item), inner=lambda: (self, item))
        alias = item.args.get("alias")
        if alias is not None and alias.columns:
            relation.columns = tuple(column.name.lower() for column in alias.columns)
        if item.args.get("pivots") or (isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table)):
            relation.columns = None
        relation.optional = optional
        return relation


def visible_cte(table: exp.Table) -> exp.CTE | None:
    """The query of a WITH clause that an unqualified table name means, if any; the innermost one."""
    name = table.name.lower()
    known: list[exp.CTE]
    node: exp.Expr = table
    inside: exp.Expr | None = None
    while node.parent is not None:
        parent = node.parent
        if isinstance(node, exp.CTE):
            inside = node
        clause = parent.args.get("with_")
        if isinstance(clause, exp.With):
            known = list(clause.expressions)
            if node is clause:
                # A query of the clause sees those before it, not itself.
                known = known[: next(i for i, cte in enumerate(known) if cte is inside)]
            for cte in reversed(known):
                if cte.alias.lower() == name:
                    return cte
        node = parent
    return None


def _is_called(projection: exp.Expr) -> bool:
    """Whether Spark calls a column by a name in its text. A function is not called by its argument, a cast is."""
    if isinstance(projection, exp.Cast):
        return isinstance(projection.this, exp.Column)
    return isinstance(projection, exp.Alias | exp.Column | exp.Dot | exp.Literal)


def _is_closed(node: exp.Expr) -> bool:
    """Whether nothing around a node can be named inside of it."""
    derived = isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query)
    return isinstance(node, exp.CTE) or (derived and isinstance(node.parent, exp.From | exp.Join))


def _is_outer(joins: list[exp.Join]) -> bool:
    return any(join.side in _OUTER_JOINS for join in joins)
