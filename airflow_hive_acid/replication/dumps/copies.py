"""Copying files between warehouses: in parallel, resumable, and verified by checksums.

Every file is hashed once per side: while its bytes are read at the source (or its checksum is known from a dump), and
again from what the target's filesystem returns after writing. Where both sides are on this machine the kernel copies.
Nothing is renamed or published here: targets are places that nobody reads yet.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CopyFailedError, CorruptDumpError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from airflow_hive_acid.filesystem import StreamingFilesystem

THREADS = 8
BUFFER = 256 << 10
"""Small enough to stay in the processor's cache between reading, hashing and writing: 4 MiB cost twice the CPU."""
_AT_ONCE = 256 << 20
_NOT_BY_KERNEL = frozenset({errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file that is to be copied.

    :param size: bytes it must have.
    :param checksum: ``sha256:…`` it must have; None when nobody knows yet.
    :param beginning: the source may go on behind ``size``, and what is there is not copied: a file that is written.
    """

    source: str
    target: str
    size: int
    checksum: str | None = None
    beginning: bool = False


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What was copied.

    :param checksums: of every file, by target URI.
    :param reused: files that were there already, whole, from an attempt before; they count in ``files``.
    :param bytes: that were copied, without the reused ones.
    """

    files: int
    bytes: int
    reused: int
    seconds: float
    checksums: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Copied:
    target: str
    checksum: str
    bytes: int
    reused: bool = False


def copy_files(
    source: StreamingFilesystem,
    target: StreamingFilesystem,
    files: Sequence[FileCopy],
    *,
    threads: int = THREADS,
    verify: bool = True,
    on_file: Callable[[FileCopy], object] | None = None,
) -> CopyReport:
    """Copy files to places of their own; what an attempt before has copied is kept if it is whole.

    :param threads: how many at a time.
    :param verify: read what was written again and compare; without it only files with a known checksum are.
    :param on_file: called after each file, from any thread.
    :raises CopyFailedError: when a file vanished or changed meanwhile, or did not arrive as it was sent; try again.
    :raises CorruptDumpError: when a source file is not the one of its checksum.
    :raises UnsafePathError: when a source or target is a symbolic link.
    """
    started = time.monotonic()
    for directory in sorted({file.target.rpartition("/")[0] for file in files}):
        target.make_directory(directory)

    def one(file: FileCopy) -> _Copied:
        copied = _copy(source, target, file, verify=verify)
        if on_file is not None:
            on_file(file)
        return copied

    # The largest first: the last to end is then a small one.
    done = _in_threads(one, sorted(files, key=lambda file: -file.size), threads)
    return CopyReport(
        files=len(done),
        bytes=sum(copied.bytes for copied in done),
        reused=sum(copied.reused for copied in done),
        seconds=time.monotonic() - started,
        checksums={copied.target: copied.checksum for copied in done},
    )


def checksum_of(filesystem: StreamingFilesystem, uri: str) -> str:
    """``sha256:`` and the hex digits of a file's bytes."""
    with filesystem.open_input(uri) as stream:
        return _hash(stream)[0]


def _in_threads(call: Callable[[FileCopy], _Copied], files: Sequence[FileCopy], threads: int) -> list[_Copied]:
    """Call for all files; after the first error no other is begun, and it is raised when those under way have ended."""
    if len(files) < 2 or threads < 2:
        return [call(file) for file in files]
    with ThreadPoolExecutor(min(threads, len(files)), thread_name_prefix="copy") as pool:
        waiting = [pool.submit(call, file) for file in files]
        try:
            ended = wait(waiting, return_when=FIRST_EXCEPTION).done
        finally:
            for future in waiting:
                future.cancel()
    for future in ended:
        future.result()
    return [future.result() for future in waiting]


def _copy(source: StreamingFilesystem, target: StreamingFilesystem, file: FileCopy, *, verify: bool) -> _Copied:
    expected = file.checksum
    try:
        there = _whole(source, target, file)
        if there is not None:
            return _Copied(file.target, there, 0, reused=True)
        for attempt in (1, 2):
            read, size = _transfer(source, target, file)
            if size != file.size:
                raise _changed(file, f"has {size} bytes instead of {file.size}")
            wanted = expected or read
            if wanted is None:
                raise AssertionError("a file was copied without any checksum")
            if not verify and expected is None:
                return _Copied(file.target, wanted, size)
            written = checksum_of(target, file.target)
            if written == wanted:
                return _Copied(file.target, wanted, size)
            if expected is not None and (read or _source_checksum(source, file)) != expected:
                raise CorruptDumpError(
                    f"{file.source} is not the file that was exported: its checksum is not {expected}; copy the dump "
                    "again, or export again"
                )
            if attempt == 2:
                raise CopyFailedError(
                    f"{file.target} does not hold what was written to it, twice; it was copied from {file.source}. "
                    "Look at the storage of the target, then try again"
                )
    except FileNotFoundError as error:
        raise _changed(file, f"is not there any more ({error})") from None
    raise AssertionError("two attempts have an end each")


def _changed(file: FileCopy, what: str) -> CopyFailedError:
    return CopyFailedError(f"{file.source} {what}: it was changed while it was copied; export again")


def _whole(source: StreamingFilesystem, target: StreamingFilesystem, file: FileCopy) -> str | None:
    """The checksum of a target that an earlier attempt has copied completely."""
    try:
        with target.open_input(file.target) as stream:
            digest, size = _hash(stream, at_most=file.size)
    except FileNotFoundError:
        return None
    if size != file.size:
        return None
    return digest if digest == (file.checksum or _source_checksum(source, file)) else None


def _source_checksum(source: StreamingFilesystem, file: FileCopy) -> str:
    with source.open_input(file.source) as stream:
        return _hash(stream, upto=file.size if file.beginning else None)[0]


def _transfer(source: StreamingFilesystem, target: StreamingFilesystem, file: FileCopy) -> tuple[str | None, int]:
    """Copy the bytes of a file.

    :return: their checksum, None where the kernel has copied them; and how many there were.
    """
    with source.open_input(file.source) as reader, target.open_output(file.target) as writer:
        on_this_machine = source.local_path(file.source) is not None and target.local_path(file.target) is not None
        if file.checksum is not None and on_this_machine and not file.beginning:
            copied = _by_kernel(reader.fileno(), writer.fileno())
            if copied is not None:
                return None, copied
        return _hash(reader, writer, upto=file.size if file.beginning else None)


def _by_kernel(reader: int, writer: int) -> int | None:
    """Copy without the bytes passing through this process; None where the kernel cannot."""
    copied = 0
    while True:
        try:
            count = os.copy_file_range(reader, writer, _AT_ONCE)
        except OSError as error:
            if copied or error.errno not in _NOT_BY_KERNEL:
                raise
            return None
        if count == 0:
            return copied
        copied += count


def _hash(
    reader: BinaryIO, writer: BinaryIO | None = None, *, at_most: int | None = None, upto: int | None = None
) -> tuple[str, int]:
    """The checksum and number of the bytes of a stream, which are written to another one on the way.

    :param at_most: stop when there are more: the number is then larger than this.
    :param upto: take no more than so many.
    """
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(BUFFER))
    size = 0
    while at_most is None or size <= at_most:
        count = _read(reader, buffer if upto is None else buffer[: upto - size])
        if not count:
            break
        piece = buffer[:count]
        digest.update(piece)
        size += count
        if writer is not None:
            while piece:
                written = writer.write(piece)
                piece = piece[written if written is not None else len(piece) :]
    return f"sha256:{digest.hexdigest()}", size


def _read(reader: BinaryIO, buffer: memoryview) -> int:
    count: int | None = reader.readinto(buffer)  # type: ignore[attr-defined]  # all binary streams have it
    return count or 0
