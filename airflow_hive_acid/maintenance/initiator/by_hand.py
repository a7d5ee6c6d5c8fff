"""Compactions that somebody asks for: what ``ALTER TABLE … COMPACT`` and the operator have in common.

What cannot be meant is refused before anything is asked for. A partitioned table without a partition is handed to the
Initiator's rules, partition by partition, as Hive 4.2 does it: they choose the type, and what is below the thresholds
is left alone; other than in Hive, ``compactorthreshold.*`` of the request count there. What keeps only the Initiator
away (``no_auto_compaction``, failures in a row) keeps no person away; a success by hand ends a row of failures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.format.buckets import MAX_BUCKET
from airflow_hive_acid.format.ordering import order_text, read_order
from airflow_hive_acid.format.table_kinds import property_of
from airflow_hive_acid.maintenance.initiator.candidates import Looks
from airflow_hive_acid.maintenance.initiator.initiator import POOL, request
from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds, job_defaults
from airflow_hive_acid.maintenance.worker.jobs import check_properties
from airflow_hive_acid.metastore.catalog import named_by
from airflow_hive_acid.metastore.compaction import Candidate, CompactionRequest, CompactionType, Resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.maintenance.decisions import Decision
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import PartitionSpec, Table


@dataclass(frozen=True, slots=True)
class Wanted:
    """A compaction that somebody wants.

    :param table: ``db.table``.
    :param partition: a partition's name, or its values by column; None for a table, or for all its partitions.
    :param type: ``major``, ``minor`` or ``rebalance``.
    :param properties: ``compactor.*``, ``compactorthreshold.*``, ``tblprops.*`` of this request alone.
    :param pool: of workers that may take it; by default the table's, else its database's.
    :param number_of_buckets: of a rebalance; by default as many as there are.
    :param order_by: of a rebalance: columns, with or without the words ORDER BY.
    """

    table: str
    partition: PartitionSpec | None = None
    type: str = "major"
    properties: Mapping[str, str] = field(default_factory=dict)
    pool: str | None = None
    number_of_buckets: int | None = None
    order_by: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of the wish for one table or partition.

    :param request_id: of the new request, or of the one that exists already; None when none is needed.
    :param accepted: whether it is a new one.
    :param state: of the request, as SHOW COMPACTIONS prints it; empty without one.
    :param message: why it is no new one.
    :param type: of the new request, as SHOW COMPACTIONS prints it; empty without one.
    """

    resource: Resource
    request_id: int | None
    accepted: bool
    state: str = ""
    message: str = ""
    type: str = ""

    def __str__(self) -> str:
        if self.accepted:
            return f"compaction request {self.request_id} for {self.resource} is queued"
        return f"{self.resource}: {self.message}"


def ask(client: MetastoreClient, filesystem: Filesystem, wanted: Wanted) -> list[Asked]:
    """Ask for a compaction, or for those that the partitions of a table need.

    :return: one answer for a table or partition; of all partitions those that need a compaction, and those that do not.
    :raises NoSuchObjectError: when there is no such table or partition.
    :raises InvalidArgumentsError: when it cannot be meant; says what can. Properties are looked at as well: what a
        Worker would refuse hours later is refused now.
    """
    table = client.catalog.get_table(wanted.table)
    kind = _checked_type(wanted, table)
    check_properties(table.properties, wanted.properties)
    InitiatorThresholds.of(client.settings).for_table(client.settings, {}, request=wanted.properties)
    if table.is_partitioned and wanted.partition is None:
        if kind is CompactionType.REBALANCE:
            raise InvalidArgumentsError(f"{table.qualified_name} is partitioned; name the partition to rebalance")
        return list(_all_partitions(client, filesystem, wanted, table))
    resource = _resource(client, wanted, table)
    database = client.catalog.database_properties([table.db]).get(table.db, {})
    pool = wanted.pool or property_of(table.properties, POOL) or property_of(database, POOL)
    (answer,) = client.compactions.enqueue_all([
        CompactionRequest(
            resource, kind, properties={**job_defaults(database, table.properties), **wanted.properties}, pool=pool,
            initiator_id=f"{client.host}-manual", number_of_buckets=wanted.number_of_buckets,
            order_by=_order_by(wanted.order_by, table),
        )
    ])  # fmt: skip
    return [Asked(resource, answer.id, answer.accepted, answer.state.text, answer.message, kind.name)]


