"""``hive-acid compaction``: why something was or was not compacted, what a look would ask for, and the metrics."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_hive_acid.cli.output import Format, print_stream, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hive_acid.cli.session import CliSession
    from airflow_hive_acid.maintenance.decisions import Decision
    from airflow_hive_acid.maintenance.initiator.explain import Explanation
    from airflow_hive_acid.metastore import MetastoreClient

app = typer.Typer(help="Why this was (not) compacted, what would be, and metrics.", no_args_is_help=True)
_FormatOption = Annotated[Format, typer.Option("--format", help="How the rows are printed.")]
_EXPLAINED = ("what", "outcome", "rule", "reason", "blocked_by", "request", "numbers", "since", "until")
_PLANNED = ("table", "partition", "outcome", "rule", "reason", "blocked_by", "request", "numbers")
_MEASURED = ("metric", "labels", "value", "level", "limit", "advice")


@app.command()
def explain(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="DATABASE.TABLE")],
    partition: Annotated[
        str | None, typer.Argument(metavar="[PARTITION]", help="For example day=2026-11-01/hour=3.")
    ] = None,
    form: _FormatOption = Format.TABLE,
) -> None:
    """The Initiator's decision now and those before, its requests, and what the Cleaner keeps and for whom."""
    from airflow_hive_acid.maintenance.initiator import explain as initiator_explain

    session: CliSession = context.obj
    client = session.existing_client()
    found = client.catalog.get_table(table)
    if found.is_partitioned and partition is None:
        say(f"{found.qualified_name} is partitioned: these are its partitions with writes; name one to read more")
        print_stream(_PLANNED, _planned(session, client, found.qualified_name, everything=True), form)
        return
    explained = initiator_explain.explain(client, session.filesystem(), table, partition)
    if not explained.writes:
        say("nothing was written since its last compaction was cleaned up, so the Initiator does not look at it")
    print_stream(_EXPLAINED, _explained(explained), form)


@app.command()
def plan(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Also what would be left alone, and why.")] = False,
    form: _FormatOption = Format.TABLE,
) -> None:
    """What the Initiator would ask for in the whole warehouse; nothing is asked for, and nothing is stored."""
    session: CliSession = context.obj
    print_stream(_PLANNED, _planned(session, session.existing_client(), None, everything=everything), form)


@app.command()
def metrics(
    context: typer.Context,
    alarms: Annotated[bool, typer.Option("--alarms", help="Only what is beyond a threshold.")] = False,
    form: _FormatOption = Format.TABLE,
) -> None:
    """Hive's metrics of transactions and compaction, and what to do about those beyond their thresholds."""
    from airflow_hive_acid.maintenance.measures.health import Level, findings, read_health

    session: CliSession = context.obj
    readings = read_health(session.existing_client())
    rows = []
    for reading in findings(readings) if alarms else readings:
        wrong = reading.level is not Level.OK
        told = (reading.level.value, reading.limit, reading.advice) if wrong else ("", None, "")
        rows.append([reading.name, _pairs(reading.labels), reading.value, *told])
    print_stream(_MEASURED, rows, form)


def _planned(
    session: CliSession, client: MetastoreClient, table: str | None, *, everything: bool
) -> Iterator[list[Any]]:
    from airflow_hive_acid.maintenance.decisions import Kind
    from airflow_hive_acid.maintenance.initiator.candidates import Looks
    from airflow_hive_acid.maintenance.initiator.initiator import plan as planned
    from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds
    from airflow_hive_acid.metastore.names import table_name

    thresholds = InitiatorThresholds.of(client.settings)
    looks = Looks(client, session.filesystem(), thresholds)
    name = None if table is None else table_name(table)
    for step in planned(client, looks, thresholds.fetch_size, name):
        for decision in step:
            if everything or decision.kind not in (Kind.NOTHING, Kind.SKIPPED):
                where = decision.resource
                yield [f"{where.database}.{where.table}", where.partition or "", *_decided(decision)]


def _decided(decision: Decision) -> list[Any]:
    return [
        decision.kind.value, decision.rule, decision.reason, "; ".join(decision.blocked_by), decision.request_id,
        _pairs(decision.numbers),
    ]  # fmt: skip


def _explained(explained: Explanation) -> Iterator[list[Any]]:
    from airflow_hive_acid.maintenance.decisions import Kind

    yield ["now", *_decided(explained.decision), None, None]
    for before in explained.before:
        kind = Kind[before.kind].value
        told = [kind, before.rule, before.reason, "; ".join(before.blocked_by), before.request_id]
        yield [f"decided ({before.looks}x)", *told, _pairs(before.numbers), _time(before.since), _time(before.looked)]
    for request in explained.requests:
        numbers = {"pool": request.pool_name, "initiator": request.initiator_id, "worker": request.worker_id}
        numbers = {key: value for key, value in numbers.items() if value}
        ended = request.end or request.commit_time or request.start
        yield [
            "request", f"{request.type.name.lower()}: {request.state.text}", "", request.error or "", "", request.id,
            _pairs(numbers), _time(request.enqueue_time), _time(ended),
        ]  # fmt: skip
    for outcome in explained.cleaning:
        blocked = "; ".join(outcome.blocked_by)
        told = [outcome.kind.value, "", outcome.reason, blocked, outcome.request_id, _pairs(outcome.numbers)]
        yield ["cleaning now", *told, None, None]
    for record in explained.cleaned:
        holders = "; ".join(_holder(holder) for holder in record.details.get("for", ()))
        told = [record.kind, "", record.reason, holders, record.request_id, _pairs(record.details.get("numbers", {}))]
        yield ["cleaning", *told, _time(record.since), _time(record.until)]


def _holder(holder: Any) -> str:
    """A txn that files were kept for, as the Cleaner noted it."""
    if not isinstance(holder, dict):
        return str(holder)
    who = "@".join(str(holder[key]) for key in ("user", "host") if holder.get(key))
    return f"txn {holder.get('txn')} ({', '.join(text for text in (who, holder.get('agent') or '') if text)})"


def _pairs(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), ensure_ascii=False) if values else ""


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(sep=" ", timespec="seconds")
