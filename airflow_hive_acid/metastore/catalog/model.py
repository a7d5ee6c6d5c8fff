"""Databases, tables and partitions as values, and the rules for making new ones.

Names are stored in lower case. What a table definition may say follows Hive: a transactional table is managed and, for
full ACID, ORC; anything else in ORC becomes an external table that Hive purges on drop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format import table_kinds
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION, parse_partition_name, partition_name
from airflow_hive_acid.format.paths import parse_location
from airflow_hive_acid.metastore.catalog.formats import FORMATS, format_name
from airflow_hive_acid.metastore.catalog.types import check_partition_value, is_primitive, normalise_type
from airflow_hive_acid.metastore.names.objects import MAX_PARTITION, shorten, table_name

MANAGED_TABLE = "MANAGED_TABLE"
EXTERNAL_TABLE = "EXTERNAL_TABLE"
_VIRTUAL_COLUMNS = frozenset({"row__id", "input__file__name", "block__offset__inside__file", "row__is__deleted"})
_BAD_IN_COLUMNS = re.compile(r"[\x00-\x1f\x7f.:,;`'\"/\\<>()]")

PartitionSpec: TypeAlias = str | Sequence[str | None] | Mapping[str, str | None]
"""A partition name, its values in the order of the partition columns, or its values by column; None is NULL."""


@dataclass(frozen=True, slots=True)
class Database:
    """A database of the catalog.

    :param location: where its external tables go by default.
    :param managed_location: where its managed tables go by default.
    """

    name: str
    id: int
    location: str
    managed_location: str
    owner: str | None = None
    description: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the catalog.

    :param columns: data columns, without the partition columns.
    :param bucket_count: -1 when the table is not bucketed.
    :param sort_columns: of SORTED BY, with whether the order is ascending.
    :param write_id: write id of the last change the catalog knows of (TBLS.WRITE_ID).
    :param comments: comments of columns that have one.
    :param serde: class that reads and writes rows of its files, with ``serde_properties``.
    """

    db: str
    name: str
    id: int
    location: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    properties: dict[str, str]
    owner: str | None
    type: str
    bucket_columns: tuple[str, ...] = ()
    bucket_count: int = -1
    sort_columns: tuple[tuple[str, bool], ...] = ()
    input_format: str | None = None
    write_id: int = 0
    comments: dict[str, str] = field(default_factory=dict)
    serde: str | None = None
    serde_properties: dict[str, str] = field(default_factory=dict)

    @property
    def qualified_name(self) -> str:
        """``db.table``."""
        return f"{self.db}.{self.name}"

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
        """``orc``, ``parquet`` or ``text``; None for any other format of data files."""
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
            return [by_name[name] for name in names]
        if len(spec) != len(names):
            raise InvalidArgumentsError(self._not_a_partition(spec))
        return list(spec)

    def _not_a_partition(self, spec: object) -> str:
        columns = ", ".join(column.name for column in self.partition_columns)
        shown = shorten(repr(spec), 200)
        return f"{shown} is no partition of {self.qualified_name}; give a value for each of: {columns}"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of the catalog.

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
class TableDefinition:
    """What CREATE TABLE says.

    :param properties: TBLPROPERTIES; without ``transactional`` a table that is not external is full ACID.
    :param location: URI of the table directory; None for the default below its database.
    :param bucket_count: -1 when not bucketed.
    :param sort_columns: of SORTED BY, with whether the order is ascending; not for full ACID tables.
    :param comments: comments of columns.
    :param external: CREATE EXTERNAL TABLE: the files belong to somebody else and outlive the table.
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
    path = "/" + "/".join(parsed.segments)
    if parsed.authority:
        return f"{parsed.scheme}://{parsed.authority}{path}".rstrip("/")
    return f"{parsed.scheme}:{path}"


def check_definition(definition: TableDefinition) -> TableDefinition:
    """The definition in the catalog's spelling.

    :raises InvalidArgumentsError: naming the first thing that cannot be.
    """
    db, name = table_name(f"{definition.db}.{definition.name}")
    where = f"table {db}.{name}"
    columns, keys = check_columns(where, definition.columns, definition.partition_columns)
    for key in keys:
        if not is_primitive(key.type):
            raise InvalidArgumentsError(f"{where}: partition column {key.name} cannot be of type {key.type}")
        if len(key.name) > 128:
            raise InvalidArgumentsError(f"{where}: the partition column {key.name[:40]}… is longer than 128 characters")
    buckets = _check_buckets(where, definition, columns)
    properties = _check_properties(where, definition)
    return TableDefinition(
        db=db,
        name=name,
        columns=columns,
        partition_columns=keys,
        properties=properties,
        location=None if definition.location is None else check_location(definition.location),
        owner=definition.owner,
        bucket_columns=buckets,
        bucket_count=definition.bucket_count if buckets else -1,
        sort_columns=_check_sorting(where, definition, columns, properties),
        comments={key.lower(): value for key, value in definition.comments.items()},
        external=definition.external,
        stored_as=definition.stored_as.lower(),
    )


def check_columns(
    where: str, data: Sequence[Column], partition: Sequence[Column]
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Data and partition columns in the catalog's spelling.

    :raises InvalidArgumentsError: naming the first that cannot be.
    """
    columns = tuple(Column(_column_name(where, c.name), normalise_type(c.type)) for c in data)
    keys = tuple(Column(_column_name(where, c.name), normalise_type(c.type)) for c in partition)
    if not columns:
        raise InvalidArgumentsError(f"{where} needs at least one column that is not a partition column")
    seen: set[str] = set()
    for column in (*columns, *keys):
        if column.name in seen:
            raise InvalidArgumentsError(f"{where} names the column {column.name} twice")
        seen.add(column.name)
    return columns, keys


