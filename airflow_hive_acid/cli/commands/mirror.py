"""``hive-acid mirror``: copies of tables in Iceberg and Delta that follow every commit, and whether they are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.output import Format, print_rows, say

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession

app = typer.Typer(help="Mirrors: tables kept in step in Iceberg or Delta.", no_args_is_help=True)
DIFFER = 3
"""Exit code when both sides differ."""
_Table = Annotated[str, typer.Argument(metavar="DB.TABLE", help="The ACID table.")]
_Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="iceberg:catalog.database.table, or delta:/path or delta:URI.")
]
_FormatOption = Annotated[Format, typer.Option("--format", help="How the rows are printed.")]


@app.command()
def run(
    context: typer.Context,
    table: _Table,
    target: _Target,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="COLUMN",
            show_default="as before; the first time rows are known by their ROW__ID",
            help="Tells rows apart; may be given more than once.",
        ),
    ] = None,
    row_ids: Annotated[bool, typer.Option("--row-ids", help="No key: rows are known by their ROW__ID.")] = False,
    bootstrap: Annotated[bool, typer.Option("--bootstrap", help="Copy it whole, whatever it holds.")] = False,
    refuse_bootstrap: Annotated[
        bool, typer.Option("--refuse-bootstrap", help="Fail instead of copying it again when it cannot follow.")
    ] = False,
) -> None:
    """Bring a mirror to the newest state of its table; without news Spark is not started."""
    from airflow_hive_acid.mirrors.runner import run_mirror

    if key and row_ids:
        raise typer.BadParameter("give --key or --row-ids, not both", context)
    if bootstrap and refuse_bootstrap:
        raise typer.BadParameter("give --bootstrap or --refuse-bootstrap, not both", context)
    session: CliSession = context.obj
    report = run_mirror(
        session.existing_client(),
        session.engine,
        table,
        target,
        key=[] if row_ids else (key or None),
        bootstrap=bootstrap,
        refuse_bootstrap=refuse_bootstrap,
    )
    say(f"{report.target} has {report.table} up to write id {report.write_id}: {report.told}")


@app.command()
def verify(context: typer.Context, table: _Table, target: _Target, form: _FormatOption = Format.TABLE) -> None:
    """Compare a mirror with its table, at the same snapshot, by rows and checksums of each partition.

    Exit code 0: they are equal; 3: they differ, and the partitions that do are printed; 1: it could not be compared.
    """
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.mirrors.runner import verify_mirror

    session: CliSession = context.obj
    client = session.existing_client()
    with session.engine() as engine:
        found = verify_mirror(client, engine, table, target)
    if found.is_equal:
        say(f"equal at write id {found.write_id}: {found.source_rows} rows, {found.partitions} partitions")
        return
    columns = (Column("partition", "string"), Column("source_rows", "bigint"), Column("target_rows", "bigint"))
    print_rows(Rows(columns, [[one[c.name] for c in columns] for one in found.different]), form)
    say(
        f"{found.differ} of {found.partitions} partitions differ at write id {found.write_id}: {found.source_rows} "
        f"rows in {found.table}, {found.target_rows} in {found.target}; 'hive-acid mirror run --bootstrap' copies it "
        "again"
    )
    raise typer.Exit(DIFFER)


@app.command("list")
def list_(
    context: typer.Context,
    table: Annotated[str | None, typer.Argument(metavar="[DB.TABLE]", show_default="all")] = None,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Mirrors, how far they are behind their tables, and what went wrong last."""
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.mirrors.listing import COLUMNS, list_mirrors

    session: CliSession = context.obj
    found = list_mirrors(session.existing_client(), table)
    print_rows(Rows(tuple(Column(*c) for c in COLUMNS), [one.to_row() for one in found]), form)


@app.command("cut-over")
def cut_over(
    context: typer.Context,
    table: _Table,
    target: _Target,
    wait: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for those who write now.")] = 300,
) -> None:
    """Make a mirror the primary: the last changes go over, both sides are compared, and the table becomes read-only.

    Writers of a real Hive wait for a lock, ours are refused. take-back undoes it, retire drops the table.
    """
    from airflow_hive_acid.mirrors import cut_over as room

    session: CliSession = context.obj
    found = room.cut_over(session.existing_client(), session.engine, table, target, wait=wait)
    say(f"{found.target} is the primary of {found.table}: {found.target_rows} rows, equal at write id {found.write_id}")


@app.command("take-back")
def take_back(
    context: typer.Context,
    table: _Table,
    target: _Target,
    discard: Annotated[
        bool, typer.Option("--discard", help="Also when the target was written since: the table is copied over it.")
    ] = False,
) -> None:
    """Let a table that was handed over be written again; its mirror follows it as before."""
    from airflow_hive_acid.mirrors import cut_over as room

    session: CliSession = context.obj
    room.take_back(session.existing_client(), session.engine, table, target, discard=discard)
    say(f"{table} is written here again; run the mirror to let {target} follow")


@app.command()
def retire(
    context: typer.Context,
    table: _Table,
    target: _Target,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for those who hold a lock.")
    ] = 300,
) -> None:
    """Drop a table that was handed over, and forget its mirror."""
    from airflow_hive_acid.mirrors import cut_over as room

    session: CliSession = context.obj
    room.retire(session.existing_client(), session.engine, table, target, wait=wait)
    say(f"{table} is dropped; {target} stays")


@app.command()
def forget(context: typer.Context, table: _Table, target: _Target) -> None:
    """Forget a mirror; its target stays as it is, and a later run goes on with it."""
    from airflow_hive_acid.format.mirrors import MirrorTarget

    session: CliSession = context.obj
    place = str(MirrorTarget.parse(target))
    session.existing_client().mirrors.forget(table, place)
    say(f"the mirror of {table} in {place} is forgotten; the target was not touched")
