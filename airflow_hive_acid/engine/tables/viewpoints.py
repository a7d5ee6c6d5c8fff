"""How a job looks at tables: as the reader that runs it, as a pin, or at what write ids have changed.

What is asked of the metastore here is asked by a reader whose own txn is open (R16): from then on no Cleaner removes
what it finds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.tables.snapshots import table_snapshot
from airflow_hive_acid.format.changes import checked_range
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.listing import cleaned_up_to, require_partitions_kept, txns_of
from airflow_hive_acid.metastore.names import table_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.format.changes import Changes
    from airflow_hive_acid.format.jobs import PartitionRef, TableSnapshot, View
    from airflow_hive_acid.format.write_ids import ValidTxnList
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.txns import PinnedTable
    from airflow_hive_acid.sql.model.plans import Plan, TableRead


class Looks:
    """The looks of one job."""

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client
        self._pinned: list[PinnedTable] = []

    def snapshot(
        self,
        table: Table,
        read: TableRead,
        partitions: Iterable[PartitionRef],
        write_ids: ValidWriteIdList | None,
        txns: ValidTxnList | None,
    ) -> TableSnapshot:
        """A table as its reader sees it, or as the pin does that the query names.

        :raises NoSuchPinError: when there is no such pin.
        """
        # R17: the job sees in the listing, for nothing, whether it is there. One question, for a place of its own only.
        marked = self._client.places.of_table(table) is not None
        if read.pin is None:
            return replace(table_snapshot(table, partitions, read.partitions, write_ids, txns), marked=marked)
        pinned = self._client.pins.look(read.pin, read.table)
        self._pinned.append(pinned)
        seen = table_snapshot(table, pinned.partitions or (), read.partitions, pinned.write_ids, pinned.txns)
        return replace(seen, marked=marked)

    def views(self, plan: Plan, snapshots: Mapping[str, TableSnapshot]) -> tuple[View, ...]:
        """The views of the job spec.

        :param snapshots: by name of the view.
        :raises ChangesNotCompleteError: when write ids of a range of changes have not ended.
        """
        return tuple(
            view if view.changes is None else replace(view, changes=self._changes(view.snapshot, view.changes))
            for view in plan.views(snapshots)
        )

    def _changes(self, snapshot: TableSnapshot, wanted: Changes) -> Changes:
        table, database = table_name(snapshot.table), self._client.database
        checked_range(snapshot.table, ValidWriteIdList.parse(snapshot.write_ids), wanted.first, wanted.last)

        def read(connection: Connection) -> Changes:
            if snapshot.partition_columns:
                require_partitions_kept(connection, database.features(connection), table, wanted.first)
            cleaned = {
                name: highest for name, highest in cleaned_up_to(connection, table).items() if highest >= wanted.first
            }
            txns = {str(w): t for w, t in txns_of(connection, table, wanted.first, wanted.last).items()}
            return replace(wanted, cleaned=cleaned, txns=txns)

        return database.read(read)

    def require_kept(self) -> None:
        """Refuse what was read by a pin if it may not be all; asked when the job has ended."""
        for pinned in self._pinned:
            self._client.pins.require_kept(pinned)
