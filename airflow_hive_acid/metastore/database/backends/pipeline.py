"""Batches on PostgreSQL: prepared statements that travel, and are answered, in one round trip.

libpq's pipeline mode, through psycopg's documented ``psycopg.pq``. The server still runs one statement after the other,
each with a snapshot of its own (R3); the first error skips the rest. Parameters are text, integers or NULL, whose types
the statements themselves name; that, and preparing each statement once per connection, is what makes the hot verbs
cheap for the client.
"""

from __future__ import annotations

import re
import select as waiting
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PARAMETER = re.compile(r"%\((\w+)\)s|%%")
_PREPARED, _PREPARED_COUNT = "hive_acid_prepared", "hive_acid_prepared_count"


class ExecStatus(IntEnum):
    """libpq's ExecStatusType, as far as it matters here; psycopg is imported only where PostgreSQL is used."""

    COMMAND_OK = 1
    TUPLES_OK = 2
    FATAL_ERROR = 7
    PIPELINE_SYNC = 10


class ConnStatus(IntEnum):
    """libpq's ConnStatusType."""

    BAD = 1


class TransactionStatus(IntEnum):
    """libpq's PGTransactionStatusType."""

    IDLE = 0


class ServerStatement(NamedTuple):
    """A statement as the server gets it.

    :param text: with ``$1``, ``$2`` …; ``names`` are the parameters in that order.
    :param fixed: values that belong to the statement itself.
    """

    text: bytes
    names: tuple[str, ...]
    fixed: Mapping[str, Any]


class Between(NamedTuple):
    """The end of a transaction of a batch, and the begin of the next one; it has no answer.

    :param before: a statement to be sent before the COMMIT.
    """

    before: bytes | None = None


class _Sent(NamedTuple):
    """What one of the results will be about.

    :param answers: a statement of the batch; ``prepares`` the text that a name was made for.
    """

    answers: bool = False
    prepares: bytes | None = None


_SILENT, _ANSWERS = _Sent(), _Sent(answers=True)
_COMMIT = b"COMMIT"


class Answer(NamedTuple):
    """Rows and row count of one statement."""

    rows: list[Any]
    rowcount: int


def server_statement(text: str, fixed: Mapping[str, Any]) -> ServerStatement:
    """Turn SQLAlchemy's text for psycopg into what the server reads.

    :param fixed: parameters with a value of their own.
    """
    names: list[str] = []

    def place(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "%"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return ServerStatement(
        _PARAMETER.sub(place, text).encode(),
        tuple(names),
        {name: value for name, value in fixed.items() if value is not None},
    )


def run(
    driver: Any,
    info: dict[Any, Any],
    steps: Sequence[tuple[ServerStatement, Mapping[str, Any]] | Between],
    commit: bool,
) -> list[Answer]:
    """Run statements in the connection's transaction, beginning one if there is none.

    :param driver: the psycopg connection; ``info`` remembers what it has prepared.
    :param steps: statements with their parameters.
    :param commit: end the transaction behind the last statement.
    """
    prepared: dict[bytes, bytes] = info.setdefault(_PREPARED, {})
    connection = driver.pgconn
    sent: list[_Sent] = []
    names: dict[bytes, bytes] = {}
    connection.enter_pipeline_mode()
    try:

        def send(text: bytes, values: list[bytes | None] | None, what: _Sent) -> None:
            name = prepared.get(text) or names.get(text)
            if name is None:
                info[_PREPARED_COUNT] = number = info.get(_PREPARED_COUNT, 0) + 1
                name = names[text] = b"hive_acid_%d" % number
                connection.send_prepare(name, text)
                sent.append(_Sent(prepares=text))
            connection.send_query_prepared(name, values)
            sent.append(what)

        if connection.transaction_status == TransactionStatus.IDLE:
            send(_begin(driver), None, _SILENT)
        for step in steps:
            if isinstance(step, Between):
                if step.before is not None:
                    send(step.before, None, _SILENT)
                send(_COMMIT, None, _SILENT)
                send(_begin(driver), None, _SILENT)
            else:
                send(step[0].text, _values(*step), _ANSWERS)
        if commit:
            send(_COMMIT, None, _SILENT)
        connection.pipeline_sync()
        results = _results(connection)
        connection.exit_pipeline_mode()
    except BaseException:
        # Interrupted half way: nobody can tell any more which answer belongs to what.
        driver.close()
        raise
    for result, what in zip(results, sent, strict=False):
        if what.prepares is not None and result.status == ExecStatus.COMMAND_OK:
            prepared[what.prepares] = names[what.prepares]
    return _answers(driver, results, sent)


def _begin(driver: Any) -> bytes:
    """The statement by which psycopg would begin a transaction here."""
    text = "BEGIN"
    if driver.isolation_level is not None:
        text += " ISOLATION LEVEL " + driver.isolation_level.name.replace("_", " ")
    if driver.read_only is not None:
        text += " READ ONLY" if driver.read_only else " READ WRITE"
    return text.encode()


def _values(statement: ServerStatement, parameters: Mapping[str, Any]) -> list[bytes | None]:
    values: list[bytes | None] = []
    for name in statement.names:
        value = parameters[name] if name in parameters else statement.fixed[name]
        if value is None:
            values.append(None)
        elif isinstance(value, str):
            if "\0" in value:
                raise ValueError(f"parameter {name} contains a NUL character")
            values.append(value.encode())
        elif isinstance(value, int):
            values.append(b"%d" % value)
        else:
            raise TypeError(f"parameter {name} is a {type(value).__name__}; batches carry text and whole numbers")
    return values


def _results(connection: Any) -> list[Any]:
    """The results of all that was sent, up to the end of the pipeline."""
    from psycopg import OperationalError

    results: list[Any] = []
    while True:
        while connection.flush() == 1:
            _wait(connection, waiting.POLLIN | waiting.POLLOUT)
            connection.consume_input()
        while connection.is_busy():
            _wait(connection, waiting.POLLIN)
            connection.consume_input()
        result = connection.get_result()
        if result is None:  # between two statements, or there will be none any more
            if connection.status == ConnStatus.BAD:
                raise OperationalError("the server closed the connection")
            continue
        if result.status == ExecStatus.PIPELINE_SYNC:
            return results
        results.append(result)


def _wait(connection: Any, events: int) -> None:
    """Wait for the server; other threads run meanwhile."""
    poll = waiting.poll()
    poll.register(connection.socket, events)
    poll.poll()


def _answers(driver: Any, results: Sequence[Any], sent: Sequence[_Sent]) -> list[Answer]:
    from psycopg import adapt, errors

    answers = []
    for result, what in zip(results, sent, strict=False):
        if result.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(result)
        if not what.answers:
            continue
        rows: list[Any] = []
        if result.status == ExecStatus.TUPLES_OK and result.ntuples:
            transformer = adapt.Transformer(driver)
            transformer.set_pgresult(result)
            rows = transformer.load_rows(0, result.ntuples, tuple)
        answers.append(Answer(rows, result.command_tuples or 0))
    return answers
