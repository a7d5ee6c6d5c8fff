"""``CAST(… AS CHAR(n))`` and ``VARCHAR(n)``, which Spark takes for STRING: the text is cut, as Hive cuts it.

A CHAR has no blanks at its end wherever something is made of it: Hive compares, joins and measures it without them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from airflow_hive_acid.format.identifiers import quoted_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlglot.tokenizer_core import Token

_CASTS = ("CAST", "TRY_CAST")
_TYPES = {"CHAR": "CHAR", "CHARACTER": "CHAR", "VARCHAR": "VARCHAR"}
_ANY = re.compile(r"\b(?:VARCHAR|CHAR|CHARACTER)\b", re.IGNORECASE)
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_KEPT = {"CHAR": TokenType.NCHAR, "VARCHAR": TokenType.NVARCHAR}


def keep_types(tokens: Sequence[Token]) -> None:
    """Mark the types of these casts, so that the parser's tree tells them: it takes CHAR and VARCHAR for STRING."""
    for at, cast in _casts(tokens):
        tokens[at].token_type = _KEPT[cast.kind]


def kept_type(cast: exp.Cast) -> str | None:
    """The type of a text with a length that a cast of the tree names, None for any other cast."""
    for name, marked in (("char", exp.DataType.Type.NCHAR), ("varchar", exp.DataType.Type.NVARCHAR)):
        if cast.to.this == marked and len(cast.to.expressions) == 1:
            return f"{name}({cast.to.expressions[0].name})"
    return None


def may_have_casts(text: str) -> bool:
    """Whether it is worth while to look at the tokens of a text."""
    return _ANY.search(text) is not None


def cast_edits(tokens: Sequence[Token], tree: exp.Expr | None = None) -> Iterator[tuple[int, int, str]]:
    """What stands for the words of these casts: first character, the one after the last, and text.

    :param tokens: of the text.
    :param tree: of the same text; a column of a query that is cast, and called by its name therefore, keeps the name.
    """
    names = {} if tree is None else _names(tree)
    for _, cast in _casts(tokens):
        before, behind = ("rtrim(substring(", "))") if cast.kind == "CHAR" else ("substring(", ")")
        yield cast.word.start, cast.word.start, before
        yield cast.type_start, cast.type_end + 1, "STRING"
        name = names.get(cast.value)
        called = "" if name is None else f" AS {quoted_name(name)}"
        yield cast.end, cast.end + 1, f"), 1, {cast.length}{behind}{called}"


def double_colon(tokens: Sequence[Token]) -> Token | None:
    """The first type with a length behind ``::``, of which nobody can tell here where its value begins."""
    for at, token in enumerate(tokens):
        if token.token_type is TokenType.DCOLON and _length(tokens, at + 1) is not None:
            return tokens[at + 1]
    return None


@dataclass(frozen=True, slots=True)
class _Cast:
    """A cast to a text with a length.

    :param value: where its value begins and ends, both in characters.
    :param end: its closing parenthesis.
    """

    word: Token
    kind: str
    length: int
    value: tuple[int, int]
    type_start: int
    type_end: int
    end: int


def _casts(tokens: Sequence[Token]) -> Iterator[tuple[int, _Cast]]:
    """Each of them, and which token is the word of its type."""
    for at, token in enumerate(tokens):
        if token.token_type in _QUOTED or token.text.upper() not in _CASTS or _text(tokens, at + 1) != "(":
            continue
        if at and tokens[at - 1].text == ".":
            continue
        end = _closing(tokens, at + 1)
        # … AS VARCHAR ( 3 )
        kind = end - 4
        length = _length(tokens, kind)
        if length is None or kind < at + 4 or _text(tokens, kind - 1).upper() != "AS":
            continue
        value = tokens[at + 2].start, tokens[kind - 2].end
        name = _TYPES[tokens[kind].text.upper()]
        yield kind, _Cast(token, name, length, value, tokens[kind].start, tokens[kind + 3].end, tokens[end].end)


def _length(tokens: Sequence[Token], at: int) -> int | None:
    """The length of a CHAR or VARCHAR that stands there."""
    if at < 0 or at + 3 >= len(tokens) or tokens[at].token_type in _QUOTED or tokens[at].text.upper() not in _TYPES:
        return None
    opening, length, closing = tokens[at + 1 : at + 4]
    is_length = opening.text == "(" and closing.text == ")" and length.text.isdecimal()
    return int(length.text) if is_length else None


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) and tokens[at].token_type not in _QUOTED else ""


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """Where the parenthesis is closed that is opened there."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (_text(tokens, at) == "(") - (_text(tokens, at) == ")")
        if depth == 0:
            return at
    return len(tokens)


def _names(tree: exp.Expr) -> dict[tuple[int, int], str]:
    """Columns of select lists that are cast and have no alias, by their place in the text."""
    found: dict[tuple[int, int], str] = {}
    for select in tree.find_all(exp.Select):
        for projection in select.expressions:
            column = projection.this if isinstance(projection, exp.Cast) else None
            if isinstance(column, exp.Column) and not column.is_star:
                parts = column.parts
                found[parts[0].meta["start"], parts[-1].meta["end"]] = column.name
    return found
