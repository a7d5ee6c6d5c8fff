"""One filesystem for warehouses that are spread over several: every call goes to the adapter of its URI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.filesystem.opening import open_filesystem
from airflow_hive_acid.format.paths import parse_location

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_hive_acid.filesystem.protocol import FileInfo, StreamingFilesystem, Uploads


class AnyFilesystem:
    """A :class:`~airflow_hive_acid.filesystem.protocol.Filesystem` for URIs of any scheme.

    :param options: storage options of fsspec, for all adapters that are not local.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._opened: dict[tuple[str, str], StreamingFilesystem] = {}

    def at(self, uri: str) -> StreamingFilesystem:
        """The adapter that serves a URI; one per scheme and authority."""
        location = parse_location(uri)
        key = (location.scheme, location.authority)
        if key not in self._opened:
            self._opened[key] = open_filesystem(uri, **self._options)
        return self._opened[key]

    def can_fence(self, uri: str) -> bool:
        """See the protocol."""
        return self.at(uri).can_fence(uri)

    def can_replace(self, uri: str) -> bool:
        """See the protocol."""
        return self.at(uri).can_replace(uri)

    def uploads(self, uri: str) -> Uploads | None:
        """See the protocol."""
        return self.at(uri).uploads(uri)

    def list_files(
        self,
        uri: str,
        recursive: bool = False,
        *,
        descend: Callable[[FileInfo], bool] | None = None,
    ) -> list[FileInfo]:
        """See the protocol."""
        return self.at(uri).list_files(uri, recursive, descend=descend)

    def exists(self, uri: str) -> bool:
        """See the protocol."""
        return self.at(uri).exists(uri)

    def rename_directory(self, source: str, target: str) -> None:
        """See the protocol.

        :raises InvalidArgumentsError: when the two are on different filesystems.
        """
        self._of_both(source, target, "be renamed to").rename_directory(source, target)

    def rename(self, source: str, target: str) -> None:
        """See the protocol.

        :raises InvalidArgumentsError: when the two are on different filesystems.
        """
        self._of_both(source, target, "be renamed to").rename(source, target)

    def gather(self, files: Mapping[str, str], target: str) -> None:
        """See the protocol.

        :raises InvalidArgumentsError: when one is on another filesystem than ``target``.
        """
        for source in files.values():
            self._of_both(source, target, "become a part of")
        self.at(target).gather(files, target)

    def copy_file(self, source: str, target: str) -> None:
        """See the protocol.

        :raises InvalidArgumentsError: when the two are on different filesystems.
        """
        self._of_both(source, target, "be copied to").copy_file(source, target)

    def replace_file(self, source: str, target: str) -> None:
        """See the protocol.

        :raises InvalidArgumentsError: when the two are on different filesystems.
        """
        self._of_both(source, target, "replace").replace_file(source, target)

    def _of_both(self, source: str, target: str, what: str) -> StreamingFilesystem:
        filesystem = self.at(source)
        if filesystem is not self.at(target):
            raise InvalidArgumentsError(f"{source} cannot {what} {target}: they are on different filesystems")
        return filesystem

    def delete(self, uri: str, *, inside: str) -> bool:
        """See the protocol."""
        return self.at(uri).delete(uri, inside=inside)

    def delete_empty(self, uri: str, *, inside: str) -> bool:
        """See the protocol."""
        return self.at(uri).delete_empty(uri, inside=inside)

    def read_text(self, uri: str) -> str:
        """See the protocol."""
        return self.at(uri).read_text(uri)

    def read_range(self, uri: str, start: int, end: int) -> bytes:
        """See the protocol."""
        return self.at(uri).read_range(uri, start, end)

    def write_text(self, uri: str, text: str) -> None:
        """See the protocol."""
        self.at(uri).write_text(uri, text)

    def create_file(self, uri: str, text: str) -> None:
        """See the protocol."""
        self.at(uri).create_file(uri, text)

    def make_directory(self, uri: str) -> None:
        """See the protocol."""
        self.at(uri).make_directory(uri)

    def open_input(self, uri: str) -> BinaryIO:
        """See the protocol."""
        return self.at(uri).open_input(uri)

    def open_output(self, uri: str) -> BinaryIO:
        """See the protocol."""
        return self.at(uri).open_output(uri)

    def local_path(self, uri: str) -> str | None:
        """See the protocol."""
        return self.at(uri).local_path(uri)
