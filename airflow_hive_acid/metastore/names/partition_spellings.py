"""Names under which the catalog may hold the one partition that a user means (decision 41).

A Hive fills values of a CHAR column up with blanks, in names of partitions and of directories, and writes ``1.50`` of a
DECIMAL as ``1.5``. Earlier versions of this package took them as they were written, and a Hive's MSCK REPAIR takes the
names of directories (``hour=01``). All are partitions of the same value, and a statement that names the value means the
one that is there.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.metastore.names.partition_values import as_stored, is_char, other_texts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


MOST = 100
"""Names of one partition; of several columns the ways to write them multiply, and the rarest are left out."""


@dataclass(frozen=True, slots=True)
class Spellings:
    """What the catalog may call a partition.

    :param names: as a Hive writes it first.
    :param exact: the one that is meant if it is there, whatever else is.
    """

    names: tuple[str, ...]
    exact: str | None

    @classmethod
    def of(cls, values: Iterable[tuple[str, str, str]], *, by_name: bool, others: bool = True) -> Spellings:
        """The spellings of some values.

        :param values: column, its type and its value, for each column that is given, in the table's order.
        :param by_name: a name of the catalog was given, which means the partition of exactly this name. Values, as
            those of a PARTITION clause, mean it with all their blanks only.
        :param others: also the names by which other programs call a value.
        """
        given = list(values)
        as_given = partition_name((column, value) for column, _, value in given)
        ways = _in_any_way if others else spelled
        each = [[(column, text) for text in ways(kind, value)] for column, kind, value in given]
        while math.prod(map(len, each)) > MOST:
            max(each, key=len).pop()
        names = list(dict.fromkeys(map(partition_name, itertools.product(*each))))
        names += [as_given] if as_given not in names else []
        return cls(tuple(names), as_given if by_name or as_given == names[0] else None)

    @property
    def is_one(self) -> bool:
        """Whether there is nothing to choose from."""
        return len(self.names) == 1

    def choose(self, table: object, there: Collection[str]) -> str:
        """The partition that is meant; of none of these names, as a Hive would write it.

        :param table: for messages.
        :param there: names of the catalog.
        :raises InvalidArgumentsError: when it has several of them and no one is meant more than another.
        """
        if self.exact is not None and self.exact in there:
            return self.exact
        found = [name for name in self.names if name in there]
        if len(found) > 1:
            raise InvalidArgumentsError(
                f"{table} has {len(found)} partitions of the same value, {' and '.join(map(repr, found))}: an earlier "
                "version, or another program, wrote one as it was given. A value as a Hive writes it, a CHAR with all "
                f"its blanks, means {self.names[0]!r}; to mean the other by its value, rename that one first (ALTER "
                "TABLE … PARTITION … RENAME TO PARTITION …)"
            )
        return found[0] if found else self.names[0]


def spelled(type_text: str, value: str) -> list[str]:
    """A value as a Hive has it, and as it was given; of a char without blanks, too."""
    stored = as_stored(type_text, value)
    if stored.isspace():
        return [stored]
    return list(dict.fromkeys((stored, value, *([value.rstrip(" ")] if is_char(type_text) else []))))


def _in_any_way(type_text: str, value: str) -> list[str]:
    """A value as :func:`spelled`, and as other programs may have written it."""
    return list(dict.fromkeys((*spelled(type_text, value), *other_texts(type_text, as_stored(type_text, value)))))
