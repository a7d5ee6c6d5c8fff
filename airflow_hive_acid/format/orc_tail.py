"""What the end of an ACID file says about its events, without an ORC library.

Hive's writers leave ``hive.acid.stats`` ("inserts,updates,deletes") in the footer's user metadata. The control plane
has no ORC reader, and needs only this: a file in which an older Hive updates or deletes rows in place wants a major
compaction (Hive 3's warning about upgrades). Layout: the ORC specification's postscript and footer, protobuf messages.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

TAIL_BYTES = 64 << 10
"""How much of the end of a file to read; a longer footer counts as unknown."""

_MAGIC = b"ORC"
_STATISTICS = b"hive.acid.stats"
_NONE, _ZLIB = 0, 1
_POSTSCRIPT_FOOTER_LENGTH, _POSTSCRIPT_COMPRESSION = 1, 2
_FOOTER_METADATA, _ITEM_NAME, _ITEM_VALUE = 5, 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
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


def event_counts(tail: bytes) -> EventCounts | None:
    """Count the events of an ACID file by what its writer noted.

    :param tail: its last bytes, ``TAIL_BYTES`` or the whole file.
    :return: None when that cannot be said: no ORC file, no such note, or a footer that is compressed otherwise than
        with zlib or is longer than ``tail``.
    """
    try:
        note = _metadata(tail).get(_STATISTICS)
        return None if note is None else EventCounts(*map(int, note.decode().split(",")))
    except (ValueError, LookupError, TypeError, zlib.error):
        return None


def _metadata(tail: bytes) -> dict[bytes, bytes]:
    """User metadata of the footer."""
    length = tail[-1]
    postscript = dict(_fields(tail[-1 - length : -1]))
    if not tail[-1 - length : -1].endswith(_MAGIC):
        raise ValueError("no ORC file")
    size = _number(postscript[_POSTSCRIPT_FOOTER_LENGTH])
    if size + length + 1 > len(tail):
        raise ValueError("the footer is longer than what was read")
    stored = tail[-1 - length - size : -1 - length]
    footer = _plain(stored, _number(postscript.get(_POSTSCRIPT_COMPRESSION, _NONE)))
    items = (dict(_fields(_text(value))) for field, value in _fields(footer) if field == _FOOTER_METADATA)
    return {_text(item[_ITEM_NAME]): _text(item[_ITEM_VALUE]) for item in items}


def _plain(stored: bytes, compression: int) -> bytes:
    """A sequence of compressed chunks as one text."""
    if compression == _NONE:
        return stored
    found, at = [], 0
    while at < len(stored):
        header = int.from_bytes(stored[at : at + _CHUNK_HEADER], "little")
        at += _CHUNK_HEADER
        chunk = stored[at : at + (header >> 1)]
        at += header >> 1
        if not header & _ORIGINAL_CHUNK:
            if compression != _ZLIB:
                raise ValueError(f"compression {compression} is not known here")
            chunk = zlib.decompress(chunk, -zlib.MAX_WBITS)
        found.append(chunk)
    return b"".join(found)


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


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("a number is expected")
    return value


def _text(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a text is expected")
    return value
