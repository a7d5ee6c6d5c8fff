"""Where NULLs stand in an order that does not say it: behind everything else, as in Hive 4; with DESC before it.

Spark has it the other way round. With LIMIT, and in a window that numbers rows, other rows would be chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlglot.tokenizer_core import Token

_ORDERS = (TokenType.ORDER_BY, TokenType.SORT_BY)
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_ENDS = frozenset((
    "LIMIT", "OFFSET", "ROWS", "RANGE", "UNION", "EXCEPT", "MINUS", "INTERSECT", "WINDOW", "ORDER BY", "SORT BY",
    "CLUSTER BY", "DISTRIBUTE BY", "SELECT", "FROM", "INSERT", "LATERAL", "LATERAL VIEW", "WHERE", "GROUP BY", "HAVING",
    ";", "|>",
))  # fmt: skip
_OPENING, _CLOSING = ("(", "[", "CASE"), (")", "]", "END")
_BEFORE_A_VALUE = frozenset((
    "CASE", "WHEN", "THEN", "ELSE", "AND", "OR", "NOT", "BETWEEN", "LIKE", "RLIKE", "DIV", "(", "[", ",", "=", "==",
    "<>", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "|", "||", "&", "^", "~",
))  # fmt: skip


def hive_default(descending: bool) -> str:
    """Where NULLs stand in Hive when nobody says it (``hive.default.nulls.last``)."""
    return "NULLS FIRST" if descending else "NULLS LAST"


def null_order_edits(tokens: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
    """What is to be written behind each key of an ORDER BY or SORT BY that does not say where its NULLs stand.

    :param tokens: of a query or an expression.
    :return: first character, the one after the last, and text.
    """
    for at, token in enumerate(tokens):
        if token.token_type in _ORDERS and not _is_within_group(tokens, at):
            for words in _keys(tokens, at + 1):
                texts = [text for _, text in words]
                if "NULLS" not in texts[1:]:
                    end = words[-1][0].end + 1
                    yield end, end, f" {hive_default(texts[-1] == 'DESC')}"


def _is_within_group(tokens: Sequence[Token], at: int) -> bool:
    """Whether it is the order of an aggregate, which leaves NULLs out."""
    before = " ".join(token.text.upper() for token in tokens[max(at - 3, 0) : at])
    return before.endswith("WITHIN GROUP (")


def _keys(tokens: Sequence[Token], first: int) -> Iterator[list[tuple[Token, str]]]:
    """The words of each key that stand in no brackets and in no CASE, and those that end one; names are no words."""
    words: list[tuple[Token, str]] = []
    opened: list[str] = []
    before = ""
    for token in tokens[first:]:
        word = "" if token.token_type in _QUOTED or before == "." else token.text.upper()
        text = "" if _is_name(word, before, begins=not words, in_case=opened[-1:] == ["CASE"]) else word
        ends = text in _CLOSING or (words and text in _ENDS and before != "DISTINCT")
        if not opened and ends:
            break
        before = word
        if not opened and text == ",":
            if words:
                yield words
            words = []
            continue
        if text in _CLOSING:
            opened.pop()
        if not opened or not words:
            words.append((token, text))
        if text in _OPENING:
            opened.append(text)
    if words:
        yield words


def _is_name(text: str, before: str, *, begins: bool, in_case: bool) -> bool:
    """Whether a word is that of a column or field, which may be called ``end``, ``rows`` or ``limit``, too.

    :param before: the word before it; ``begins`` says that the key begins with this one.
    """
    if not text.isidentifier() or text == "CASE":
        return False
    return begins or before in _BEFORE_A_VALUE or (text == "END" and not in_case)
