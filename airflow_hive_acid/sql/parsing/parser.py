"""A script → its statements.

Statements are separated by semicolons; strings, quoted names and comments may contain them. What is not supported is
refused by name, with the nearest statement that is; what is no SQL is underlined.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from sqlglot.tokenizer_core import TokenType

from airflow_hive_acid.sql.model.session import Use
from airflow_hive_acid.sql.model.statements import Explain
from airflow_hive_acid.sql.parsing import (
    alter,
    commands,
    ddl,
    directories,
    dml,
    leases,
    lookups,
    multi_insert,
    refusals,
    replication,
    session,
    statistics,
    views,
)
from airflow_hive_acid.sql.parsing.cursor import Cursor
from airflow_hive_acid.sql.text.source import SourceText, line_of
from airflow_hive_acid.sql.text.variables import substitute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlglot.tokenizer_core import Token

    from airflow_hive_acid.sql.model.statements import PlainStatement, Statement
    from airflow_hive_acid.sql.text.variables import Variables


def parse_script(text: str, default_database: str = "default", variables: Variables | None = None) -> list[Statement]:
    """All statements of a script, in order; none is looked up or run.

    :param default_database: database of unqualified table names, up to the first USE.
    :param variables: what stands for ``${…}`` in the text; None leaves it as it is.
    :raises SqlSyntaxError: for what is no SQL, with line, column and the place underlined.
    :raises UnsupportedStatementError: for SQL that we do not run, with the nearest that we do.
    """
    source = SourceText(text if variables is None else substitute(text, variables))
    database = default_database.lower()
    found: list[Statement] = []
    for tokens in _split(source):
        statement = _statement(source, tokens, database)
        if isinstance(statement, Use):
            database = statement.database
        found.append(statement)
    return found


def _split(source: SourceText) -> Iterator[list[Token]]:
    tokens: list[Token] = []
    for token in source.tokens:
        if token.token_type is TokenType.SEMICOLON:
            if tokens:
                yield tokens
            tokens = []
        else:
            tokens.append(token)
    if tokens:
        yield tokens


def _statement(source: SourceText, tokens: list[Token], default_database: str) -> Statement:
    _check_tokens(source, tokens)
    first, last = tokens[0], tokens[-1]
    origin: dict[str, Any] = {
        "text": source.text[first.start : last.end + 1],
        "line": line_of(source.text, first.start),
        "script": source.text,
        "offset": first.start,
        "default_database": default_database,
    }
    if Cursor(source, tokens, default_database).word() == "EXPLAIN":
        return _explain(source, tokens, origin)
    return _plain(source, tokens, origin)


def _explain(source: SourceText, tokens: list[Token], origin: dict[str, Any]) -> Explain:
    """``EXPLAIN [LOCKS] statement``; Hive's other variants are refused by name."""
    cursor = Cursor(source, tokens, origin["default_database"])
    cursor.position = 1
    locks = cursor.accept("LOCKS")
    for word in () if locks else _EXPLAIN_WORDS:
        if cursor.at(word):
            raise cursor.unsupported(f"EXPLAIN {word} is not supported; EXPLAIN and EXPLAIN LOCKS are")
    rest = cursor.rest()
    if not rest:
        raise cursor.expected("a statement")
    if cursor.at("EXPLAIN"):
        raise cursor.error("EXPLAIN explains a statement, and not another EXPLAIN")
    first, last = rest[0], rest[-1]
    inner = {**origin, "text": source.text[first.start : last.end + 1], "offset": first.start}
    return Explain(_plain(source, rest, {**inner, "line": line_of(source.text, first.start)}), locks, **origin)


