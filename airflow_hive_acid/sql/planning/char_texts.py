"""Texts that are compared with CHAR columns: blanks at their ends do not count, as in Hive.

The rows of a statement have CHAR values without blanks. ``c = 'ab '`` finds them by a text without blanks, too. In a
BETWEEN the blanks count: a Hive makes a CHAR of a text that is compared, and of one in an IN, and of no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from airflow_hive_acid.sql.text.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlglot.tokenizer_core import Token

    from airflow_hive_acid.format.jobs import Source
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


def _has_blanks(token: Token) -> bool:
    return token.token_type is TokenType.STRING and token.text.endswith(" ")


def _beside(column: exp.Column, tokens: Sequence[Token], first: int, last: int) -> Iterator[Token]:
    """The texts that a column is compared with; the column is the tokens from the first to the last."""
    around = column.parent
    if isinstance(around, _COMPARISONS):
        if around.this is column and around.expression.is_string:
            yield tokens[last + 2]
        elif around.expression is column and around.this.is_string:
            yield tokens[first - 2]
    elif isinstance(around, exp.In) and around.this is column and all(e.is_string for e in around.expressions):
        opening = last + 2 + (tokens[last + 1].text.upper() == "NOT")
        yield from tokens[opening + 1 : opening + 2 * len(around.expressions) : 2]


def _is_char(scopes: Scopes, column: exp.Column, views: Mapping[str, Source]) -> bool:
    """Whether a column is surely a CHAR of a table or of a file."""
    name, qualifier = column.name.lower(), column.table.lower()
    for scope in scopes.around(column):
        offering = [r for r in scope.relations if qualifier in ("", r.alias) and (r.is_open or r.offers(name))]
        if offering:
            return all(_type_of(relation, name, views).startswith("char(") for relation in offering)
    return False


def _type_of(relation: Relation, name: str, views: Mapping[str, Source]) -> str:
    if relation.facts is not None:
        columns = (*relation.facts.columns, *relation.facts.partition_columns)
    else:
        source = None if relation.node is None or relation.query is not None else views.get(relation.node.name.lower())
        columns = () if source is None else source.columns
    return next((column.type.lower() for column in columns if column.name.lower() == name), "")
