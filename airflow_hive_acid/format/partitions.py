"""Partition names: ``k1=v1/k2=v2``, escaped as Hive's FileUtils does.

Keys are lower-case, values keep their case; a NULL or empty value is ``__HIVE_DEFAULT_PARTITION__``, in the name as in
the catalog. Directories of partitions carry the escaped name, so a value never adds a path level.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Iterable

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
