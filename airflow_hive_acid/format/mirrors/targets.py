"""Where a mirror, or a table that comes from elsewhere, lies: the text that names it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from airflow_hive_acid.errors import InvalidArgumentsError

_LONGEST = 1000
_ICEBERG = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}(\.[A-Za-z_][A-Za-z0-9_]{0,254}){2,8}")


class TargetFormat(Enum):
    """What kind of table a mirror is."""

    ICEBERG = "iceberg"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class MirrorTarget:
    """Where a mirror lies.

    :param place: of Iceberg ``catalog.namespace.table``; of Delta a path or URI.
    """

    format: TargetFormat
    place: str

    @classmethod
    def parse(cls, text: object) -> MirrorTarget:
        """Read ``iceberg:catalog.db.table`` or ``delta:/path``.

        :raises InvalidArgumentsError: when it is neither, or holds what no name or path may hold.
        """
        if not isinstance(text, str):
            raise InvalidArgumentsError(f"target must be text, not {type(text).__name__}")
        kind, _, place = text.partition(":")
        shown = text if len(text) <= 100 else text[:100] + "…"
        if kind == TargetFormat.ICEBERG.value:
            if not _ICEBERG.fullmatch(place):
                raise InvalidArgumentsError(
                    f"target {shown!r} names no Iceberg table: write iceberg:catalog.database.table, of letters, "
                    "digits and underscores"
                )
            return cls(TargetFormat.ICEBERG, place)
        if kind == TargetFormat.DELTA.value:
            path = place.rstrip("/")
            if not path or len(path) > _LONGEST or not _is_plain(path):
                raise InvalidArgumentsError(
                    f"target {shown!r} names no directory: write delta:/path or delta:s3a://bucket/path, without "
                    "'..', backquotes and control characters"
                )
            return cls(TargetFormat.DELTA, path)
        raise InvalidArgumentsError(
            f"target {shown!r} is none: write iceberg:catalog.database.table or delta:/path or URI"
        )

    def __str__(self) -> str:
        return f"{self.format.value}:{self.place}"


def _is_plain(path: str) -> bool:
    """Whether a path is absolute, and nothing in it stands for something else."""
    if any(ord(c) < 0x20 or c in "`\\\"'?#*{}[]\x7f" for c in path) or ".." in path.split("/"):
        return False
    scheme, separator, rest = path.partition("://")
    if separator:
        return scheme.replace("+", "").isalnum() and bool(rest)
    return path.startswith(("/", "file:/"))
