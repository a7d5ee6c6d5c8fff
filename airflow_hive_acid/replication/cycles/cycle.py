"""A policy between two sites: one cycle with all its parts, where it stands, and which commits it has brought."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import ActionRefusedError, InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.metastore.database import now_ms
from airflow_hive_acid.metastore.listing import commits_of_txns
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.replica import read_sync, target_databases, unmark_target
from airflow_hive_acid.replication.cycles.executor import SiteExecutor
from airflow_hive_acid.replication.cycles.failover import fail_over
from airflow_hive_acid.replication.cycles.released import require_names
from airflow_hive_acid.replication.cycles.runner import PAGE, Parts, destination_clock, is_another_source, run_cycle
from airflow_hive_acid.replication.cycles.unfinished_txns import end_earlier
from airflow_hive_acid.replication.events.collapse import collapse
from airflow_hive_acid.replication.events.decoder import decode_event
from airflow_hive_acid.replication.events.event import EventKind, read_after
from airflow_hive_acid.replication.events.factories import create_tasks, load_factory
from airflow_hive_acid.replication.events.selection import of_policy
from airflow_hive_acid.replication.events.store import EventStore
from airflow_hive_acid.replication.events.tasks import TaskSettings
from airflow_hive_acid.replication.policies.state import Phase, PolicyRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.replication.cycles.failover import FailedOver
    from airflow_hive_acid.replication.cycles.runner import CycleReport
    from airflow_hive_acid.replication.events.event import EventSource, ReplicationEvent
    from airflow_hive_acid.replication.events.tasks import ReplicationTask
    from airflow_hive_acid.replication.policies.policy import Policy
    from airflow_hive_acid.replication.policies.state import PolicyState
    from airflow_hive_acid.replication.site import Site


def replicate(
    policy: Policy,
    source: Site,
    target: Site,
    *,
    holder: str,
    again: bool = False,
    anew: Iterable[str] = (),
    step: Callable[[str], None] = lambda _step: None,
) -> CycleReport:
    """Run one cycle of a policy; see :func:`~airflow_hive_acid.replication.cycles.runner.run_cycle`.

    :param holder: who runs it, for people.
    :param again: make the first copy once more. What the destination has as new stays as it is.
    :param anew: with ``again``: tables of the source that are dropped at the destination and copied from nothing,
        whatever was done to them there.
    :param step: told before each step.
    """
    dropped = [table_name(name) for name in anew]
    for table in dropped:
        if not policy.selects(table) or not again:
            raise InvalidArgumentsError(
                f"{table} cannot be copied anew: "
                + (
                    "say that the first copy is to be made again"
                    if policy.selects(table)
                    else f"policy {policy.name!r} does not replicate it"
                )
            )
    parts = parts_of(policy, source, target, step, anew=map(str, dropped), again=again)
    return run_cycle(policy, source, target, parts, holder=holder, again=again)


def parts_of(
    policy: Policy, source: Site, target: Site, step: Callable[[str], None] = lambda _step: None, *,
    anew: Iterable[str] = (), again: bool = False,
) -> Parts:  # fmt: skip
    """What a cycle of a policy works with; parameters as of :func:`replicate`."""
    record = PolicyRecord(target.client.database, policy.name)
    staging = (policy.staging or f"{source.client.catalog.warehouse() or 'file:/tmp'}/_replication").rstrip("/")
    factory = load_factory(
        policy.task_factory, TaskSettings(f"{staging}/{policy.name}", f"{staging}/{policy.name}", dict(policy.rename))
    )

    def create(events: Sequence[ReplicationEvent]) -> list[ReplicationTask]:
        return create_tasks(factory, collapse(events))

    brought = {table_name(one.source): table_name(one.table) for one in record.objects()}
    dropped = frozenset(table_name(name) for name in anew)
    store = None if policy.event_store is None else EventStore(target.filesystem, policy.event_store)
    executor = SiteExecutor(policy, source, target, brought, dropped, step, events=store, again=again)
    parts = Parts(
        source.client.notifications, create, executor, destination_clock(target), step, begin=executor.begin,
        require_names=lambda: require_names(policy, brought, executor.tables),
    )  # fmt: skip
    if store is None:
        return parts
    return replace(parts, events=store, refresh=lambda: _fill(store, policy, source, target))


def event_source(policy: Policy, source: Site, target: Site) -> EventSource:
    """The source's log, or what is kept of it elsewhere; that is filled first, and told how far this policy is."""
    if policy.event_store is None:
        return source.client.notifications
    store = EventStore(target.filesystem, policy.event_store)
    _fill(store, policy, source, target)
    return store


