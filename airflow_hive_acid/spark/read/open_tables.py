"""A table snapshot whose files are listed: what everything that reads one is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from airflow_hive_acid.format.jobs import TableSnapshot
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.spark import schema
    from airflow_hive_acid.spark.read.data_files import EventFile, OriginalDataFile
    from airflow_hive_acid.spark.read.evolution import FileNames, StoredColumn
    from airflow_hive_acid.spark.read.files import SnapshotFiles
    from airflow_hive_acid.spark.read.scan import PartitionValues


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A snapshot whose files are listed.

    :param write_ids: what the snapshot sees; for a compaction the compactor's variant.
    :param renamed: names of the columns in files that were written before a column was renamed.
    :param stored: the columns in files without ACID columns where they are not what Spark finds by name.
    :param columns: data columns; ``partition_columns`` come after them in rows.
    :param changing: files of older Hives that update or delete rows in place.
    :param mixed: partition and bucket of those files; all files of these buckets are in ``files.filtered``.
    """

    snapshot: TableSnapshot
    write_ids: ValidWriteIdList
    columns: tuple[schema.TableColumn, ...]
    partition_columns: tuple[schema.TableColumn, ...]
    partitions: PartitionValues
    files: SnapshotFiles
    renamed: dict[str, FileNames] = field(default_factory=dict)
    stored: dict[str, tuple[StoredColumn, ...]] = field(default_factory=dict)
    changing: frozenset[str] = frozenset()
    mixed: frozenset[tuple[int, int]] = frozenset()

    def is_mixed(self, file: EventFile | OriginalDataFile) -> bool:
        """Whether events of an older Hive may change rows of this file in place."""
        return (file.partition, file.bucket) in self.mixed

    def seen(self, events: DataFrame, files: Sequence[EventFile]) -> DataFrame:
        """The events of these files that the snapshot sees."""
        return only_seen(events, self, files)

    @property
    def name(self) -> str:
        """``db.table``."""
        return self.snapshot.table


def only_seen(events: DataFrame, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """Drop events of write ids that the snapshot does not see, where directories hold several write ids."""
    checked = [f for f in files if f.check_rows]
    if not checked:
        return events
    seen = table.write_ids
    low, high = min(f.min_write_id for f in checked), max(f.max_write_id for f in checked)
    hidden = ", ".join(str(i) for i in seen.exceptions.between(low, high))
    # coalesce: must not be pushed down into the ORC reader, which would look for a user's column of that name.
    current = "coalesce(currentTransaction, 0L)"
    return events.where(
        f"{current} <= {seen.high_watermark}L" + (f" and {current} not in ({hidden})" if hidden else "")
    )
