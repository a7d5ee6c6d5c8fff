"""How much of a file counts that a batch still writes."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hive_acid.errors import CorruptTableError
from airflow_hive_acid.format.acid_state import FileEntry
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.replication.dumps.open_files import settled

FILE = "delta_0000001_0000002/bucket_00000"
SIDE = f"{FILE}_flush_length"
OPEN = ValidWriteIdList(2, frozenset({2}))


class Files:
    """A directory in which a batch has flushed so many times, eight bytes each time."""

    def __init__(self, side: bytes, size: int) -> None:
        self._side, self._size = side, size

    def read_range(self, _uri: str, offset: int, length: int) -> bytes:
        return self._side[offset : offset + length]

    def list_files(self, _uri: str) -> list[Any]:
        return [SimpleNamespace(name="bucket_00000", size=self._size)]


def flushed(count: int) -> bytes:
    return struct.pack(f">{count}q", *range(8, 8 * count + 8, 8))


@pytest.mark.parametrize("count", [1, 2, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 300_000])
@pytest.mark.parametrize("torn", [b"", b"\0\0\0"])
def test_the_last_length_counts_however_often_was_flushed(count: int, torn: bytes) -> None:
    files: Any = Files(flushed(count) + torn, 10 * count)
    found, cut = settled(files, "file:/t", [FileEntry(FILE, 8), FileEntry(SIDE, 8)], OPEN)
    assert (found, cut) == ([FileEntry(FILE, 8 * count)], {FILE})


@pytest.mark.parametrize(("length", "says"), [(-1, "says that -1 bytes"), (-(1 << 63), "bytes were flushed"),
                                              (11, "has 10 bytes, and 11 were flushed")])  # fmt: skip
def test_a_length_that_is_none_or_more_than_there_is_means_damage(length: int, says: str) -> None:
    files: Any = Files(struct.pack(">q", length), 10)
    with pytest.raises(CorruptTableError, match=says):
        settled(files, "file:/t", [FileEntry(FILE, 8), FileEntry(SIDE, 8)], OPEN)
