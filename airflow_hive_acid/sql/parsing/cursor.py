"""A cursor over the tokens of one statement, for the parts of SQL that we read word by word."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

from airflow_hive_acid.sql.model.statements import TableName

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

    from airflow_hive_acid.errors import SqlSyntaxError, UnsupportedStatementError
    from airflow_hive_acid.sql.text.source import SourceText

_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_CLOSED_BY = {"(": ")", "[": "]", "CASE": "END"}
_NAME = re.compile(r"[A-Za-z0-9_]+")


class Cursor:
    """Reads one statement from left to right.

    :param tokens: the tokens of the statement, without its semicolon.
    """

    def __init__(self, source: SourceText, tokens: list[Token], default_database: str) -> None:
        self.source = source
        self.tokens = tokens
        self.default_database = default_database
        self.position = 0

    @property
    def at_end(self) -> bool:
        """Whether everything has been read."""
        return self.position >= len(self.tokens)

    @property
    def span(self) -> tuple[int, int]:
        """First and last character of the statement."""
        return self.tokens[0].start, self.tokens[-1].end

    def word(self, ahead: int = 0) -> str:
        """The unquoted word or sign at the cursor (or further ahead), in upper case; empty for anything else."""
        index = self.position + ahead
        if index >= len(self.tokens) or self.tokens[index].token_type in _QUOTED:
            return ""
        return self.tokens[index].text.upper()

    def at(self, *words: str) -> bool:
        """Whether these words follow."""
        return self._match(words) > 0

    def accept(self, *words: str) -> bool:
        """Read these words if they follow."""
        matched = self._match(words)
        self.position += matched
        return matched > 0

    def expect(self, *words: str) -> None:
        """Read these words.

        :raises SqlSyntaxError: when something else follows.
        """
        if not self.accept(*words):
            raise self.expected(" ".join(words))

    def name(self, what: str) -> str:
        """Read a name, in lower case."""
        token = self.next(what)
        if token.token_type is TokenType.IDENTIFIER and not _NAME.fullmatch(token.text):
            raise self.error(f"{self._shown(token)} cannot be {what}: Hive allows a to z, digits and _ there", token)
        if token.token_type is TokenType.STRING or not _NAME.fullmatch(token.text):
            raise self.error(f"expected {what}, found {self._shown(token)}", token)
        return token.text.lower()

    def column_name(self, what: str = "a column name") -> str:
        """Read a column name, in lower case; in backquotes it may hold anything."""
        token = self.next(what)
        if token.token_type is TokenType.IDENTIFIER and token.text:
            return token.text.lower()
        if token.token_type is TokenType.STRING or not _NAME.fullmatch(token.text):
            raise self.error(f"expected {what}, found {self._shown(token)}", token)
        return token.text.lower()

    def table_name(self) -> TableName:
        """Read ``[db.]table``."""
        first = self.name("a table name")
        if not self.accept("."):
            return TableName(self.default_database, first)
        second = self.name("a table name")
        if self.at("."):
            raise self.error("a table name has two parts, database.table")
        return TableName(first, second)

    def string(self, what: str) -> str:
        """Read a quoted string."""
        token = self.next(what)
        if token.token_type is not TokenType.STRING:
            raise self.error(f"expected {what} in quotes, found {self._shown(token)}", token)
        return token.text

    def number(self, what: str) -> int:
        """Read a whole number."""
        token = self.next(what)
        if token.token_type is not TokenType.NUMBER or not token.text.isdecimal():
            raise self.error(f"expected {what}, found {self._shown(token)}", token)
        return int(token.text)

    def value(self, what: str) -> str:
        """Read a literal as text: a string, a number, TRUE or FALSE, ``DATE '…'``."""
        sign = "-" if self.accept("-") else ""
        if not sign and self.word() in ("DATE", "TIMESTAMP") and self._is_string(1):
            self.position += 1
            return self.string(what)
        token = self.next(what)
        if token.token_type is TokenType.NUMBER or (not sign and token.token_type is TokenType.STRING):
            return sign + token.text
        if not sign and token.token_type is not TokenType.IDENTIFIER and token.text.upper() in ("TRUE", "FALSE"):
            return token.text.lower()
        raise self.error(f"expected {what}, found {self._shown(token)}", token)

    def names_in_parentheses(self, what: str = "a column name") -> tuple[str, ...]:
        """Read ``(a, b, …)``."""
        self.expect("(")
        names = [self.column_name(what)]
        while self.accept(","):
            names.append(self.column_name(what))
        self.expect(")")
        return tuple(names)

    def end(self) -> None:
        """Make sure that nothing is left."""
        if not self.at_end:
            raise self.error(f"unexpected {self._shown(self.tokens[self.position])}: the statement should end here")

    def next(self, what: str) -> Token:
        """Read any token."""
        if self.at_end:
            raise self.expected(what)
        self.position += 1
        return self.tokens[self.position - 1]

    def rest(self) -> list[Token]:
        """The tokens not read yet."""
        return self.tokens[self.position :]

    def until(self, *stops: str) -> list[Token]:
        """Read up to one of these words or signs outside of parentheses and CASE, or to the end.

        The FROM of ``IS DISTINCT FROM`` is none of them, and an END that no CASE has opened is a name (``window.end``).
        """
        first = self.position
        closing: list[str] = []
        before = ""
        while not self.at_end:
            word = self.word()
            if not closing and word in stops and not (word == "FROM" and before == "DISTINCT"):
                break
            if word in _CLOSED_BY and before != ".":
                closing.append(_CLOSED_BY[word])
            elif closing and word == closing[-1]:
                closing.pop()
            before = word
            self.position += 1
        return self.tokens[first : self.position]

    def expected(self, what: str) -> SqlSyntaxError:
        """The error that something is missing at the cursor."""
        found = "the end of the statement" if self.at_end else self._shown(self.tokens[self.position])
        return self.error(f"expected {what}, found {found}")

    def error(self, problem: str, token: Token | None = None) -> SqlSyntaxError:
        """A syntax error at a token, by default the one at the cursor."""
        return self.source.syntax_error(problem, *self._span(token))

    def unsupported(self, problem: str, token: Token | None = None) -> UnsupportedStatementError:
        """Refuse a construct at a token, by default the one at the cursor."""
        return self.source.unsupported(problem, *self._span(token))

    def _span(self, token: Token | None) -> tuple[int, int]:
        if token is None:
            if self.at_end:
                last = self.tokens[-1]
                return last.end + 1, last.end + 1
            token = self.tokens[self.position]
        return token.start, token.end

    def _match(self, words: tuple[str, ...]) -> int:
        """How many tokens these words are (``PARTITIONED BY`` is one); 0 when something else follows."""
        found: list[str] = []
        count = 0
        while len(found) < len(words) and (word := self.word(count)):
            found.extend(word.split())
            count += 1
        return count if tuple(found) == words else 0

    def _is_string(self, ahead: int) -> bool:
        index = self.position + ahead
        return index < len(self.tokens) and self.tokens[index].token_type is TokenType.STRING

    @staticmethod
    def _shown(token: Token) -> str:
        text = token.text if len(token.text) <= 40 else token.text[:40] + "…"
        return f"'{text}'"