def _checked_type(wanted: Wanted, table: Table) -> CompactionType:
    kinds = {kind.name.lower(): kind for kind in CompactionType if kind is not CompactionType.ABORT_TXN_CLEANUP}
    kind = kinds.get(wanted.type.lower())
    if kind is None:
        raise InvalidArgumentsError(f"compaction type must be one of {', '.join(kinds)}, not {wanted.type!r}")
    name = table.qualified_name
    if not table.is_transactional:
        raise InvalidArgumentsError(f"{name} is not transactional; there is nothing to compact")
    if table.sort_columns and not table.is_insert_only:
        raise InvalidArgumentsError(
            f"{name} is sorted by {table.sort_columns[0][0]}, and rows with ids lie in its order"
        )
    if kind is not CompactionType.REBALANCE:
        for what, value in (("number of buckets", wanted.number_of_buckets), ("order", wanted.order_by)):
            if value is not None:
                raise InvalidArgumentsError(f"a {kind.name.lower()} compaction keeps the {what}; leave it out")
        return kind
    if table.bucket_count > 0 or table.is_insert_only:
        raise InvalidArgumentsError(
            f"{name} cannot be rebalanced: only full ACID tables without CLUSTERED BY can, because rows of a bucketed "
            "table have their places"
        )
    buckets = wanted.number_of_buckets
    if buckets is not None and not 1 <= buckets <= MAX_BUCKET + 1:
        raise InvalidArgumentsError(f"a rebalance makes 1 to {MAX_BUCKET + 1} buckets, not {buckets}")
    return kind


def _order_by(text: str | None, table: Table) -> str | None:
    """As the queue holds it: from ORDER BY on."""
    if text is None or not text.strip():
        return None
    return order_text(read_order(text, [column.name for column in table.columns]))


def _resource(client: MetastoreClient, wanted: Wanted, table: Table) -> Resource:
    """The table, or its partition, which must exist."""
    if wanted.partition is None:
        return Resource(table.db, table.name)
    if not table.is_partitioned:
        raise InvalidArgumentsError(f"{table.qualified_name} has no partitions, so there is no {wanted.partition}")
    name = named_by(client.database, table, wanted.partition)
    if name not in client.catalog.find_partitions(table.qualified_name, [name]):
        raise NoSuchObjectError(f"there is no partition {name} of {table.qualified_name}")
    return Resource(table.db, table.name, name)


def _all_partitions(client: MetastoreClient, filesystem: Filesystem, wanted: Wanted, table: Table) -> Iterator[Asked]:
    """Each partition through the Initiator's rules."""
    thresholds = InitiatorThresholds.of(client.settings)
    looks = Looks(client, filesystem, thresholds, request=wanted.properties, by_hand=True)
    after: str | None = None
    while page := client.catalog.list_partitions(table.qualified_name, limit=thresholds.fetch_size, after=after):
        after = page[-1].name
        looked = looks.at([Candidate(Resource(table.db, table.name, partition.name)) for partition in page])
        requested = request(
            client, looked, initiator_id=f"{client.host}-manual", properties=wanted.properties, pool=wanted.pool
        )
        for one in looked:
            resource = one.candidate.resource
            yield _asked(requested.get(resource, one.decision))


def _asked(decision: Decision) -> Asked:
    if decision.enqueued:
        return Asked(decision.resource, decision.request_id, True, "initiated", type=decision.kind.name)
    return Asked(decision.resource, decision.request_id, False, "", decision.reason)
