"""Local warehouses, through the operating system: atomic renames, no following of symbolic links."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from typing import TYPE_CHECKING, BinaryIO, cast

from airflow_hive_acid.errors import UnsafePathError
from airflow_hive_acid.filesystem.protocol import FileInfo
from airflow_hive_acid.filesystem.uris import local_path, scheme_of
from airflow_hive_acid.format import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class LocalFilesystem:
    """A :class:`~airflow_hive_acid.filesystem.protocol.Filesystem` over ``file:`` URIs and absolute paths."""

    def can_fence(self, uri: str) -> bool:
        """See the protocol."""
        return scheme_of(uri) == "file"

    def can_replace(self, uri: str) -> bool:
        """See the protocol."""
        return scheme_of(uri) == "file"

    def uploads(self, uri: str) -> None:
        """See the protocol."""
        return

    def list_files(
        self,
        uri: str,
        recursive: bool = False,
        *,
        descend: Callable[[FileInfo], bool] | None = None,
    ) -> list[FileInfo]:
        """See the protocol. Symbolic links are listed as files of their own size and never followed."""
        base = uri.rstrip("/")
        found: list[FileInfo] = []
        pending = [("", os.scandir(local_path(uri)))]
        while pending:
            prefix, entries = pending.pop()
            with entries:
                for entry in entries:
                    info = _describe(base, prefix, entry)
                    if info is None:
                        continue
                    found.append(info)
                    if info.is_dir and recursive and (descend is None or descend(info)):
                        # Hive's own temporary directories come and go while we look.
                        with contextlib.suppress(FileNotFoundError):
                            pending.append((info.relative + "/", os.scandir(entry.path)))
        return sorted(found, key=lambda info: info.relative)

    def exists(self, uri: str) -> bool:
        """See the protocol."""
        return _mode(local_path(uri)) is not None

    def rename_directory(self, source: str, target: str) -> None:
        """See the protocol. ``mkdir`` claims the name; renaming onto an empty directory of our own is atomic."""
        source_path, target_path = local_path(source), local_path(target)
        if not _is_directory(source_path):
            raise FileNotFoundError(f"{source} is no directory; it cannot become {target}")
        try:
            os.mkdir(target_path)
        except FileExistsError:
            raise FileExistsError(f"{target} exists already; {source} was left where it is") from None
        try:
            os.rename(source_path, target_path)
        except OSError:
            with contextlib.suppress(OSError):
                os.rmdir(target_path)
            raise

    def rename(self, source: str, target: str) -> None:
        """See the protocol. A second link claims the name of a file; without links, looking first must do."""
        source_path, target_path = local_path(source), local_path(target)
        if stat.S_ISDIR(_mode(source_path) or 0):
            self.rename_directory(source, target)
            return
        try:
            os.link(source_path, target_path, follow_symlinks=False)
        except FileExistsError:
            raise FileExistsError(f"{target} exists already; {source} was left where it is") from None
        except PermissionError:
            if _mode(target_path) is not None:
                raise FileExistsError(f"{target} exists already; {source} was left where it is") from None
            os.rename(source_path, target_path)
        else:
            os.unlink(source_path)

    def gather(self, files: Mapping[str, str], target: str) -> None:
        """See the protocol."""
        path = local_path(target)
        try:
            os.mkdir(path)
        except FileExistsError:
            raise FileExistsError(f"{target} exists already; nothing was moved there") from None
        for name, source in files.items():
            os.rename(local_path(source), f"{path}/{name}")

    def copy_file(self, source: str, target: str) -> None:
        """See the protocol."""
        shutil.copyfile(local_path(source), local_path(target))

    def replace_file(self, source: str, target: str) -> None:
        """See the protocol."""
        os.replace(local_path(source), local_path(target))

    def delete(self, uri: str, *, inside: str) -> bool:
        """See the protocol."""
        paths.require_inside(inside, uri)
        path, root = local_path(uri), local_path(inside)
        _refuse_links(path, root, uri)
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                shutil.rmtree(path, onerror=_ignore_vanished)
            else:
                os.unlink(path)
        except FileNotFoundError:
            return False
        return True

    def delete_empty(self, uri: str, *, inside: str) -> bool:
        """See the protocol. The operating system looks and deletes in one step."""
        paths.require_inside(inside, uri)
        path = local_path(uri)
        _refuse_links(path, local_path(inside), uri)
        try:
            os.rmdir(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        return True

    def read_text(self, uri: str) -> str:
        """See the protocol."""
        with open(local_path(uri), encoding="utf-8", newline="") as file:
            return file.read()

    def read_range(self, uri: str, start: int, end: int) -> bytes:
        """See the protocol."""
        with open(local_path(uri), "rb") as file:
            file.seek(start)
            return file.read(end - start)

    def write_text(self, uri: str, text: str) -> None:
        """See the protocol."""
        path = local_path(uri)
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name[:100]}.{uuid.uuid4().hex}.tmp")
        try:
            with open(temporary, "x", encoding="utf-8", newline="") as file:
                file.write(text)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise

    def create_file(self, uri: str, text: str) -> None:
        """See the protocol."""
        with open(local_path(uri), "x", encoding="utf-8", newline="") as file:
            file.write(text)

    def make_directory(self, uri: str) -> None:
        """See the protocol."""
        os.makedirs(local_path(uri), exist_ok=True)

    def open_input(self, uri: str) -> BinaryIO:
        """See the protocol."""
        try:
            descriptor = os.open(local_path(uri), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UnsafePathError(f"{uri} is a symbolic link; copy what it leads to in its place") from None
            raise
        return cast("BinaryIO", os.fdopen(descriptor, "rb", buffering=0))

    def open_output(self, uri: str) -> BinaryIO:
        """See the protocol. A link of that name is refused, not followed."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(local_path(uri), flags, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UnsafePathError(f"{uri} is a symbolic link; nothing was written, remove it by hand") from None
            raise
        return cast("BinaryIO", os.fdopen(descriptor, "wb", buffering=0))

    def local_path(self, uri: str) -> str | None:
        """See the protocol."""
        return local_path(uri)


def _mode(path: str) -> int | None:
    """What a name stands for, links not followed; None when there is nothing of that name.

    ``os.path`` answers "no" to whatever goes wrong, a stale handle of NFS or a directory that may not be searched.

    :raises OSError: when it is not known.
    """
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _describe(base: str, prefix: str, entry: os.DirEntry[str]) -> FileInfo | None:
    relative = prefix + entry.name
    try:
        is_dir = entry.is_dir(follow_symlinks=False)
        size = 0 if is_dir else entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return None
    return FileInfo(path=f"{base}/{relative}", relative=relative, size=size, is_dir=is_dir)


def _refuse_links(path: str, root: str, uri: str) -> None:
    """Refuse a way from ``root`` down to ``path`` that leads over a symbolic link."""
    current = root
    for part in os.path.relpath(path, root).split(os.sep):
        current = os.path.join(current, part)
        if stat.S_ISLNK(_mode(current) or 0):
            raise UnsafePathError(
                f"{uri} leads over the symbolic link {current}; nothing was deleted. If it is meant, remove it by hand."
            )


def _ignore_vanished(_function: object, _path: str, failure: object) -> None:
    """Somebody else deleting the same directory is no error; everything else is."""
    error = failure[1] if isinstance(failure, tuple) else failure
    if not isinstance(error, FileNotFoundError):
        raise error if isinstance(error, BaseException) else OSError(str(error))