def _plain(source: SourceText, tokens: list[Token], origin: dict[str, Any]) -> PlainStatement:
    first = tokens[0]
    cursor = Cursor(source, tokens, origin["default_database"])
    word = cursor.word()
    session.refuse_if_of_a_session(cursor, word)
    if word in ("BEGIN", "START", "COMMIT", "ROLLBACK"):
        return commands.parse_transaction(cursor, origin)
    if word in _PARSERS:
        cursor.position = 1
        return _PARSERS[word](cursor, origin)
    if word == "WITH":
        return dml.parse_with(cursor, origin)
    if word == "TABLE":
        return dml.parse_table(cursor, origin)
    if word == "FROM" and multi_insert.is_multi_insert(cursor):
        return multi_insert.parse_multi_insert(cursor, origin)
    if word in ("SELECT", "VALUES", "FROM", "("):
        return dml.parse_select(cursor, origin)
    if word in refusals.BEGINNINGS:
        raise cursor.unsupported(f"{word} is not supported; instead: {refusals.BEGINNINGS[word]}")
    known = [*_PARSERS, "EXPLAIN", "SELECT", "WITH", "VALUES", "BEGIN", "COMMIT", "ROLLBACK", "START"]
    near = difflib.get_close_matches(word, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"statements begin with {', '.join(sorted(known))}"
    raise cursor.error(f"no statement begins with {first.text[:40]!r}; {hint}")


def _check_tokens(source: SourceText, tokens: list[Token]) -> None:
    """What the parser forgives and a reader would not: a comma with nothing behind it, unbalanced parentheses."""
    opened: list[Token] = []
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if token.token_type is TokenType.COMMA and (
            following is None or following.token_type in (TokenType.COMMA, TokenType.R_PAREN, TokenType.FROM)
        ):
            raise source.syntax_error("nothing follows this comma", token.start, token.end)
        if following is None and token.token_type in _NEVER_LAST:
            raise source.syntax_error(f"a condition must follow {token.text.upper()}", token.start, token.end)
        if token.token_type is TokenType.L_PAREN:
            opened.append(token)
        elif token.token_type is TokenType.R_PAREN:
            if not opened:
                raise source.syntax_error("this parenthesis was never opened", token.start, token.end)
            opened.pop()
    if opened:
        raise source.syntax_error("this parenthesis is never closed", opened[-1].start, opened[-1].end)


def _insert(cursor: Cursor, origin: dict[str, Any]) -> PlainStatement:
    if cursor.at("OVERWRITE", "LOCAL", "DIRECTORY") or cursor.at("OVERWRITE", "DIRECTORY"):
        return directories.parse_insert_directory(cursor, origin)
    return dml.parse_insert(cursor, origin)


def _show(cursor: Cursor, origin: dict[str, Any]) -> PlainStatement:
    if cursor.accept("LEASE") or cursor.accept("LEASES"):
        return leases.parse_show_lease(cursor, origin)
    return lookups.parse_lookup(cursor, origin) or commands.parse_show(cursor, origin)


def _create(cursor: Cursor, origin: dict[str, Any]) -> PlainStatement:
    for words in (("FUNCTION",), ("TEMPORARY", "FUNCTION"), ("TEMPORARY", "MACRO")):
        if cursor.at(*words):
            raise cursor.unsupported(f"CREATE {' '.join(words)} is not supported: {session.NO_FUNCTIONS}")
    refusals.refuse_object(cursor, "CREATE")
    return views.parse_create_view(cursor, origin) or ddl.parse_create(cursor, origin)


def _drop(cursor: Cursor, origin: dict[str, Any]) -> PlainStatement:
    if cursor.accept("FORCE"):
        return leases.parse_drop_force_lease(cursor, origin)
    refusals.refuse_object(cursor, "DROP")
    return views.parse_drop_view(cursor, origin) or ddl.parse_drop(cursor, origin)


def _alter(cursor: Cursor, origin: dict[str, Any]) -> PlainStatement:
    refusals.refuse_object(cursor, "ALTER")
    return views.parse_alter_view(cursor, origin) or alter.parse_alter(cursor, origin)


_EXPLAIN_WORDS = ("EXTENDED", "AST", "AUTHORIZATION", "CBO", "DEBUG", "DEPENDENCY", "FORMATTED", "REOPTIMIZATION",
                  "VECTORIZATION", "ANALYZE", "LOGICAL", "CODEGEN", "COST", "DDL")  # fmt: skip
_NEVER_LAST = (TokenType.ON, TokenType.WHERE, TokenType.HAVING, TokenType.AND, TokenType.OR)
_PARSERS: dict[str, Callable[[Cursor, dict[str, Any]], PlainStatement]] = {
    "ABORT": commands.parse_abort,
    "ALTER": _alter,
    "ANALYZE": statistics.parse_analyze,
    "CREATE": _create,
    "DELETE": dml.parse_delete,
    "DESC": lookups.parse_describe,
    "DESCRIBE": lookups.parse_describe,
    "DROP": _drop,
    "EXPORT": replication.parse_export,
    "IMPORT": replication.parse_import,
    "INSERT": _insert,
    "LOAD": commands.parse_load,
    "MERGE": dml.parse_merge,
    "MSCK": alter.parse_msck,
    "MSCK REPAIR": alter.parse_msck,
    "RESET": session.parse_reset,
    "SET": session.parse_set,
    "SHOW": _show,
    "TRUNCATE": commands.parse_truncate,
    "UPDATE": dml.parse_update,
    "USE": session.parse_use,
}
