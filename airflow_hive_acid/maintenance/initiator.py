"""The Initiator: looks at what was written and asks for compactions (Hive's Initiator).

Only tables and partitions that were written since the last look, or whose last compaction failed, are looked at; those
that wait longest come first. Runs under Hive's mutex ``Initiator``, so that two Initiators, ours or a real Hive's,
never work at once; the queue itself refuses doubles.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.filesystem import list_many
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.maintenance.decisions import Decision, Kind
from airflow_hive_acid.maintenance.directories import DirectorySizes, enter, entries
from airflow_hive_acid.maintenance.initiator_rules import CandidateFacts, decide, skip_reason
from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds
from airflow_hive_acid.metastore.clock import now_ms
from airflow_hive_acid.metastore.compaction_queue_model import Candidate, CompactionType
from airflow_hive_acid.metastore.objects import TableName
from airflow_hive_acid.metastore.snapshots import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog_model import Partition, Table
    from airflow_hive_acid.metastore.compaction_queue_model import Resource
    from airflow_hive_acid.metastore.snapshots import Snapshot

log = logging.getLogger(__name__)

MUTEX = "Initiator"
_POOL = "hive.compactor.worker.pool"
_TYPES = {Kind.MAJOR: CompactionType.MAJOR, Kind.MINOR: CompactionType.MINOR}
_BATCH = 500


def run_initiator(client: MetastoreClient, filesystem: Filesystem, *, dry_run: bool = False) -> list[Decision]:
    """Look once.

    :param dry_run: decide and say why about everything that was ever written, and change nothing.
    :return: a decision per candidate, in the order they were looked at; empty when another Initiator is at work.
    """
    look = _Look(client, filesystem, InitiatorThresholds.of(client.settings), dry_run)
    if dry_run:
        return look.decisions(None)
    if not client.settings.flag("hive.compactor.initiator.on"):
        log.info("hive.compactor.initiator.on is false; the Initiator does nothing")
        return []
    with client.mutexes.try_hold(MUTEX) as mutex:
        if mutex is None:
            log.info("another Initiator holds the mutex; nothing is done in this look")
            return []
        started = client.database.read(now_ms)
        requeued = client.compactions.requeue_timed_out(look.thresholds.worker_timeout_ms)
        if requeued:
            log.warning("requests %s were given back to the queue: their workers were silent too long", requeued)
        decisions = look.decisions(mutex.value or None)
        mutex.leave(started)
    return decisions


@dataclass(slots=True)
class _Look:
    client: MetastoreClient
    filesystem: Filesystem
    thresholds: InitiatorThresholds
    dry_run: bool

    def decisions(self, last_checked_ms: int | None) -> list[Decision]:
        candidates = self._candidates(last_checked_ms)
        decided: list[Decision] = []
        for start in range(0, len(candidates), _BATCH):
            decided += self._decide_batch(candidates[start : start + _BATCH])
        return decided

    def _candidates(self, last_checked_ms: int | None) -> list[Candidate]:
        queue, limit = self.client.compactions, self.thresholds.fetch_size
        return queue.find_candidates(last_checked_ms, limit)

    def _decide_batch(self, candidates: Sequence[Candidate]) -> list[Decision]:
        names = sorted({str(c.resource.table_name) for c in candidates})
        tables = self.client.catalog.find_tables(names)
        databases = self.client.catalog.database_properties({table.db for table in tables.values()})
        partitions = self._partitions(candidates, tables)
        active = {request.resource: request for request in self.client.compactions.active()}
        failed = self.client.compactions.failed_resources()
        worth: list[tuple[Candidate, Table, str]] = []
        decided: dict[Resource, Decision] = {}
        for candidate in candidates:
            resource = candidate.resource
            table = tables.get(str(resource.table_name))
            partition = partitions.get(resource)
            facts = CandidateFacts(
                candidate=candidate,
                table=table,
                database_properties=databases.get(resource.database, {}),
                partition_exists=resource.partition is None or partition is not None,
                active=active.get(resource),
                failing=resource in failed
                and self.client.compactions.is_failing(
                    resource, self.thresholds.failed_compactions, self.thresholds.failed_retry_ms
                ),
            )
            skipped = skip_reason(facts)
            if skipped is not None or table is None:
                decided[resource] = self._skip(resource, *(skipped or (Kind.SKIPPED, "unknown table")))
            else:
                worth.append((candidate, table, partition.location if partition is not None else table.location))
        listings = list_many(self.filesystem, [location for _, _, location in worth], descend=enter)
        snapshot = self._snapshot(table for _, table, _ in worth)
        for candidate, table, location in worth:
            decided[candidate.resource] = self._decide(candidate, table, databases, listings[location] or [], snapshot)
        return [decided[candidate.resource] for candidate in candidates]

    def _partitions(self, candidates: Iterable[Candidate], tables: Mapping[str, Table]) -> dict[Resource, Partition]:
        """The partitions that exist, looked up table by table."""
        wanted: dict[str, list[Resource]] = {}
        for candidate in candidates:
            name = str(candidate.resource.table_name)
            table = tables.get(name)
            if candidate.resource.partition is not None and table is not None and table.is_partitioned:
                wanted.setdefault(name, []).append(candidate.resource)
        found = {}
        for name, resources in wanted.items():
            known = self.client.catalog.find_partitions(name, [r.partition for r in resources if r.partition])
            found.update({r: known[r.partition] for r in resources if r.partition in known})
        return found

    def _snapshot(self, tables: Iterable[Table]) -> Snapshot:
        wanted = sorted({TableName(table.db, table.name) for table in tables})
        gap = self.client.gap_timeout_ms
        return self.client.database.read(lambda connection: take_snapshot(connection, wanted, 0, gap))

    def _decide(
        self,
        candidate: Candidate,
        table: Table,
        databases: Mapping[str, Mapping[str, str]],
        listing: Sequence[FileInfo],
        snapshot: Snapshot,
    ) -> Decision:
        """Measure, decide, ask; what goes wrong with one candidate does not stop the others."""
        resource = candidate.resource
        try:
            writes = snapshot.write_ids[resource.table_name].for_compactor()
            sizes = DirectorySizes.of(acid_state(entries(listing), writes, snapshot.valid_txns))
            thresholds = self.thresholds.for_table(self.client.settings, table.properties)
            decision = decide(candidate, sizes, thresholds)
            if decision.kind not in _TYPES or self.dry_run:
                return decision
            return self._request(decision, table, databases.get(table.db, {}))
        except (HiveAcidError, OSError) as error:
            return self._skip(resource, Kind.ERROR, f"{type(error).__name__}: {error}")

    def _request(self, decision: Decision, table: Table, database_properties: Mapping[str, str]) -> Decision:
        resource = decision.resource
        answer = self.client.compactions.enqueue(
            str(resource.table_name),
            resource.partition,
            _TYPES[decision.kind],
            run_as=table.owner,
            initiator_id=f"{self.client.host}-initiator",
            pool=table.property(_POOL) or database_properties.get(_POOL),
        )
        if answer.accepted:
            return replace(decision, request_id=answer.id)
        return Decision(resource, Kind.NOT_ACCEPTED, answer.message, decision.numbers, answer.id)

    def _skip(self, resource: Resource, kind: Kind, reason: str) -> Decision:
        """Leave a candidate alone; what should have been compacted and was not goes into the history."""
        if kind in (Kind.GIVEN_UP, Kind.ERROR) and not self.dry_run:
            request_id = self.client.compactions.did_not_initiate(resource, reason)
            return Decision(resource, kind, reason, request_id=request_id)
        return Decision(resource, kind, reason)
