"""From the values of the metastore to those of the API: pure functions, one for each shape.

Of a URL only what says where something is, of properties only those that look like no secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from airflow_hive_acid.hooks.secrets import redact
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.compaction import OUR_VERSION, CompactionState
from airflow_hive_acid.metastore.database import LockState, TxnState, TxnType
from airflow_hive_acid.metastore.leases import LeaseType
from airflow_hive_acid.metastore.locks import LegacyLockRow
from airflow_hive_acid.plugins import models
from airflow_hive_acid.plugins.task_links import compaction_of, task_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_hive_acid.engine.statements.interventions import Outcome
    from airflow_hive_acid.maintenance import decisions
    from airflow_hive_acid.maintenance.measures import health
    from airflow_hive_acid.metastore.compaction import CleaningRecord, Compaction, Resource, StoredDecision
    from airflow_hive_acid.metastore.leases import LeaseRow
    from airflow_hive_acid.metastore.listing import Drop, Duration, QueueCount, Waiter
    from airflow_hive_acid.metastore.locks import LockRow, Party, PartyInfo, TxnRow, WaitEdge, WaitGraph
    from airflow_hive_acid.metastore.txns import Job

_OPERATIONS = {"i": "insert", "u": "update", "d": "delete", "p": "compact"}
_TXN_TYPES = {TxnType.MATER_VIEW_REBUILD: "materialized_view_rebuild"}
_LEASE_TYPES: dict[LeaseType, Any] = {LeaseType.SHARED: "shared", LeaseType.EXCLUSIVE: "exclusive"}


def public_uri(uri: str | None) -> str | None:
    """Where something is, without user, password and parameters, which may be keys."""
    if uri is None:
        return None
    try:
        parts = urlsplit(uri)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return None


def properties(given: Mapping[str, str]) -> dict[str, str]:
    """Properties with what looks like a secret masked."""
    return {key: str(redact(value, key)) for key, value in sorted(given.items())}


def task(text: str | None) -> models.TaskLink | None:
    """The link to a task."""
    found = task_of(text)
    if found is None:
        return None
    return models.TaskLink(
        dag_id=found.dag_id,
        run_id=found.run_id,
        task_id=found.task_id,
        map_index=found.map_index,
        try_number=found.try_number,
        dag_url=found.dag_url,
        run_url=found.run_url,
        log_url=found.log_url,
    )


def reading(found: health.Reading) -> models.Reading:
    """A metric, judged."""
    return models.Reading(
        name=found.name,
        value=found.value,
        labels=dict(found.labels),
        level=found.level.value,
        advice=found.advice,
        setting=found.setting,
        limit=found.limit,
        view=found.view,
    )


def txn(row: TxnRow) -> models.Txn:
    """A txn."""
    states: dict[TxnState, Any] = {state: state.name.lower() for state in TxnState}
    return models.Txn(
        txn_id=row.txn_id,
        state=states[row.state],
        type=_TXN_TYPES.get(row.type, row.type.name.lower()),
        started=row.started,
        last_heartbeat=row.last_heartbeat,
        user=row.user,
        host=row.host,
        agent_info=row.agent_info,
        abort_reason=row.abort_reason,
        task=task(row.agent_info),
        compaction_id=compaction_of(row.agent_info),
        can_abort=row.state is TxnState.OPEN,
    )


def lock(row: LockRow) -> models.Lock:
    """A lock; what waits, and what belongs to no txn, can be taken away by itself, if it is in Hive's lock table."""
    return models.Lock(
        id=row.id,
        lock_id=row.lock_id,
        internal_id=row.internal_id,
        database=row.database,
        table=row.table,
        partition=row.partition,
        object=row.describe(),
        state=row.state.name.lower(),
        type=row.type.name.lower(),
        txn_id=row.txn_id or None,
        last_heartbeat=row.last_heartbeat or None,
        acquired_at=row.acquired_at,
        user=row.user,
        host=row.host,
        agent_info=row.agent_info,
        blocked_by=row.blocked_by if row.state is LockState.WAITING else None,
        task=task(row.agent_info),
        can_withdraw=not isinstance(row, LegacyLockRow) and (not row.txn_id or row.state is LockState.WAITING),
    )


