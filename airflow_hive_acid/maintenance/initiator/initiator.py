"""The Initiator: looks at what was written and asks for compactions (Hive's Initiator).

A look goes through everything that was written since it was looked at last, or must be looked at again, the longest
waiting first, ``hive.compactor.fetch.size`` at a time; so nothing waits for a later look, and memory does not grow with
the warehouse. Requests of one step go into the queue together, the neediest first. Runs under Hive's mutex
``Initiator``, so that two Initiators, ours or a real Hive's, never work at once; the queue itself refuses doubles. What
was decided is stored with its numbers, for ``hive-acid compaction explain``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.table_kinds import property_of
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.initiator.candidates import Looks, failure
from airflow_hive_acid.maintenance.initiator.rules import Rule, urgency
from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds, job_defaults
from airflow_hive_acid.metastore.compaction import Candidate, CompactionRequest, CompactionType, StoredDecision
from airflow_hive_acid.metastore.database import now_ms
from airflow_hive_acid.metastore.txns import min_open_watermark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.maintenance.decisions import Decision
    from airflow_hive_acid.maintenance.initiator.candidates import Looked
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction import Resource
    from airflow_hive_acid.metastore.names import TableName

log = logging.getLogger(__name__)

MUTEX = "Initiator"
POOL = "hive.compactor.worker.pool"
_STEPS_PER_QUERY = 10
"""What changed is found by counting everything that was ever written; so it is asked for several steps at once."""
WATERMARK, WALK = "HiveAcidInitiator", "HiveAcidInitiatorWalk"
"""Ours, in rows of AUX_TABLE: below which txn all had ended when the last look began that came to its end, and when the
last one began that compared everything."""
_WALK_EVERY_MS = 3_600_000
"""So often everything is compared: what was renamed, or cleaned by a Hive, has no new txn."""
_TYPES = {Kind.MAJOR: CompactionType.MAJOR, Kind.MINOR: CompactionType.MINOR}


def run_initiator(
    client: MetastoreClient, filesystem: Filesystem, *, dry_run: bool = False, limit: int | None = None
) -> list[Decision]:
    """Look once.

    :param dry_run: decide and say why about everything that was ever written, and change nothing.
    :param limit: at most so many candidates; the others are the first of the next look. None for all.
    :return: a decision per candidate, in the order they were looked at; empty when another Initiator is at work.
    """
    return [decision for step in look_once(client, filesystem, dry_run=dry_run, limit=limit) for decision in step]


def look_once(
    client: MetastoreClient, filesystem: Filesystem, *, dry_run: bool = False, limit: int | None = None
) -> Iterator[list[Decision]]:
    """As :func:`run_initiator`, step by step: who tells decisions as they come needs not hold all of them."""
    thresholds = InitiatorThresholds.of(client.settings)
    looks = Looks(client, filesystem, thresholds)
    if dry_run:
        yield from plan(client, looks, thresholds.fetch_size)
        return
    if not client.settings.flag("hive.compactor.initiator.on"):
        log.info("hive.compactor.initiator.on is false; the Initiator does nothing")
        return
    with client.mutexes.try_hold(MUTEX) as mutex:
        if mutex is None:
            log.info("another Initiator holds the mutex; nothing is done in this look")
            return
        started = client.database.read(now_ms)
        requeued = [
            *client.compactions.requeue_timed_out(thresholds.worker_timeout_ms),
            *client.compactions.requeue_of_dead(client.settings.milliseconds("hive.txn.timeout")),
        ]
        if requeued:
            log.warning("requests %s were given back to the queue: their workers were silent too long", requeued)
        steps = _Steps(client, thresholds, started, mutex.value or None, limit)
        for candidates in steps:
            yield _serve(client, looks, candidates, started if steps.remembers else None)
        steps.note_end()
        if steps.left != 0:  # a Hive that looks next would take what is left for looked at
            mutex.leave(started)


def plan(client: MetastoreClient, looks: Looks, size: int, table: TableName | None = None) -> Iterator[list[Decision]]:
    """What would be decided about everything that was written and not compacted since; nothing is asked for or stored.

    :param size: of a step.
    :param table: only its partitions, or itself.
    """
    after: Resource | None = None
    while candidates := client.compactions.decisions.find_written(size, after, table):
        yield [looked.decision for looked in looks.at(candidates)]
        after = candidates[-1].resource


@dataclass(slots=True)
class _Steps:
    """The candidates of one look, step by step.

    Aborted writes (where the Cleaner does not see to them) come first: Hive gives them only the room that writes leave.
    A look with a limit keeps a quarter of it for what was looked at before, or new tables could keep it waiting.

    :param last_checked_ms: when an Initiator looked last, for a metastore without our table of decisions.
    :param remembers: whether what was looked at is stored, so that the rest of a look can be asked for.
    """

    client: MetastoreClient
    thresholds: InitiatorThresholds
    started: int
    last_checked_ms: int | None
    left: int | None
    remembers: bool = field(init=False)
    _watermark: int = field(init=False, default=0)
    _walked: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.remembers = self.client.compactions.decisions.is_there

    def __iter__(self) -> Iterator[list[Candidate]]:
        return filter(None, self._all())

    def _all(self) -> Iterator[list[Candidate]]:
        yield self._aborted()
        if not self.remembers:
            yield self.client.compactions.find_candidates(self.last_checked_ms, self._size(self.thresholds.fetch_size))
            return
        if self.left is None:
            yield from self._everything()
            return
        decisions = self.client.compactions.decisions
        yield self._counted(decisions.find_changed(self.started, self.left // 4 + 1, only_known=True))
        while room := self._size(self.thresholds.fetch_size * _STEPS_PER_QUERY):
            found = self._counted(decisions.find_changed(self.started, room))
            yield from self._parts(found)
            if len(found) < room:
                return

    def _everything(self) -> Iterator[list[Candidate]]:
        """What changed since the last look that came to its end; all that was written is compared now and then."""
        client, decisions = self.client, self.client.compactions.decisions
        # Before anything is read: what commits meanwhile has an id from here on.
        self._watermark = client.database.read(lambda connection: min_open_watermark(connection, client.gap_timeout_ms))
        low, walked = self._recall(WATERMARK), self._recall(WALK)
        room = self.thresholds.fetch_size * _STEPS_PER_QUERY
        found = None
        # Neither may lie ahead: the clock may have gone back since, and txn ids with a metastore that was restored.
        if 0 < low <= self._watermark and 0 <= self.started - walked < _WALK_EVERY_MS:
            found = decisions.find_changed_since(low, self.started, room)
        if found is not None:
            yield from self._parts(found)
            return
        for page in decisions.walk_changed(self.started, room):
            yield from self._parts(page)
        self._walked = True

    def note_end(self) -> None:
        """What was written by txns that had ended when this look began needs not be asked for again."""
        if self._watermark:
            self._leave(WATERMARK, self._watermark)
        if self._walked:
            self._leave(WALK, self.started)

    def _recall(self, what: str) -> int:
        with self.client.mutexes.hold(what) as held:
            return held.value

    def _leave(self, what: str, value: int) -> None:
        with self.client.mutexes.hold(what) as held:
            held.leave(value)

    def _parts(self, found: list[Candidate]) -> Iterator[list[Candidate]]:
        size = self.thresholds.fetch_size
        yield from (found[start : start + size] for start in range(0, len(found), size))

    def _aborted(self) -> list[Candidate]:
        """Tables and partitions with too many or too old aborted writes (Hive's second query)."""
        if self.client.settings.flag("hive.compactor.clean.aborts.using.cleaner"):
            return []
        # With a limit, writes keep most of the room.
        size = self.thresholds.fetch_size if self.left is None else min(self.thresholds.fetch_size, self.left // 4 + 1)
        limits = self.thresholds.aborted_txns, self.thresholds.aborted_age_ms
        found = self.client.compactions.find_aborts_to_clean(*limits, size)
        age = self.thresholds.aborted_age_ms
        return self._counted([
            Candidate(writes.resource, writes.components, age >= 0 and writes.oldest_started + age < self.started)
            for writes in found
        ])  # fmt: skip

    def _size(self, size: int) -> int:
        return size if self.left is None else min(size, self.left)

    def _counted(self, found: list[Candidate]) -> list[Candidate]:
        if self.left is not None:
            self.left -= len(found)
        return found


def _serve(client: MetastoreClient, looks: Looks, candidates: Sequence[Candidate], look: int | None) -> list[Decision]:
    """Look at candidates, ask for what they need, and remember what was decided.

    :param look: when the look began; None: nothing is stored.
    """
    looked = looks.at(candidates)
    decisions = {one.candidate.resource: one.decision for one in looked}
    decisions |= request(client, looked)
    for resource, decision in decisions.items():
        if decision.kind in (Kind.GIVEN_UP, Kind.ERROR):
            # What should have been compacted and was not goes into the history, as in Hive.
            row = client.compactions.did_not_initiate(resource, decision.reason)
            decisions[resource] = replace(decision, request_id=row)
    if look is not None:
        meant = {one.stored: one.candidate.resource for one in reversed(looked)}
        decided = [(c, _stored(decisions[meant[c.resource]])) for c in candidates]
        client.compactions.decisions.store(look, decided)
        client.measures.store((one.candidate.resource, one.sizes.measure()) for one in looked if one.sizes is not None)
        client.reads.mark({one.candidate.resource: one.reads.marks for one in looked if one.reads is not None})
    return list(decisions.values())


def request(
    client: MetastoreClient,
    looked: Iterable[Looked],
    *,
    initiator_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    pool: str | None = None,
) -> dict[Resource, Decision]:
    """Ask for the compactions that were found to be needed, the neediest first.

    :param initiator_id: who asks; by default this host's Initiator.
    :param properties: of a request by hand, with its ``pool``; they win over those of table and database.
    :return: by resource, what became of each.
    """
    # A partition that the txn tables spell in two ways was looked at twice.
    each = [_allowed(client, one) for one in {one.candidate.resource: one for one in looked}.values()]
    needed = sorted((one for one in each if one.decision.kind in _TYPES), key=lambda one: -urgency(one.decision))
    owner = client.settings.string("hive.compactor.run.as.user")
    decided: dict[Resource, Decision] = {}
    requests: list[tuple[Looked, CompactionRequest]] = []
    for one in needed:
        table = one.table_or_fail()
        own = property_of(table.properties, POOL) or property_of(one.database_properties, POOL)
        own = None if client.database.layout().lacks("COMPACTION_QUEUE", "CQ_POOL_NAME") else own
        given = {**job_defaults(one.database_properties, table.properties), **(properties or {})}
        wanted = CompactionRequest(
            one.candidate.resource, _TYPES[one.decision.kind], owner or table.owner, given,
            initiator_id or f"{client.host}-initiator", pool=pool or own,
        )  # fmt: skip
        try:
            wanted.row()
            requests.append((one, wanted))
        except InvalidArgumentsError as error:  # of one table's properties; the others' requests go on
            decided[one.candidate.resource] = failure(one.candidate.resource, error)
    answers = client.compactions.enqueue_all([wanted for _, wanted in requests]) if requests else []
    for (one, _), answer in zip(requests, answers, strict=True):
        if answer.accepted:
            decided[one.candidate.resource] = replace(one.decision, request_id=answer.id)
            continue
        decided[one.candidate.resource] = replace(
            one.decision, kind=Kind.NOT_ACCEPTED, reason=answer.message, request_id=answer.id, rule=Rule.SAME_REQUEST,
            blocked_by=(f"request {answer.id}",), again=True,
        )  # fmt: skip
    return decided


def _allowed(client: MetastoreClient, one: Looked) -> Looked:
    """On a metastore of a Hive 3, a major compaction in the place of a minor one, after which it reads nothing."""
    if one.decision.kind is not Kind.MINOR or not client.database.layout().counts_txns:
        return one
    reason = f"{one.decision.reason}; major, because a Hive 3 cannot read what its minor compactions leave"
    return replace(one, decision=replace(one.decision, kind=Kind.MAJOR, reason=reason))


def _stored(decision: Decision) -> StoredDecision:
    # The row that a failure leaves in the history is another one each time, and no other outcome for that.
    request_id = None if decision.kind in (Kind.GIVEN_UP, Kind.ERROR) else decision.request_id
    return StoredDecision(
        decision.resource, decision.kind.name, decision.rule, decision.reason, decision.numbers, decision.blocked_by,
        request_id, decision.again,
    )  # fmt: skip
