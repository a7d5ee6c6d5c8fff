"""Conditions around a view or a query in FROM, as conditions inside of it: so partitions are pruned by them, too.

Only what cannot change the result is carried in. A condition holds inside if all of its columns are bare columns there,
and if the query has neither a limit, nor a window, nor grouping sets, nor a sample, which rows that the condition drops
could decide about. Branches of a set operation may have other types than their result: there a comparison of order
could turn out differently, so only equality, IN and IS NULL go in, and of texts that may be numbers or dates ('05' is
'5' beside an INT) only where all branches have a column of one kind. Nothing is left out of the query around: Spark
applies the condition as ever.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.sql.model.pruning import conjuncts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_hive_acid.sql.planning.scopes import Relation, Scope, Scopes

_OF_ANY_TYPE = (exp.EQ, exp.In, exp.Is)
_MAY_BE_RETYPED = re.compile(r"\s*[-+.]?[0-9]|\s*(?:t|true|y|yes|f|false|n|no|inf|infinity|nan)\s*$", re.IGNORECASE)
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")
_TEXTS = ("string", "varchar", "char")
_STOPS = ("limit", "offset", "fetch", "sample", "qualify", "connect")


class PushedConditions:
    """What holds for the rows of each SELECT of a query, by what is around it.

    :param belongs: whether a column of a condition on a scope is surely one of a relation.
    :param outside: conditions on the columns of the whole query; ``names`` are what these are called there.
    """

    def __init__(
        self,
        scopes: Scopes,
        belongs: Callable[[exp.Column, Relation, Scope], bool],
        outside: Sequence[exp.Expr] = (),
        names: Sequence[str] = (),
    ) -> None:
        self._scopes, self._belongs = scopes, belongs
        self._terms: dict[int, list[exp.Expr]] = {}
        self._into(scopes.tree, names, outside)
        # The outermost first: what it gives on is there when its inner ones are looked at.
        for select in scopes.tree.find_all(exp.Select):
            scope = scopes.of(select)
            for item, relation in zip(_items(select), scope.relations, strict=False):
                if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Query) and relation.columns:
                    self._into(item.this, relation.columns, self.of(relation, scope))

    def of(self, relation: Relation, scope: Scope) -> list[exp.Expr]:
        """The conditions on columns of one relation alone, without a qualifier."""
        select = scope.select
        if select is None or relation.optional:
            return []
        found = []
        for term in self._all(select):
            columns = list(term.find_all(exp.Column))
            own = all(
                relation.offers(column.name.lower()) and self._belongs(column, relation, scope) for column in columns
            )
            if columns and own and not term.find(exp.Query):
                found.append(_replaced(term, lambda column: exp.column(exp.to_identifier(column.name.lower()))))
        return found

    def around(self, select: exp.Select | None) -> list[exp.Expr]:
        """What is carried into a SELECT, in the words of its FROM clause."""
        return [] if select is None else self._terms.get(id(select), [])

    def _all(self, select: exp.Select) -> Iterator[exp.Expr]:
        where = select.args.get("where")
        if where is not None:
            yield from conjuncts(where.this)
        yield from self.around(select)

    def _into(self, query: exp.Expr, names: Sequence[str], terms: Sequence[exp.Expr]) -> None:
        # No recursion: a thousand branches of a set operation are a tree as deep.
        waiting: list[tuple[exp.Expr, Sequence[exp.Expr], bool]] = [(query, terms, False)]
        while waiting:
            inner, given, decided = waiting.pop()
            if not given or any(inner.args.get(clause) for clause in _STOPS):
                continue
            if isinstance(inner, exp.Subquery):
                waiting.append((inner.this, given, decided))
            elif isinstance(inner, exp.SetOperation):
                kept = given if decided else self._of_any_type(inner, names, given)
                waiting += [(inner.left, kept, True), (inner.right, kept, True)]
            elif isinstance(inner, exp.Select) and not _decides_by_other_rows(inner):
                self._into_select(inner, names, given)

    def _of_any_type(self, query: exp.Expr, names: Sequence[str], terms: Sequence[exp.Expr]) -> list[exp.Expr]:
        """Those of the terms that mean the same in each branch of a set operation as they mean of its result."""
        found: list[exp.Expr] = []
        leaves: list[exp.Expr] | None = None
        for term in terms:
            if not isinstance(term, _OF_ANY_TYPE):
                continue
            if any(literal.is_string and _MAY_BE_RETYPED.match(literal.name) for literal in term.find_all(exp.Literal)):
                leaves = _branches(query) if leaves is None else leaves
                named = {column.name.lower() for column in term.find_all(exp.Column)}
                kinds = {self._kind(leaf, names, name) for leaf in leaves for name in named}
                if len(named) != 1 or len(kinds) != 1 or None in kinds:
                    continue
            found.append(term)
        return found

    def _kind(self, select: exp.Expr, names: Sequence[str], name: str) -> str | None:
        """What kind of values a SELECT gives under a name; None where that is not known."""
        column = self._outputs(select, names).get(name) if isinstance(select, exp.Select) else None
        if column is None or not isinstance(select, exp.Select):
            return None
        scope, inside = self._scopes.of(select), column.name.lower()
        for relation in scope.relations:
            if relation.facts is not None and self._belongs(column, relation, scope):
                offered = (*relation.facts.columns, *relation.facts.partition_columns)
                return _kind_of(next((c.type for c in offered if c.name.lower() == inside), None))
        return None

    def _into_select(self, select: exp.Select, names: Sequence[str], terms: Sequence[exp.Expr]) -> None:
        inside = self._outputs(select, names)
        for term in terms:
            if all(inside.get(column.name.lower()) is not None for column in term.find_all(exp.Column)):
                carried = _replaced(term, lambda column: inside[column.name.lower()])
                self._terms.setdefault(id(select), []).append(carried)

    def _outputs(self, select: exp.Select, names: Sequence[str]) -> dict[str, exp.Column]:
        """The bare columns that a SELECT gives, by the names they have outside."""
        found: list[exp.Column | None] = []
        for projection in select.expressions:
            value = projection.this if isinstance(projection, exp.Alias) else projection
            star = isinstance(value, exp.Star) or (isinstance(value, exp.Column) and isinstance(value.this, exp.Star))
            if star:
                offered = self._star(select)
                if offered is None:
                    return {}
                found += offered
            else:
                found.append(value if isinstance(value, exp.Column) else None)
        if len(found) != len(names):
            return {}
        unique = [name for name in names if list(names).count(name) == 1]
        return {
            name: column for name, column in zip(names, found, strict=True) if column is not None and name in unique
        }

    def _star(self, select: exp.Select) -> list[exp.Column | None] | None:
        """What ``*`` stands for where it stands alone and for one relation."""
        relations = self._scopes.of(select).relations
        if len(select.expressions) != 1 or len(relations) != 1 or relations[0].columns is None:
            return None
        if any(any(star.args.values()) for star in select.expressions[0].find_all(exp.Star)):
            return None
        return [exp.column(exp.to_identifier(name)) for name in relations[0].columns]


def _branches(query: exp.Expr) -> list[exp.Expr]:
    """What a set operation is made of, through parentheses."""
    found, waiting = [], [query]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, exp.SetOperation):
            waiting += [inner.left, inner.right]
        elif isinstance(inner, exp.Subquery):
            waiting.append(inner.this)
        else:
            found.append(inner)
    return found


def _kind_of(type_text: str | None) -> str | None:
    """Types among which values are compared as they are."""
    name = None if type_text is None else type_text.partition("(")[0]
    return "text" if name in _TEXTS else "number" if name in _NUMBERS else name


def _items(select: exp.Select) -> list[exp.Expr]:
    first = select.args.get("from_")
    return [*([first.this] if first is not None else []), *(join.this for join in select.args.get("joins") or [])]


def _decides_by_other_rows(select: exp.Select) -> bool:
    group = select.args.get("group")
    sets = group is not None and any(group.args.get(kind) for kind in ("cube", "rollup", "grouping_sets"))
    return sets or select.find(exp.Window, exp.TableSample) is not None


def _replaced(term: exp.Expr, by: Callable[[exp.Column], exp.Expr]) -> exp.Expr:
    copy = term.copy()
    for column in list(copy.find_all(exp.Column)):
        other = by(column).copy()
        if column is copy:
            return other
        column.replace(other)
    return copy
