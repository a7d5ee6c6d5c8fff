"""Names that Hive gives to columns without one: ``_c0``, ``_c1``, … by their place in the select list.

Spark calls such a column by its expression. The texts of views refer to Hive's names, so these are written into them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlglot.tokenizer_core import Token

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_ENDS = frozenset((
    "FROM", "UNION", "INTERSECT", "EXCEPT", "MINUS", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "LATERAL",
    "WINDOW", "CLUSTER BY", "SORT BY", "DISTRIBUTE BY", "OFFSET", "QUALIFY", "LATERAL VIEW", "GROUP", "ORDER",
))  # fmt: skip
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_NAMED = (exp.Alias, exp.Column, exp.Dot, exp.Explode, exp.Inline, exp.Stack, exp.Aliases, exp.Star)


def has_name(projection: exp.Expr) -> bool:
    """Whether a column of a select list has a name of its own, or several, as ``*`` has."""
    if isinstance(projection, _NAMED):
        return True
    return isinstance(projection, exp.Anonymous) and projection.name.lower() in ("json_tuple", "inline_outer")


def missing_names(tree: exp.Expr, tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """The names that are missing in the select lists of a query, and behind which character each belongs.

    :param tokens: those of the query's text.
    """
    selects = list(_in_order(tree))
    lists = [_items(tokens, at) for at, token in enumerate(tokens) if token.token_type is TokenType.SELECT]
    if len(selects) != len(lists):
        return
    for select, ends in zip(selects, lists, strict=True):
        if len(select.expressions) != len(ends):
            continue
        for number, (projection, end) in enumerate(zip(select.expressions, ends, strict=True)):
            if not has_name(projection):
                yield end, f"_c{number}"


def _in_order(tree: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs of a tree in the order of their words in the text."""
    clause = tree.args.get("with_")
    if clause is not None:
        yield from _in_order(clause)
    if isinstance(tree, exp.Select):
        yield tree
    for name, value in tree.args.items():
        if name != "with_":
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, exp.Expr):
                    yield from _in_order(child)


def _items(tokens: Sequence[Token], select: int) -> list[int]:
    """The last characters of the columns of a select list."""
    ends: list[int] = []
    depth = 0
    at = select + 1
    while at < len(tokens):
        token = tokens[at]
        word = "" if token.token_type in _QUOTED else token.text.upper()
        if depth == 0 and (word in _ENDS or token.token_type in _CLOSING):
            break
        if depth == 0 and token.token_type is TokenType.COMMA:
            ends.append(tokens[at - 1].end)
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        at += 1
    ends.append(tokens[at - 1].end)
    return ends
