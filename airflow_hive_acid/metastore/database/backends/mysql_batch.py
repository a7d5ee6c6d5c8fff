"""Batches on MySQL and MariaDB: statements that travel in one text, and are answered one after the other.

The protocol's ``CLIENT_MULTI_STATEMENTS``. The server runs each as a statement of its own, with its own view of the
data at READ COMMITTED, and what follows a lock sees what the lock waited for (R3). The first error ends the batch: the
statements behind it are not run. The COMMIT does not travel with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_hive_acid.errors import MetastoreUnavailableError
from airflow_hive_acid.metastore.database.backend import Result
from airflow_hive_acid.metastore.database.layouts import layout_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection, Dialect
    from sqlalchemy.sql.base import Executable

    from airflow_hive_acid.metastore.database.backend import Step

_MULTI_STATEMENTS, _FOUND_ROWS = 1 << 16, 1 << 1
FLAGS = _MULTI_STATEMENTS | _FOUND_ROWS
"""The driver's ``client_flag``; with that of SQLAlchemy's own, by which row counts are those of the rows found."""
_LONGEST = 256 * 1024
"""Characters of a text; a server takes 1 MiB and more (``max_allowed_packet``), of up to four bytes each."""


class _Statement(NamedTuple):
    """A statement as the driver takes it.

    :param fixed: parameters with a value of their own; a step must give all others.
    :param writers: what makes the driver's values of parameters that need it.
    :param readers: per column of its rows what makes a value of what the driver gives, None where that is the value.
    """

    text: str
    fixed: Mapping[str, Any]
    writers: Mapping[str, Callable[[Any], Any]]
    readers: Sequence[Callable[[Any], Any] | None]


_COMPILED: dict[tuple[Any, ...], _Statement | None] = {}


def execute(
    connection: Connection, steps: Sequence[Step], apart: Callable[[Connection, Sequence[Step]], list[Result]]
) -> list[Result]:
    """Run the statements of a batch in the connection's transaction, beginning one if there is none.

    :param apart: runs those whose text depends on the values (IN lists).
    :return: rows and row count of each.
    """
    if not connection.in_transaction():
        connection.begin()  # what the batch begins is committed, or undone, by SQLAlchemy
    results: list[Result] = []
    waiting: list[tuple[_Statement, Mapping[str, Any]]] = []
    for step in steps:
        statement = _compiled(connection, step.statement)
        if statement is not None:
            waiting.append((statement, step.parameters))
            continue
        results += _send(connection, waiting)
        results += apart(connection, [step])
        waiting = []
    return results + _send(connection, waiting)


def _send(connection: Connection, steps: Sequence[tuple[_Statement, Mapping[str, Any]]]) -> list[Result]:
    driver: Any = connection.connection.driver_connection
    # Something between us and the server may not be able to do it, and says so.
    longest = _LONGEST if driver.server_capabilities & _MULTI_STATEMENTS else 0
    results: list[Result] = []
    cursor = driver.cursor()
    try:
        texts = [_with_values(cursor, statement, given) for statement, given in steps]
        for first, last in _parts(texts, longest):
            cursor.execute(";\n".join(texts[first:last]))
            for number in range(first, last):
                if number > first and not cursor.nextset():
                    raise MetastoreUnavailableError(
                        f"the metastore's server, or a proxy in front of it, has answered {number - first} of "
                        f"{last - first} statements that were sent in one text; connect to the server itself"
                    )
                results.append(_result(cursor, steps[number][0]))
    except Exception as error:
        dialect: Any = connection.dialect
        lost = dialect.is_disconnect(error, driver, cursor)
        if lost or not driver.open:
            connection.invalidate(error)
        if lost:  # what broke one connection, a restarted server perhaps, has broken the pool's others
            connection.engine.dispose()
        raise
    except BaseException:
        connection.invalidate()  # interrupted half way: nobody can tell any more which answer belongs to what
        raise
    return results


def _parts(texts: Sequence[str], longest: int) -> Iterator[tuple[int, int]]:
    """Where what travels together begins and ends; a statement that is longer travels alone."""
    first = length = 0
    for number, text in enumerate(texts):
        if number > first and length + len(text) > longest:
            yield first, number
            first, length = number, 0
        length += len(text)
    if texts:
        yield first, len(texts)


def _with_values(cursor: Any, statement: _Statement, given: Mapping[str, Any]) -> str:
    values = {**statement.fixed, **given}
    for name, writer in statement.writers.items():
        values[name] = writer(values[name])
    return str(cursor.mogrify(statement.text, values))


def _result(cursor: Any, statement: _Statement) -> Result:
    if cursor.description is None:
        return Result([], cursor.rowcount)
    rows = cursor.fetchall()
    if any(statement.readers):
        rows = [
            tuple(v if read is None else read(v) for v, read in zip(row, statement.readers, strict=True))
            for row in rows
        ]
    return Result(list(rows), cursor.rowcount)


def _compiled(connection: Connection, statement: Executable) -> _Statement | None:
    # A process may know several servers, and a text is for one.
    dialect = connection.dialect
    key = (layout_tag(connection), dialect.server_version_info, getattr(dialect, "is_mariadb", False), statement)
    if key not in _COMPILED:
        _COMPILED[key] = _compile(statement, dialect)
    return _COMPILED[key]


def _compile(statement: Executable, dialect: Dialect) -> _Statement | None:
    compiled: Any = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
    if compiled.post_compile_params:
        return None
    names: Mapping[Any, str] = compiled.bind_names
    wanted = {name for bound, name in names.items() if bound.required}
    fixed = {name: value for name, value in compiled.params.items() if name not in wanted}
    writers = {
        name: writer
        for bound, name in names.items()
        if (writer := bound.type.dialect_impl(dialect).bind_processor(dialect)) is not None
    }
    columns = getattr(statement, "selected_columns", ())
    readers = [column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns]
    return _Statement(compiled.string, fixed, writers, readers)
