"""``hive-acid show``: what goes on in the metastore and in Spark services. Rows are printed while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_hive_acid.cli.output import Format, print_stream, say
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import parse_partition_name, partition_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.engine.applications.found_services import FoundService

app = typer.Typer(
    help="Locks, waits, transactions and compactions, as SHOW prints them; Spark services.", no_args_is_help=True
)
#: A service says that it lives every two seconds.
_LOOK_AGAIN_SECONDS = 3.0
_SERVICE_COLUMNS = (
    "service", "state", "application", "places", "max_callers", "idle_seconds", "caller", "statement", "turn",
    "versions",
)  # fmt: skip
_FormatOption = Annotated[Format, typer.Option("--format", help="How the rows are printed.")]
_LimitOption = Annotated[int | None, typer.Option("--limit", min=0, help="So many rows at most.")]
_WhatArgument = Annotated[str | None, typer.Argument(metavar="[DATABASE|DATABASE.TABLE]", show_default="everything")]
_PartitionOption = Annotated[
    str | None, typer.Option("--partition", metavar="NAME", help="Of the table, for example day=2026-11-01/hour=3.")
]


@app.command()
def locks(
    context: typer.Context,
    what: _WhatArgument = None,
    partition: _PartitionOption = None,
    extended: Annotated[
        bool, typer.Option("--extended", help="With DummyTxnManager: which statement holds a lock, since when.")
    ] = False,
    limit: _LimitOption = None,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Locks, those that wait with what they wait for; acquired ones first, the more restrictive before others.

    With hive.txn.manager=DummyTxnManager, the S and X locks of the Hive Concurrency Model.
    """
    _show(context, form, "locks", limit=limit, extended=extended, **_place(what, partition))


@app.command()
def transactions(context: typer.Context, limit: _LimitOption = None, form: _FormatOption = Format.TABLE) -> None:
    """Open and aborted transactions, the oldest first."""
    _show(context, form, "transactions", limit=limit)


@app.command()
def waits(
    context: typer.Context,
    what: _WhatArgument = None,
    limit: _LimitOption = None,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Who waits for whom and for what, first in line first; deadlocks before all. The page draws the same.

    What follows from other rows is left out: who waits behind a queue waits for the last in it.
    """
    _show(context, form, "waits", limit=limit, **_place(what, None))


@app.command()
def compactions(
    context: typer.Context,
    what: _WhatArgument = None,
    partition: _PartitionOption = None,
    id: Annotated[int | None, typer.Option("--id", help="The request with this id.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Requests of this pool.")] = None,
    kind: Annotated[str | None, typer.Option("--type", metavar="major|minor|rebalance|…")] = None,
    state: Annotated[str | None, typer.Option("--state", metavar="initiated|working|succeeded|…")] = None,
    order: Annotated[
        list[str] | None,
        typer.Option("--order", metavar="COLUMN [desc]", help="Instead of newest first; may be given more than once."),
    ] = None,
    limit: _LimitOption = None,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Compactions that wait, run, or have ended; what ended or began last comes first."""
    _show(
        context,
        form,
        "compactions",
        limit=limit,
        id=id,
        pool=pool,
        type=kind.lower() if kind else None,
        state=state.lower() if state else None,
        order=tuple(_order(text) for text in order or ()),
        **_place(what, partition),
    )


@app.command("spark-services")
def spark_services(
    spool: Annotated[
        str | None, typer.Option(help="The spool below which they are; default: those of this machine and user.")
    ] = None,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Spark services: what they run for whom, and why a caller would not use one. A row for each caller."""
    from airflow_hive_acid.engine.applications.found_services import find_services, services_directory

    found = find_services(spool, look_again=_LOOK_AGAIN_SECONDS)
    if not found:
        say(f"there is no Spark service in {services_directory(spool)}")
    print_stream(_SERVICE_COLUMNS, (row for one in found for row in _service_rows(one)), form)


def _service_rows(found: FoundService) -> Iterator[list[Any]]:
    state = found.state
    versions = f"{state.package}, Spark {state.spark}, Python {state.python}"
    about = [found.name, found.problem or "serves", state.application_id, state.places, state.max_callers]
    for caller in state.callers or (None,):
        turn = "" if caller is None or not caller.running else "waits" if caller.waits else "runs"
        said = ["", "", ""] if caller is None else [caller.who, caller.running, turn]
        yield [*about, state.idle_seconds, *said, versions]


def _place(what: str | None, partition: str | None) -> dict[str, str | None]:
    from airflow_hive_acid.metastore.names import database_name, table_name

    if what is None or "." not in what:
        if partition is not None:
            raise InvalidArgumentsError(f"--partition {partition}: name its table, as database.table")
        return {"database": None if what is None else database_name(what)}
    name = table_name(what)
    values = parse_partition_name(partition) if partition is not None else ()
    return {"database": name.database, "table": name.name, "partition": partition_name(values) if values else None}


def _order(text: str) -> tuple[str, bool]:
    """``COLUMN``, ``COLUMN asc`` or ``COLUMN desc``."""
    column, *direction = text.lower().split()
    if direction not in ([], ["asc"], ["desc"]):
        raise InvalidArgumentsError(f"--order {text!r}: give a column, and 'desc' behind it or nothing")
    return column, direction == ["desc"]


def _show(context: typer.Context, form: Format, kind: str, **asked: Any) -> None:
    from airflow_hive_acid.engine.queries.shows import ShowRequest, stream

    session: CliSession = context.obj
    session.note_missing(asked.get("database"), asked.get("table"), asked.get("partition"))
    streamed = stream(session.existing_client(), ShowRequest(kind, **asked))
    print_stream([column.name for column in streamed.columns], streamed.rows, form)
