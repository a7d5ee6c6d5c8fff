"""Ends of files in the codecs that Hive's tables have: snappy, lz4, zstd and zlib."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import cramjam
import pytest

from airflow_hive_acid.format.orc_tail import MAX_FOOTER_BYTES, TAIL_BYTES, damage_in, event_counts, row_count
from airflow_hive_acid.maintenance.doctor.codecs import unpack
from tests import orc_footers

if TYPE_CHECKING:
    from collections.abc import Callable

    Pack = Callable[[bytes], bytes]

FIXTURES = Path(__file__).parents[2] / "fixtures"
CODECS: dict[str, tuple[int, Pack]] = {
    "zlib": (1, lambda text: zlib.compress(text)[2:-4]),
    "snappy": (2, lambda text: bytes(cramjam.snappy.compress_raw(text))),
    "lz4": (4, lambda text: bytes(cramjam.lz4.compress_block(text, store_size=False))),
    "zstd": (5, lambda text: bytes(cramjam.zstd.compress(text))),
}
each_codec = pytest.mark.parametrize(("number", "pack"), CODECS.values(), ids=CODECS)


def hives_tail() -> bytes:
    (file, *_) = (FIXTURES / "types" / "1_insert" / "tree").glob("t/delta_0000001_*/bucket_00000_0")
    return file.read_bytes()[-TAIL_BYTES:]


@each_codec
def test_the_footer_of_a_file_of_hives_says_the_same_in_each_codec(number: int, pack: Pack) -> None:
    tail = hives_tail()
    counts, rows = event_counts(tail), row_count(tail)
    assert counts is not None
    assert rows
    again = orc_footers.packed(tail, number, pack)
    assert (event_counts(again, unpack), row_count(again, unpack)) == (counts, rows)
    assert damage_in(again, len(again), unpack) is None
    lying = orc_footers.packed(tail, number, pack, rows=rows + 1)
    assert "the numbers of its rows differ" in str(damage_in(lying, len(lying), unpack))


@each_codec
def test_a_damaged_chunk_is_told(number: int, pack: Pack) -> None:
    for damage in (lambda packed: packed[: len(packed) // 2], lambda packed: b"\xff" * len(packed)):
        tail = orc_footers.packed(hives_tail(), number, lambda text, damage=damage: damage(pack(text)))
        assert "do not end in the footer of an ORC file" in str(damage_in(tail, len(tail), unpack))
        assert event_counts(tail, unpack) is row_count(tail, unpack) is None


@each_codec
def test_no_chunk_becomes_longer_than_a_bound(number: int, pack: Pack) -> None:
    text = b"\0" * 300
    assert unpack(number, pack(text), 300) == text
    with pytest.raises(ValueError, match="unpack"):
        unpack(number, pack(text), 299)
    with pytest.raises(ValueError, match="unpack"):
        unpack(number, pack(b"\0" * (16 * MAX_FOOTER_BYTES)), MAX_FOOTER_BYTES)


def test_other_codecs_are_unknown() -> None:
    for number in (3, 6, 99):
        tail = orc_footers.packed(hives_tail(), number, lambda text: text)
        assert damage_in(tail, len(tail), unpack) is row_count(tail, unpack) is None