def component(row: tuple[str, str | None, str | None, str, int | None]) -> models.Component:
    """What a txn writes."""
    database, table, partition, letter, write_id = row
    return models.Component(
        database=database, table=table, partition=partition, operation=_OPERATIONS.get(letter, letter),
        write_id=write_id or None,
    )  # fmt: skip


def job(found: Job) -> models.Job:
    """A Spark job."""
    return models.Job(
        job_id=found.job_id,
        table=found.table,
        kind=found.kind,
        state=found.state.name.lower(),
        application_id=found.application_id,
    )


def party(found: Party) -> str:
    """What nodes of the graph are called."""
    return f"txn:{found.txn_id}" if found.txn_id else f"lock:{found.lock_id}"


def edge(found: WaitEdge) -> models.Edge:
    """An edge of the graph."""
    return models.Edge(
        source=party(found.source), target=party(found.target), object=found.place, in_cycle=found.in_cycle
    )


def graph(whole: WaitGraph, shown: WaitGraph, about: Mapping[Party, PartyInfo], now: int) -> models.Graph:
    """The wait-for graph.

    :param whole: all that was asked for, and ``shown`` as much of it as fits.
    """
    nodes = []
    for node in shown.nodes:
        info = about.get(node.party)
        agent = None if info is None else info.agent_info
        nodes.append(
            models.Node(
                id=party(node.party),
                txn_id=node.party.txn_id or None,
                lock_id=node.party.lock_id or None,
                user="" if info is None else info.user,
                agent_info=agent,
                started=None if info is None else info.since,
                task=task(agent),
                waiting=node.waiting,
                blocks=node.blocks,
                depth=node.depth,
                in_cycle=node.in_cycle,
            )
        )
    return models.Graph(
        now=now,
        nodes=nodes,
        edges=[edge(each) for each in shown.edges],
        cycles=[[party(each) for each in cycle] for cycle in shown.cycles],
        waiters=whole.waiters,
        total_nodes=len(whole.nodes),
        total_edges=len(whole.edges),
        truncated=len(shown.nodes) < len(whole.nodes),
    )


def compaction(found: Compaction, reason: StoredDecision | None = None) -> models.Compaction:
    """A compaction request.

    :param reason: what led to it.
    """
    where = found.resource
    took = None if found.start is None or found.end is None else found.end - found.start
    ours = (found.worker_version or "").startswith(OUR_VERSION)
    waits = found.state is CompactionState.INITIATED
    return models.Compaction(
        id=found.id,
        database=where.database,
        table=where.table,
        partition=where.partition,
        object=place(where),
        type=found.type.name.lower(),
        state=found.state.text,
        queued=found.queued,
        pool=found.pool_name,
        enqueued=found.enqueue_time,
        started=found.start,
        ended=found.end,
        committed=found.commit_time,
        duration_ms=took,
        worker_id=found.worker_id,
        worker_version=found.worker_version,
        initiator_id=found.initiator_id,
        run_as=found.run_as,
        error=None if found.error is None else str(redact(found.error)),
        txn_id=found.txn_id or None,
        job_id=found.job_id,
        highest_write_id=found.highest_write_id,
        rule=None if reason is None else reason.rule,
        reason=None if reason is None else reason.reason,
        task=task(found.worker_id),
        can_cancel=found.queued and (waits or (found.state is CompactionState.WORKING and ours)),
    )


def place(resource: Resource) -> str:
    """``db.table`` or ``db.table/partition``."""
    name = f"{resource.database}.{resource.table}"
    return name if resource.partition is None else f"{name}/{resource.partition}"


def stored_decision(found: StoredDecision) -> models.Decision:
    """A decision of the past."""
    kind = Kind[found.kind].value if found.kind in Kind.__members__ else found.kind
    return models.Decision(
        partition=found.resource.partition,
        kind=kind,
        rule=found.rule,
        reason=found.reason,
        numbers=dict(found.numbers),
        blocked_by=list(found.blocked_by),
        request_id=found.request_id,
        since=found.since,
        looked=found.looked,
        looks=found.looks,
    )


