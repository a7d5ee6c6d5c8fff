"""Reads of a cache under one set of ids and lists, by ``db.table`` as the catalog's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.metastore.names.objects import table_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore.catalog.values.model import Partition, PartitionSpec, Table
    from airflow_hive_acid.metastore.catalog.values.partition_conditions import PartitionFilter
    from airflow_hive_acid.metastore.txns.snapshots import TableWriteIds


class ReadsUnderLists(Protocol):
    """Reads of the catalog by a table's id and a reader's list."""

    def get_table(
        self, db: str, table: str, table_id: int | None, valid_write_id_list: ValidWriteIdList | str | None
    ) -> Table:
        """A table."""

    def list_partitions(
        self, db: str, table: str, filter: PartitionFilter | None, *, table_id: int | None,
        valid_write_id_list: ValidWriteIdList | str | None,
    ) -> list[Partition]:  # fmt: skip
        """The partitions that fulfil a filter."""

    def find_partitions(
        self, db: str, table: str, names: Sequence[str], *, table_id: int | None,
        valid_write_id_list: ValidWriteIdList | str | None,
    ) -> dict[str, Partition]:  # fmt: skip
        """Those of the partitions that exist, by name."""

    def get_partition(
        self, db: str, table: str, spec: PartitionSpec, *, table_id: int | None,
        valid_write_id_list: ValidWriteIdList | str | None,
    ) -> Partition:  # fmt: skip
        """One partition."""


class CachedView:
    """What a reader sees of some tables.

    :param cache: answers.
    :param ids: of the tables, by ``db.table``: from ``client.valid_write_ids_and_table_ids``.
    """

    def __init__(self, cache: ReadsUnderLists, ids: Mapping[str, TableWriteIds]) -> None:
        self._cache = cache
        self.ids = dict(ids)

    def get_table(self, name: str) -> Table:
        """A table.

        :raises NoSuchObjectError: when it did not exist when the view was made.
        """
        found = self._of(name)
        return self._cache.get_table(*table_name(name), found.table_id, found.write_ids)

    def find_tables(self, names: Iterable[str]) -> dict[str, Table]:
        """Those of the tables that existed when the view was made and still do, by ``db.table``."""
        tables = {}
        for name in names:
            try:
                tables[str(table_name(name))] = self.get_table(name)
            except NoSuchObjectError:
                continue
        return tables

    def list_partitions(self, name: str, filter: PartitionFilter | None = None) -> list[Partition]:
        """The partitions of a table that fulfil a filter."""
        found = self._of(name)
        return self._cache.list_partitions(
            *table_name(name), filter, table_id=found.table_id, valid_write_id_list=found.write_ids
        )

    def find_partitions(self, name: str, names: Sequence[str]) -> dict[str, Partition]:
        """Those of the partitions that exist, by name."""
        found = self._of(name)
        return self._cache.find_partitions(
            *table_name(name), names, table_id=found.table_id, valid_write_id_list=found.write_ids
        )

    def get_partition(self, name: str, spec: PartitionSpec) -> Partition:
        """One partition, by name or values.

        :raises NoSuchObjectError: when the table has no such partition.
        """
        found = self._of(name)
        return self._cache.get_partition(
            *table_name(name), spec, table_id=found.table_id, valid_write_id_list=found.write_ids
        )

    def _of(self, name: str) -> TableWriteIds:
        found = self.ids.get(str(table_name(name)))
        if found is None:
            raise NoSuchObjectError(f"there was no table {name} when its ids and lists were taken")
        return found
