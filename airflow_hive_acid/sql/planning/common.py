"""What the queries have in common that one statement is for Spark: its time, and the rows that all of them read.

A MERGE is two of them, for the rows that match and for those that are new; ``FROM … INSERT … INSERT …`` is one for each
branch. A Hive has one time for a statement and reads the common FROM clause once. So the time is given to each query as
a constant, and a clause whose rows would be others for each of them is refused, whatever views its words stand in.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

from airflow_hive_acid.sql.text.chance import chance_in
from airflow_hive_acid.sql.text.source import SourceText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlglot import exp
    from sqlglot.tokenizer_core import Token
    from typing_extensions import Self

    from airflow_hive_acid.sql.model.origins import Fragment

OTHER_ROWS = (
    "each branch of this INSERT may get other rows, by {}; keep what all of them read: make a TEMPORARY TABLE of it "
    "before, and write FROM that table"
)
_BARE = ("CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIMESTAMP")
"""Read as functions with and without parentheses."""
_CALLED = ("NOW", "CURDATE", "UNIX_TIMESTAMP")
_NO_OPERATOR = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.R_PAREN)
"""Directly behind one of these a word is its alias."""
_CLOCK = re.compile(rf"\b(?:{'|'.join((*_BARE, *_CALLED))})\b", re.IGNORECASE)
_EVERYTHING, _NOTHING = (0, sys.maxsize), (0, 0)


@dataclass(frozen=True, slots=True)
class Common:
    """What holds for all queries of a statement, in the text of one of them or of a view that it reads.

    :param now: the time of the statement, milliseconds since 1970; asked if a text reads the clock, always the same.
    :param clause: where the common FROM clause stands in the text: first character, and the one after the last.
    """

    now: Callable[[], int]
    clause: tuple[int, int] = _NOTHING

    def of_branch(self, query: Fragment) -> Self:
        """Of a branch, whose query is its SELECT list, the FROM clause, and what follows the list."""
        return replace(self, clause=query.ranges[1])

    def of_view(self, table: exp.Table) -> Self:
        """Of the text of a view that is read there."""
        first, end = self.clause
        return replace(self, clause=_EVERYTHING if first <= table.this.meta["start"] < end else _NOTHING)

    def edits(self, script: str, fragment: Fragment) -> Iterator[tuple[int, int, str]]:
        """The time, in the place of each function that reads a clock.

        :raises UnsupportedStatementError: when the rows of the clause would be others for each branch.
        """
        if self.clause == _NOTHING and not any(_CLOCK.search(script, first, end) for first, end in fragment.ranges):
            return
        source = SourceText(script)
        first, end = self.clause
        chance = chance_in([token for token in source.tokens if _is_in(token, fragment) and first <= token.start < end])
        if chance is not None:
            raise source.unsupported(OTHER_ROWS.format(chance[0]), chance[1].start, chance[1].end)
        yield from self._times(source, lambda token: _is_in(token, fragment))

    def timed(self, text: str) -> str:
        """An expression of the catalog, a DEFAULT, with the time in the place of each function that reads a clock."""
        if _CLOCK.search(text) is None:
            return text
        for first, end, constant in reversed(list(self._times(SourceText(text), lambda _: True))):
            text = text[:first] + constant + text[end:]
        return text

    def _times(self, source: SourceText, counts: Callable[[Token], bool]) -> Iterator[tuple[int, int, str]]:
        for at, token in enumerate(source.tokens):
            last = _end_of_clock(source.tokens, at) if counts(token) else None
            if last is not None:
                yield token.start, source.tokens[last].end + 1, _constant(token.text.upper(), self.now())


def _is_in(token: Token, fragment: Fragment) -> bool:
    return any(first <= token.start < end for first, end in fragment.ranges)


def _end_of_clock(tokens: Sequence[Token], at: int) -> int | None:
    """The last token of a function that reads a clock and begins there; None when none does."""
    token, word = tokens[at], tokens[at].text.upper()
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) or word not in (*_BARE, *_CALLED):
        return None
    before = tokens[at - 1] if at else None
    if before is not None and (before.token_type in _NO_OPERATOR or before.text.upper() in (".", "AS")):
        return None
    following = [token.text for token in tokens[at + 1 : at + 3]]
    if following == ["(", ")"]:
        return at + 2
    return at if word in _BARE and following[:1] not in (["("], ["."]) else None


def _constant(word: str, now_ms: int) -> str:
    """What a function that reads a clock is at that time; sessions are in UTC."""
    now = datetime.fromtimestamp(now_ms / 1000, timezone.utc)
    text = now.replace(tzinfo=None).isoformat(" ", "milliseconds")
    if word == "UNIX_TIMESTAMP":
        return f"{now_ms // 1000}L"
    if word in ("CURRENT_DATE", "CURDATE"):
        return f"DATE '{now.date()}'"
    return f"TIMESTAMP_NTZ '{text}'" if word == "LOCALTIMESTAMP" else f"TIMESTAMP '{text}Z'"
