"""Telling the metastore what a job has read, for tables whose Initiator weighs that (``hive.acid.initiator.policy``).

Nothing is told, and no statement sent, of other tables. A count that cannot be noted fails nobody's statement.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.maintenance.initiator.benefit import BENEFIT, POLICY
from airflow_hive_acid.maintenance.thresholds import threshold_overrides
from airflow_hive_acid.metastore.compaction import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_hive_acid.format.jobs import TableSnapshot
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.sql.model.plans import TableRead
    from airflow_hive_acid.sql.model.pruning import PartitionFilter

log = logging.getLogger(__name__)

MOST_PARTITIONS = 100
"""A job that reads more partitions than this counts as one that reads all: a row for each would cost too much."""


class ReadsOfJob:
    """What one job reads, told once it has ended."""

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client
        self._read: set[Resource] = set()

    def saw(self, table: Table, read: TableRead, snapshot: TableSnapshot) -> None:
        """A table that a query reads; as a pin sees it, as it was, and its changes say nothing about what there is."""
        if read.pin is None and read.as_of is None and read.changes is None:
            self.rewrites(table, read.partitions, snapshot)

    def rewrites(self, table: Table, keep: PartitionFilter, snapshot: TableSnapshot) -> None:
        """A table whose rows a statement finds, to change them."""
        if counts_reads(self._client.settings.string(POLICY), table):
            self._read |= set(resources(table, keep, snapshot))

    def tell(self) -> None:
        """Count them, and begin anew."""
        read, self._read = self._read, set()
        try:
            self._client.reads.add(read)
        except HiveAcidError as error:
            log.warning("reads of %s were not counted: %s", ", ".join(sorted(map(str, read))), error)


def counts_reads(policy: str, table: Table) -> bool:
    """Whether reads of a table are counted.

    :param policy: of the settings; a property ``compactorthreshold.…`` of the table overrides it.
    """
    own: Mapping[str, str] = threshold_overrides(table.properties)
    said = next((value for key, value in own.items() if key.lower() == POLICY), policy)
    return table.is_transactional and said.strip().lower() == BENEFIT


def resources(table: Table, keep: PartitionFilter, snapshot: TableSnapshot) -> Iterator[Resource]:
    """The table for a read of all of it, else the partitions that are read."""
    few = table.is_partitioned and keep.alternatives and len(snapshot.partitions) <= MOST_PARTITIONS
    names: Iterable[str | None] = (p.name for p in snapshot.partitions) if few else (None,)
    return (Resource(table.db, table.name, name) for name in names)
