"""What a transaction has written to a table, and what may follow (decision 13).

A base hides every delta of its own write id. So after INSERT OVERWRITE or TRUNCATE a statement of the same transaction
either makes that base anew, or puts its rows into it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.filesystem.publishing import Manifest
from airflow_hive_acid.format.names import DirectoryKind, parse_directory
from airflow_hive_acid.metastore.txns import RowChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Self

    from airflow_hive_acid.format.jobs import WrittenDirectory
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.sql.model.plans import Plan, TableWrite


def touched(plan: Plan, write: TableWrite, directories: Iterable[WrittenDirectory]) -> dict[str, set[str]]:
    """The partitions that a statement has touched, by operation, as their components name them (R12).

    An UPDATE that moves rows deletes in one partition and inserts in another, and a Hive that divides it so says ``d``
    and ``i``: what is only inserted conflicts with nobody. A MERGE keeps its operation, because two of them may both
    insert what both have missed.
    """
    found: dict[str, set[str]] = defaultdict(set)
    kinds: dict[str, set[bool]] = defaultdict(set)
    for directory in directories:
        named = parse_directory(directory.name)
        kinds[directory.partition].add(named is not None and named.kind is DirectoryKind.DELETE_DELTA)
    for partition, deletes in kinds.items():
        alone = plan.kind == "update" and len(deletes) == 1
        found[("delete" if True in deletes else "insert") if alone else write.operation].add(partition)
    return found


@dataclass(slots=True)
class Written:
    """What the transaction has written to one table so far.

    :param partitions: names of the partitions touched, by operation; of a table without partitions the empty name.
    :param truncated: those of them that hold nothing but the mark of TRUNCATE.
    :param made: those of them that the catalog does not know yet.
    :param rows: what that does to their numbers of rows.
    """

    table: Table
    statement_ids: list[int] = field(default_factory=list)
    manifests: list[Manifest] = field(default_factory=list)
    partitions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    truncated: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    rows: dict[str, RowChange] = field(default_factory=dict)

    def count(self, directories: Iterable[WrittenDirectory], *, joins_base: bool = False) -> None:
        """Count what a statement has written.

        :param joins_base: into a base of this transaction.
        """
        for directory in directories:
            named = parse_directory(directory.name)
            if named is not None:
                rows = sum(file.rows for file in directory.files)
                change = RowChange.of(named, rows, joins_base=joins_base)
                self.rows[directory.partition] = self.rows.get(directory.partition, RowChange()).then(change)

    def replaces_base(self, write: TableWrite) -> bool:
        """Whether a write makes the base of its place, if there is one: an overwrite, and the first rows after a
        TRUNCATE."""
        if write.operation == "overwrite":
            return True
        return write.operation == "insert" and self._place(write) in self.truncated

    def joins_base(self, write: TableWrite) -> bool:
        """Whether an INSERT goes into the base that this txn made: more buckets of it, under their own statement id."""
        joins = write.operation == "insert" and not self.table.is_insert_only and not self.table.bucket_columns
        overwritten = self.partitions.get("overwrite", ())
        return joins and not self.replaces_base(write) and self._place(write) in overwritten

    def has_base(self, write: TableWrite) -> bool:
        """Whether this txn may have made a base where a write goes."""
        overwritten = self.partitions.get("overwrite", set())
        return bool(overwritten) and (write.only_partition is None or write.only_partition in overwritten)

    def check_visible(self, write: TableWrite, txn_id: int) -> None:
        """Refuse what nobody could ever see.

        :raises InvalidArgumentsError: naming what can follow.
        """
        if not self.has_base(write):
            return
        if self.replaces_base(write) or self.joins_base(write):
            return
        raise InvalidArgumentsError(
            f"txn {txn_id} has overwritten {self.table.qualified_name}, and what it writes there after that could "
            "never be seen; of later statements only INSERT OVERWRITE, TRUNCATE, and INSERT INTO the table, or into "
            "one overwritten partition of it (full ACID and not bucketed, or truncated), can follow. Commit first"
        )

    def replaced_by(self, manifest: Manifest) -> Manifest:
        """Forget directories that those of a manifest take the place of: both are the base of one write id.

        :return: the manifest, with what it replaces.
        """
        there = {d.uri for mine in self.manifests for d in mine.directories} & {d.uri for d in manifest.directories}
        self.manifests = [mine.without(there) for mine in self.manifests]
        return replace(manifest, replaces=tuple(sorted(there)))

    def to_document(self) -> dict[str, Any]:
        """As plain JSON values, for another process that goes on with the transaction."""
        return {
            "statement_ids": list(self.statement_ids),
            "manifests": [manifest.to_document() for manifest in self.manifests],
            "partitions": {operation: sorted(names) for operation, names in sorted(self.partitions.items())},
            "truncated": sorted(self.truncated),
            "made": sorted(self.made),
            "rows": {name: [change.rows, change.replaced] for name, change in sorted(self.rows.items())},
        }

    @classmethod
    def from_document(cls, table: Table, document: Mapping[str, Any]) -> Self:
        """What :meth:`to_document` made the document of."""
        written = cls(table)
        written.statement_ids = [int(number) for number in document["statement_ids"]]
        written.manifests = [Manifest.from_document(manifest) for manifest in document["manifests"]]
        for operation, names in document["partitions"].items():
            written.partitions[operation] = set(names)
        written.truncated, written.made = set(document["truncated"]), set(document["made"])
        written.rows = {
            name: RowChange(int(rows), bool(replaced)) for name, (rows, replaced) in document["rows"].items()
        }
        return written

    def _place(self, write: TableWrite) -> str | None:
        return write.only_partition if self.table.is_partitioned else ""
