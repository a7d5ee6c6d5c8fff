"""Why a table or partition was or was not compacted: the decision now, those before, its requests, and its cleaning.

Everything is read; nothing is asked for, stored or removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.maintenance.cleaner.cleaning import clean_up
from airflow_hive_acid.maintenance.cleaner.look import Look
from airflow_hive_acid.maintenance.initiator.candidates import Looks
from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds
from airflow_hive_acid.metastore.catalog import named_by
from airflow_hive_acid.metastore.compaction import Candidate, CompactionState, CompactionType, Resource
from airflow_hive_acid.metastore.names import table_name

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.maintenance.decisions import CleaningOutcome, Decision
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction import CleaningRecord, Compaction, StoredDecision

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known about the compaction of a table or partition.

    :param writes: completed writes since the last compaction that was cleaned up; without one the Initiator does not
        look at it at all.
    :param decision: what the Initiator would decide now.
    :param before: what it has decided, newest first.
    :param requests: in the queue and in the history, newest first.
    :param cleaning: of each finished compaction, what the Cleaner would do now and for whom it keeps what.
    :param cleaned: what the Cleaner has noted, newest first.
    """

    resource: Resource
    writes: int
    decision: Decision
    before: tuple[StoredDecision, ...]
    requests: tuple[Compaction, ...]
    cleaning: tuple[CleaningOutcome, ...]
    cleaned: tuple[CleaningRecord, ...]


def explain(client: MetastoreClient, filesystem: Filesystem, table: str, partition: str | None = None) -> Explanation:
    """Explain one table or partition.

    :param table: ``db.table``.
    :param partition: name of a partition; needed when the table has any.
    :raises NoSuchObjectError: when there is no such table.
    :raises InvalidArgumentsError: when the partition is missing, or none of this table.
    """
    resource = resource_of(client, table, partition)
    found = client.compactions.decisions.written(resource)
    looks = Looks(client, filesystem, InitiatorThresholds.of(client.settings))
    looked = next(one for one in looks.at([found or Candidate(resource)]) if one.candidate.resource == resource)
    shown = client.compactions.show(database=resource.database, table=resource.table, partition=resource.partition)
    requests = [r for r in shown if r.resource == resource and r.type is not CompactionType.ABORT_TXN_CLEANUP]
    records = client.cleanings.newest(resource.database, resource.table, limit=100)
    return Explanation(
        resource,
        0 if found is None else found.writes,
        looked.decision,
        tuple(client.compactions.decisions.of(resource)),
        tuple(requests[:_SHOWN]),
        tuple(_cleaning(client, filesystem, requests)),
        tuple(record for record in records if record.resource == resource)[:_SHOWN],
    )


def resource_of(client: MetastoreClient, table: str, partition: str | None) -> Resource:
    """The table or partition that is meant; a partition need not exist any more."""
    found = client.catalog.get_table(str(table_name(table)))
    if partition is not None:
        return Resource(found.db, found.name, named_by(client.database, found, partition))
    if found.is_partitioned:
        raise InvalidArgumentsError(f"{found.qualified_name} is partitioned; name a partition")
    return Resource(found.db, found.name)


def _cleaning(client: MetastoreClient, filesystem: Filesystem, requests: list[Compaction]) -> list[CleaningOutcome]:
    look = Look.begin(client, filesystem, dry_run=True)
    return [clean_up(look, r) for r in requests if r.state is CompactionState.READY_FOR_CLEANING]
