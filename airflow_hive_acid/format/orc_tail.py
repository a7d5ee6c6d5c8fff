"""What the end of an ACID file says about its events, without an ORC library.

Hive's writers leave ``hive.acid.stats`` ("inserts,updates,deletes") in the footer's user metadata. The control plane
has no ORC reader, and needs only three things: whether an older Hive updates or deletes rows in place, which wants a
major compaction (Hive 3's warning about upgrades), whether the end of a file is damaged, and how many rows it has.
Layout: the ORC specification's postscript and footer, protobuf messages.

Of the codecs the standard library has zlib alone. Who knows more gives his own ``unpack``.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    UnpackChunk = Callable[[int, bytes, int], bytes | None]

TAIL_BYTES = 64 << 10
"""How much of the end of a file to read; a longer footer counts as unknown."""
MAX_FOOTER_BYTES = 4 << 20
"""The most a footer may unpack to, 64 times what is read; zlib could make 64 MB of it."""

_MAGIC = b"ORC"
_STATISTICS = b"hive.acid.stats"
NO_CODEC, ZLIB, SNAPPY, LZ4, ZSTD = 0, 1, 2, 4, 5
"""What a postscript says of its file's compression (the specification's ``CompressionKind``)."""
_POSTSCRIPT_FOOTER_LENGTH, _POSTSCRIPT_COMPRESSION = 1, 2
_FOOTER_METADATA, _ITEM_NAME, _ITEM_VALUE = 5, 1, 2
_FOOTER_STRIPE, _STRIPE_ROWS = 3, 5
_FOOTER_ROWS = 6
_FOOTER_STATISTICS, _STATISTICS_COUNT = 7, 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BITS = 64
_CHUNK_HEADER = 3
_ORIGINAL_CHUNK = 1


class EventCounts(NamedTuple):
    """How many events of each kind a file holds."""

    inserts: int
    updates: int
    deletes: int

    @property
    def changes_in_place(self) -> bool:
        """Whether a file of a base or delta updates or deletes rows; since Hive 3 only delete deltas do."""
        return self.updates > 0 or self.deletes > 0


def unpack_zlib(codec: int, chunk: bytes, most: int) -> bytes | None:
    """UnpackChunk one compressed chunk of a file.

    :param codec: number of its ``CompressionKind``.
    :param most: the most bytes that it may become.
    :return: None when the codec is another one than zlib.
    :raises ValueError: when it becomes longer, or is damaged.
    """
    if codec != ZLIB:
        return None
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        text = unpacker.decompress(chunk, most + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(text) > most:
        raise ValueError(f"it unpacks to more than {MAX_FOOTER_BYTES} bytes")
    if not unpacker.eof:
        raise ValueError("a compressed part of the footer ends in the middle")
    return text


def event_counts(tail: bytes, unpack: UnpackChunk = unpack_zlib) -> EventCounts | None:
    """Count the events of an ACID file by what its writer noted.

    :param tail: its last bytes, ``TAIL_BYTES`` or the whole file.
    :param unpack: unpacks a chunk, see :func:`unpack_zlib`; None for a codec that it does not know.
    :return: None when that cannot be said: no ORC file, no such note, or a footer of another codec or longer than
        ``tail``.
    """
    try:
        return _counts(_summary(_footer(tail, unpack)).note)
    except (ValueError, LookupError):
        return None


def row_count(tail: bytes, unpack: UnpackChunk = unpack_zlib) -> int | None:
    """The number of rows of a file.

    :param tail: its last bytes, ``TAIL_BYTES`` or the whole file.
    :param unpack: as for :func:`event_counts`.
    :return: None when that cannot be said, see :func:`event_counts`.
    """
    try:
        return _summary(_footer(tail, unpack)).rows
    except (ValueError, LookupError):
        return None


def damage_in(tail: bytes, size: int, unpack: UnpackChunk = unpack_zlib) -> str | None:
    """What the end of a file shows to be wrong with it.

    :param tail: its last bytes, ``TAIL_BYTES`` or the whole file.
    :param size: bytes of the file.
    :param unpack: as for :func:`event_counts`.
    :return: None when it is sound, or when that cannot be said: a footer of a codec that is not known, or one that is
        longer than ``tail``.
    """
    try:
        found = _summary(_footer(tail, unpack))
    except _UnknownError:
        return None
    except (ValueError, LookupError) as error:
        return f"its {size} bytes do not end in the footer of an ORC file ({error})"
    if found.rows is None:
        return None
    said = {"its footer": found.rows, "its stripes": found.in_stripes}
    if found.counted is not None:
        said["its statistics"] = found.counted
    noted = _counts(found.note)
    if noted is not None:
        said["its writer's note"] = sum(noted)
    if len(set(said.values())) > 1:
        return "the numbers of its rows differ: " + ", ".join(f"{who} says {count}" for who, count in said.items())
    return None


class _UnknownError(ValueError):
    """A footer that cannot be read here, and may be sound."""


class _Summary(NamedTuple):
    """What a footer says about rows.

    :param rows: of the file; None when it does not say.
    :param in_stripes: those of all stripes together.
    :param counted: by the statistics of the whole row.
    :param note: that of Hive's writers.
    """

    rows: int | None
    in_stripes: int
    counted: int | None
    note: bytes | None


def _summary(footer: bytes) -> _Summary:
    """Read a footer once and keep nothing of it: it may have a million fields."""
    rows = counted = note = None
    in_stripes = 0
    for field, value in _fields(footer):
        if field == _FOOTER_ROWS:
            rows = _number(value)
        elif field == _FOOTER_STRIPE:
            in_stripes += _number(dict(_fields(_text(value))).get(_STRIPE_ROWS, 0))
        elif field == _FOOTER_STATISTICS:
            statistics = dict(_fields(_text(value)))
            counted = _number(statistics.get(_STATISTICS_COUNT, 0)) if counted is None else counted
        elif field == _FOOTER_METADATA:
            item = dict(_fields(_text(value)))
            note = _text(item[_ITEM_VALUE]) if _text(item[_ITEM_NAME]) == _STATISTICS else note
    return _Summary(rows, in_stripes, counted, note)


def _counts(note: bytes | None) -> EventCounts | None:
    """What a note says; None for one that is not there or is none."""
    try:
        return None if note is None else EventCounts(*map(int, note.decode().split(",")))
    except (ValueError, TypeError):
        return None


def _footer(tail: bytes, unpack: UnpackChunk) -> bytes:
    if not tail:
        raise ValueError("no ORC file")
    length = tail[-1]
    if not tail[-1 - length : -1].endswith(_MAGIC):
        raise ValueError("no ORC file")
    postscript = dict(_fields(tail[-1 - length : -1]))
    size = _number(postscript[_POSTSCRIPT_FOOTER_LENGTH])
    if size + length + 1 > len(tail):
        if len(tail) < TAIL_BYTES:
            raise ValueError("a part of the footer is missing")
        raise _UnknownError("the footer is longer than what was read")
    stored = tail[-1 - length - size : -1 - length]
    return _plain(stored, _number(postscript.get(_POSTSCRIPT_COMPRESSION, NO_CODEC)), unpack)


def _plain(stored: bytes, codec: int, unpack: UnpackChunk) -> bytes:
    """A sequence of compressed chunks as one text."""
    if codec == NO_CODEC:
        return stored
    found, at = bytearray(), 0
    while at < len(stored):
        header = int.from_bytes(stored[at : at + _CHUNK_HEADER], "little")
        at += _CHUNK_HEADER
        chunk = stored[at : at + (header >> 1)]
        at += header >> 1
        if not header & _ORIGINAL_CHUNK:
            text = unpack(codec, chunk, MAX_FOOTER_BYTES - len(found))
            if text is None:
                raise _UnknownError(f"compression {codec} is not known here")
            chunk = text
        found += chunk
    return bytes(found)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"field type {kind} is not known")
        yield tag >> 3, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _VARINT_BITS:
            raise ValueError(f"a number has more than {_VARINT_BITS} bits")


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("a number is expected")
    return value


def _text(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a text is expected")
    return value
