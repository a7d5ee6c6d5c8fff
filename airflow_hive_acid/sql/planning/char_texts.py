"""Texts that are compared with CHAR columns: blanks at their ends do not count, as in Hive.

The rows of a statement have CHAR values without blanks. ``c = 'ab '`` finds them by a text without blanks, too. In a
BETWEEN the blanks count: a Hive makes a CHAR of a text that is compared, and of one in an IN, and of no other.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from airflow_hive_acid.sql.text.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlglot.tokenizer_core import Token

    from airflow_hive_acid.format.jobs import Column, Source
    from airflow_hive_acid.sql.model.plans import ColumnFacts, TableFacts
    from airflow_hive_acid.sql.planning.scopes import Relation, Scopes
    from airflow_hive_acid.sql.planning.view_texts import Edit

_COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def char_text_edits(tokens: Sequence[Token], scopes: Scopes, views: Mapping[str, Source]) -> Iterator[Edit]:
    """The texts with blanks at their ends that stand beside a CHAR column, without them.

    :param tokens: of the text whose scopes these are.
    :param views: temporary views over files, by name.
    """
    if not any(_has_blanks(token) for token in tokens):
        return
    begins = {token.start: at for at, token in enumerate(tokens)}
    ends = {token.end: at for at, token in enumerate(tokens)}
    for column in scopes.tree.find_all(exp.Column):
        first = begins.get(column.parts[0].meta.get("start", -1))
        last = ends.get(column.parts[-1].meta.get("end", -1))
        if first is None or last is None:
            continue
        beside = [token for token in _beside(column, tokens, first, last) if _has_blanks(token)]
        if beside and _is_char(scopes, column, views):
            yield from ((token.start, token.end + 1, quoted(token.text.rstrip(" "))) for token in beside)


def may_have_chars(scopes: Scopes) -> bool:
    """Whether a CHAR column may be named in a tree."""
    scoped = (relation for scope in (scopes.outer, *scopes.scopes.values()) for relation in scope.relations)
    return any(relation.facts is None or any(map(_is_char_column, _columns(relation.facts))) for relation in scoped)


def _columns(facts: TableFacts) -> Sequence[ColumnFacts]:
    return (*facts.columns, *facts.partition_columns)


def _is_char_column(column: ColumnFacts | Column) -> bool:
    return column.type.lower().startswith("char(")


def _has_blanks(token: Token) -> bool:
    return token.token_type is TokenType.STRING and token.text.endswith(" ")


def _beside(column: exp.Column, tokens: Sequence[Token], first: int, last: int) -> Iterator[Token]:
    """The texts that a column is compared with; the column is the tokens from the first to the last."""
    value: exp.Expr = column
    while isinstance(value.parent, exp.Paren):
        value, first, last = value.parent, first - 1, last + 1
    around = value.parent
    if isinstance(around, _COMPARISONS):
        other, step = (around.expression, 1) if around.this is value else (around.this, -1)
        place = (last if step > 0 else first) + 2 * step
        while isinstance(other, exp.Paren):
            other, place = other.this, place + step
        if other.is_string:
            yield tokens[place]
    elif isinstance(around, exp.In) and around.this is value and all(map(_is_one_word, around.expressions)):
        opening = last + 2 + (tokens[last + 1].text.upper() == "NOT")
        yield from tokens[opening + 1 : opening + 2 * len(around.expressions) : 2]


def _is_one_word(value: exp.Expr) -> bool:
    return value.is_string or isinstance(value, exp.Null)


def _is_char(scopes: Scopes, column: exp.Column, views: Mapping[str, Source]) -> bool:
    """Whether a column is surely a CHAR of a table or of a file, also through queries that make nothing of it."""
    waiting = _offering(scopes, column)
    if not waiting:
        return False
    seen: set[tuple[int, int]] = set()
    while waiting:
        relation, name = waiting.pop()
        if relation.facts is not None or relation.inner is None:
            if not _is_declared_char(relation, name, views):
                return False
            continue
        places = [place for place, offered in enumerate(relation.columns or ()) if offered == name]
        if len(places) != 1:
            return False
        inside, query = relation.inner()
        for branch in _branches(query):
            if (id(branch), places[0]) not in seen:
                seen.add((id(branch), places[0]))
                behind = _behind(inside, branch, places[0])
                if not behind:
                    return False
                waiting += behind
    return True


def _offering(scopes: Scopes, column: exp.Column) -> list[tuple[Relation, str]]:
    """The relations of which a column may be, with its name there."""
    name, qualifier = column.name.lower(), column.table.lower()
    for scope in scopes.around(column):
        offering = [r for r in scope.relations if qualifier in ("", r.alias) and (r.is_open or r.offers(name))]
        if offering:
            return [(relation, name) for relation in offering]
    return []


def _is_declared_char(relation: Relation, name: str, views: Mapping[str, Source]) -> bool:
    source = None if relation.node is None else views.get(relation.node.name.lower())
    columns: Sequence[ColumnFacts | Column] = () if source is None else source.columns
    if relation.facts is not None:
        columns = _columns(relation.facts)
    return any(column.name.lower() == name and _is_char_column(column) for column in columns)


def _branches(query: exp.Expr) -> Iterator[exp.Expr]:
    """The queries that a set operation is made of, or the query itself."""
    waiting = [query]
    while waiting:
        query = waiting.pop()
        if isinstance(query, exp.Subquery):
            waiting.append(query.this)
        elif isinstance(query, exp.SetOperation):
            waiting += [query.left, query.right]
        else:
            yield query


def _behind(scopes: Scopes, query: exp.Expr, place: int) -> list[tuple[Relation, str]]:
    """The column that a SELECT gives in a place, as those of which it may be; nothing where it is no bare column."""
    if not isinstance(query, exp.Select) or scopes.columns_of(query) is None:
        return []
    value = next(itertools.islice(_given(scopes, query), place, None), None)
    if isinstance(value, exp.Column):
        return _offering(scopes, value)
    return [] if value is None or isinstance(value, exp.Expr) else [value]


def _given(scopes: Scopes, select: exp.Select) -> Iterator[exp.Expr | tuple[Relation, str]]:
    """What a SELECT gives: values of its list, and columns of the relations that a ``*`` stands for."""
    relations = scopes.of(select).relations
    for projection in select.expressions:
        star = projection.this if isinstance(projection, exp.Column) else projection
        if isinstance(star, exp.Star):
            own = relations if star is projection else [r for r in relations if r.alias == projection.table.lower()]
            yield from ((relation, name) for relation in own for name in relation.columns or ())
        else:
            yield projection.this if isinstance(projection, exp.Alias) else projection
