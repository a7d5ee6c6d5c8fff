"""Footers of ORC files: what they say, and lies about their rows (the tail is written again, one number changed)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

STRIPE, ROWS, STATISTICS = (3, 5), (6,), (7, 1)
"""Where a footer says how many rows there are: of a stripe, of the file, and in the statistics of a column."""
STRIDE = (8,)
"""Where it says how many rows have an entry of the row index together; 0 without such an index."""


def footer(spark: SparkSession, path: Path) -> dict[str, Any]:
    """What the end of a file says."""
    jvm: Any = spark._jvm
    orc, conf = jvm.org.apache.orc.OrcFile, spark.sparkContext._jsc.hadoopConfiguration()
    reader = orc.createReader(jvm.org.apache.hadoop.fs.Path(str(path)), orc.readerOptions(conf))
    keys = sorted(reader.getMetadataKeys())
    codec = jvm.java.nio.charset.StandardCharsets.UTF_8
    found = {
        "schema": reader.getSchema().toJson(),
        "compression": reader.getCompressionKind().toString(),
        "calendar": reader.writerUsedProlepticGregorian(),
        "rows": reader.getNumberOfRows(),
        "stride": reader.getRowIndexStride(),
        "metadata": {k: codec.decode(reader.getMetadataValue(k)).toString() for k in keys},
        "stripes": [s.getNumberOfRows() for s in reader.getStripes()],
        "values": [c.getNumberOfValues() for c in reader.getStatistics()],
    }
    reader.close()
    return found


def lie(path: Path, where: tuple[int, ...], rows: int) -> None:
    """Let the footer of a file say so many rows in one place (the first of its kind); uncompressed or zlib."""
    before, footer, postscript = _parts(path.read_bytes())
    footer = _changed(footer, where, rows)
    if any(field == 2 and value for field, value, _, _ in _fields(postscript)):
        footer = (len(footer) << 1 | 1).to_bytes(3, "little") + footer
    path.write_bytes(before + _ended(footer, postscript))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def packed(tail: bytes, codec: int, pack: Callable[[bytes], bytes], rows: int | None = None) -> bytes:
    """The end of a zlib file with its footer in another codec.

    :param codec: its number in the postscript.
    :param rows: let the footer say so many rows.
    """
    before, footer, postscript = _parts(tail)
    chunk = pack(footer if rows is None else _changed(footer, ROWS, rows))
    return before + _ended((len(chunk) << 1).to_bytes(3, "little") + chunk, _changed(postscript, (2,), codec))


def _parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    """What is before the footer, the footer unpacked, the postscript."""
    length = data[-1]
    postscript = data[-1 - length : -1]
    size = next(value for field, value, _, _ in _fields(postscript) if field == 1)
    compressed = next((value for field, value, _, _ in _fields(postscript) if field == 2), 0)
    assert isinstance(size, int)
    stored = data[-1 - length - size : -1 - length]
    return data[: -1 - length - size], _plain(stored) if compressed else stored, postscript


def _ended(footer: bytes, postscript: bytes) -> bytes:
    postscript = _changed(postscript, (1,), len(footer))
    return footer + postscript + bytes([len(postscript)])


def _changed(message: bytes, where: tuple[int, ...], value: int) -> bytes:
    for field, old, start, end in _fields(message):
        if field == where[0]:
            key = message[start : start + len(_varint(field << 3))]
            if len(where) == 1:
                return message[:start] + key + _varint(value) + message[end:]
            assert isinstance(old, bytes)
            inner = _changed(old, where[1:], value)
            return message[:start] + key + _varint(len(inner)) + inner + message[end:]
    raise AssertionError(f"the message has no field {where[0]}")


def _plain(stored: bytes) -> bytes:
    found, at = b"", 0
    while at < len(stored):
        header = int.from_bytes(stored[at : at + 3], "little")
        chunk = stored[at + 3 : at + 3 + (header >> 1)]
        found += chunk if header & 1 else zlib.decompress(chunk, -zlib.MAX_WBITS)
        at += 3 + (header >> 1)
    return found


def _fields(message: bytes) -> list[tuple[int, int | bytes, int, int]]:
    """Field number, value, and where the field begins and ends; only numbers and texts."""
    found: list[tuple[int, int | bytes, int, int]] = []
    at = 0
    while at < len(message):
        start = at
        tag, at = _read(message, at)
        value, at = _read(message, at)
        if tag & 7 == 2:
            found.append((tag >> 3, message[at : at + value], start, at + value))
            at += value
        else:
            assert tag & 7 == 0
            found.append((tag >> 3, value, start, at))
    return found


def _read(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if message[at - 1] < 0x80:
            return value, at


def _varint(value: int) -> bytes:
    found = b""
    while value >= 0x80:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])