def decision(found: decisions.Decision) -> models.Decision:
    """What would be decided now."""
    return models.Decision(
        partition=found.resource.partition,
        kind=found.kind.value,
        rule=str(found.rule),
        reason=found.reason,
        numbers=dict(found.numbers),
        blocked_by=list(found.blocked_by),
        request_id=found.request_id,
        since=None,
        looked=None,
        looks=0,
    )


def cleaning(found: decisions.CleaningOutcome) -> models.CleaningNote:
    """What the Cleaner would do now."""
    details = found.details()
    return models.CleaningNote(
        request_id=found.request_id,
        partition=found.resource.partition,
        kind=found.kind.value,
        reason=found.reason,
        numbers=details["numbers"],
        removed=details["removed"],
        kept=details["kept"],
        kept_for=_holders(details["for"]),
        since=None,
        until=None,
    )


def cleaned(found: CleaningRecord) -> models.CleaningNote:
    """What the Cleaner has noted."""
    details = found.details
    return models.CleaningNote(
        request_id=found.request_id,
        partition=found.resource.partition,
        kind=found.kind,
        reason=found.reason,
        numbers=details.get("numbers", {}),
        removed=details.get("removed", []),
        kept=details.get("kept", []),
        kept_for=_holders(details.get("for", ())),
        since=found.since,
        until=found.until,
    )


def duration(found: Duration) -> models.DurationBucket:
    """How long compactions took."""
    return models.DurationBucket(
        start=found.start,
        type=found.type.name.lower(),
        state=found.state.text,
        count=found.count,
        mean_ms=found.mean,
        max_ms=found.longest,
    )


def queue_count(found: QueueCount) -> models.QueueCount:
    """How full the queue is."""
    return models.QueueCount(pool=found.pool, state=found.state.text, count=found.count, oldest=found.oldest)


def lease(row: LeaseRow) -> models.Lease:
    """One object of a lease."""
    held = row.lease
    return models.Lease(
        lease_id=held.lease_id,
        number=row.number,
        database=held.db_name,
        table=held.table_name,
        partition=held.partition_name or None,
        object=held.describe(),
        type=_LEASE_TYPES[held.lease_type],
        user=held.user,
        started=held.start_utc,
        ends=held.end_utc,
        mirrored=row.mirror is not None,
        task=task(held.user),
    )


def waiter(found: Waiter) -> models.LeaseWaiter:
    """Somebody who waits for a lease."""
    return models.LeaseWaiter(
        ticket=found.ticket,
        number=found.number,
        database=found.database,
        table=found.table,
        partition=found.partition or None,
        object=found.describe(),
        type=_LEASE_TYPES[found.type],
        user=found.user,
        since=found.since,
        alive_until=found.alive_until,
        task=task(found.user),
    )


def drop(found: Drop) -> models.LeaseDrop:
    """A lease dropped by force."""
    return models.LeaseDrop(
        id=found.id,
        time=found.time,
        who=found.who,
        why=found.why,
        lease_id=found.lease_id,
        user=found.user,
        object=found.describe(),
        type=_LEASE_TYPES[found.type],
        started=found.started,
        ended=found.ended,
    )


def answer(outcome: Outcome) -> models.ActionAnswer:
    """What an action has done."""
    items = [
        models.ActionPart(object=part.object, id=part.id, done=part.done, message=part.message)
        for part in outcome.parts
    ]
    return models.ActionAnswer(done=outcome.done, already=outcome.already, message=outcome.message, items=items)


def _holders(holders: Iterable[Any]) -> list[str]:
    found = []
    for holder in holders:
        if isinstance(holder, dict) and "txn" in holder:
            who = "@".join(str(holder[key]) for key in ("user", "host") if holder.get(key))
            about = ", ".join(text for text in (who, str(holder.get("agent") or "")) if text)
            found.append(f"txn {holder['txn']} ({about})")
        else:
            found.append(str(holder.get("what", "")) if isinstance(holder, dict) else str(holder))
    return found