def check_property(where: str, key: str, value: str, longest: int = 256) -> None:
    """Refuse a property that its table could not hold.

    :raises InvalidArgumentsError: naming it.
    """
    if not key or len(key) > longest or "\0" in key or "\0" in value:
        raise InvalidArgumentsError(
            f"{where}: the property {shorten(repr(key))} cannot be stored; 1 to {longest} characters without NUL are"
        )


def _check_buckets(where: str, definition: TableDefinition, columns: tuple[Column, ...]) -> tuple[str, ...]:
    buckets = tuple(column.lower() for column in definition.bucket_columns)
    if bool(buckets) != (definition.bucket_count > 0):
        raise InvalidArgumentsError(f"{where}: CLUSTERED BY needs columns and a number of buckets")
    if definition.bucket_count > 4096:
        raise InvalidArgumentsError(f"{where}: {definition.bucket_count} buckets; at most 4096")
    names = {column.name for column in columns}
    for bucket in buckets:
        if bucket not in names:
            raise InvalidArgumentsError(f"{where} is clustered by {bucket}, which is none of its columns")
    return buckets


def _check_sorting(
    where: str, definition: TableDefinition, columns: tuple[Column, ...], properties: Mapping[str, str]
) -> tuple[tuple[str, bool], ...]:
    """The order inside of buckets; Hive's TransactionalValidationListener refuses it where rows have ids."""
    order = tuple((name.lower(), ascending) for name, ascending in definition.sort_columns)
    if not order:
        return ()
    if not definition.bucket_columns:
        raise InvalidArgumentsError(f"{where}: SORTED BY is the order inside of buckets and needs CLUSTERED BY")
    known = {column.name for column in columns}
    names = [name for name, _ in order]
    if unknown := [name for name in names if name not in known]:
        raise InvalidArgumentsError(f"{where} is sorted by {unknown[0]}, which is none of its columns")
    if len(set(names)) < len(names):
        raise InvalidArgumentsError(f"{where}: SORTED BY names a column twice")
    if table_kinds.table_kind(properties) is table_kinds.TableKind.FULL:
        raise InvalidArgumentsError(
            f"{where} cannot support full ACID functionality since it is sorted; rows with ids lie in the order of "
            "these. Leave SORTED BY out, or set 'transactional_properties'='insert_only'"
        )
    return order


def _check_properties(where: str, definition: TableDefinition) -> dict[str, str]:
    properties: dict[str, str] = {}
    for key, value in definition.properties.items():
        check_property(where, key, value)
        known = key.lower() in ("transactional", "transactional_properties")
        properties[key.lower() if known else key] = value.lower() if known else value
    stored_as = definition.stored_as.lower()
    if stored_as not in FORMATS:
        words = ", ".join(f.keyword for f in FORMATS.values())
        raise InvalidArgumentsError(f"{where}: STORED AS {definition.stored_as} is not supported; formats are {words}")
    transactional = properties.setdefault("transactional", "false" if definition.external else "true")
    if transactional not in ("true", "false"):
        raise InvalidArgumentsError(f"{where}: transactional is 'true' or 'false', not {transactional!r}")
    if definition.external and transactional == "true":
        raise InvalidArgumentsError(f"{where}: an external table cannot be transactional; leave out EXTERNAL")
    if transactional == "false":
        properties.pop("transactional_properties", None)
        return properties
    # As Hive does for managed tables: full ACID where the format allows it.
    kind = properties.setdefault("transactional_properties", "default" if stored_as == "orc" else "insert_only")
    if kind not in ("default", "insert_only"):
        raise InvalidArgumentsError(f"{where}: transactional_properties is 'default' or 'insert_only', not {kind!r}")
    if kind == "default" and stored_as != "orc":
        raise InvalidArgumentsError(
            f"{where}: the table must be stored using an ACID compliant format (such as ORC); STORED AS "
            f"{FORMATS[stored_as].keyword} is for insert-only tables ('transactional_properties'='insert_only') "
            "and for plain ones"
        )
    return properties


def _column_name(where: str, name: str) -> str:
    lowered = name.lower()
    if not lowered.strip() or lowered != lowered.strip() or len(lowered) > 767 or _BAD_IN_COLUMNS.search(lowered):
        raise InvalidArgumentsError(
            f"{where}: {shorten(repr(name))} is no column name; 1 to 767 characters without control characters, "
            "quotes, brackets, slashes and the signs . : , ; are"
        )
    if lowered in _VIRTUAL_COLUMNS:
        raise InvalidArgumentsError(f"{where}: {lowered} is the name of a virtual column of Hive")
    return lowered
