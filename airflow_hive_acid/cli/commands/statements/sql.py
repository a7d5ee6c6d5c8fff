"""``hive-acid sql``: run a script; the rows of its last SELECT go to standard output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.commands.lease import lease_of_environment
from airflow_hive_acid.cli.output import Format, print_rows, say
from airflow_hive_acid.cli.progress import progress
from airflow_hive_acid.cli.session import parse_pairs
from airflow_hive_acid.errors import InvalidArgumentsError, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.engine.transactions.claims import Once


def sql(
    context: typer.Context,
    execute: Annotated[
        str | None, typer.Option("--execute", "-e", metavar="SQL", help="Statements, separated by semicolons.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE", help="A file with statements; - for standard input.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How the rows are printed.")] = Format.TABLE,
    one_transaction: Annotated[
        bool, typer.Option("--one-transaction", help="All statements in one transaction: all or nothing.")
    ] = False,
    once: Annotated[
        str | None,
        typer.Option("--once", metavar="KEY", help="Apply each statement once, however often this is run with KEY."),
    ] = None,
    hivevar: Annotated[
        list[str] | None,
        typer.Option("--hivevar", "-d", metavar="NAME=VALUE", help="What ${hivevar:NAME} stands for; may be repeated."),
    ] = None,
    hiveconf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="As SET KEY=VALUE in front of the statements; may be repeated."),
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="Database of names without one, as USE in front of the statements.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress messages.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="All progress messages.")] = False,
) -> None:
    """Run SQL statements.

    SELECT, INSERT INTO|OVERWRITE, FROM … INSERT … INSERT …, UPDATE, DELETE, MERGE, TRUNCATE;
    CREATE and DROP of DATABASE and TABLE, CREATE TABLE … AS, CREATE TEMPORARY VIEW … USING files;
    ALTER TABLE: RENAME, columns, partitions, properties, format, location, TOUCH, CONCATENATE, COMPACT;
    BEGIN|START TRANSACTION … COMMIT|ROLLBACK; EXPLAIN, EXPLAIN LOCKS;
    SHOW LOCKS|TRANSACTIONS|COMPACTIONS|WAITS|LEASE; DROP FORCE LEASE; ABORT TRANSACTIONS|COMPACTIONS;
    USE, SET, RESET, and ${hivevar:…} and ${hiveconf:…} in all of them.

    Any query of Spark SQL may be the SELECT. docs/reference/sql.md has an example of each.
    """
    if (execute is None) == (file is None):
        raise typer.BadParameter("give either -e SQL or -f FILE", context)
    text = execute if execute is not None else read_script(str(file))
    session: CliSession = context.obj
    # Under 'hive-acid lease run' what is written commits only while that lease is held.
    lease = lease_of_environment(session.client().leases)
    with progress(reporter(quiet, verbose), not quiet) as listener, session.engine(listener) as engine:
        results = engine.run(
            text,
            one_transaction=one_transaction,
            lease=lease,
            once=_once(once),
            variables=parse_pairs("--hivevar", hivevar or []),
            settings=parse_pairs("--hiveconf", hiveconf or []),
            database=database,
        )
    rows = [result.rows for result in results if result.rows is not None]
    if rows:
        print_rows(rows[-1], form)


def _once(key: str | None) -> Once | None:
    """What all runs with a key have in common (R14)."""
    from airflow_hive_acid.engine.transactions.claims import Once

    if key is None:
        return None
    if not key.strip():
        raise InvalidArgumentsError("--once is empty; give what all tries of this work have in common, as a date")
    return Once(("hive-acid sql", key))


def read_script(file: str) -> str:
    """The text of a file; ``-`` is standard input.

    :raises InvalidArgumentsError: when it cannot be read.
    """
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(file, error) from error


def reporter(quiet: bool, verbose: bool) -> Callable[[Event], None]:
    """Prints the events that somebody at a terminal wants to know; nothing or all of them, if so asked."""
    from airflow_hive_acid.engine.outcomes.events import (
        AppliedBefore,
        CompactionAsked,
        EarlierTryFenced,
        Noted,
        SettingUnread,
        SparkReady,
        SparkStarting,
        StatementFinished,
        TransactionAborted,
    )

    told = (SparkStarting, SparkReady, StatementFinished, TransactionAborted, AppliedBefore, EarlierTryFenced, Noted,
            SettingUnread)  # fmt: skip

    def report(event: Event) -> None:
        asked = isinstance(event, CompactionAsked) and event.request_id is not None
        if not quiet and (verbose or asked or isinstance(event, told)):
            say(str(event))

    return report
