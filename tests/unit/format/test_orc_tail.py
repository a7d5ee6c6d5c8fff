"""Event counts from the footers of files that a real Hive wrote, and from none."""

from __future__ import annotations

import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from airflow_hive_acid.format.orc_tail import (
    MAX_FOOTER_BYTES,
    TAIL_BYTES,
    EventCounts,
    damage_in,
    event_counts,
    row_count,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_hive_counts_its_inserts_and_deletes() -> None:
    stages = sorted(p.name for p in (FIXTURES / "unpart_dml").iterdir() if p.is_dir())
    tree = FIXTURES / "unpart_dml" / stages[-1] / "tree"
    inserts = [event_counts(p.read_bytes()[-TAIL_BYTES:]) for p in sorted(tree.glob("*/delta_*/bucket_*"))]
    deletes = [event_counts(p.read_bytes()) for p in sorted(tree.glob("*/delete_delta_*/bucket_*"))]
    assert inserts
    assert deletes
    for found in inserts:
        assert found is not None
        assert found.inserts > 0
        assert found.updates == found.deletes == 0
        assert not found.changes_in_place
    for found in deletes:
        assert found is not None
        assert found.deletes > 0
        assert found.updates == found.inserts == 0


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((5, 0, 0), False), ((0, 0, 3), True), ((5, 1, 0), True), ((5, 0, 1), True), ((0, 2, 0), True)],
)
def test_updates_and_deletes_in_a_data_file_are_changes_in_place(counts: tuple[int, int, int], expected: bool) -> None:
    assert EventCounts(*counts).changes_in_place is expected


def test_what_is_no_footer_or_only_a_part_of_one_says_nothing() -> None:
    (file, *_) = (FIXTURES / "types" / "1_insert" / "tree").glob("t/delta_0000001_*/bucket_00000_0")
    whole = file.read_bytes()
    assert event_counts(whole) is not None
    for tail in (b"", b"x", b"nonsense" * 50, whole[:-1], whole[-40:], b"\x05ORC" + b"\xff" * 30):
        assert event_counts(tail) is None


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """A protobuf message of numbers and texts."""
    return b"".join(
        varint(at << 3) + varint(value) if isinstance(value, int) else varint(at << 3 | 2) + varint(len(value)) + value
        for at, value in fields
    )


def footer(rows: int | None = 300, stripes: tuple[int, ...] = (200, 100), counted: int | None = 300,
           note: bytes | None = b"300,0,0") -> bytes:  # fmt: skip
    fields: list[tuple[int, int | bytes]] = [(3, message((1, 7), (5, stripe))) for stripe in stripes]
    if note is not None:
        fields += [(5, message((1, b"other"), (2, b"x"))), (5, message((1, b"hive.acid.stats"), (2, note)))]
    if rows is not None:
        fields.append((6, rows))
    if counted is not None:
        fields += [(7, message((1, counted))), (7, message((1, 1)))]
    return message(*fields)


def tail_of(stored: bytes, compression: int = 0, before: bytes = b"") -> bytes:
    postscript = message((1, len(stored)), (2, compression), (8000, b"ORC"))
    return before + stored + postscript + bytes([len(postscript)])


def zlib_chunk(text: bytes, original: bool = False) -> bytes:
    packed = text if original else zlib.compress(text)[2:-4]
    return (len(packed) << 1 | original).to_bytes(3, "little") + packed


def test_a_sound_end_has_nothing_wrong_and_says_its_events() -> None:
    whole = footer()
    for tail in (
        tail_of(whole), tail_of(whole, before=b"data"), tail_of(zlib_chunk(whole), 1),
        tail_of(zlib_chunk(whole[:40]) + zlib_chunk(whole[40:], original=True), 1),
        tail_of(zlib_chunk(whole[:40], original=True) + zlib_chunk(whole[40:]), 1),
    ):  # fmt: skip
        assert damage_in(tail, 4711) is None
        assert event_counts(tail) == EventCounts(300, 0, 0)
        assert row_count(tail) == 300
    for tail in (tail_of(footer(rows=None)), tail_of(whole, 4), b"no ORC", b""):
        assert row_count(tail) is None


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"stripes": (200,)}, "its footer says 300, its stripes says 200, its statistics says 300, "
                              "its writer's note says 300"),
        ({"counted": 299}, "its footer says 300, its stripes says 300, its statistics says 299, "
                           "its writer's note says 300"),
        ({"note": b"1,2,3"}, "its footer says 300, its stripes says 300, its statistics says 300, "
                             "its writer's note says 6"),
        ({"note": None, "counted": None, "stripes": ()}, "its footer says 300, its stripes says 0"),
    ],
)  # fmt: skip
def test_numbers_of_rows_that_differ_are_told(parts: dict[str, Any], said: str) -> None:
    assert damage_in(tail_of(footer(**parts)), 9) == f"the numbers of its rows differ: {said}"


def test_an_end_without_a_number_of_rows_cannot_contradict_itself() -> None:
    assert damage_in(tail_of(footer(rows=None)), 9) is None
    assert damage_in(tail_of(footer(counted=None, note=b"1,x,3")), 9) is None
    assert event_counts(tail_of(footer(note=None))) is None


