"""The tables of a job: what is read of them, in which snapshot, and under which view of a query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from airflow_hive_acid.format.changes import Changes  # noqa: TC001 - a field's type, looked up when JSON is read

FETCH_DELETED_ROWS = "acid.fetch.deleted.rows"
"""Table property, and option of a table in a query: show deleted rows, too (Hive's Constants)."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: lower-case name and Hive type text, for example ``decimal(12,2)``.

    :param required: it is declared NOT NULL, and that is enforced.
    :param default: the expression of its DEFAULT, where that is enabled: what a row gets that is given no value.
    """

    name: str
    type: str
    required: bool = field(default=False, repr=False)
    default: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PartitionRef:
    """One partition of a table.

    :param name: Hive's partition name ``k1=v1/k2=v2`` (escaped), empty for an unpartitioned table.
    :param location: URI of its directory.
    :param values: the values as the catalog holds them, in the order of the partition columns.
    """

    name: str
    location: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bucketing:
    """``CLUSTERED BY (columns) [SORTED BY (sorting)] INTO count BUCKETS``.

    :param version: the table's ``bucketing_version``: which of Hive's hashes places its rows.
    :param sorting: columns and whether ascending; not for full ACID tables, whose rows lie in the order of their ids.
    """

    columns: tuple[str, ...]
    count: int
    version: str
    sorting: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Expected:
    """What a table or partition ought to hold, as far as that is known.

    :param rows: the number that commits have counted; None when it is not known, or is of another moment.
    :param claimed: whether the catalog calls it exact.
    :param published: directories of recent commits, and the names of the files in each.
    :param footers: whether the end of every file is looked at.
    """

    rows: int | None = None
    claimed: bool = False
    published: tuple[tuple[str, tuple[str, ...]], ...] = ()
    footers: bool = False


@dataclass(frozen=True, slots=True)
class AsOf:
    """A moment of the past, as which a table is read.

    :param shown: the moment, for messages.
    :param cleaned: by partition name, the largest write id up to which a Cleaner may have removed what was replaced.
    """

    shown: str
    cleaned: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table as one transaction sees it.

    :param table: ``db.table``.
    :param location: URI of the table directory.
    :param columns: data columns, without partition columns.
    :param partition_columns: partition columns in order.
    :param partitions: the partitions to look at (pruned), one unnamed entry for an unpartitioned table.
    :param write_ids: text of the ValidReaderWriteIdList (compactor's list for compaction).
    :param txns: text of the ValidReadTxnList; decides which ``_vTXN`` directories exist for this reader.
    :param transactional: false for plain tables, which have no write ids.
    :param properties: table properties that matter to the writer (``orc.*``, ``parquet.*``).
    :param format: of the data files; full ACID tables are ORC.
    :param insert_only: transactional without row ids: plain files in bases and deltas.
    :param serde: of text files, Hive's serde properties (``field.delim`` …).
    :param bucketing: None when rows may lie in any bucket.
    :param checks: conditions that every new row must keep, by name; one that is NULL is kept.
    :param marked: the directory has the marker of a place: without it the table's disk is not there (R17).
    :param expected: by partition name; the job compares it with what it lists (``hive.acid.read.verify``). None, and
        for partitions that are not in it: nothing is compared.
    :param as_of: ``write_ids`` is that of the past: the job refuses it where something of it may be gone.
    :param altered: its columns may have had other names; true where nobody knows.
    """

    table: str
    location: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    partitions: tuple[PartitionRef, ...]
    write_ids: str
    txns: str
    transactional: bool = True
    properties: dict[str, str] = field(default_factory=dict)
    format: Literal["orc", "parquet", "text", "csv", "json", "avro"] = "orc"
    insert_only: bool = False
    serde: dict[str, str] = field(default_factory=dict)
    bucketing: Bucketing | None = None
    marked: bool = False
    checks: dict[str, str] = field(default_factory=dict)
    expected: dict[str, Expected] | None = None
    as_of: AsOf | None = None
    altered: bool = True

    @property
    def has_row_ids(self) -> bool:
        """Whether its files are in ACID format, so that rows can be changed."""
        return self.transactional and not self.insert_only


@dataclass(frozen=True, slots=True)
class View:
    """A table snapshot under the name by which the query texts of this spec refer to it.

    ``pseudo_columns`` adds ``row__id`` (struct of writeid, bucketid, rowid) and ``row__is__deleted`` to the view;
    ``deleted_rows`` shows the rows that are deleted among the others; None: if the table's property says so.
    ``changes`` shows what was changed, instead of the rows.
    """

    name: str
    snapshot: TableSnapshot
    pseudo_columns: bool = False
    deleted_rows: bool | None = None
    changes: Changes | None = None

    @property
    def shows_deleted_rows(self) -> bool:
        """Hive's ``acid.fetch.deleted.rows``, of the query or else of the table; only full ACID tables have them."""
        wanted = self.deleted_rows
        if wanted is None:
            given = {key.lower(): value for key, value in self.snapshot.properties.items()}
            wanted = given.get(FETCH_DELETED_ROWS, "").lower() == "true"
        return wanted and self.snapshot.has_row_ids
