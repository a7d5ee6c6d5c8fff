"""Scripts as blocks: which statements share a transaction, decided before the first of them runs.

A BEGIN without an end, an end without a BEGIN, and a statement that cannot run inside a transaction are found here, so
that nothing has happened when they are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.sql.model.session import SessionStatement
from airflow_hive_acid.sql.model.statements import (
    Begin,
    Commit,
    CreateTable,
    CreateTemporaryTable,
    CreateTemporaryView,
    Delete,
    Insert,
    InsertDirectory,
    Merge,
    MultiInsert,
    Rollback,
    Select,
    Truncate,
    Update,
)
from airflow_hive_acid.sql.model.views import AlterViewQuery, CreateTemporaryQuery, CreateView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hive_acid.sql.model.statements import Statement

_DATA = (Insert, MultiInsert, Update, Delete, Merge, Select)


@dataclass(frozen=True, slots=True)
class Block:
    """Statements that belong together.

    :param statements: without BEGIN and its end; exactly one when ``transactional`` is false.
    :param transactional: whether they share one transaction.
    :param begin: the BEGIN, None when the caller asked for the transaction.
    :param end: the COMMIT or ROLLBACK, None when the caller asked for the transaction: then it commits.
    """

    statements: tuple[Statement, ...]
    transactional: bool = False
    begin: Begin | None = None
    end: Commit | Rollback | None = None


def blocks(statements: Sequence[Statement], one_transaction: bool = False) -> list[Block]:
    """Divide a script into blocks.

    :param one_transaction: all statements share one transaction; the script has no BEGIN of its own then.
    :raises InvalidArgumentsError: for a BEGIN without an end, an end without a BEGIN, a BEGIN inside another.
    :raises UnsupportedStatementError: for a statement that cannot run inside a transaction.
    """
    if not one_transaction:
        return list(_divide(statements))
    for statement in statements:
        if isinstance(statement, Begin | Commit | Rollback):
            raise InvalidArgumentsError(
                f"line {statement.line}: {_word(statement)} in a script that runs in one transaction; remove it, or "
                "run the script without one_transaction"
            )
        _check_inside(statement)
    return [Block(tuple(statements), transactional=True)]


def needs_spark(statement: Statement) -> bool:
    """Whether a statement runs a Spark job."""
    is_ctas = isinstance(statement, CreateTable) and statement.query is not None
    return is_ctas or isinstance(statement, (CreateTemporaryTable, *_DATA, InsertDirectory, CreateView, AlterViewQuery))


def _divide(statements: Sequence[Statement]) -> Iterator[Block]:
    begin: Begin | None = None
    inside: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Begin):
            if begin is not None:
                raise InvalidArgumentsError(
                    f"line {statement.line}: BEGIN inside the transaction that begins on line {begin.line}; "
                    "COMMIT or ROLLBACK that one first"
                )
            begin, inside = statement, []
        elif isinstance(statement, Commit | Rollback):
            if begin is None:
                raise InvalidArgumentsError(f"line {statement.line}: {_word(statement)} without a BEGIN before it")
            yield Block(tuple(inside), transactional=True, begin=begin, end=statement)
            begin = None
        elif begin is None:
            yield Block((statement,))
        else:
            _check_inside(statement)
            inside.append(statement)
    if begin is not None:
        raise InvalidArgumentsError(
            f"line {begin.line}: BEGIN without a COMMIT or ROLLBACK in the same script; nothing was run"
        )


def _check_inside(statement: Statement) -> None:
    if not isinstance(statement, (*_DATA, Truncate, CreateTemporaryView, CreateTemporaryQuery, SessionStatement)):
        raise UnsupportedStatementError(
            f"line {statement.line}: {statement.kind_text.replace('_', ' ').upper()} cannot run inside a transaction: "
            "others see what it does to the catalog before the COMMIT, and a ROLLBACK would not take it back. Only "
            "SELECT, INSERT, UPDATE, DELETE, MERGE, TRUNCATE and CREATE TEMPORARY VIEW can. Put it before the BEGIN"
        )


def _word(statement: Begin | Commit | Rollback) -> str:
    return type(statement).__name__.upper()
