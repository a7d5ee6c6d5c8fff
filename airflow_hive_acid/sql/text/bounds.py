"""What is refused before a parser sees it: it would take for ever, or the process with it.

sqlglot goes down one call for each bracket, and its compiled form (``sqlglot[c]``) has no limit of Python's that would
stop it. Each JOIN without a condition is read twice with all that follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot.tokenizer_core import Token

DEPTH = 200
"""Brackets inside of each other that its compiled form reads."""
SURE_DEPTH = 25
"""What sqlglot in Python reads wherever it is called from: twenty calls for each, of the thousand that Python has."""
OPEN_JOINS = 12
"""JOINs without a condition: 4,096 ways to read them."""
_OPENING = frozenset((TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE))
_CLOSING = frozenset((TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE))
_CONDITIONS = frozenset((TokenType.ON, TokenType.USING))
_WITH_TYPES = frozenset((TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT))
_NEVER_OPEN = frozenset((TokenType.CROSS, TokenType.NATURAL))
TOO_DEEP = (
    f"the statement is nested too deeply: {SURE_DEPTH} brackets, CASEs, NOTs or queries inside of each other are "
    f"always read, more than {DEPTH} never; give an inner part a name, by WITH name AS (…) or CREATE TEMPORARY VIEW "
    "name AS …, and refer to that"
)
_TOO_OPEN = f"more than {OPEN_JOINS} JOINs have no ON or USING; write CROSS JOIN where none is meant"


def problem_in(tokens: Sequence[Token]) -> tuple[str, Token] | None:
    """Why a statement is not parsed, and where; None when it is."""
    depth = types = open_joins = 0
    waiting: Token | None = None
    previous: Token | None = None
    for token in tokens:
        kind = token.token_type
        if kind in _OPENING:
            depth += 1
        elif kind in _CLOSING:
            depth -= 1
        elif kind is TokenType.LT and previous is not None and previous.token_type in _WITH_TYPES:
            types += 1
        elif kind is TokenType.GT and types:
            types -= 1
        elif kind in _CONDITIONS:
            waiting = None
        elif kind is TokenType.JOIN:
            open_joins += waiting is not None
            waiting = None if previous is not None and previous.token_type in _NEVER_OPEN else token
        if depth + types > DEPTH:
            return TOO_DEEP, token
        if open_joins > OPEN_JOINS:
            return _TOO_OPEN, token
        previous = token
    return None
