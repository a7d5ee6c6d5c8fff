"""The text of a script and its places: tokens, lines, and errors that underline what they are about."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp
from sqlglot.dialects.hive import Hive
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from airflow_hive_acid.errors import SqlSyntaxError, UnsupportedStatementError
from airflow_hive_acid.sql.text.bounds import TOO_DEEP, problem_in
from airflow_hive_acid.sql.text.casts import keep_types, may_have_casts
from airflow_hive_acid.sql.text.literals import text_of
from airflow_hive_acid.sql.text.table_options import OPTIONS, table_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot.tokenizer_core import Token

_SQLGLOT_LOG = logging.getLogger("sqlglot")
SAMPLE_END = "hive_acid_sample_end"
"""Key of a table's ``meta``: the last character of its TABLESAMPLE clause."""
_SHOWN_WIDTH = 100
_QUOTES = ("'", '"')
_FAILURES: tuple[type[Exception], ...] = (
    SqlglotError,
    RecursionError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What a parser that is not ours may raise over a text it did not expect; each means that the text is not SQL."""


class HiveSql(Hive):
    """sqlglot's Hive dialect, except that SHOW and its like are words and not the start of an opaque rest, and that
    ``X'01'`` and ``r'\\d'`` are constants, as in Spark."""

    class Tokenizer(Hive.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]
        RAW_STRINGS: ClassVar[list[str | tuple[str, str]]] = [(f"{r}{quote}", quote) for r in "rR" for quote in "'\""]
        STRING_ESCAPES_ALLOWED_IN_RAW_STRINGS = False


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """sqlglot logs what it keeps as opaque text; here that is an error, which says so itself.

    A parser of ours that overrides its would not do: nothing can inherit from the compiled one (``sqlglot[c]``).
    """
    thread = threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    _SQLGLOT_LOG.addFilter(is_of_others)
    try:
        yield
    finally:
        _SQLGLOT_LOG.removeFilter(is_of_others)


class SourceText:
    """A script and its tokens.

    :raises SqlSyntaxError: for a quote or comment that is never closed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.tokens: list[Token] = HiveSql().tokenize(text)
        except _FAILURES as error:
            raise self._unclosed(error) from None
        for token in self.tokens:
            if token.token_type is TokenType.RAW_STRING:
                token.token_type = TokenType.STRING
        for token in self.tokens if "\\" in text else ():
            if token.token_type is TokenType.STRING:
                token.text = text_of(text[token.start : token.end + 1])
        if may_have_casts(text):
            keep_types(self.tokens)

    def syntax_error(self, problem: str, start: int, end: int) -> SqlSyntaxError:
        """An error about the characters ``start``..``end`` (the last one included)."""
        return SqlSyntaxError(describe(self.text, problem, start, end))

    def unsupported(self, problem: str, start: int, end: int) -> UnsupportedStatementError:
        """Refuse a construct at its place."""
        return UnsupportedStatementError(describe(self.text, problem, start, end))

    def parse(self, tokens: list[Token]) -> exp.Expr:
        """Parse tokens of this text as one statement of Hive's dialect.

        :raises SqlSyntaxError: underlining the place.
        """
        refused = problem_in(tokens)
        if refused is not None:
            problem, token = refused
            raise self.syntax_error(problem, token.start, token.end)
        options, tokens = table_options(tokens)
        try:
            with _without_warnings():
                trees = HiveSql().parser().parse(tokens, self.text)
        except _FAILURES as error:
            raise self._parse_error(error, tokens) from None
        if any(tree is not None and tree.find(exp.Command) for tree in trees):
            raise self.syntax_error("something here is no part of a query", tokens[0].start, tokens[-1].end)
        if len(trees) != 1 or trees[0] is None:
            raise self.syntax_error("this is no statement", tokens[0].start, tokens[-1].end)
        for table in trees[0].find_all(exp.Table) if options else ():
            found = options.pop(table.this.meta.get("start", -1), None)
            if found is not None:
                table.meta[OPTIONS] = found
        for table in trees[0].find_all(exp.Table):
            if table.args.get("sample"):
                table.meta[SAMPLE_END] = _end_of_sample(tokens, int(table.this.meta.get("end", -1)))
        for start, stray in options.items():
            raise self.syntax_error(f"{stray.shown} is an option of a table in FROM", start, stray.end)
        return trees[0]

    def _parse_error(self, error: Exception, tokens: list[Token]) -> SqlSyntaxError:
        if isinstance(error, RecursionError):
            return self.syntax_error(TOO_DEEP, tokens[0].start, tokens[0].end)
        details = (getattr(error, "errors", None) or [{}])[0]
        place = (details.get("line"), details.get("col"))
        index = next((i for i, token in enumerate(tokens) if (token.line, token.col) == place), len(tokens) - 1)
        last = index == len(tokens) - 1
        problem = str(details.get("description") or "this cannot be read").replace("Invalid expression / ", "")
        if "SENTINEL" in problem or "missing for" in problem or (last and not problem.startswith("Unexpected")):
            # The parser names its own classes here; what a reader can see is where it stopped.
            after = "the end of the statement" if last else repr(tokens[index].text)
            missing = problem.split(" but got")[0] if problem.startswith("Expect") else "the statement is incomplete"
            problem = f"{missing} (at {after})"
        return self.syntax_error(problem[:1].lower() + problem[1:], tokens[index].start, tokens[index].end)

    def _unclosed(self, error: Exception) -> SqlSyntaxError:
        place = _unclosed_at(self.text)
        if place is None:
            return SqlSyntaxError(f"the script cannot be divided into words: {str(error)[:200]}")
        offset, what = place
        return self.syntax_error(f"this {what} is never closed", offset, offset)


def _end_of_sample(tokens: list[Token], name_end: int) -> int:
    """The last character of ``TABLESAMPLE (…) [REPEATABLE (…)]`` behind a table's name."""
    end, depth = name_end, 0
    for index, token in enumerate(tokens):
        if token.start <= name_end:
            continue
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth < 0:
            break
        end = token.end
        following = tokens[index + 1].text.upper() if index + 1 < len(tokens) else ""
        if token.token_type is TokenType.R_PAREN and depth == 0 and following != "REPEATABLE":
            break
    return end


def without_literals(text: str) -> str:
    """A statement with ``?`` in the place of each text and number: what may be shown where values may not."""
    literals = (TokenType.STRING, TokenType.NUMBER)
    found: list[str] = []
    position = 0
    for token in SourceText(text).tokens:
        if token.token_type in literals:
            found += [text[position : token.start], "?"]
            position = token.end + 1
    return "".join([*found, text[position:]])


def line_of(text: str, offset: int) -> int:
    """Line number of a character, from 1."""
    return text.count("\n", 0, offset) + 1


def describe(text: str, problem: str, start: int, end: int) -> str:
    """``line 3, column 7: problem``, and below it the line with the place underlined.

    :param start: first character of the place, ``end`` the last one.
    """
    start = max(0, min(start, len(text)))
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].split("\n", 1)[0].rstrip("\r")
    column = start - line_start
    # A long line is shown around the place, not from its beginning.
    skipped = max(0, min(column - _SHOWN_WIDTH // 2, len(line) - _SHOWN_WIDTH))
    shown = line[skipped : skipped + _SHOWN_WIDTH]
    # Tabs stay tabs below the line, or the marks would stand elsewhere.
    indent = "".join("\t" if c == "\t" else " " for c in shown[: column - skipped].ljust(column - skipped))
    marks = "^" * max(1, min(end - start + 1, len(shown) - len(indent)))
    return f"line {line_of(text, start)}, column {column + 1}: {problem}\n  {shown}\n  {indent}{marks}"


def _unclosed_at(text: str) -> tuple[int, str] | None:
    """The opening quote or comment that has no end."""
    position = 0
    while position < len(text):
        character = text[position]
        if text.startswith("--", position):
            position = text.find("\n", position)
            if position < 0:
                return None
        elif text.startswith("/*", position):
            end = text.find("*/", position + 2)
            if end < 0:
                return position, "comment"
            position = end + 1
        elif character in "rR" and text[position + 1 : position + 2] in _QUOTES and not _is_in_word(text, position):
            end = text.find(text[position + 1], position + 2)
            if end < 0:
                return position, "string"
            position = end
        elif character in "'\"`":
            end = _closing_quote(text, position)
            if end < 0:
                return position, "quoted name" if character == "`" else "string"
            position = end
        position += 1
    return None


def _is_in_word(text: str, position: int) -> bool:
    """Whether a character goes on with what begins before it."""
    return position > 0 and (text[position - 1].isalnum() or text[position - 1] == "_")


def _closing_quote(text: str, start: int) -> int:
    quote, position = text[start], start + 1
    while position < len(text):
        if text[position] == "\\" and quote != "`":
            position += 1
        elif text[position] == quote:
            return position
        position += 1
    return -1