def test_an_end_that_is_none_is_told_with_the_size_of_the_file() -> None:
    whole = tail_of(footer())
    none = "its 4711 bytes do not end in the footer of an ORC file ({})"
    assert damage_in(b"", 4711) == none.format("no ORC file")
    assert damage_in(whole[:-1], 4711) == none.format("no ORC file")
    assert damage_in(b"data ORC\x02", 4711) == none.format("no ORC file")
    for gone in (1, 2, 20):
        assert damage_in(whole[gone:], 4711) == none.format("a part of the footer is missing")
    assert damage_in(tail_of(b"\x0b" + footer()), 4711) == none.format("field type 3 is not known")
    assert damage_in(tail_of(message((6, b"x"))), 4711) == none.format("a number is expected")
    assert damage_in(tail_of(message((3, 1))), 4711) == none.format("a text is expected")
    assert damage_in(tail_of(b"\x80"), 4711) == none.format("index out of range")


def test_what_cannot_be_read_here_may_be_sound() -> None:
    assert damage_in(tail_of(zlib_chunk(b"x"), 2), 9) is None
    long = tail_of(footer() + message((9, b"x" * TAIL_BYTES)))
    assert damage_in(long[-TAIL_BYTES:], 9) is None
    assert "a part of the footer is missing" in str(damage_in(long[1 - TAIL_BYTES :], 9))
    assert damage_in(tail_of(zlib_chunk(footer(), original=True), 2), 9) is None


def test_fields_of_fixed_length_are_passed_over() -> None:
    fixed = varint(20 << 3 | 1) + b"12345678" + varint(21 << 3 | 5) + b"1234"
    assert event_counts(tail_of(fixed + footer())) == EventCounts(300, 0, 0)
    assert row_count(tail_of(fixed + message((6, 300)))) == 300


def test_a_footer_unpacks_to_no_more_than_a_bound() -> None:
    """A few KB are 64 MB for zlib; a file may have one chunk of them, or many."""
    padding = message((9, b"\0" * (MAX_FOOTER_BYTES - len(footer()) - 5)))
    largest = footer() + padding
    assert len(largest) == MAX_FOOTER_BYTES
    whole = tail_of(zlib_chunk(largest), 1)
    assert damage_in(whole, len(whole)) is None
    assert event_counts(whole) == EventCounts(300, 0, 0)
    bombs = (zlib_chunk(largest + b"\0"), zlib_chunk(largest) + zlib_chunk(b"\0"), zlib_chunk(b"\0" * (8 << 20)) * 4)
    for bomb in bombs:
        tail = tail_of(bomb, 1)
        assert len(tail) < TAIL_BYTES
        assert f"it unpacks to more than {MAX_FOOTER_BYTES} bytes" in str(damage_in(tail, 9))
        assert event_counts(tail) is None


def test_a_chunk_that_ends_in_the_middle_is_no_footer() -> None:
    packed = zlib_chunk(footer())
    cut = (len(packed) - 5 << 1).to_bytes(3, "little") + packed[3:-2]
    assert damage_in(tail_of(cut, 1), 9) == (
        "its 9 bytes do not end in the footer of an ORC file (a compressed part of the footer ends in the middle)"
    )
    assert event_counts(tail_of(cut, 1)) is None


def test_a_number_has_64_bits_at_most() -> None:
    """One of a footer's length would take minutes."""
    assert "the numbers of its rows differ" in str(damage_in(tail_of(footer(rows=(1 << 64) - 1)), 9))
    assert "a number has more than 64 bits" in str(damage_in(tail_of(footer(rows=1 << 70)), 9))
    tail = tail_of(zlib_chunk(b"\xff" * (MAX_FOOTER_BYTES - 1)), 1)
    assert "a number has more than 64 bits" in str(damage_in(tail, 9))


def test_a_number_that_is_not_written_is_0() -> None:
    """As protobuf has it: an empty stripe, a file without rows, a footer that is not compressed."""
    empty_stripe = message((3, message((1, 7)))) + footer()
    assert damage_in(tail_of(empty_stripe), 9) is None
    assert row_count(tail_of(empty_stripe)) == 300
    no_rows = message((6, 0), (7, b""), (7, message((1, 4))))
    assert damage_in(tail_of(no_rows), 9) is None
    some_rows = message((6, 5), (3, message((5, 5))), (7, b""))
    assert damage_in(tail_of(some_rows), 9) == (
        "the numbers of its rows differ: its footer says 5, its stripes says 5, its statistics says 0"
    )
    postscript = message((1, len(footer())), (8000, b"ORC"))
    assert row_count(footer() + postscript + bytes([len(postscript)])) == 300


def test_a_chunk_is_not_unpacked_beyond_the_bound() -> None:
    bomb = tail_of(zlib_chunk(b"\0" * (16 * MAX_FOOTER_BYTES)), 1)
    assert len(bomb) < 2 * TAIL_BYTES
    tracemalloc.start()
    try:
        assert event_counts(bomb) is None
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_FOOTER_BYTES
    finally:
        tracemalloc.stop()
