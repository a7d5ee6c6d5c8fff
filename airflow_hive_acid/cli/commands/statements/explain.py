"""``hive-acid explain``: what a statement would do, without a transaction, a lock or a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.commands.statements.sql import read_script
from airflow_hive_acid.cli.output import Format, print_rows
from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession


def explain(
    context: typer.Context,
    statement: Annotated[str | None, typer.Argument(metavar="[STATEMENT]", show_default=False)] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="A file with the statement; - for standard input."),
    ] = None,
    locks: Annotated[bool, typer.Option("--locks", help="Only the locks, each with the rule that gave it.")] = False,
    form: Annotated[Format, typer.Option("--format", help="How the lines are printed.")] = Format.TABLE,
) -> None:
    """Print a statement's plan, partitions, files, locks and job. Nothing is run, and nothing is locked.

    CREATE TEMPORARY VIEW … may stand before the statement.
    """
    if (statement is None) == (file is None):
        raise typer.BadParameter("give either a STATEMENT or -f FILE", context)
    script = explained(statement if statement is not None else read_script(str(file)), locks=locks)
    session: CliSession = context.obj
    with session.engine() as engine:
        rows = engine.run(script)[-1].rows
    if rows is None:
        raise AssertionError("EXPLAIN without rows")
    print_rows(rows, form)


def explained(text: str, *, locks: bool) -> str:
    """The script that explains the last statement of a text.

    :raises InvalidArgumentsError: when others than views, USE and SET stand before it: they would be run.
    """
    from airflow_hive_acid.sql import parse_script
    from airflow_hive_acid.sql.model.session import SessionStatement
    from airflow_hive_acid.sql.model.statements import CreateTemporaryView
    from airflow_hive_acid.sql.model.views import CreateTemporaryQuery

    statements = parse_script(text)
    if not statements:
        raise InvalidArgumentsError("there is no statement to explain")
    *before, last = statements
    for other in before:
        if not isinstance(other, CreateTemporaryView | CreateTemporaryQuery | SessionStatement):
            raise InvalidArgumentsError(
                f"line {other.line}: only views, USE and SET may stand before the statement to explain; nothing was run"
            )
    views = "".join(f"{view.text};\n" for view in before)
    return f"{views}EXPLAIN {'LOCKS ' if locks else ''}{last.text}"
