"""Data files of a snapshot, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventFile:
    """A data file of a base, delta or delete delta.

    :param partition: ordinal of its partition in the snapshot.
    :param bucket: bucket number in its name.
    :param min_write_id: smallest write id its directory can hold; of a base 0.
    :param max_write_id: largest one.
    :param check_rows: some rows may belong to write ids the snapshot does not see.
    :param statement_id: of its directory, 0 where that has none.
    :param may_update: an older Hive may have written it, with updates and deletes in place; its footer knows.
    """

    uri: str
    size: int
    partition: int
    bucket: int
    min_write_id: int
    max_write_id: int
    in_base: bool = False
    check_rows: bool = False
    statement_id: int = 0
    may_update: bool = False


@dataclass(frozen=True, slots=True)
class OriginalDataFile:
    """A file without ACID columns: its rows have synthetic ids.

    :param write_id: 0 in a converted table, otherwise that of the directory LOAD DATA made.
    :param statement_id: of that directory.
    """

    uri: str
    size: int
    partition: int
    bucket: int
    write_id: int
    statement_id: int = 0
    in_delta: bool = False
