"""``hive-acid doctor``: looks for what is wrong with a live warehouse, and says how to repair it.

It changes nothing, but that a warehouse that is seen for the first time gets its marker, and what ``--finish`` deletes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_hive_acid.cli.output import Format, print_stream, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.maintenance.doctor.rules import Finding

FOUND = 3
"""Exit code when something was found."""
_COLUMNS = ("check", "place", "finding", "repair")


def doctor(
    context: typer.Context,
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[DATABASE.TABLE]…", show_default="all transactional tables")
    ] = None,
    files: Annotated[bool, typer.Option(help="Look at the directories of the tables, too.")] = True,
    dumps: Annotated[
        list[str] | None,
        typer.Option(metavar="URI", help="Where dumps of EXPORT lie: say which were begun and not ended."),
    ] = None,
    accept_place: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Take this warehouse as it is for the known one: it was moved or restored."),
    ] = None,
    finish: Annotated[
        bool,
        typer.Option("--finish", help="First delete what committed drops and overwrites could not delete themselves."),
    ] = False,
    form: Annotated[Format, typer.Option("--format", help="How the findings are printed.")] = Format.TABLE,
) -> None:
    """Check locks, transactions, compactions, time-outs and directories; reads only, but for marks of warehouses.

    With --finish, what committed drops and overwrites have left is deleted before.

    Exit code 0: nothing was found; 3: something was; 1: it could not be checked.
    """
    session: CliSession = context.obj
    if accept_place is not None:
        _accept(session, accept_place)
        return
    if finish:
        _finish(session)
    count = 0

    def rows() -> Iterator[list[str]]:
        nonlocal count
        for finding in _findings(session, tables or None, dumps or [], files=files):
            count += 1
            yield [finding.check.value, finding.place, finding.text, finding.repair]

    print_stream(_COLUMNS, rows(), form)
    if count:
        say(f"{count} findings")
        raise typer.Exit(FOUND)
    say("nothing found")


def _accept(session: CliSession, location: str) -> None:
    from airflow_hive_acid.maintenance.warehouse.places import Places

    client = session.bare_client()
    client.check_schema()
    place_id = Places(client, session.filesystem()).accept(location)
    say(f"{location} is known now, as {place_id}")


def _finish(session: CliSession) -> None:
    from airflow_hive_acid.maintenance.warehouse.ddl_work import what_of
    from airflow_hive_acid.maintenance.warehouse.fences import finish_jobs

    client = session.bare_client()
    client.check_schema()
    report = finish_jobs(client, session.filesystem())
    for job in report.deleted:
        say(f"what txn {job.txn_id} dropped or replaced of {what_of(job)} is deleted")
    for job, why in report.alive:
        say(f"what txn {job.txn_id} dropped or replaced of {what_of(job)} still cannot be deleted: {why}")
    if not report.deleted and not report.alive:
        say("nothing is left to delete")


def _findings(session: CliSession, tables: list[str] | None, dumps: list[str], *, files: bool) -> Iterator[Finding]:
    from airflow_hive_acid.maintenance.doctor.doctor import examine_metastore, examine_tables
    from airflow_hive_acid.maintenance.doctor.leftovers import examine_dumps, examine_leftovers
    from airflow_hive_acid.settings import Settings, Source, read_hive_site

    client = session.bare_client()  # not one that would be created for this
    client.check_schema()
    hive_timeout = None
    if session.hive_site is not None:
        hive = Settings({Source.HIVE_SITE: read_hive_site(session.hive_site, "--hive-site")})
        hive_timeout = hive.milliseconds("hive.txn.timeout")
    yield from examine_metastore(client, hive_timeout, session.filesystem() if files else None)
    if files:
        yield from examine_tables(client, session.filesystem(), tables)
    if files and tables is None:
        yield from examine_leftovers(client, session.filesystem())
    if dumps:
        yield from examine_dumps(session.filesystem(), dumps)
