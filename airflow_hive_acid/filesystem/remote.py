"""HDFS and object stores, through fsspec.

An object store has no directories and no renames: a directory is what its objects' names say, and renaming copies
objects one by one. Objects are therefore listed, copied and deleted by their exact names (fsspec's own recursive calls
read ``[`` and ``*`` in names as patterns, and s3fs's bulk delete says nothing of what it could not delete).

HDFS is reached through libhdfs, or through WebHDFS where fsspec's configuration of ``webhdfs`` names the gateways:
``{"namenodes": {"nn1:8020": "nn1:9870"}}``, the authorities of ``hdfs:`` URIs and where they are served.

Only FileNotFoundError means absent (R17). fsspec's own ``exists``, ``isdir`` and ``isfile`` answer "no" to any error,
so none of them is asked here: :mod:`airflow_hive_acid.filesystem.answers` asks, and says what an error means.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import fsspec

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.filesystem.answers import DIRECTORY, FILE, Answers, Proof
from airflow_hive_acid.filesystem.name_nodes import gateways
from airflow_hive_acid.filesystem.protocol import FileInfo
from airflow_hive_acid.filesystem.s3_uploads import S3Uploads
from airflow_hive_acid.filesystem.uris import FSSPEC_PROTOCOLS, OBJECT_STORES, scheme_of
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.paths import parse_location

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_hive_acid.filesystem.protocol import Uploads


_THREADS = 8
_BLOCK = 8 << 20


class FsspecFilesystem:
    """A :class:`~airflow_hive_acid.filesystem.protocol.Filesystem` over one fsspec filesystem.

    :param uri: any URI of it; the authority (bucket, namenode) of other URIs may differ where fsspec allows it.
    :param options: fsspec's storage options.
    """

    def __init__(self, uri: str, options: Mapping[str, Any]) -> None:
        self._scheme = scheme_of(uri)
        self._authority = parse_location(uri).authority
        self._gateways = _gateways(self._scheme, self._authority)
        self._gateway = self._gateways[0] if self._gateways else None
        protocol = FSSPEC_PROTOCOLS[self._scheme]
        self._is_object_store = protocol in OBJECT_STORES
        proof = Proof.LISTED_PARENT if protocol == "hdfs" and self._gateway is None else Proof.SAID
        try:
            self._fs = _open(self._translate(uri), self._gateways, options)
        except (ImportError, ValueError, OSError) as error:
            remedy = "install the package it names"
            if protocol == "hdfs":
                remedy = "install libhdfs, or set FSSPEC_WEBHDFS to its WebHDFS: see docs/how-to/running/storage.md"
            # libhdfs lists each place where it has looked for a JVM, a line for one.
            said = str(error).partition("\n")[0]
            raise ConfigurationError(f"{uri}: fsspec cannot open {protocol!r} ({said}); {remedy}") from error
        self._answers = Answers(self._fs, proof)

    def can_fence(self, uri: str) -> bool:
        """See the protocol."""
        return not self._is_object_store

    def can_replace(self, uri: str) -> bool:
        """See the protocol. WebHDFS can; libhdfs and fsspec's other filesystems have no such rename."""
        return self._gateway is not None

    def uploads(self, uri: str) -> Uploads | None:
        """See the protocol."""
        return S3Uploads(self._fs, self._answers, self._path) if FSSPEC_PROTOCOLS[self._scheme] == "s3" else None

    def list_files(
        self,
        uri: str,
        recursive: bool = False,
        *,
        descend: Callable[[FileInfo], bool] | None = None,
    ) -> list[FileInfo]:
        """See the protocol."""
        base, found, pending = uri.rstrip("/"), [], [""]
        while pending:
            prefix = pending.pop()
            where = self._path(f"{base}/{prefix}")
            try:
                entries = self._answers.listing(where)
            except FileNotFoundError:
                if not prefix:
                    raise
                continue
            if not prefix and _is_file(entries, where):
                raise NotADirectoryError(f"{uri} is a file, not a directory")
            for entry in entries:
                info = _describe(base, prefix, entry, where)
                if info is None:
                    continue
                found.append(info)
                if info.is_dir and recursive and (descend is None or descend(info)):
                    pending.append(info.relative + "/")
        return sorted(found, key=lambda info: info.relative)

    def exists(self, uri: str) -> bool:
        """See the protocol."""
        return self._answers.kind(self._path(uri)) is not None

    def rename_directory(self, source: str, target: str) -> None:
        """See the protocol. Not atomic on object stores; nothing there is visible before the commit anyway."""
        source_path, target_path = self._path(source), self._path(target)
        if self._answers.kind(source_path) != DIRECTORY:
            raise FileNotFoundError(f"{source} is no directory; it cannot become {target}")
        if self._answers.kind(target_path) is not None:
            raise FileExistsError(f"{target} exists already; {source} was left where it is")
        with self._answers.of(f"renaming {source} to {target}"):
            self._move(source_path, target_path, is_directory=True)

    def rename(self, source: str, target: str) -> None:
        """See the protocol. Not atomic on object stores."""
        source_path, target_path = self._path(source), self._path(target)
        if self._answers.kind(target_path) is not None:
            raise FileExistsError(f"{target} exists already; {source} was left where it is")
        kind = self._answers.kind(source_path)
        if kind is None:
            raise FileNotFoundError(f"there is no {source}; it cannot become {target}")
        with self._answers.of(f"renaming {source} to {target}"):
            self._move(source_path, target_path, is_directory=kind == DIRECTORY)

    def gather(self, files: Mapping[str, str], target: str) -> None:
        """See the protocol."""
        target_path = self._path(target)
        if self._answers.kind(target_path) is not None:
            raise FileExistsError(f"{target} exists already; nothing was moved there")
        with self._answers.of(f"moving {len(files)} files to {target}"):
            if not self._is_object_store:
                self._fs.makedirs(target_path, exist_ok=True)
            moves = [(self._path(source), f"{target_path}/{name}") for name, source in files.items()]
            self._for_each(lambda pair: self._move(*pair, is_directory=False), moves)

    def _move(self, source: str, target: str, *, is_directory: bool) -> None:
        if not self._is_object_store:
            self._fs.mv(source, target, recursive=is_directory)
            return
        if not is_directory:
            self._fs.cp_file(source, target)  # one that finds no source, because it was fenced, is an error
            self._delete_object(source)
            return
        names = self._objects(source)
        copies = [(name, target + name[len(source) :]) for name in names if not name.endswith("/")]
        # R4: all copies before the first delete. One that finds no source, because it was fenced, is an error.
        self._for_each(lambda pair: self._fs.cp_file(*pair), copies)
        self._delete_objects(source, names)

    def copy_file(self, source: str, target: str) -> None:
        """See the protocol. An object store copies by itself, and refuses when the source is gone at that moment."""
        source_path, target_path = self._path(source), self._path(target)
        with self._answers.of(f"copying {source} to {target}"):
            if FSSPEC_PROTOCOLS[self._scheme] != "s3":
                self._fs.cp_file(source_path, target_path)
                return
            # s3fs asks for the size first, of which the way to copy depends; this is for small files.
            (bucket, _, key), (home, _, name) = source_path.partition("/"), target_path.partition("/")
            self._fs.call_s3("copy_object", Bucket=home, Key=name, CopySource={"Bucket": bucket, "Key": key})

    def replace_file(self, source: str, target: str) -> None:
        """See the protocol."""
        if self._gateway is None:
            raise UnsupportedStatementError(
                f"{source} cannot take the place of {target} in one step; that needs a local file system, or HDFS "
                "through WebHDFS"
            )
        with self._answers.of(f"renaming {source} to {target}"):
            self._fs.replace(self._path(source), self._path(target))

    def delete(self, uri: str, *, inside: str) -> bool:
        """See the protocol."""
        paths.require_inside(inside, uri)
        path = self._path(uri)
        if self._is_object_store:
            with self._answers.of(f"deleting {uri}"):
                names = self._objects(path)
                there = bool(names) or self._answers.kind(path) is not None
                self._delete_objects(path, names)
            return there
        with self._answers.of(f"deleting {uri}"):
            try:
                self._fs.rm(path, recursive=True)
            except FileNotFoundError:
                if self._answers.kind(path) is not None:
                    raise OSError(f"it says that there is no {uri}, and there is") from None
                return False
        return True

    def delete_empty(self, uri: str, *, inside: str) -> bool:
        """See the protocol. Here looking and deleting are two steps."""
        try:
            if self.list_files(uri):
                return False
        except (FileNotFoundError, NotADirectoryError):
            return False
        return self.delete(uri, inside=inside)

    def _objects(self, path: str) -> list[str]:
        """Names of the object ``path`` and of all below it, with those that stand for directories (``…/``)."""
        try:
            return self._answers.objects(path)
        except FileNotFoundError:
            return []

    def _delete_objects(self, path: str, names: Sequence[str]) -> None:
        self._for_each(self._delete_object, names)
        # Behind them an object of the directory's own name shows, and what a writer put there meanwhile.
        self._for_each(self._delete_object, self._objects(path) if names else ())
        # Some stores keep directories beside the objects.
        if self._answers.kind(path) == DIRECTORY and not self._objects(path):
            self._fs.rm(path, recursive=True)

    def _delete_object(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(name)

    def _for_each(self, call: Callable[[Any], object], items: Sequence[Any]) -> None:
        """Call for all of them, several at a time; the first error is raised once all have ended."""
        if len(items) < 2:
            for item in items:
                call(item)
            return
        with ThreadPoolExecutor(min(_THREADS, len(items)), thread_name_prefix="objects") as pool:
            waiting = [pool.submit(call, item) for item in items]
        for one in waiting:
            one.result()

    def read_text(self, uri: str) -> str:
        """See the protocol."""
        with self._answers.of(f"reading {uri}", self._path(uri)):
            content = bytes(self._fs.cat_file(self._path(uri)))
        return content.decode("utf-8")

    def read_range(self, uri: str, start: int, end: int) -> bytes:
        """See the protocol."""
        with self._answers.of(f"reading {uri}", self._path(uri)):
            return bytes(self._fs.cat_file(self._path(uri), start=start, end=end))

    def write_text(self, uri: str, text: str) -> None:
        """See the protocol. One PUT is atomic on an object store; elsewhere a rename makes it so.

        Through libhdfs, which renames over nothing, a file that is replaced is missing for a moment.
        """
        path = self._path(uri)
        with self._answers.of(f"writing {uri}"):
            if self._is_object_store:
                self._fs.pipe_file(path, text.encode("utf-8"))
                return
            directory, _, name = path.rpartition("/")
            temporary = f"{directory}/.{name}.{uuid.uuid4().hex}.tmp"
            self._fs.pipe_file(temporary, text.encode("utf-8"))
            if self._gateway is not None:
                self._fs.replace(temporary, path)
                return
            if self._answers.kind(path) is not None:
                self._fs.rm_file(path)
            self._fs.mv(temporary, path)

    def create_file(self, uri: str, text: str) -> None:
        """See the protocol. HDFS refuses a file where a directory is; the check before covers files."""
        path = self._path(uri)
        if self._answers.kind(path) is not None:
            raise FileExistsError(f"{uri} exists already")
        with self._answers.of(f"writing {uri}"):
            self._fs.pipe_file(path, text.encode("utf-8"))

    def make_directory(self, uri: str) -> None:
        """See the protocol."""
        path = self._path(uri)
        if self._answers.kind(path) == FILE:
            raise FileExistsError(f"{uri} is a file, not a directory")
        with self._answers.of(f"making the directory {uri}"):
            self._fs.makedirs(path, exist_ok=True)

    def open_input(self, uri: str) -> BinaryIO:
        """See the protocol."""
        with self._answers.of(f"opening {uri}", self._path(uri)):
            return cast("BinaryIO", self._fs.open(self._path(uri), "rb", block_size=_BLOCK))

    def open_output(self, uri: str) -> BinaryIO:
        """See the protocol."""
        with self._answers.of(f"opening {uri}", self._path(uri)):
            return cast("BinaryIO", self._fs.open(self._path(uri), "wb", block_size=_BLOCK))

    def local_path(self, uri: str) -> str | None:
        """See the protocol."""
        return None

    def _translate(self, uri: str) -> str:
        scheme = scheme_of(uri)
        if scheme != self._scheme:
            raise InvalidArgumentsError(f"{uri} is on {scheme}, this filesystem serves {self._scheme}")
        if self._gateway is None:
            return FSSPEC_PROTOCOLS[scheme] + uri[len(scheme) :]
        location = parse_location(uri)
        if location.authority != self._authority:
            raise InvalidArgumentsError(f"{uri} is not on {self._authority}, which this filesystem serves")
        return f"webhdfs://{self._gateway}/" + "/".join(location.segments)

    def _path(self, uri: str) -> str:
        return str(self._fs._strip_protocol(self._translate(uri).rstrip("/")))


def _open(url: str, gateways: Sequence[str], options: Mapping[str, Any]) -> Any:
    if not url.startswith("webhdfs:"):
        return fsspec.core.url_to_fs(url, use_listings_cache=False, **options)[0]
    from airflow_hive_acid.filesystem.webhdfs import CarefulWebHDFS

    name_nodes = {"name_nodes": tuple(gateways)} if len(gateways) > 1 else {}
    return CarefulWebHDFS(**{**CarefulWebHDFS._get_kwargs_from_urls(url), **name_nodes, **options})


def _gateways(scheme: str, authority: str) -> tuple[str, ...]:
    """Where WebHDFS serves an ``hdfs:`` authority, nowhere when nothing is configured for it."""
    if scheme != "hdfs":
        return ()
    return gateways(authority, fsspec.config.conf.get("webhdfs", {}), os.environ)


def _is_file(entries: Sequence[Mapping[str, Any]], where: str) -> bool:
    """fsspec lists a file as itself; WebHDFS does so without a name (and object stores list a directory's marker)."""
    if len(entries) != 1 or entries[0]["type"] != "file":
        return False
    return str(entries[0]["name"]) == where or entries[0].get("pathSuffix") == ""


def _describe(base: str, prefix: str, entry: Mapping[str, Any], where: str) -> FileInfo | None:
    full = str(entry["name"]).rstrip("/")
    if full == where.rstrip("/"):
        return None  # object stores list the marker of the directory itself
    relative = prefix + full.rsplit("/", 1)[-1]
    is_dir = entry["type"] == "directory"
    size = 0 if is_dir else int(entry.get("size") or 0)
    return FileInfo(path=f"{base}/{relative}", relative=relative, size=size, is_dir=is_dir)
