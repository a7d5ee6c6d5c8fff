"""What the control plane needs from a filesystem, and no more.

Every delete names the directory it must stay inside; adapters refuse the directory itself, anything outside it and
anything reached through a symbolic link. A rename never lands on or in an existing directory: Hadoop and POSIX would
move *into* it, and two attempts of one statement would mix (R5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of a listing.

    :param path: full URI, beginning with the URI that was listed.
    :param relative: the path below the listed directory, with ``/`` between parts.
    :param size: bytes; 0 for a directory.
    """

    path: str
    relative: str
    size: int
    is_dir: bool

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.relative.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload that nobody has ended.

    :param uri: the name its file gets.
    :param upload_id: the store's name for it; a file may have several.
    """

    uri: str
    upload_id: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an upload.

    :param number: counted from 1.
    :param etag: what the store calls its content.
    :param size: bytes.
    :param checksums: of the store's, by their names, which it wants to hear again.
    """

    number: int
    etag: str
    size: int
    checksums: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WholeUpload:
    """An upload with all its parts."""

    upload: Upload
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Bytes of its file."""
        return sum(part.size for part in self.parts)


class Uploads(Protocol):
    """The multi-part uploads of a store that have not ended."""

    def below(self, uri: str) -> list[Upload]:
        """Uploads of files below a directory."""

    def look_at(self, upload: Upload) -> WholeUpload:
        """Its parts.

        :raises FileNotFoundError: when there is no such upload (any more).
        """

    def complete(self, whole: WholeUpload) -> None:
        """Put its parts together; fine if somebody has done so already.

        :raises FileNotFoundError: when it was ended without a file.
        """

    def abort(self, upload: Upload) -> None:
        """End it without a file; fine if it has ended."""


@runtime_checkable
class Filesystem(Protocol):
    """Lists, reads, renames and deletes below a warehouse."""

    def can_fence(self, uri: str) -> bool:
        """Whether a plain file in the place of a directory stops every writer that wants to create or rename
        something below it (R4). It does on POSIX and HDFS, not on object stores.
        """

    def can_replace(self, uri: str) -> bool:
        """Whether a file can take the place of another in one step (``replace_file``), and an open one can be moved."""

    def uploads(self, uri: str) -> Uploads | None:
        """The multi-part uploads of the store that a URI is on, None where files are not uploaded so."""

    def list_files(
        self,
        uri: str,
        recursive: bool = False,
        *,
        descend: Callable[[FileInfo], bool] | None = None,
    ) -> list[FileInfo]:
        """Entries of a directory, sorted by relative path. What vanishes while we look is left out.

        :param recursive: with everything below it.
        :param descend: asked for each directory of a recursive listing; False leaves out what is below it.
        :raises FileNotFoundError: when the directory itself does not exist.
        """

    def exists(self, uri: str) -> bool:
        """Whether there is a file or directory of that name."""

    def rename_directory(self, source: str, target: str) -> None:
        """Give a directory a new name; the parent of the new name must exist.

        :raises FileExistsError: when there is anything at ``target``; nothing was changed.
        :raises FileNotFoundError: when ``source`` or the parent of ``target`` is missing.
        """

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory a new name; the parent of the new name must exist.

        :raises FileExistsError: when there is anything at ``target``; nothing was changed.
        :raises FileNotFoundError: when ``source`` or the parent of ``target`` is missing.
        """

    def gather(self, files: Mapping[str, str], target: str) -> None:
        """Make a directory of files that lie elsewhere, one by one; others see it while it grows.

        :param files: URI of each by its new name.
        :raises FileExistsError: when there is anything at ``target``; nothing was changed.
        :raises FileNotFoundError: when one of them is missing; others may have been moved.
        """

    def copy_file(self, source: str, target: str) -> None:
        """Have the content of a small file under another name, too; one of that name is replaced.

        :raises FileNotFoundError: when there is no ``source``.
        """

    def replace_file(self, source: str, target: str) -> None:
        """Give a file the name of another one, or a new name; a reader sees the old or the new one, never none.

        :raises FileNotFoundError: when ``source`` or the parent of ``target`` is missing; nothing was changed.
        :raises UnsupportedStatementError: where that cannot be done in one step.
        """

    def delete(self, uri: str, *, inside: str) -> bool:
        """Delete a file or a directory with everything below it.

        :param inside: the directory that must contain it, usually the table's.
        :return: False when there was nothing.
        :raises UnsafePathError: when ``uri`` is ``inside`` itself, outside it, or behind a symbolic link.
        """

    def delete_empty(self, uri: str, *, inside: str) -> bool:
        """Delete a directory in which nothing lies, not even a hidden file.

        :param inside: the directory that must contain it.
        :return: False when there was none, or something lies in it.
        """

    def read_text(self, uri: str) -> str:
        """The UTF-8 text of a file."""

    def read_range(self, uri: str, start: int, end: int) -> bytes:
        """A part of a file: from offset ``start`` up to ``end``, both in bytes; less where the file is shorter."""

    def write_text(self, uri: str, text: str) -> None:
        """Write a UTF-8 file, replacing one of that name; a reader sees the old or the new text, never a part."""

    def create_file(self, uri: str, text: str) -> None:
        """Write a UTF-8 file that must not exist yet.

        :raises FileExistsError: when there is a file or directory of that name.
        """

    def make_directory(self, uri: str) -> None:
        """Create a directory and its parents; fine if it exists.

        :raises FileExistsError: when a file has that name.
        """


@runtime_checkable
class StreamingFilesystem(Filesystem, Protocol):
    """A filesystem whose files can be copied: their bytes come and go in streams."""

    def open_input(self, uri: str) -> BinaryIO:
        """A file, for reading from its beginning.

        :raises UnsafePathError: when it is a symbolic link: what it leads to may be anybody's.
        """

    def open_output(self, uri: str) -> BinaryIO:
        """A file, for writing; one of that name is replaced. Its directory must exist."""

    def local_path(self, uri: str) -> str | None:
        """The operating system's path of a file, None when it is not on this machine."""
