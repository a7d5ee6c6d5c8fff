"""Partition names: ``k1=v1/k2=v2``, escaped as Hive's FileUtils does.

Keys are lower-case, values keep their case; a NULL or empty value is ``__HIVE_DEFAULT_PARTITION__``, in the name as in
the catalog. Directories of partitions carry the escaped name, so a value never adds a path level. The txn tables may
spell the same partition escaped once more: names that are read there are compared by :func:`readings`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

# FileUtils.charToEscape: control characters and what URIs, globs and the name's own syntax use. '}' is not in it.
_ESCAPED = frozenset([*map(chr, range(0x20)), *"\"#%'*/:=?\\{[]^", "\x7f"])
_TO_ESCAPE = re.compile("[" + re.escape("".join(sorted(_ESCAPED))) + "]")
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")


def escape_path_name(text: str) -> str:
    """``text`` as one path segment; empty text becomes the default partition."""
    if not text:
        return DEFAULT_PARTITION
    return _TO_ESCAPE.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescape_path_name(text: str) -> str:
    """Undo ``escape_path_name``; a percent sign without two hex digits stands for itself."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def partition_name(values: Iterable[tuple[str, str | None]]) -> str:
    """Name of the partition with these values, in the order of the partition columns.

    :raises InvalidArgumentsError: without any column, or for a column without a name.
    """
    parts = []
    for key, value in values:
        if not key:
            raise InvalidArgumentsError(f"a partition column without a name (value {value!r})")
        parts.append(f"{escape_path_name(key.lower())}={escape_path_name(value or '')}")
    if not parts:
        raise InvalidArgumentsError("a partition name needs at least one column; unpartitioned tables have none")
    return "/".join(parts)


def parse_partition_name(name: str) -> tuple[tuple[str, str], ...]:
    """Columns and values of a partition name, the values as the catalog holds them.

    :raises InvalidArgumentsError: when a part is not ``column=value``.
    """
    parsed = []
    for part in name.split("/"):
        key, separator, value = part.partition("=")
        if not (key and separator and value):
            raise InvalidArgumentsError(f"partition name {name!r}: {part!r} is not of the form column=value")
        parsed.append((unescape_path_name(key).lower(), unescape_path_name(value)))
    return tuple(parsed)


# --- the spellings of one partition -----------------------------------------------------------------------------------
#
# A Hive 4 escapes the name it gets in a lock request once more (TxnUtils.normalizePartitionCase): `a/b` is `ds=a%2Fb`
# in the catalog and in the warehouse, and `ds=a%252Fb` in HIVE_LOCKS and, for static partitions, in the components of
# txns.


def escaped_twice(name: str) -> str:
    """How a Hive writes a partition of the catalog into HIVE_LOCKS, and into TXN_COMPONENTS for a static partition.

    Of all characters that are escaped only the percent sign is left in a name that was escaped once.

    :param name: the catalog's name.
    """
    return name.replace("%", "%25")


def spellings(name: str) -> tuple[str, ...]:
    """Every way in which the txn tables may spell a partition of the catalog, the catalog's own first."""
    return tuple(dict.fromkeys((name, escaped_twice(name))))


def readings(stored: str) -> tuple[str, ...]:
    """Which partitions of the catalog a name in the txn tables may mean; the name read as the catalog's first.

    There are two where every escape is an escaped percent sign, as in ``ds=a%252Fb``: the value ``a%2Fb``, or ``a/b``
    as a Hive spells it. Who decides by such a name must be right for both. Text that is no partition name has none.
    """
    once = _canonical(stored)
    if once is None:
        return ()
    if not is_escaped_twice(once):
        return (once,)
    return (once, once.replace("%25", "%"))


def is_escaped_twice(name: str) -> bool:
    """Whether a name can be one that was escaped twice."""
    inner = name.replace("%25", "%")
    return "%" in name and escaped_twice(inner) == name and _canonical(inner) == inner


def from_lock_name(stored: str) -> str:
    """The catalog's name of a partition in HIVE_LOCKS, where a Hive 4 and we spell it escaped twice."""
    return stored.replace("%25", "%") if is_escaped_twice(stored) else stored


def may_be_same(one: str, other: str) -> bool:
    """Whether two names of the txn tables may mean one partition, however each is spelled."""
    return one == other or ("%" in one and (one == escaped_twice(other) or other == escaped_twice(one)))


def every_spelling(names: Iterable[str]) -> frozenset[str]:
    """Every way in which the txn tables may spell one of some partitions: for :func:`may_be_among`."""
    return frozenset(spelling for name in names for spelling in spellings(name))


def may_be_among(name: str, spelled: Set[str]) -> bool:
    """Whether a name of the txn tables :func:`may_be_same` as one of many, which are not compared one by one.

    :param spelled: every spelling of those.
    """
    return name in spelled or escaped_twice(name) in spelled


def _canonical(text: str) -> str | None:
    try:
        return partition_name(parse_partition_name(text))
    except InvalidArgumentsError:
        return None


@dataclass(frozen=True, slots=True)
class PartitionValues:
    """Values of some or all partition columns: one partition, or all that have these values.

    Two specs are about the same rows unless they give one column different values; the order of the columns says
    nothing. This is the normal form in which partitions are compared.

    :param values: column and value, as the catalog holds them, in the order of the name.
    """

    values: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, name: str) -> PartitionValues:
        """Read a partition name, of all columns or of some.

        :raises InvalidArgumentsError: when it is none, or names a column twice.
        """
        values = parse_partition_name(name)
        if len({key for key, _ in values}) < len(values):
            raise InvalidArgumentsError(f"partition name {name!r} gives a column two values; name each once")
        return cls(values)

    @property
    def name(self) -> str:
        """``k1=v1/k2=v2``, escaped as in the catalog."""
        return partition_name(self.values)

    def overlaps(self, other: PartitionValues) -> bool:
        """Whether a partition can be in both."""
        given = dict(self.values)
        return all(given.get(key, value) == value for key, value in other.values)

    def covers(self, other: PartitionValues) -> bool:
        """Whether every partition of the other is in this one."""
        return set(self.values) <= set(other.values)


def name_covers(one: str, other: str) -> bool:
    """Whether every partition of the other name is in the first; names as of :func:`names_overlap`."""
    if not one or one == other:
        return True
    if not other:
        return False
    try:
        return PartitionValues.of(one).covers(PartitionValues.of(other))
    except InvalidArgumentsError:
        return False


def names_overlap(one: str, other: str) -> bool:
    """Whether two names of the catalog, each of all columns or of some, have a partition in common.

    An empty name is the whole table. What is no name at all overlaps only with itself.
    """
    if not one or not other or one == other:
        return True
    try:
        return PartitionValues.of(one).overlaps(PartitionValues.of(other))
    except InvalidArgumentsError:
        return False
