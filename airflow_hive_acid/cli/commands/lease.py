"""``hive-acid lease``: take, keep, give back and list leases; run any other tool under one.

A lease is opened by its token alone, which ``grab`` prints and ``run`` hands to its command in ``HIVE_ACID_LEASE``.
Give it in that variable rather than as an option: other users of the machine can read options.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.output import Format, print_rows, say
from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.metastore.leases import Lease, LeaseObject, Leases

TOKEN_VARIABLE = "HIVE_ACID_LEASE"  # noqa: S105 - the variable's name
app = typer.Typer(help="Leases: time-bound claims on tables and partitions.", no_args_is_help=True)
_On = Annotated[
    list[str] | None,
    typer.Option("--on", metavar="DB.TABLE[/PARTITION]", help="Table or partition; may be given more than once."),
]
_Type = Annotated[str, typer.Option("--type", metavar="s|x", help="s: shared, nobody changes it; x: exclusive.")]
_Duration = Annotated[float, typer.Option("--duration", metavar="SECONDS", help="For how long.")]
_Wait = Annotated[float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for it; 0 does not wait.")]
_Mirror = Annotated[
    str | None,
    typer.Option(
        "--mirror",
        metavar="on|off",
        show_default="as hive.acid.lease.mirror says",
        help="Whether Hive's writers wait for it. off: for tools that write through Hive, which would wait, too.",
    ),
]
_Token = Annotated[
    str | None, typer.Option("--token", envvar=TOKEN_VARIABLE, show_envvar=True, help="What 'grab' has printed.")
]
_FormatOption = Annotated[Format, typer.Option("--format", help="How the rows are printed.")]


@app.command()
def grab(
    context: typer.Context, on: _On = None, type: _Type = "x", duration: _Duration = 3600, wait: _Wait = 0,
    mirror: _Mirror = None,
) -> None:  # fmt: skip
    """Take a lease on all objects or on none, and print its token: who has that can extend and drop it."""
    session: CliSession = context.obj
    leases = session.client().leases
    lease = leases.grab_lease(_objects(on, type), duration, wait, mirror=_switch(mirror))
    say(f"lease {lease.lease_id} on {_places(lease)} until {_time(lease.end_utc)}")
    sys.stdout.write(lease.token + "\n")


@app.command("list")
def list_(context: typer.Context, on: _On = None, form: _FormatOption = Format.TABLE) -> None:
    """Leases that are held now, of everything or of what is named; the same as SHOW LEASE."""
    from airflow_hive_acid.engine.statements.leases import lease_rows

    session: CliSession = context.obj
    print_rows(lease_rows(session.existing_client().leases.list_lease(on or None)), form)


@app.command()
def extend(
    context: typer.Context,
    token: _Token = None,
    on: _On = None,
    duration: _Duration = 3600,
) -> None:
    """Let a lease last for a time from now; its start stays."""
    session: CliSession = context.obj
    leases = session.client().leases
    lease = leases.extend_lease(leases.resume_lease(_required(token)), on or None, duration)
    say(f"lease {lease.lease_id} on {_places(lease)} until {_time(lease.end_utc)}")


@app.command()
def confirm(context: typer.Context, token: _Token = None) -> None:
    """Ask whether a lease is held now, with all its objects; if not, say since when and exit with 1.

    For scripts that ask right before what must not happen without it.
    """
    session: CliSession = context.obj
    leases = session.client().leases
    lease = leases.resume_lease(_required(token))
    say(f"lease {lease.lease_id} on {_places(lease)} is held until {_time(lease.end_utc)}")


@app.command()
def drop(context: typer.Context, token: _Token = None, on: _On = None) -> None:
    """Give a lease back, or some of its objects."""
    session: CliSession = context.obj
    leases = session.client().leases
    lease = leases.resume_lease(_required(token))
    rest = leases.drop_lease(lease, on or None)
    say(f"lease {lease.lease_id} is dropped" + (f"; it stays on {_places(rest)}" if rest.objects else ""))


@app.command("force-drop")
def force_drop(
    context: typer.Context,
    on: _On = None,
    all_: Annotated[bool, typer.Option("--all", help="Every lease there is.")] = False,
    why: Annotated[str, typer.Option("--why", help="Why; it is kept in the record, with who did it.")] = "",
    form: _FormatOption = Format.TABLE,
) -> None:
    """Drop leases of whomever, on tables with their partitions; prints what was dropped. See DROP FORCE LEASE."""
    from airflow_hive_acid.engine.statements.leases import lease_rows

    if bool(on) == all_:
        raise typer.BadParameter("give --on DB.TABLE, or --all", context)
    session: CliSession = context.obj
    client = session.client()
    print_rows(lease_rows(client.leases.force_drop_lease(on or [], client.user, why)), form)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    context: typer.Context,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="What to run, with its arguments.")],
    on: _On = None,
    type: _Type = "x",
    duration: Annotated[
        float, typer.Option("--duration", metavar="SECONDS", help="Taken for so long, and extended while it runs.")
    ] = 60,
    wait: _Wait = 0,
    mirror: _Mirror = None,
    grace: Annotated[
        float, typer.Option("--grace", min=0, metavar="SECONDS", help="Between SIGTERM and SIGKILL, if it is lost.")
    ] = 5,
) -> None:
    """Run a command under a lease: a backup, distcp, dbt.

    The lease is extended while the command runs, its token is in HIVE_ACID_LEASE, and it is dropped at the end. If it
    is lost, the command and all processes it has started are killed. Exits with the command's code, or 1.
    """
    from airflow_hive_acid.cli.commands.lease_run import run_under

    session: CliSession = context.obj
    leases = session.client().leases
    lease = leases.grab_lease(_objects(on, type), duration, wait, mirror=_switch(mirror))
    say(f"lease {lease.lease_id} on {_places(lease)} is held")
    code = run_under(leases, lease, command, {TOKEN_VARIABLE: lease.token}, grace)
    if code:
        raise typer.Exit(code)


def lease_of_environment(leases: Leases) -> Lease | None:
    """The lease whose token is in the environment, as ``lease run`` puts it there; None without one.

    :raises LeaseEndedError: when it is not held any more: what was to run under it must not run.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    return leases.resume_lease(token) if token else None


def _objects(on: list[str] | None, type: str) -> list[LeaseObject]:
    from airflow_hive_acid.metastore.leases import LeaseObject

    if not on:
        raise typer.BadParameter("give --on DB.TABLE or --on DB.TABLE/PARTITION")
    return [LeaseObject.parse(text, type) for text in on]


def _required(token: str | None) -> str:
    if not token:
        raise typer.BadParameter(f"give the lease's token in {TOKEN_VARIABLE}, or with --token")
    return token


def _switch(mirror: str | None) -> bool | None:
    if mirror not in (None, "on", "off"):
        raise InvalidArgumentsError(f"--mirror {mirror}: give on or off")
    return None if mirror is None else mirror == "on"


def _places(lease: Lease) -> str:
    return ", ".join(each.describe() for each in lease.objects)


def _time(milliseconds: int) -> str:
    from airflow_hive_acid.metastore.leases import utc

    return utc(milliseconds)
