"""The rules for making new tables, as pure decisions: what CREATE TABLE may say, and the table it makes.

They follow Hive: a transactional table is managed and, for full ACID, ORC; anything else in ORC becomes an external
table that Hive purges on drop. Statistics are noted only where they are exact: an empty table has no rows. The first
write to it must call ``txns.statistics.forget``, or Hive goes on answering ``count(*)`` from them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format import table_kinds
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.constraints import check_constraints
from airflow_hive_acid.metastore.catalog.values.formats import CSV, FORMATS, PLAIN_ONLY
from airflow_hive_acid.metastore.catalog.values.model import (
    EXTERNAL_TABLE,
    MANAGED_TABLE,
    FieldSchema,
    Storage,
    Table,
    TableDefinition,
    check_location,
)
from airflow_hive_acid.metastore.catalog.values.types import is_primitive, normalise_type
from airflow_hive_acid.metastore.names.objects import shorten, table_name
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_VIRTUAL_COLUMNS = frozenset({"row__id", "input__file__name", "block__offset__inside__file", "row__is__deleted"})
_BAD_IN_COLUMNS = re.compile(r"[\x00-\x1f\x7f.:,;`'\"/\\<>()]")
_SERDE_PROPERTIES = {"serialization.format": "1"}


def new_table(definition: TableDefinition, *, created: int = 0) -> Table:
    """A table as Hive 4.1 would write it, column for column; its id is 0.

    Checked against dumps of metastores that Hive itself filled (``tests/fixtures``).

    :param definition: a checked one, with its location.
    :param created: seconds since 1970.
    """
    stored = FORMATS[definition.stored_as]
    fields = {
        part: tuple(FieldSchema(c.name, c.type, definition.comments.get(c.name)) for c in columns)
        for part, columns in (("data", definition.columns), ("keys", definition.partition_columns))
    }
    storage = Storage(
        fields["data"], definition.location or "", stored.input_format, stored.output_format, (None, stored.serde),
        {**_SERDE_PROPERTIES, **definition.serde_properties}, definition.bucket_count, definition.bucket_columns,
        tuple((name, int(ascending)) for name, ascending in definition.sort_columns),
    )  # fmt: skip
    return Table(
        definition.db, definition.name, 0, definition.owner, "USER", created, 0, 0, storage, fields["keys"],
        table_parameters(definition, created), table_type(definition),
    )  # fmt: skip


def table_parameters(definition: TableDefinition, created: int) -> dict[str, str]:
    """TABLE_PARAMS of a new table.

    :param created: seconds since 1970.
    """
    parameters = dict(definition.properties)
    if table_type(definition) == EXTERNAL_TABLE:
        parameters.pop("transactional", None)
        parameters["EXTERNAL"] = "TRUE"
        if not definition.external:
            # Hive's translation of a managed table that is not transactional: its files still go with it.
            parameters |= {"TRANSLATED_TO_EXTERNAL": "TRUE", "external.table.purge": "TRUE"}
    parameters.setdefault("bucketing_version", "2")
    parameters["transient_lastDdlTime"] = str(created)
    if definition.empty and not definition.partition_columns:
        parameters |= empty_statistics(definition.columns)
    return parameters


def table_type(definition: TableDefinition) -> str:
    """MANAGED_TABLE for a transactional table, EXTERNAL_TABLE for any other."""
    return MANAGED_TABLE if table_kinds.is_transactional(definition.properties) else EXTERNAL_TABLE


def empty_statistics(columns: Iterable[Column]) -> dict[str, str]:
    """What Hive notes about a table or partition that it knows to be empty."""
    exact = {"BASIC_STATS": "true", "COLUMN_STATS": dict.fromkeys(sorted(c.name for c in columns), "true")}
    return {
        "numFiles": "0",
        "numRows": "0",
        "totalSize": "0",
        "rawDataSize": "0",
        "numFilesErasureCoded": "0",
        STATISTICS_ACCURATE: json.dumps(exact, separators=(",", ":")),
    }


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
    other = [c for c in columns if c.type != "string"] if definition.stored_as.lower() == CSV.name else []
    if other:
        raise InvalidArgumentsError(
            f"{where}: column {other[0].name} is {other[0].type}, and for OpenCSVSerde every column is a string, in "
            "Hive too; say STRING, and CAST it in a query or a view"
        )
    buckets = _check_buckets(where, definition, columns)
    properties = _check_properties(where, definition)
    for name_of, told in definition.serde_properties.items():
        check_property(f"{where}, serde", name_of, told)
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
        serde_properties=dict(definition.serde_properties),
        constraints=check_constraints(where, definition.constraints, [c.name for c in columns], [c.name for c in keys]),
        empty=definition.empty,
    )


def check_columns(
    where: str, data: Sequence[Column], partition: Sequence[Column], known: Sequence[Column] = ()
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Data and partition columns in the catalog's spelling.

    :param known: columns that are there; a Hive may have given them types and names that we would not.
    :raises InvalidArgumentsError: naming the first that cannot be.
    """

    names, types = {c.name for c in known}, {c.type for c in known}

    def spelled(column: Column) -> Column:
        name, kind = column.name.lower(), " ".join(column.type.lower().split())
        return Column(
            name if name in names else _column_name(where, column.name),
            kind if kind in types else normalise_type(column.type),
        )

    columns, keys = (tuple(map(spelled, given)) for given in (data, partition))
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
    if stored_as in PLAIN_ONLY:
        raise InvalidArgumentsError(
            f"{where}: a transactional table is not made of {stored_as.upper()} files; say CREATE EXTERNAL TABLE, set "
            "'transactional'='false', or store it as ORC"
        )
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
