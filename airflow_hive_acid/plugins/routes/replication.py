"""The routes about replication into a metastore: where each policy stands, its tables, and what nobody could apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Depends, Query

from airflow_hive_acid.metastore.database import now_ms
from airflow_hive_acid.plugins import models
from airflow_hive_acid.plugins.access import reader
from airflow_hive_acid.plugins.routes.parameters import Client
from airflow_hive_acid.replication.policies.state import (
    MAX_EVENTS_SHOWN,
    Phase,
    PolicyRecord,
    PolicyState,
    count_kept,
    read_objects,
    read_states,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

router = APIRouter(prefix="/connections", dependencies=[Depends(reader)], responses=models.RESPONSES)
_PHASES: dict[Phase, Literal["new", "first copy", "following", "failed over"]] = {
    Phase.NEW: "new", Phase.BOOTSTRAP: "first copy", Phase.INCREMENTAL: "following", Phase.FAILED_OVER: "failed over",
}  # fmt: skip
_Policy = Annotated[str | None, Query(max_length=64, description="Of one policy only.")]


class Replication(models.Model):
    """A policy that writes into this metastore; ``as_of`` is a moment up to which it has all that the source had."""

    policy: str
    source: str
    phase: Literal["new", "first copy", "following", "failed over"]
    position: int | None
    as_of: int | None
    lag_seconds: float | None
    running: bool
    started: int | None
    ended: int | None
    holder: str | None
    tables: int
    kept_events: int
    events: int
    bytes: int
    seconds: float | None
    error: str | None


class ReplicatedTable(models.Model):
    """What a policy has done last with a table."""

    policy: str
    source_table: str
    table: str
    state_id: int | None
    as_of: int | None
    time: int
    files: int
    bytes: int
    said: str
    error: str | None


class KeptEvent(models.Model):
    """An event of the source that nobody could apply, without its message."""

    policy: str
    event_id: int
    time: int
    type: str
    object: str
    why: str


@router.get("/{conn_id}/replications", tags=["replication"])
def replications(client: Client) -> models.Page[Replication]:
    """The policies that replicate into this metastore, by name."""

    def look(connection: Connection) -> models.Page[Replication]:
        now = now_ms(connection)
        if not client.database.features(connection).replication:
            return models.Page(items=[], next=None, total=0, now=now)
        kept, objects = count_kept(connection), read_objects(connection)
        items = [
            _policy(s, now, len(objects.get(s.policy, ())), kept.get(s.policy, 0)) for s in read_states(connection)
        ]
        return models.Page(items=items, next=None, total=len(items), now=now)

    return client.database.read(look)


@router.get("/{conn_id}/replications/tables", tags=["replication"])
def replicated_tables(client: Client, policy: _Policy = None) -> models.Page[ReplicatedTable]:
    """Tables that policies have brought, those that failed first, then those that are furthest behind."""

    def look(connection: Connection) -> models.Page[ReplicatedTable]:
        now = now_ms(connection)
        if not client.database.features(connection).replication:
            return models.Page(items=[], next=None, total=0, now=now)
        rows = [
            ReplicatedTable(
                policy=name, source_table=o.source, table=o.table, state_id=o.state_id, as_of=o.as_of, time=o.applied,
                files=o.files, bytes=o.bytes, said=o.said or "", error=o.error,
            )
            for name, objects in read_objects(connection).items()
            for o in objects
            if policy in (None, name)
        ]  # fmt: skip
        rows.sort(key=lambda row: (row.error is None, row.as_of or 0, row.table))
        return models.Page(items=rows[:_MOST], next=None, total=len(rows), now=now)

    return client.database.read(look)


@router.get("/{conn_id}/replications/events", tags=["replication"])
def kept_events(client: Client, policy: _Policy = None) -> models.Page[KeptEvent]:
    """Events that were kept because nobody here could apply them, the oldest first; forgotten by the command line."""

    def look(connection: Connection) -> tuple[int, list[str]]:
        there = client.database.features(connection).replication
        return now_ms(connection), [s.policy for s in read_states(connection)] if there else []

    now, names = client.database.read(look)
    rows = [
        KeptEvent(
            policy=name, event_id=e.event_id, time=e.time * 1000, type=e.type, why=e.why,
            object=".".join(filter(None, (e.database, e.table))),
        )
        for name in names
        if policy in (None, name)
        for e in PolicyRecord(client.database, name).kept_events(limit=MAX_EVENTS_SHOWN)
    ]  # fmt: skip
    return models.Page(items=rows, next=None, total=len(rows), now=now)


_MOST = 500
"""Tables in one answer; those that need somebody come first."""


def _policy(state: PolicyState, now: int, tables: int, kept: int) -> Replication:
    report = state.report
    return Replication(
        policy=state.policy, source=state.source, phase=_PHASES[state.phase], position=state.position,
        as_of=state.as_of, lag_seconds=state.lag_seconds(now), running=state.is_running, started=state.started,
        ended=state.ended, holder=state.holder, tables=tables, kept_events=kept, events=int(report.get("events", 0)),
        bytes=int(report.get("bytes", 0)), seconds=report.get("seconds"), error=state.error,
    )  # fmt: skip
