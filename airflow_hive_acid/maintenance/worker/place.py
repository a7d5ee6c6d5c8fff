"""Where a compaction works: a table or a partition of it, how a txn sees its files, and what may be published there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem.publishing import Target
from airflow_hive_acid.filesystem.s3_uploads import SETTING
from airflow_hive_acid.format.jobs import PartitionRef
from airflow_hive_acid.maintenance.warehouse.uploads import places_elsewhere, uploads_of_job

if TYPE_CHECKING:
    from airflow_hive_acid.format.acid_state import AcidState
    from airflow_hive_acid.format.jobs import Uploads
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.maintenance.worker.jobs import Application
    from airflow_hive_acid.metastore.catalog import Partition, Table
    from airflow_hive_acid.metastore.protocol import Transaction
    from airflow_hive_acid.settings import Settings


@dataclass(slots=True)
class Place:
    """Where the files are: the table, and its partition if it has any."""

    table: Table
    partition: Partition | None
    application: Application

    @property
    def location(self) -> str:
        """URI of the directory that holds them."""
        return self.table.location if self.partition is None else self.partition.location

    @property
    def ref(self) -> PartitionRef:
        """The same for a job."""
        if self.partition is None:
            return PartitionRef("", self.table.location)
        return PartitionRef(self.partition.name, self.partition.location, self.partition.values)

    def target(self, highest: int, txn_id: int) -> Target:
        """What a compaction may publish.

        :param highest: the largest write id that it merges.
        """
        table = self.table
        partitions = {} if self.partition is None else {self.partition.name: self.partition.location}
        columns = tuple(c.name for c in table.partition_columns)
        return Target(
            table.qualified_name, table.location, columns, partitions, highest, visibility_txn_id=txn_id,
            insert_only=table.is_insert_only,
        )  # fmt: skip

    def uploads(self, kind: str, settings: Settings) -> Uploads | None:
        """What its job may upload under final names, None for nothing (decision 74).

        The names hold the id of its txn: no other attempt writes them, and only its control plane makes files of them.

        :param kind: type of the compaction, in small letters.
        """
        return uploads_of_job(
            self.table, kind, settings.string(SETTING), lambda _: places_elsewhere(self.table, [self.ref])
        )


@dataclass(frozen=True, slots=True)
class Pinned:
    """A txn's view of the place."""

    txn: Transaction
    write_ids: ValidWriteIdList
    state: AcidState
