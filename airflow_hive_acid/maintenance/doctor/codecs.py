"""The codecs of ORC files beside zlib: those that Hive's tables have in the field (``orc.compress``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cramjam

from airflow_hive_acid.format.orc_tail import LZ4, SNAPPY, ZSTD, unpack_zlib

if TYPE_CHECKING:
    from collections.abc import Callable

_INTO: dict[int, Callable[[bytes, bytearray], int]] = {
    SNAPPY: cramjam.snappy.decompress_raw_into,
    LZ4: lambda chunk, room: cramjam.lz4.decompress_block_into(chunk, room, output_len=len(room)),
    ZSTD: cramjam.zstd.decompress_into,
}


def unpack(codec: int, chunk: bytes, most: int) -> bytes | None:
    """Unpack one compressed chunk of a file; parameters and errors as of :func:`.unpack_zlib`.

    :return: None when the codec is none of zlib, snappy, lz4 and zstd.
    """
    into = _INTO.get(codec)
    if into is None:
        return unpack_zlib(codec, chunk, most)
    # A room of a fixed size: a small chunk may claim to become gigabytes.
    room = bytearray(most)
    try:
        return bytes(room[: into(chunk, room)])
    except cramjam.DecompressionError as error:
        raise ValueError(f"a compressed part of the footer cannot be unpacked: {error}") from error
