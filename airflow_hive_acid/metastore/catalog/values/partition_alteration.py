"""What ALTER may make of a partition, as pure decisions: properties, columns, serde properties and its directory.

As in Hive, a partition has columns and a directory of its own and nothing is moved when it gets another one: what lies
there are its rows from then on. Hive lets two partitions share a directory; here each keeps one to itself, or the
Cleaner of one would remove files of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import is_hidden, parse_directory
from airflow_hive_acid.metastore.catalog.values import alteration
from airflow_hive_acid.metastore.catalog.values.definitions import check_property
from airflow_hive_acid.metastore.catalog.values.formats import FORMATS
from airflow_hive_acid.metastore.catalog.values.model import check_location
from airflow_hive_acid.metastore.names.objects import shorten
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.metastore.catalog.values.formats import StorageFormat
    from airflow_hive_acid.metastore.catalog.values.model import Storage, Table, WholePartition

_OF_TABLE = frozenset({"transactional", "transactional_properties", "external", "bucketing_version"})


@dataclass(frozen=True, slots=True)
class PartitionAlteration:
    """What is asked for; what is None or empty stays as it is.

    :param properties: to be set, and ``unset`` the names of those to be removed.
    :param if_exists: a property to remove that is not there is no error.
    :param serde_properties: to be set (SERDEPROPERTIES).
    :param columns: all columns of the partition, position by position.
    :param adds: ``columns`` come after those that it has.
    :param comments: comments of columns.
    :param location: another directory.
    :param serde: another class (SET SERDE), and ``stored_as`` ``orc``, ``parquet`` or ``text`` (SET FILEFORMAT): our
        readers go by the table, so both can only say what the table says; a partition that says something else is
        mended by them.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    if_exists: bool = False
    serde_properties: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[Column] | None = None
    adds: bool = False
    comments: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    serde: str | None = None
    stored_as: str | None = None

    @property
    def is_shared(self) -> bool:
        """Whether readers and writers may go on meanwhile: nothing changes for them."""
        how_it_is_read = (self.columns, self.location, self.serde, self.stored_as)
        return not self.unset and how_it_is_read == (None, None, None, None)


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """What becomes of a partition.

    :param after: what it is afterwards, without who changed it and when.
    :param outdated: the columns whose statistics say nothing any more.
    """

    after: WholePartition
    outdated: frozenset[str] = frozenset()

    def is_moved(self, before: WholePartition) -> bool:
        """Whether it lies in another directory afterwards."""
        return self.after.storage.location != before.storage.location


def change_partition(table: Table, partition: WholePartition, asked: PartitionAlteration) -> PartitionChange:
    """ALTER TABLE … PARTITION.

    :raises InvalidArgumentsError: naming what cannot be, the rule and the remedy.
    """
    alteration.require_table(table)
    where = f"partition {partition.name} of {table.qualified_name}"
    if asked == PartitionAlteration():
        raise InvalidArgumentsError(f"nothing is said about what becomes of {where}")
    for key, value in asked.serde_properties.items():
        check_property(where, key, value)
    properties = _properties(where, partition.properties, asked)
    storage = replace(
        partition.storage, serde_properties={**partition.storage.serde_properties, **asked.serde_properties}
    )
    if asked.location is not None:
        storage = replace(storage, location=place_of_partition(table, partition.name, asked.location))
        if storage.location != partition.storage.location:
            # What they say was true of other files; Hive keeps them and answers from them.
            properties.pop(STATISTICS_ACCURATE, None)
    columns = None if asked.columns is None else _columns(table, partition, asked)
    if columns is not None:
        storage = _like_table(table, columns.made_of(storage))
        properties = alteration.without_column_statistics(properties)
    if (known := _format(table, where, asked)) is not None:
        storage = replace(
            storage, input_format=known.input_format, output_format=known.output_format,
            serde=(storage.serde[0], known.serde),
        )  # fmt: skip
    outdated = frozenset[str]() if columns is None else columns.outdated
    return PartitionChange(replace(partition, properties=properties, storage=storage), outdated)


def _like_table(table: Table, storage: Storage) -> Storage:
    """Columns equal to the table's are the table's, an empty comment being none."""
    said, own = ([(c.name, c.type, c.comment or None) for c in s.columns] for s in (storage, table.storage))
    return replace(storage, columns=table.storage.columns) if said == own else storage


def _format(table: Table, where: str, asked: PartitionAlteration) -> StorageFormat | None:
    if asked.serde is None and asked.stored_as is None:
        return None
    known = FORMATS.get(table.format or "")
    if known is None or asked.stored_as not in (None, known.name) or asked.serde not in (None, known.serde):
        said = asked.stored_as if asked.stored_as is not None else shorten(repr(asked.serde))
        raise InvalidArgumentsError(
            f"{where} cannot be read as {said}: all files of a table are read in one format here, and that of "
            f"{table.qualified_name} is {known.keyword if known else table.input_format}. Copy the partition "
            "into a table of its own"
        )
    return known


def _properties(where: str, before: Mapping[str, str], asked: PartitionAlteration) -> dict[str, str]:
    properties = dict(before)
    for key in (*asked.unset, *asked.properties):
        alteration.refuse_maintained(where, key)
        if key.lower() in _OF_TABLE:
            raise InvalidArgumentsError(f"{where}: {key} is a property of tables; alter the table")
    for key in asked.unset:
        if properties.pop(key, None) is None and not asked.if_exists:
            raise InvalidArgumentsError(f"{where} has no property {shorten(repr(key))}; use IF EXISTS if that is fine")
    for key, value in asked.properties.items():
        check_property(where, key, value)
        properties[key] = value
    return properties


def _columns(table: Table, partition: WholePartition, asked: PartitionAlteration) -> alteration.ColumnChange:
    """By the rules of a table's columns, seen from what the partition has."""
    own = replace(
        table,
        name=f"{table.name} partition {partition.name}",
        storage=replace(table.storage, columns=partition.storage.columns),
    )
    change = alteration.add_columns if asked.adds else alteration.replace_columns
    return change(own, asked.columns or (), asked.comments)


def place_of_partition(table: Table, name: str, given: str) -> str:
    """The directory that a partition is given, in the catalog's spelling (decision 10).

    :param name: the partition's.
    :raises InvalidArgumentsError: for a place in the table's directory that is, or may become, something else's.
    """
    location = check_location(given)
    inside = paths.relative_to(table.location, location)
    if inside is None or location == paths.join(table.location, name):
        return location
    where = f"partition {name} of {table.qualified_name} cannot lie at {location}"
    if not inside:
        raise InvalidArgumentsError(f"{where}: that is the table's directory, in which its other partitions lie")
    first, *_ = segments = inside.split("/")
    key = table.partition_columns[0].name
    if first.lower().startswith(f"{key}="):
        raise InvalidArgumentsError(
            f"{where}: that is the place of {inside}, which may be added one day; choose a directory that is not "
            f"called {key}=…, or one outside of the table's directory"
        )
    for segment in segments:
        if is_hidden(segment) or parse_directory(segment) is not None:
            raise InvalidArgumentsError(
                f"{where}: Hive reads a directory called {segment} in a way of its own; choose another name"
            )
    return location
