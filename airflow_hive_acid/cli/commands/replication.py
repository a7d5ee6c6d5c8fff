"""``hive-acid replication``: run cycles of policies, see where they stand, copy again, fail over and back.

A policy names its two sides; here those are metastores by ``--site NAME=URL`` (or ``HIVE_ACID_SITE_<NAME>``), in
``airflow hive-acid`` the connections of these names.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_hive_acid.cli.output import Format, print_rows, say
from airflow_hive_acid.cli.session import parse_pairs
from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.replication.policies.policy import Policy
    from airflow_hive_acid.replication.policies.state import PolicyState
    from airflow_hive_acid.replication.site import Site

app = typer.Typer(
    help="Replication: tables that follow those of another metastore and warehouse.", no_args_is_help=True
)
_Policies = Annotated[
    Path | None,
    typer.Option(
        "--policies", envvar="HIVE_ACID_REPLICATION_POLICIES", dir_okay=False, help="JSON or TOML file of the policies."
    ),
]
_Sites = Annotated[
    list[str] | None,
    typer.Option("--site", metavar="NAME=URL", help="Metastore of a side that policies name; may be given repeatedly."),
]
_Name = Annotated[str, typer.Argument(metavar="POLICY", help="Name of the policy.")]
_Names = Annotated[list[str] | None, typer.Argument(metavar="[POLICY]...", help="Names of policies; all by default.")]
_FormatOption = Annotated[Format, typer.Option("--format", help="How the rows are printed.")]


@app.command()
def run(
    context: typer.Context,
    names: _Names = None,
    policies: _Policies = None,
    sites: _Sites = None,
    every: Annotated[
        float | None, typer.Option("--every", min=0.1, metavar="SECONDS", help="Go on, with this pause between cycles.")
    ] = None,
) -> None:
    """Run a cycle: the first copy if there is none yet, then what has happened since."""
    session: CliSession = context.obj
    chosen = _chosen(session, policies, names)
    while True:
        for one in chosen:
            with _both(session, one, sites) as (source, target):
                _cycle(one, source, target)
        if every is None:
            return
        time.sleep(every)


@app.command()
def bootstrap(
    context: typer.Context,
    name: _Name,
    policies: _Policies = None,
    sites: _Sites = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--table", metavar="DB.TABLE", help="A table of the source that is dropped at the destination and copied "
            "from nothing, whatever was done to it there; may be given repeatedly.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Make the first copy (again): after events were purged, or for policies that make none by themselves."""
    from airflow_hive_acid.replication.cycles.cycle import ask_for_bootstrap

    session: CliSession = context.obj
    (one,) = _chosen(session, policies, [name])
    with _both(session, one, sites) as (source, target):
        ask_for_bootstrap(one, target)
        _cycle(one, source, target, again=True, anew=tables or [])


