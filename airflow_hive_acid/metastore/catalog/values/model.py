"""Databases, tables and partitions as values: all that Hive's metastore knows of them, as its rows hold it.

What is read from the rows is what is written to them and what Thrift's text is made of: one model. Names are stored in
lower case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format import table_kinds
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION, parse_partition_name, partition_name
from airflow_hive_acid.format.paths import join, parse_location
from airflow_hive_acid.metastore.catalog.values.formats import format_name
from airflow_hive_acid.metastore.catalog.values.types import check_partition_value
from airflow_hive_acid.metastore.names.objects import MAX_PARTITION, shorten
from airflow_hive_acid.metastore.names.partition_spellings import Spellings
from airflow_hive_acid.metastore.names.partition_values import as_stored

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.catalog.values.constraints import Constraint

MANAGED_TABLE = "MANAGED_TABLE"
EXTERNAL_TABLE = "EXTERNAL_TABLE"
VIRTUAL_VIEW = "VIRTUAL_VIEW"

PartitionSpec: TypeAlias = str | Sequence[str | None] | Mapping[str, str | None]
"""A partition name, its values in the order of the partition columns, or its values by column; None is NULL."""


class FieldSchema(NamedTuple):
    """A column as Hive's metastore keeps it: name, type, comment."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Skew:
    """Skewed columns, their skewed values, and where those lie."""

    columns: tuple[str, ...] = ()
    values: tuple[tuple[str, ...], ...] = ()
    locations: Mapping[tuple[str, ...], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StorageIds:
    """The rows that hold a storage: of SDS, CDS and SERDES."""

    storage: int
    columns: int
    serde: int


@dataclass(frozen=True, slots=True)
class Storage:
    """How and where the files of a table or partition lie: a StorageDescriptor with its SerDeInfo.

    :param columns: data columns, without the partition columns.
    :param serde: name and class of what reads and writes its rows, with ``serde_properties``.
    :param bucket_count: -1 when it is not bucketed.
    :param sort_columns: column and order, 1 ascending and 0 descending.
    :param ids: where it was read; no part of what it is.
    """

    columns: tuple[FieldSchema, ...]
    location: str | None
    input_format: str | None
    output_format: str | None
    serde: tuple[str | None, str | None]
    serde_properties: Mapping[str, str] = field(default_factory=dict)
    bucket_count: int = -1
    bucket_columns: tuple[str, ...] = ()
    sort_columns: tuple[tuple[str, int], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    skew: Skew = field(default_factory=Skew)
    compressed: bool = False
    subdirectories: bool = False
    ids: StorageIds | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Database:
    """A database of the catalog; its id is 0 in a text.

    :param location: where its external tables go by default.
    :param managed_location: where its managed tables go by default.
    :param own_managed_location: that, when the database itself says so.
    :param created: seconds since 1970.
    """

    name: str
    id: int
    location: str
    managed_location: str
    owner: str | None = None
    description: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    own_managed_location: str | None = None
    owner_type: str | None = None
    created: int | None = None
    type: str = "NATIVE"
    connector: str | None = None
    remote_name: str | None = None

    def home_of(self, table: str, *, managed: bool) -> str:
        """Where a table of this name lies that says no LOCATION."""
        return join(self.managed_location if managed else self.location, table)


@dataclass(frozen=True)
class Table:
    """A table or view of the catalog.

    :param created: seconds since 1970.
    :param partition_keys: its partition columns.
    :param write_id: write id of the last change the catalog knows of (TBLS.WRITE_ID).
    :param required: columns that are declared NOT NULL, where Hive enforces it.
    :param defaults: by column the expression of its DEFAULT, where that is enabled.
    :param checks: by name the conditions that are enabled.
    """

    db: str
    name: str
    id: int
    owner: str | None
    owner_type: str | None
    created: int
    last_access: int
    retention: int
    storage: Storage
    partition_keys: tuple[FieldSchema, ...]
    properties: dict[str, str]
    type: str
    write_id: int = 0
    view_original: str | None = None
    view_expanded: str | None = None
    rewrite_enabled: bool = False
    required: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Data columns, without the partition columns."""
        return tuple(
            Column(c.name, c.type, c.name in self.required, self.defaults.get(c.name)) for c in self.storage.columns
        )

    @cached_property
    def partition_columns(self) -> tuple[Column, ...]:
        """Partition columns."""
        return tuple(Column(c.name, c.type) for c in self.partition_keys)

    @cached_property
    def comments(self) -> dict[str, str]:
        """Comments of columns that have one."""
        return {c.name: c.comment for c in (*self.storage.columns, *self.partition_keys) if c.comment}

    @property
    def view_text(self) -> str | None:
        """The query of a view, by which it is read; None for a table."""
        return self.view_expanded or self.view_original

    @property
    def location(self) -> str:
        """URI of its directory, empty for a view."""
        return self.storage.location or ""

    @property
    def bucket_columns(self) -> tuple[str, ...]:
        """Columns of CLUSTERED BY."""
        return self.storage.bucket_columns

    @property
    def bucket_count(self) -> int:
        """-1 when the table is not bucketed."""
        return self.storage.bucket_count

    @property
    def sort_columns(self) -> tuple[tuple[str, bool], ...]:
        """Columns of SORTED BY, with whether the order is ascending."""
        return tuple((name, order == 1) for name, order in self.storage.sort_columns)

    @property
    def input_format(self) -> str | None:
        """Class that reads its files."""
        return self.storage.input_format

    @property
    def serde(self) -> str | None:
        """Class that reads and writes rows of its files."""
        return self.storage.serde[1]

    @property
    def serde_properties(self) -> Mapping[str, str]:
        """What that class is told."""
        return self.storage.serde_properties

    @property
    def qualified_name(self) -> str:
        """``db.table``."""
        return f"{self.db}.{self.name}"

    @property
    def is_view(self) -> bool:
        """Whether it is a query, and has no files."""
        return self.type == VIRTUAL_VIEW

    @property
    def is_altered(self) -> bool:
        """Whether an ALTER TABLE, of ours or of Hive's, has left its mark: columns may have had other names."""
        return self.property("last_modified_time") is not None

    @property
    def is_transactional(self) -> bool:
        """Whether the table has write ids: full ACID or insert-only."""
        return table_kinds.is_transactional(self.properties)

    @property
    def is_insert_only(self) -> bool:
        """Whether the table is transactional without row ids (``transactional_properties=insert_only``)."""
        return table_kinds.is_insert_only(self.properties)

    @property
    def format(self) -> str | None:
        """``orc``, ``parquet``, ``text``, ``csv``, ``json`` or ``avro``; None for any other format of data files."""
        return format_name(self.input_format, self.serde)

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has partition columns."""
        return bool(self.partition_columns)

    @property
    def owns_files(self) -> bool:
        """Whether its files go when it goes: a managed table, or an external one with ``external.table.purge``."""
        return self.type == MANAGED_TABLE or (self.property("external.table.purge") or "").lower() == "true"

    def property(self, key: str) -> str | None:
        """A table property, by its name in any case."""
        return table_kinds.property_of(self.properties, key)

    def partition_name(self, spec: PartitionSpec) -> str:
        """The catalog's name of a partition of this table.

        :param spec: a partition name, the values in the order of the partition columns, or values by column.
        :raises InvalidArgumentsError: when the spec does not name exactly one partition of this table.
        """
        values = self._partition_values(spec)
        for column, value in zip(self.partition_columns, values, strict=True):
            if value not in (None, "", DEFAULT_PARTITION):
                check_partition_value(f"{column.name} of {self.qualified_name}", column.type, str(value))
        name = partition_name([(c.name, v) for c, v in zip(self.partition_columns, values, strict=True)])
        if len(name) > MAX_PARTITION:
            raise InvalidArgumentsError(
                f"the partition name {shorten(name)} of {self.qualified_name} has {len(name)} characters; "
                f"the limit is {MAX_PARTITION}"
            )
        return name

    def spellings(self, spec: PartitionSpec, *, others: bool | None = None) -> Spellings:
        """The names under which the catalog may hold a partition of this table.

        :param spec: as for :meth:`partition_name`. Values by column mean it with any blanks of a CHAR value; a name or
            values in order mean the partition of this name first.
        :param others: also the names by which other programs call its values; by default of values by column alone. A
            name is one of the catalog: when ``h=1`` has been dropped, dropping it again must not drop ``h=01``.
        :raises InvalidArgumentsError: when the spec does not name exactly one partition of this table.
        """
        values = self._partition_values(spec)
        if isinstance(spec, Mapping):
            self.partition_name(spec)  # refuses what is no value
            given = {key.lower(): value for key, value in spec.items()}
            values = [None if (value := given[c.name]) is None else str(value) for c in self.partition_columns]
        else:
            for column, value in zip(self.partition_columns, values, strict=True):
                # Any text that can be stored: a name may be one that a Hive left (hour=01).
                check_partition_value(f"{column.name} of {self.qualified_name}", "string", value or "")
        return Spellings.of(
            ((c.name, c.type, value or "") for c, value in zip(self.partition_columns, values, strict=True)),
            by_name=not isinstance(spec, Mapping),
            others=isinstance(spec, Mapping) if others is None else others,
        )

    def _partition_values(self, spec: PartitionSpec) -> list[str | None]:
        names = [column.name for column in self.partition_columns]
        if not names:
            raise InvalidArgumentsError(f"{self.qualified_name} is not partitioned; it has no partition {spec!r}")
        if isinstance(spec, str):
            parsed = parse_partition_name(spec)
            if [key for key, _ in parsed] != names:
                raise InvalidArgumentsError(self._not_a_partition(spec))
            return [value for _, value in parsed]
        if isinstance(spec, Mapping):
            by_name = {key.lower(): value for key, value in spec.items()}
            if set(by_name) != set(names):
                raise InvalidArgumentsError(self._not_a_partition(spec))
            given = [(column.type, by_name[column.name]) for column in self.partition_columns]
            return [None if value is None else as_stored(kind, str(value)) for kind, value in given]
        if len(spec) != len(names):
            raise InvalidArgumentsError(self._not_a_partition(spec))
        return list(spec)

    def _not_a_partition(self, spec: object) -> str:
        columns = ", ".join(column.name for column in self.partition_columns)
        shown = shorten(repr(spec), 200)
        return f"{shown} is no partition of {self.qualified_name}; give a value for each of: {columns}"


@dataclass(frozen=True, slots=True)
class Partition:
    """What lists of partitions hold: as little as readers need, for there may be 100,000 of them.

    :param name: Hive's name, ``k1=v1/k2=v2`` with escaped values.
    :param values: the values as the catalog holds them; NULL is ``__HIVE_DEFAULT_PARTITION__``.
    :param input_format: None when it is not known, or the table's.
    """

    name: str
    values: tuple[str, ...]
    location: str
    id: int = 0
    write_id: int = 0
    input_format: str | None = None


@dataclass(frozen=True, slots=True)
class WholePartition:
    """A partition with all that belongs to it; its id is 0 in a text.

    :param name: its PART_NAME.
    :param created: seconds since 1970.
    """

    db: str
    table: str
    name: str
    values: tuple[str, ...]
    created: int
    last_access: int
    storage: Storage
    properties: dict[str, str]
    write_id: int = 0
    id: int = 0


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What CREATE TABLE says.

    :param properties: TBLPROPERTIES; without ``transactional`` a table that is not external is full ACID.
    :param location: URI of the table directory; None for the default below its database.
    :param bucket_count: -1 when not bucketed.
    :param sort_columns: of SORTED BY, with whether the order is ascending; not for full ACID tables.
    :param comments: comments of columns.
    :param external: CREATE EXTERNAL TABLE: the files belong to somebody else and outlive the table.
    :param serde_properties: what the class is told that reads and writes rows of its files.
    :param empty: no file lies in its place, or is put there without being counted. Hive answers queries from what is
        noted then.
    """

    db: str
    name: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    owner: str | None = None
    bucket_columns: tuple[str, ...] = ()
    bucket_count: int = -1
    sort_columns: tuple[tuple[str, bool], ...] = ()
    comments: Mapping[str, str] = field(default_factory=dict)
    stored_as: str = "orc"
    external: bool = False
    serde_properties: Mapping[str, str] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    empty: bool = True


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """What is left to remove after a table is gone from the catalog.

    :param locations: the table directory and those of partitions that lie elsewhere.
    :param delete_data: whether the files go too: managed tables, and external ones with ``external.table.purge``.
    """

    table: Table
    locations: tuple[str, ...]
    delete_data: bool


def check_location(location: str) -> str:
    """A location as Hadoop writes it (``file:/a/b``), without a trailing slash.

    :raises UnsafePathError: when it is not absolute or leads upwards.
    """
    parsed = parse_location(location)
    if parsed.authority:
        return f"{parsed.scheme}://{parsed.authority}{parsed.path}".rstrip("/")
    return f"{parsed.scheme}:{parsed.path}"
