"""Foreign tables: Iceberg, Delta, and plain files of Parquet and ORC, as something to import from. Pure.

A foreign table is named like the target of a mirror: its format, a colon, and where it lies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, UnsafePathError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.mirrors.targets import MirrorTarget, TargetFormat
from airflow_hive_acid.format.names import is_hidden, parse_directory

if TYPE_CHECKING:
    from collections.abc import Iterable

FOREIGN_FORMATS = ("iceberg", "delta", "parquet", "orc")
IMPORTED_FROM = "hive.acid.imported.from"
"""Property of a table that was imported: the foreign table."""
IMPORTED_VERSION = "hive.acid.imported.version"
"""Property of a table that was imported: the version of the foreign table, where it has one."""
DELTA_LOG = "_delta_log"
_LOG_FILE = re.compile(r"(\d{20})\.(?:json|checkpoint\b.*\.parquet)")
_NUMBER = re.compile(r"\d{1,19}")


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table of another format.

    :param format: one of ``FOREIGN_FORMATS``.
    :param place: of Iceberg ``catalog.namespace.table``; of the others a path or URI.
    """

    format: str
    place: str

    @classmethod
    def parse(cls, text: object) -> ForeignTable:
        """Read ``iceberg:catalog.db.table``, ``delta:/path``, ``parquet:/path`` or ``orc:/path``.

        :raises InvalidArgumentsError: when it is none of these, or its place is not one.
        """
        kind, _, place = text.partition(":") if isinstance(text, str) else ("", "", "")
        if kind in (TargetFormat.ICEBERG.value, TargetFormat.DELTA.value):
            target = MirrorTarget.parse(text)
            return cls(target.format.value, target.place)
        if kind not in FOREIGN_FORMATS:
            raise InvalidArgumentsError(
                f"source must be iceberg:catalog.database.table, delta:/path, parquet:/path or orc:/path, not {text!r}"
            )
        try:
            segments = paths.parse_location(place).segments
        except UnsafePathError as error:
            raise InvalidArgumentsError(f"source {text!r}: {error}") from None
        if not segments or any(ord(c) < 0x20 or c in "*?{}[]\\" for c in place):
            raise InvalidArgumentsError(f"source {text!r} names no directory: give one, without patterns")
        return cls(kind, place.rstrip("/"))

    @property
    def has_versions(self) -> bool:
        """Whether it can be read as it was."""
        return self.format in (TargetFormat.ICEBERG.value, TargetFormat.DELTA.value)

    def options(self, version: str | None) -> dict[str, str]:
        """Options of Spark's reader for it.

        :param version: an Iceberg snapshot id or a Delta version; None for what is newest when it is read.
        """
        return {"path": self.place} | ({} if version is None else {"versionAsOf": version})

    def checked_version(self, version: object) -> str | None:
        """A version as text; None for none.

        :raises InvalidArgumentsError: when it is no number, or plain files are asked for a version.
        """
        if version is None:
            return None
        text = str(version)
        if not self.has_versions:
            raise InvalidArgumentsError(f"version: {self} has no versions; leave it out")
        if isinstance(version, bool) or not _NUMBER.fullmatch(text):
            kind = "an Iceberg snapshot id" if self.format == TargetFormat.ICEBERG.value else "a Delta version"
            raise InvalidArgumentsError(f"version must be {kind}, a number, not {version!r}")
        return text

    def __str__(self) -> str:
        return f"{self.format}:{self.place}"


def newest_delta_version(names: Iterable[str]) -> int | None:
    """The newest version that a Delta log knows, from the names in ``_delta_log``; None for no log."""
    found = [int(match[1]) for name in names if (match := _LOG_FILE.fullmatch(name)) is not None]
    return max(found, default=None)


def require_plain(source: ForeignTable, names: Iterable[str]) -> None:
    """Refuse a directory that is more than its files: a log or a snapshot says which of them count.

    :param names: of the entries of the directory.
    :raises InvalidArgumentsError: naming what it is and the remedy.
    """
    entries = set(names)
    if DELTA_LOG in entries:
        raise InvalidArgumentsError(
            f"{source} holds a Delta table: its files are not its rows. Import delta:{source.place}"
        )
    if "metadata" in entries and "data" in entries:
        raise InvalidArgumentsError(
            f"{source} looks like an Iceberg table (data and metadata lie side by side): its files are not its rows. "
            "Import iceberg:catalog.database.table"
        )
    if any(parse_directory(name) is not None for name in entries if not is_hidden(name)):
        raise InvalidArgumentsError(
            f"{source} holds directories of a Hive ACID table: its files are not its rows. Read it by its metastore"
        )