@app.command()
def status(
    context: typer.Context,
    names: _Names = None,
    policies: _Policies = None,
    sites: _Sites = None,
    tables: Annotated[bool, typer.Option("--tables", help="Every table of the policies.")] = False,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Where policies stand, by what their destination knows; with --policies the source is asked, too."""
    from airflow_hive_acid.metastore.database import now_ms
    from airflow_hive_acid.replication.cycles.cycle import standing
    from airflow_hive_acid.replication.policies.state import count_kept, read_objects, read_states

    session: CliSession = context.obj
    found: list[tuple[PolicyState | None, str, int, int | None, int]] = []
    listed: list[list[Any]] = []
    if policies is not None or session.has_policies:
        for one in _chosen(session, policies, names):
            with _both(session, one, sites) as (source, target):
                at = standing(one.name, source, target)
                kept = target.client.database.read(count_kept).get(one.name, 0)
                found.append((at.state, one.name, at.now, at.current, kept))
                objects = target.client.database.read(read_objects).get(one.name, [])
                listed += [_object(one.name, o) for o in objects]
    else:
        database = session.client().database
        states, now, counted, objects_of = database.read(
            lambda connection: (
                read_states(connection),
                now_ms(connection),
                count_kept(connection),
                read_objects(connection),
            )
        )
        wanted = [s for s in states if not names or s.policy in names]
        found = [(s, s.policy, now, None, counted.get(s.policy, 0)) for s in wanted]
        listed = [_object(s.policy, o) for s in wanted for o in objects_of.get(s.policy, [])]
    if tables:
        print_rows(_rows(_OBJECT_COLUMNS, listed), form)
    else:
        print_rows(_rows(_STATUS_COLUMNS, [_status(*each) for each in found]), form)


@app.command()
def events(
    context: typer.Context,
    name: _Name,
    policies: _Policies = None,
    sites: _Sites = None,
    forget: Annotated[
        int | None, typer.Option("--forget", metavar="EVENT", help="Forget those up to this one: they were seen to.")
    ] = None,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Events of the source that nobody could apply, as they were."""
    from airflow_hive_acid.replication.policies.state import PolicyRecord

    session: CliSession = context.obj
    with _destination(session, name, policies, sites) as target:
        record = PolicyRecord(target.client.database, name)
        if forget is not None:
            say(f"{record.forget_events(forget)} events of {name} up to {forget} are forgotten")
            return
        rows = [
            [e.event_id, _time(e.time * 1000), e.type, e.database, e.table, e.why, e.message]
            for e in record.kept_events()
        ]
        print_rows(_rows(_EVENT_COLUMNS, rows), form)


@app.command()
def failover(context: typer.Context, name: _Name, policies: _Policies = None, sites: _Sites = None) -> None:
    """Let the replica be written, and by the policy no more. The source need not be there.

    See docs/how-to/running/replication-acid.md.
    """
    from airflow_hive_acid.replication.cycles.cycle import fail_over_policy

    session: CliSession = context.obj
    with _destination(session, name, policies, sites) as target:
        found = fail_over_policy(name, target, holder=_holder())
        if found is None:
            say(f"policy {name} is failed over; it has no ACID tables")
            return
        what = "was failed over before" if found.already else "is failed over"
        say(
            f"policy {name} {what}: {len(found.tables)} ACID tables have the state of event {found.state_id}; "
            f"{', '.join(found.databases) or 'its databases'} may be written; {len(found.aborted)} txns that were open "
            "at the source are aborted here"
        )


@app.command()
def failback(
    context: typer.Context,
    name: _Name,
    back: Annotated[str, typer.Option("--back", metavar="POLICY", help="The policy the other way.")],
    policies: _Policies = None,
    sites: _Sites = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only compare the two sides.")] = False,
    abort_open: Annotated[
        bool, typer.Option("--abort-open", help="Abort writers still open at the old primary since the fail-over.")
    ] = False,
) -> None:
    """Make the old primary the replica of the new one; what both have is not copied again."""
    from airflow_hive_acid.replication.cycles.failover import compare_for_fail_back, fail_back
    from airflow_hive_acid.replication.policies.policy import named

    session: CliSession = context.obj
    known = session.policies(policies)
    one, other = named(known, name), named(known, back)
    if (other.source, other.destination) != (one.destination, one.source):
        raise InvalidArgumentsError(
            f"policy {back!r} goes from {other.source} to {other.destination}; the way back from {one.destination} to "
            f"{one.source} is wanted"
        )
    with _both(session, one, sites) as (old_primary, new_primary):
        found = (
            compare_for_fail_back(old_primary, new_primary, name)
            if dry_run
            else fail_back(old_primary, new_primary, name, back, abort_open=abort_open)
        )
        say(found.proposal)
        if not dry_run:
            say(f"run policy {back} now: 'hive-acid replication run {back}'; take {name} out of the policies")


# --- helpers --------------------------------------------------------------------------------------------------------


def _chosen(session: CliSession, path: Path | None, names: Sequence[str] | None) -> list[Policy]:
    from airflow_hive_acid.replication.policies.policy import named

    known = session.policies(path)
    return [named(known, name) for name in names] if names else list(known)


@contextlib.contextmanager
def _both(session: CliSession, one: Policy, sites: list[str] | None) -> Iterator[tuple[Site, Site]]:
    with _site(session, one.source, sites) as source, _site(session, one.destination, sites) as target:
        yield source, target


@contextlib.contextmanager
def _site(session: CliSession, name: str, sites: list[str] | None) -> Iterator[Site]:
    other = session.other(name, parse_pairs("--site", sites or []))
    try:
        other.bare_client().check_schema()  # before an embedded one would be made: a misspelt side must not be empty
        with other.engine(lambda event: say(str(event))) as engine:
            yield engine.site(name)
    finally:
        other.close()


@contextlib.contextmanager
def _destination(session: CliSession, name: str, path: Path | None, sites: list[str] | None) -> Iterator[Site]:
    """The destination of a policy; without policies the metastore that this call is about."""
    if path is None and not session.has_policies:
        with session.engine(lambda event: say(str(event))) as engine:
            yield engine.site("the replica")
        return
    (one,) = _chosen(session, path, [name])
    with _site(session, one.destination, sites) as target:
        yield target


def _cycle(one: Policy, source: Site, target: Site, *, again: bool = False, anew: Sequence[str] = ()) -> None:
    from airflow_hive_acid.replication.cycles.cycle import replicate

    report = replicate(one, source, target, holder=_holder(), again=again, anew=anew)
    say(str(report))
    for note in (*report.kept, *report.notes):
        say(note)


def _holder() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"hive-acid CLI, {user}@{socket.gethostname()}, process {os.getpid()}"


_STATUS_COLUMNS = (
    ("policy", "string"), ("source", "string"), ("phase", "string"), ("position", "bigint"), ("behind", "bigint"),
    ("lag_seconds", "double"), ("as_of", "string"), ("last_cycle", "string"), ("kept_events", "bigint"),
    ("error", "string"),
)  # fmt: skip
_OBJECT_COLUMNS = (
    ("policy", "string"), ("source_table", "string"), ("table", "string"), ("state_id", "bigint"), ("as_of", "string"),
    ("files", "bigint"), ("bytes", "bigint"), ("said", "string"), ("error", "string"),
)  # fmt: skip

_EVENT_COLUMNS = (
    ("event", "bigint"), ("time", "string"), ("type", "string"), ("database", "string"), ("table", "string"),
    ("why", "string"), ("message", "string"),
)  # fmt: skip


def _status(state: PolicyState | None, name: str, now: int, current: int | None, kept: int) -> list[Any]:
    if state is None:
        return [name, None, "new", None, None, None, None, "never", kept, None]
    behind = None if current is None or state.position is None else current - state.position
    lag = 0.0 if behind == 0 else state.lag_seconds(now)
    last = "running" if state.is_running else _time(state.ended)
    return [
        name, state.source, state.phase.name.lower().replace("_", " "), state.position, behind, lag,
        _time(state.as_of), last, kept, state.error,
    ]  # fmt: skip


def _object(policy: str, found: Any) -> list[Any]:
    return [
        policy, found.source, found.table, found.state_id, _time(found.as_of), found.files, found.bytes, found.said,
        found.error,
    ]  # fmt: skip


def _rows(columns: Sequence[tuple[str, str]], rows: list[list[Any]]) -> Rows:
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.format.jobs import Column

    return Rows(tuple(Column(name, kind) for name, kind in columns), rows)


def _time(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
