"""The tables of one transaction as it sees them: by the catalog, under its locks, with partitions of its own making."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.engine.tables.partitions import KnownPartitions
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.filesystem.publishing import Target, new_partitions
from airflow_hive_acid.filesystem.s3_uploads import SETTING
from airflow_hive_acid.format.jobs import Delete, PartitionRef, Update
from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.maintenance.warehouse.expected import with_expected
from airflow_hive_acid.maintenance.warehouse.uploads import places_elsewhere, uploads_of_job
from airflow_hive_acid.metastore.names import as_stored, has_many_texts, has_several_texts, is_char

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.definitions.ctas import Creations
    from airflow_hive_acid.engine.locking.requests import Listed
    from airflow_hive_acid.engine.tables.viewpoints import Looks
    from airflow_hive_acid.engine.transactions.written_tables import Written
    from airflow_hive_acid.filesystem.publishing import Manifest
    from airflow_hive_acid.format.jobs import Step, TableSnapshot, Uploads
    from airflow_hive_acid.metastore import Transaction
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.sql.model.plans import TableRead

_MOST_LOOKED_UP = 2000
"""Names of partitions; of more the partitions of the table are gone through."""


class SeenTables:
    """What a transaction knows of its tables; looked up once, and remembered.

    :param listed: the partitions that were listed under the locks.
    :param creations: the tables that its commit makes.
    :param written: what it has written so far, by table; grows while it works.
    """

    def __init__(
        self, context: Context, txn: Transaction, listed: Listed, creations: Creations, written: Mapping[str, Written]
    ) -> None:
        self._context = context
        self._txn = txn
        self._listed = listed
        self._creations = creations
        self._written = written
        self._tables: dict[str, Table] = {}
        self._partitions: dict[str, KnownPartitions] = {}

    def table(self, name: str) -> Table:
        """A table as the catalog knows it now that the locks are granted."""
        if name not in self._tables:
            self._tables[name] = self._context.table(name)
        return self._tables[name]

    def partitions(self, table: Table) -> KnownPartitions:
        """The partitions of the catalog and those this transaction has made, by name; none without partitions."""
        name = table.qualified_name
        if name not in self._partitions:
            listed = {keep: refs for (of, keep), refs in self._listed.items() if of == name}
            is_new = name in self._creations
            self._partitions[name] = KnownPartitions(self._context.client.catalog, table, listed, is_new=is_new)
        return self._partitions[name]

    def learn(self, table: Table, target: Target, manifest: Manifest) -> list[str]:
        """Partitions that the catalog gets at the commit are there for the next statement of this transaction.

        :return: their names.
        """
        made = new_partitions(target, [manifest])
        for name, values in made.items():
            self.partitions(table).made(PartitionRef(name, target.place_of(name), values))
        return list(made)

    def require_alone(self, table: Table, partitions: Iterable[str]) -> None:
        """Refuse to replace rows of partitions that have others of the same values beside them.

        :param partitions: names of those whose rows are replaced.
        :raises InvalidArgumentsError: naming both; a query would find the old rows besides the new ones.
        """
        kinds = [column.type for column in table.partition_columns]
        names = list(partitions)
        whole = table.qualified_name in self._creations or table.qualified_name in self._context.tables.replacements
        if not names or not any(map(is_char if whole else _may_be_spelled, kinds)):
            return
        spelled = {name: table.spellings(name, others=True).names for name in names}
        if whole or sum(map(len, spelled.values())) <= _MOST_LOOKED_UP:
            known = self.partitions(table)
            known.look_up(other for others in spelled.values() for other in others)
            for name, others in spelled.items():
                other = next((other for other in others if other not in spelled and other in known), None)
                if other is not None:
                    raise _not_alone(table, other, name)
            if whole or not any(map(has_many_texts, kinds)):
                return

        def value_of(texts: Sequence[str]) -> tuple[str, ...]:
            stored = (as_stored(kind, text) for kind, text in zip(kinds, texts, strict=True))
            return tuple(text.rstrip(" ") if is_char(kind) else text for kind, text in zip(kinds, stored, strict=True))

        replaced = {value_of([text for _, text in parse_partition_name(name)]): name for name in names}
        # How an earlier version, or whoever made the directory, has written a value, nobody can guess.
        found = self._context.client.catalog.list_partitions(
            table.qualified_name, keeps=lambda texts: value_of(texts) in replaced
        )
        written = set(names)
        beside = next((part for part in found if part.name not in written), None)
        if beside is not None:
            raise _not_alone(table, beside.name, replaced[value_of(beside.values)])

    def target(self, table: Table, statement_ids: tuple[int, ...], partitions: Iterable[str]) -> Target:
        """Where and what a job may publish.

        :param partitions: names of those it is asked about.
        """
        known, names = self.partitions(table), list(partitions)
        known.look_up(names)
        return Target(
            table=table.qualified_name,
            location=table.location,
            partition_columns=tuple(c.name for c in table.partition_columns),
            partitions={name: known[name].location for name in names if name in known},
            write_id=self._txn.write_ids[table.qualified_name] if table.is_transactional else 0,
            statement_ids=statement_ids,
            insert_only=table.is_insert_only,
            plain=not table.is_transactional,
        )

    def uploads(
        self, table: Table, kind: str, step: Step, only: str | None, changed: Iterable[PartitionRef]
    ) -> Uploads | None:
        """What a job may upload under final names, None for nothing (decision 74).

        :param kind: of the statement, and what the job does for it.
        :param only: name of the partition that it writes, None when there may be others.
        :param changed: partitions whose rows it changes; new rows may get into others.
        """
        context = self._context

        def find_elsewhere(most: int) -> dict[str, str]:
            if isinstance(step, Update | Delete) and not _moves_rows(table, step):
                return places_elsewhere(table, changed)
            if not table.is_partitioned or table.qualified_name in self._creations:
                return {}
            return context.client.catalog.partitions_elsewhere(table.qualified_name, most, only)

        return uploads_of_job(table, kind, context.settings.string(SETTING), find_elsewhere)

    def snapshot(self, read: TableRead, looks: Looks) -> TableSnapshot:
        """What a statement sees of a table that it reads."""
        table = self.table(read.table)
        write_ids = self._txn.snapshot[read.table] if table.is_transactional else None
        txns = self._txn.valid_txns if table.is_transactional else None
        partitions = self.partitions(table).matching(read.partitions)
        return self.expected(table, looks.snapshot(table, read, partitions, write_ids, txns))

    def expected(self, table: Table, snapshot: TableSnapshot) -> TableSnapshot:
        """With what a job that reads it compares it with."""
        own, mine = self._txn.write_ids.get(table.qualified_name), self._written.get(table.qualified_name)
        written, context = bool(mine and mine.manifests), self._context
        return with_expected(context.client, context.settings, table, snapshot, own, written=written)


def _may_be_spelled(type_text: str) -> bool:
    """Whether partitions of one value of a type may have several names."""
    return is_char(type_text) or has_several_texts(type_text)


def _not_alone(table: Table, other: str, name: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(
        f"{table.qualified_name} has a partition {other!r} of the same value as {name!r}, as an earlier version of "
        "this package or another program wrote it, a CHAR without its blanks or a number with zeros, say; its rows "
        "would stay beside the new ones. Drop it, or give it the name that a Hive would: ALTER TABLE … PARTITION … "
        "RENAME TO PARTITION …"
    )


def _moves_rows(table: Table, step: Update | Delete) -> bool:
    """Whether rows may get into partitions that the statement does not read."""
    columns = {column.name for column in table.partition_columns}
    return isinstance(step, Update) and any(one.column.lower() in columns for one in step.assignments)
