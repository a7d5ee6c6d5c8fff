"""``hive-acid ingest``: lines of JSON into a table, in transactions that share their files."""

from __future__ import annotations

import contextlib
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_hive_acid.cli.commands.lease import lease_of_environment
from airflow_hive_acid.cli.commands.statements.sql import reporter
from airflow_hive_acid.cli.output import say
from airflow_hive_acid.cli.progress import progress
from airflow_hive_acid.cli.session import parse_pairs
from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError
from airflow_hive_acid.metastore.names import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.engine.streams.batches import TransactionBatch


def ingest(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="[database.]table.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="One JSON object a line; - for standard input.")],
    partition: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="A partition column that the records do not have; may be repeated."),
    ] = None,
    every: Annotated[int, typer.Option(min=1, metavar="N", help="Commit after so many records.")] = 10_000,
    transactions: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", show_default="hive.acid.batch.transactions", help="Opened at once."),
    ] = None,
    stream: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Remember in the table how far the file has been read, and go on there."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress messages.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="All progress messages.")] = False,
) -> None:
    """Write records into a full ACID table, a transaction for every N of them.

    Readers see each transaction when it is committed. The first record that does not fit its columns is named, and
    what was committed before it stays. With --stream NAME a second run goes on behind the last line that was committed:
    each line is applied once, however often this is killed and started again.
    """
    session: CliSession = context.obj
    leases = session.client().leases
    lease = lease_of_environment(leases)
    with (
        _opened(file) as source,
        progress(reporter(quiet, verbose), not quiet) as listener,
        session.engine(listener) as engine,
        leases.under(lease),
        engine.batch(
            table, partition=parse_pairs("--partition", partition or []), transactions=transactions, stream=stream
        ) as batch,
    ):
        done = 0 if stream is None else _line(batch.position, table, stream)
        lines = commits = number = 0
        for number, record in _records(file, source, done, stream):
            try:
                batch.write([record])
            except BadRecordError as error:
                raise BadRecordError(f"{file}, line {number}: {error}") from None
            lines += 1
            if batch.pending == every:
                commits += _commit(batch, number, stream)
                done = number
        if batch.pending:
            commits += _commit(batch, number, stream)
    say(f"{lines} records in {commits} transactions" + (f", from line {done + 1} on" if not lines and done else ""))


def _commit(batch: TransactionBatch, number: int, stream: str | None) -> int:
    batch.commit(None if stream is None else {"line": number})
    return 1


def _line(position: Any, table: str, stream: str) -> int:
    """The last line that a stream has committed.

    :raises InvalidArgumentsError: when another program writes under that name.
    """
    if position is None:
        return 0
    line = position.get("line") if isinstance(position, dict) else None
    if isinstance(line, bool) or not isinstance(line, int) or line < 0:
        raise InvalidArgumentsError(
            f"stream {stream!r} of {table} stands at {shorten(json.dumps(position))}, which is no line of a file: "
            "another program writes under that name; choose another name for --stream"
        )
    return line


@contextlib.contextmanager
def _opened(file: str) -> Iterator[TextIO]:
    if file == "-":
        yield sys.stdin
        return
    if not Path(file).is_file():
        raise InvalidArgumentsError(f"{file} cannot be read: there is no such file")
    with Path(file).open(encoding="utf-8") as source:
        yield source


def _records(file: str, source: TextIO, done: int, stream: str | None) -> Iterator[tuple[int, Any]]:
    """Records with the numbers of their lines, behind those that are done; empty lines are none.

    :raises InvalidArgumentsError: when the file ends before them.
    """
    number = 0
    try:
        for number, line in enumerate(source, 1):
            if number > done and line.strip():
                try:
                    yield number, json.loads(line, parse_float=Decimal)
                except ValueError as error:
                    raise BadRecordError(f"{file}, line {number} is no JSON: {error}") from None
    except UnicodeDecodeError as error:
        raise BadRecordError(f"{file} is no UTF-8 text: {error}") from None
    if number < done:
        raise InvalidArgumentsError(
            f"{file} has {number:,} lines, and stream {stream!r} has committed {done:,}: it is another file, and "
            "nothing of it was written; give each file a name of its own for --stream"
        )
