"""What a request of the queue is about, as the metastore has it now: the table or partition, and who may need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.format.partitions import readings
from airflow_hive_acid.maintenance.cleaner.rules import TxnFate, may_clean
from airflow_hive_acid.metastore.compaction import read_horizon, read_registered
from airflow_hive_acid.metastore.database import TxnState
from airflow_hive_acid.metastore.names import known_reading
from airflow_hive_acid.metastore.protocol import pins_on
from airflow_hive_acid.metastore.txns import txn_facts, valid_write_ids, was_committed

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.maintenance.cleaner.rules import CleaningDecision
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Partition, Table
    from airflow_hive_acid.metastore.compaction import Compaction, Horizon, Resource
    from airflow_hive_acid.metastore.txns import PinnedTable

_NO_CLEANUP = "no_cleanup"
_FATES = {TxnState.OPEN: TxnFate.OPEN, TxnState.COMMITTED: TxnFate.COMMITTED, TxnState.ABORTED: TxnFate.ABORTED}


@dataclass(frozen=True, slots=True)
class Subject:
    """The table, or the partition of it, that is cleaned.

    :param table: None: there is none of that name.
    :param partition: None: of a table without partitions, of a whole table, or there is none of that name.
    """

    table: Table | None
    partition: Partition | None = None

    def is_gone(self, resource: Resource) -> bool:
        """Whether the catalog has nothing of the name that a resource bears."""
        return self.table is None or (resource.partition is not None and self.partition is None)

    @property
    def place(self) -> tuple[object, ...]:
        """What tells whether names still mean the same directory of the same object."""
        table, partition = self.table, self.partition
        return (
            None if table is None else (table.id, table.location),
            None if partition is None else (partition.id, partition.name, partition.location),
        )


def find_subject(client: MetastoreClient, resource: Resource) -> Subject:
    """Look up what a resource names, in any spelling of its partition."""
    name = str(resource.table_name)
    table = client.catalog.find_tables([name]).get(name)
    if table is None or resource.partition is None or not table.is_partitioned:
        return Subject(table)
    found = client.catalog.find_partitions(name, readings(resource.partition))
    known = known_reading(resource.partition, found)
    return Subject(table, None if known is None else found[known])


def is_kept_by_property(client: MetastoreClient, table: Table, resource: Resource) -> bool:
    """Whether the table, or the partition, has ``no_cleanup=true``."""
    own: dict[str, str] = {}
    if resource.partition is not None:
        own = client.catalog.partition_properties(table.qualified_name, resource.partition)
    everywhere = [*own.items(), *table.properties.items()]
    return any(key.lower() == _NO_CLEANUP and value.lower() == "true" for key, value in everywhere)


@dataclass(frozen=True, slots=True)
class Readers:
    """Who may still need what a request replaced or dropped; read before anything is deleted.

    :param decision: whether it may be cleaned up after.
    :param write_ids: up to the request's mark.
    :param pins: on its table.
    """

    horizon: Horizon
    decision: CleaningDecision
    write_ids: ValidWriteIdList
    pins: tuple[PinnedTable, ...] = ()

    @property
    def txns(self) -> ValidTxnList:
        """The txns that everybody sees."""
        return self.horizon.txns()


def read_readers(client: MetastoreClient, request: Compaction) -> Readers:
    """Everything the decision needs, in one consistent view."""
    name, gap_ms = request.resource.table_name, client.gap_timeout_ms

    def read(connection: Connection) -> Readers:
        features = client.database.features(connection)
        horizon = read_horizon(connection, features, gap_ms)
        registered = read_registered(connection, features, name)
        decision = may_clean(request, horizon, fate_of(connection, request), registered)
        lists = valid_write_ids(connection, [name], horizon.txns())
        pins = tuple(pins_on(connection, name)) if features.pins else ()
        return Readers(horizon, decision, lists[name].for_cleaner(request.highest_write_id or 0), pins)

    return client.database.read(read)


def fate_of(connection: Connection, request: Compaction) -> TxnFate:
    """What became of a compaction's txn."""
    txn_id = request.txn_id
    if txn_id is None or request.next_txn_id is not None:
        return TxnFate.COMMITTED  # a row of old without a txn; or the stamp of its commit
    facts = txn_facts(connection, [txn_id]).get(txn_id)
    if facts is not None:
        return _FATES[facts.state]
    return TxnFate.COMMITTED if was_committed(connection, txn_id) else TxnFate.FORGOTTEN