def _fill(store: EventStore, policy: Policy, source: Site, target: Site) -> None:
    state = PolicyRecord(target.client.database, policy.name).read()
    log = source.client.notifications
    position = None
    if state is not None and not is_another_source(state, log):
        position = state.position if state.position is not None else state.target
    store.copy_from(log, after=position)
    if position is not None and position >= store.first_event_id() - 1:
        store.register(policy.name, position)
        age = target.settings.milliseconds("hive.acid.repl.event.store.timetolive")
        store.purge(before=(destination_clock(target)() - age) // 1000)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a policy stands, looked at from both sides.

    :param current: the source's latest event.
    :param behind: so many events of the source are after the position, of which some may concern others.
    :param now: milliseconds by the destination's clock.
    """

    policy: str
    state: PolicyState | None
    current: int
    now: int

    @property
    def behind(self) -> int | None:
        """Events of the source after the position; None before the first copy."""
        if self.state is None or self.state.position is None:
            return None
        return self.current - self.state.position

    @property
    def lag_seconds(self) -> float | None:
        """By so much at most the replica is behind; 0 when nothing has happened since; None before the first copy."""
        if self.behind is None or self.state is None:
            return None
        return 0.0 if self.behind == 0 else self.state.lag_seconds(self.now)

    @property
    def has_news(self) -> bool:
        """Whether a cycle would find something to do."""
        return self.behind is None or self.behind != 0


def standing(policy: str, source: Site, target: Site) -> Standing:
    """Look at both sides."""
    state = PolicyRecord(target.client.database, policy).read()
    current = source.client.notifications.current_event_id()
    return Standing(policy, state, current, target.client.database.read(now_ms))


def ask_for_bootstrap(policy: Policy, target: Site) -> None:
    """Refuse to copy again what is written at the destination by now.

    :raises ActionRefusedError: after a fail-over.
    """
    state = PolicyRecord(target.client.database, policy.name).read()
    if state is not None and state.phase is Phase.FAILED_OVER:
        raise ActionRefusedError(
            f"replication policy {policy.name!r} was failed over; to copy its tables again would overwrite what was "
            f"written at {policy.destination} since. Fail back first"
        )


def fail_over_policy(policy: str, target: Site, *, holder: str) -> FailedOver | None:
    """End a policy at its destination, whose databases may be written from now on. The source is not needed.

    A cycle that is under way is fenced first (R3). Again is fine.

    :param holder: who does it, for people.
    :return: what is known of its ACID tables; None when it has none.
    :raises NoSuchObjectError: when the policy has never run here.
    """
    record = PolicyRecord(target.client.database, policy)
    before = record.read()
    if before is None:
        raise NoSuchObjectError(f"replication policy {policy!r} has never run at {target.name}; is it the right side?")
    state = before if before.phase is Phase.FAILED_OVER else record.begin(before.source, holder)
    if before.phase is not Phase.FAILED_OVER:
        record.change(state.epoch, phase=Phase.FAILED_OVER)
        record.end(state.epoch, dict(before.report), None)
    # What a cycle has put into place and not committed must not be what somebody reads or writes from now on (R4).
    end_earlier(target, policy, state.epoch)
    database = target.client.database
    if database.read(lambda connection: read_sync(connection, policy)) is not None:
        return fail_over(target, policy)

    def release(connection: Connection) -> None:
        for name in target_databases(connection, policy):
            unmark_target(connection, name, policy)

    database.run(release)
    return None


def commits_between(policy: Policy, source: Site, target: Site, after: int, upto: int) -> Iterable[dict[str, Any]]:
    """What the source has committed to tables of the policy, by its events: a document for each commit, in order.

    :param after: events with larger ids, up to ``upto``, which were applied.
    """
    events = event_source(policy, source, target)
    reached = after
    while reached < upto:
        page = read_after(events, reached, min(PAGE, upto - reached))
        if not page:
            return
        reached = page[-1].event_id
        mine = [event for logged in page if (event := of_policy(decode_event(logged), policy)) is not None]
        ended = [event for event in mine if event.kind is EventKind.COMMIT_TXN]
        tables = _tables_of(policy, source, [txn_id for event in ended for txn_id in event.txn_ids])
        for event in mine:
            if event.kind is EventKind.COMMIT_TXN:
                written = sorted({t for txn_id in event.txn_ids for t in tables.get(txn_id, ())})
            elif event.kind is EventKind.INSERT and not event.transactional and event.table is not None:
                written = [event.table]
            else:
                continue
            if written:
                yield {
                    "kind": "replicated",
                    "policy": policy.name,
                    "event_id": event.event_id,
                    "time": event.time,
                    "source_txn_id": event.txn_ids[0] if event.txn_ids else None,
                    "source_tables": [str(table) for table in written],
                    "tables": [str(policy.target(table)) for table in written],
                }


def _tables_of(policy: Policy, source: Site, txn_ids: Sequence[int]) -> dict[int, set[TableName]]:
    if not txn_ids:
        return {}
    database = source.client.database
    found = database.read(
        lambda connection: commits_of_txns(
            connection, database.features(connection), txn_ids, now_ms(connection) // 1000
        )
    )
    tables: dict[int, set[TableName]] = {}
    for commit in found:
        if commit.txn_id is not None and policy.selects(commit.table):
            tables.setdefault(commit.txn_id, set()).add(commit.table)
    return tables
