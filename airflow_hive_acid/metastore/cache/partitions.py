"""Partitions of one table in memory: found by name, and by conditions as the database would evaluate them.

Conditions are evaluated once per distinct value of a column and not once per partition. What a database might see
differently (numbers with a point, text that is no number) is left to the database.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.metastore.catalog.rows.partitions import filter_values
from airflow_hive_acid.metastore.catalog.values.partition_conditions import (
    MAX_VALUES,
    OPERATORS,
    And,
    Between,
    Compare,
    Condition,
    In,
    IsNull,
    Or,
    columns_of,
    is_text,
    value_text,
    value_texts,
)
from airflow_hive_acid.metastore.names.partition_spellings import spelled
from airflow_hive_acid.metastore.names.partition_values import is_char

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.metastore.catalog.values.model import Partition, Table
    from airflow_hive_acid.metastore.catalog.values.partition_conditions import PartitionFilter, Value

_WHOLE = re.compile(r"-?[0-9]{1,19}")
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
# Bytes of Python's objects on a 64-bit machine: a partition with its numbers, a text, a place in dictionaries.
_PARTITION_BYTES, _TEXT_BYTES, _ENTRY_BYTES = 180, 49, 60


class UndecidableError(Exception):
    """Only the database can evaluate this condition."""


class PartitionSet:
    """All partitions of a table, never changed: a change makes another one.

    :param partitions: in any order.
    """

    __slots__ = ("_by_name", "_by_value", "_ordered", "size")

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self._by_name = {partition.name: partition for partition in partitions}
        self.size = sum(map(_bytes_of, self._by_name.values()))
        self._ordered: list[str] | None = None
        self._by_value: dict[int, dict[str, list[str]]] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Partition | None:
        """A partition by its name."""
        return self._by_name.get(name)

    def names(self) -> list[str]:
        """All names, sorted as Python sorts text."""
        if self._ordered is None:
            self._ordered = sorted(self._by_name)
        return list(self._ordered)

    def write_ids(self) -> set[int]:
        """The write ids under which they were written last."""
        return {partition.write_id for partition in self._by_name.values()}

    def changed(self, partitions: Mapping[str, Partition | None]) -> PartitionSet:
        """The set with some partitions as they are now; None for those that are gone."""
        if not partitions:
            return self
        made = PartitionSet(())
        made._by_name = dict(self._by_name)
        made.size = self.size
        for name, partition in partitions.items():
            before = made._by_name.pop(name, None)
            if before is not None:
                made.size -= _bytes_of(before)
            if partition is not None:
                made._by_name[name] = partition
                made.size += _bytes_of(partition)
        return made

    def select(self, table: Table, wanted: PartitionFilter | None) -> list[Partition]:
        """Those that fulfil a filter, sorted by name.

        :raises InvalidArgumentsError: as the database's reading would.
        :raises UndecidableError: when only the database can tell.
        """
        if isinstance(wanted, Condition):
            columns_of(table, wanted)
            found = self._where(table, wanted)
        elif wanted:
            found = self._with_values(table, filter_values(table, wanted))
        else:
            return [self._by_name[name] for name in self.names()]
        return [self._by_name[name] for name in sorted(found)]

    def _with_values(self, table: Table, values: Mapping[str, list[str]]) -> set[str]:
        if len(values) == len(table.partition_columns) and all(len(v) == 1 for v in values.values()):
            names = table.spellings({column: v[0] for column, v in values.items()}, others=False).names
            return self._by_name.keys() & names
        found: set[str] | None = None
        for position, column in enumerate(table.partition_columns):
            if column.name in values:
                index = self._index(position)
                if is_char(column.type):
                    wanted = {value.rstrip(" ") for value in values[column.name]}
                    some = {name for text, names in index.items() if text.rstrip(" ") in wanted for name in names}
                else:
                    texts = {text for value in values[column.name] for text in spelled(column.type, value)}
                    some = {name for text in texts for name in index.get(text, ())}
                found = some if found is None else found & some
        return set(self._by_name) if found is None else found

    def _where(self, table: Table, condition: Condition) -> set[str]:
        match condition:
            case And(conditions):
                found = set(self._by_name)
                for part in conditions:
                    found &= self._where(table, part)
                return found
            case Or(conditions):
                found = set()
                for part in conditions:
                    found |= self._where(table, part)
                return found
            case IsNull(name):
                return set(self._index(_position(table, name)).get(DEFAULT_PARTITION, ()))
            case Compare(name, sign, value):
                if sign not in OPERATORS:
                    raise UndecidableError(sign)  # the database's reading knows what to say
                return self._compared(table, name, sign, value)
            case Between(name, low, high):
                return self._compared(table, name, ">=", low) & self._compared(table, name, "<=", high)
            case In(name, values):
                if len(values) > MAX_VALUES:
                    raise UndecidableError(name)
                column = table.partition_columns[_position(table, name)]
                wanted = {_typed(column, text) for value in values for text in value_texts(column, value)}
                return self._of_column(table, name, lambda stored: stored in wanted)
        raise UndecidableError(repr(condition))

    def _compared(self, table: Table, name: str, sign: str, value: Value) -> set[str]:
        column = table.partition_columns[_position(table, name)]
        if sign in ("=", "<>"):
            same = {_typed(column, text) for text in value_texts(column, value)}
            return self._of_column(table, name, lambda stored: (stored in same) == (sign == "="))
        other, compare = _typed(column, value_text(column, value)), _COMPARISONS[sign]
        return self._of_column(table, name, lambda stored: compare(stored, other))

    def _of_column(self, table: Table, name: str, keeps: Callable[[object], bool]) -> set[str]:
        position = _position(table, name)
        column, index = table.partition_columns[position], self._index(position)
        return {
            name
            for text, names in index.items()
            if text != DEFAULT_PARTITION and keeps(_typed(column, text))
            for name in names
        }

    def _index(self, position: int) -> dict[str, list[str]]:
        """Names by the values of one column."""
        index = self._by_value.get(position)
        if index is None:
            index = {}
            for name, partition in self._by_name.items():
                index.setdefault(partition.values[position], []).append(name)
            self._by_value[position] = index
        return index


def _position(table: Table, name: str) -> int:
    return [column.name for column in table.partition_columns].index(name.lower())


def _typed(column: Column, text: str) -> object:
    """A value as it is compared: text by its bytes, whole numbers as numbers."""
    if is_char(column.type):
        text = text.rstrip(" ")
    if is_text(column):
        return text.encode()
    if column.type not in _INTEGERS or not _WHOLE.fullmatch(text):
        raise UndecidableError(f"{column.name} {column.type}")
    return int(text)


def _bytes_of(partition: Partition) -> int:
    texts = (partition.name, partition.location, *partition.values)
    # Twice the entry: once by name, and once in the index of a column.
    return _PARTITION_BYTES + 2 * _ENTRY_BYTES + sum(_TEXT_BYTES + len(text) for text in texts)
