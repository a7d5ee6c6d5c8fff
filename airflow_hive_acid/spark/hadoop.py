"""The warehouse as a Spark job sees it: Hadoop's FileSystem, called in bulk.

A call from Python into the JVM costs a fraction of a millisecond, so nothing here asks file by file: whole arrays of
statuses come back as one JSON text, many directories are listed at a time, renames run in threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from py4j.protocol import Py4JJavaError

from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.format import spool_files
from airflow_hive_acid.format.paths import S3_SCHEMES
from airflow_hive_acid.spark.footers import Footers
from airflow_hive_acid.spark.java_errors import is_java
from airflow_hive_acid.spark.java_names import java_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_THREADS = 8
_DIRECTORIES_PER_CALL = 128
_COPY_BUFFER = 1 << 16
_LONG = 8
_RENAMING = ("hdfs", "viewfs")
"""Where a file is renamed over another one in one step, if that is asked for."""
_UPLOADER = "fs.capability.multipart.uploader"
_ROOT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")

S = TypeVar("S")
R = TypeVar("R")


class Entry(NamedTuple):
    """One entry of a directory: its qualified URI, and bytes (0 for a directory)."""

    uri: str
    size: int
    is_directory: bool

    @property
    def name(self) -> str:
        """The last segment."""
        return self.uri.rpartition("/")[2]


class HadoopFilesystem:
    """Hadoop's FileSystem of whatever scheme a URI has, with the credentials of the Spark application.

    :ivar footers: what files say of themselves.
    """

    def __init__(self, gateway: Any, jvm: Any, conf: Any) -> None:
        self.gateway = gateway
        self.jvm = jvm
        self._conf = conf
        # Each is a call: look classes up once.
        hadoop = jvm.org.apache.hadoop
        self._path = hadoop.fs.Path
        self._file_util = hadoop.fs.FileUtil
        self._to_paths = hadoop.util.StringUtils.stringToPath
        self._io_utils = jvm.org.apache.commons.io.IOUtils
        self._class = jvm.java.lang.Class.forName
        self._strings = self._class("[Ljava.lang.String;")
        self._mapper = self._status_mapper(jvm.com.fasterxml.jackson)
        self._filesystems: dict[str, Any] = {}
        self.footers = Footers(jvm, conf, self._mapper)

    @classmethod
    def of(cls, spark: SparkSession) -> HadoopFilesystem:
        """The one of this application."""
        return _of_application(spark.sparkContext)

    def _status_mapper(self, jackson: Any) -> Any:
        """A JSON writer for paths and statuses: one call instead of three per file."""
        module = jackson.databind.module.SimpleModule()
        to_string = jackson.databind.ser.std.ToStringSerializer.instance
        for name in ("org.apache.hadoop.fs.Path", "org.apache.hadoop.fs.FileStatus"):
            module.addSerializer(self._class(name), to_string)
        mapper = jackson.databind.ObjectMapper()
        mapper.registerModule(module)
        return mapper

    def _filesystem(self, uri: str) -> Any:
        """Hadoop's FileSystem for a URI; the same for all of one scheme and authority."""
        match = _ROOT.match(uri)
        root = match[0] if match else ""
        found = self._filesystems.get(root)
        if found is None:
            found = self._filesystems[root] = self._path(uri).getFileSystem(self._conf)
        return found

    def qualify(self, uri: str) -> str:
        """The URI as this filesystem spells it in listings."""
        return str(self._filesystem(uri).makeQualified(self._path(uri)).toString())

    def can_upload(self, uri: str) -> bool:
        """Whether files can be uploaded in parts that somebody else puts together: S3, through S3A.

        S3A that encrypts here writes objects of other lengths than its files have.
        """
        if uri.partition(":")[0] not in S3_SCHEMES:
            return False
        bucket = uri.partition("://")[2].partition("/")[0]
        keys = ("fs.s3a.encryption.algorithm", f"fs.s3a.bucket.{bucket}.encryption.algorithm")
        if any((self._conf.get(key) or "").upper().startswith("CSE") for key in keys):
            return False
        try:
            return bool(self._filesystem(uri).hasPathCapability(self._path(uri), _UPLOADER))
        except Py4JJavaError:
            return False  # what is wrong with the store shows where it is written to

    def is_directory(self, uri: str) -> bool:
        """Whether a directory of that name exists."""
        try:
            return bool(self._filesystem(uri).getFileStatus(self._path(uri)).isDirectory())
        except Py4JJavaError as error:
            if is_java(error, "java.io.FileNotFoundException"):
                return False
            raise

    def exists(self, uri: str) -> bool:
        """Whether anything of that name exists."""
        return bool(self._filesystem(uri).exists(self._path(uri)))

    def entries(self, uri: str) -> list[Entry] | None:
        """The entries of one directory (a qualified URI), or None when it does not exist."""
        return self.list_many([uri])[uri]

    def list_many(self, uris: Iterable[str]) -> dict[str, list[Entry] | None]:
        """The entries of many directories of one filesystem.

        :param uris: qualified URIs (see :meth:`qualify`).
        :return: per directory its entries, None where there is none.
        """
        wanted = list(dict.fromkeys(uris))
        chunks = [wanted[i : i + _DIRECTORIES_PER_CALL] for i in range(0, len(wanted), _DIRECTORIES_PER_CALL)]
        listed: dict[str, list[Entry] | None] = {}
        for part in in_threads(self._list_chunk, chunks):
            listed.update(part)
        return listed

    def _list_chunk(self, uris: list[str]) -> dict[str, list[Entry] | None]:
        filesystem = self._filesystem(uris[0])
        paths = self._to_paths(self._mapper.readValue(json.dumps(uris), self._strings))
        try:
            statuses = filesystem.listStatus(paths)
        except Py4JJavaError as error:
            if not is_java(error, "java.io.FileNotFoundException"):
                raise
            if len(uris) == 1:
                return {uris[0]: None}
            merged: dict[str, list[Entry] | None] = {}
            for uri in uris:
                merged.update(self._list_chunk([uri]))
            return merged
        found: dict[str, list[Entry] | None] = {uri: [] for uri in uris}
        for entry in self._entries(statuses):
            parent = entry.uri.rpartition("/")[0]
            entries = found.get(parent)
            if entries is None:
                raise JobFailedError(f"listing {uris[0]} and others returned {entry.uri}, which is in none of them")
            entries.append(entry)
        return found

    def _entries(self, statuses: Any) -> Iterable[Entry]:
        paths = json.loads(self._mapper.writeValueAsString(self._file_util.stat2Paths(statuses)))
        texts = json.loads(self._mapper.writeValueAsString(statuses))
        for path, text in zip(paths, texts, strict=True):
            yield _entry(path, text)

    def make_directories(self, uri: str) -> None:
        """Create a directory and what is missing above it."""
        if not self._filesystem(uri).mkdirs(self._path(uri)):
            raise JobFailedError(f"cannot create {uri}; is a file of that name, or a fence, in its place?")

    def rename(self, source: str, target: str) -> None:
        """Rename a file; the target must not exist."""
        if not self._filesystem(source).rename(self._path(source), self._path(target)):
            raise JobFailedError(f"cannot rename {source} to {target}")

    def rename_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Rename many files, in threads."""
        in_threads(lambda pair: self.rename(*pair), list(pairs))

    def delete(self, uri: str) -> None:
        """Delete a file or directory with all it holds; nothing happens when it does not exist."""
        self._filesystem(uri).delete(self._path(uri), True)

    def read_text(self, uri: str) -> str | None:
        """The content of a small file, None when it does not exist."""
        with self._opened(uri) as stream:
            return None if stream is None else bytes(self._io_utils.toByteArray(stream)).decode()

    def size(self, uri: str) -> int:
        """Bytes of a file as they are now."""
        return int(self._filesystem(uri).getFileStatus(self._path(uri)).getLen())

    def last_long(self, uri: str) -> int | None:
        """The last 8-byte number of a file; 0 when there is none yet, None when there is no such file.

        A file that a Hive is writing on HDFS is longer than the name node knows; the stream does (as for Hive's
        OrcAcidUtils).
        """
        with self._opened(uri) as stream:
            if stream is None:
                return None
            size = int(stream.available())
            if size < _LONG:
                return 0
            stream.seek(size // _LONG * _LONG - _LONG)
            return int(stream.readLong())

    @contextlib.contextmanager
    def _opened(self, uri: str) -> Iterator[Any]:
        """A file to read from, None when there is no such file."""
        try:
            stream = self._filesystem(uri).open(self._path(uri))
        except Py4JJavaError as error:
            if not is_java(error, "java.io.FileNotFoundException"):
                raise
            stream = None
        try:
            yield stream
        finally:
            if stream is not None:
                stream.close()

    def reaches(self, uri: str, length: int) -> bool:
        """Whether so many bytes of a file can be read, also of one that is written, whatever its listed size is."""
        stream = self._filesystem(uri).open(self._path(uri))
        try:
            stream.seek(length - 1)
            return int(stream.read()) >= 0
        except Py4JJavaError as error:
            if is_java(error, "java.io.EOFException"):
                return False
            raise
        finally:
            stream.close()

    def copy_beginning(self, source: str, target: str, length: int, folder: str) -> None:
        """Copy the first bytes of a file to a new one in a new folder, which goes when the application ends."""
        filesystem = self._filesystem(target)
        self.make_directories(folder)
        filesystem.deleteOnExit(self._path(folder))
        reader = self._filesystem(source).open(self._path(source))
        try:
            writer = filesystem.create(self._path(target), False)
            try:
                self._io_utils.copyLarge(reader, writer, 0, length)
            finally:
                writer.close()
        finally:
            reader.close()

    def write_text(self, uri: str, text: str) -> None:
        """Create a file with this content, and what is missing above it; it must not exist."""
        if uri.startswith("file:"):
            # Without native code Hadoop starts a process (chmod) for each directory and file, and one for the checksums
            # beside it; ten thousand version files took minutes. The driver is on the same machine.
            path = Path("/" + uri.removeprefix("file:").lstrip("/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
            return
        with self._created(uri) as writer:
            writer.write(text)

    def write_bytes(self, uri: str, content: bytes) -> None:
        """Create a small file with this content; the directory must be there."""
        if uri.startswith("file:"):
            with Path("/" + uri.removeprefix("file:").lstrip("/")).open("xb") as file:
                file.write(content)
            return
        stream = self._filesystem(uri).create(self._path(uri), False)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def write_text_atomically(self, uri: str, text: str) -> None:
        """Create a file of a spool so that whoever sees its name sees its whole content."""
        folder, _, name = uri.rpartition("/")
        partial = f"{folder}/.{name}.partial"
        self.delete(partial)
        with self.writer(partial) as writer:
            writer.write(text)
        self.rename(partial, uri)

    def replace_text(self, uri: str, text: str) -> None:
        """Give a file of a spool another content, whether it is there or not; nobody sees it half written, or missing.

        HDFS and a disk rename over what is there; an object store shows what is written when it is whole.
        """
        scheme = uri.partition(":")[0]
        if scheme not in ("file", *_RENAMING):
            with TextWriter(self._filesystem(uri).create(self._path(uri), True)) as writer:
                writer.write(text)
            return
        folder, _, name = uri.rpartition("/")
        partial = f"{folder}/.{name}.partial"
        self.delete(partial)
        with self.writer(partial) as writer:
            writer.write(text)
        if scheme == "file":
            os.replace(*("/" + one.removeprefix("file:").lstrip("/") for one in (partial, uri)))
            return
        kinds = self.jvm.org.apache.hadoop.fs.Options.Rename
        options = self.gateway.new_array(kinds, 1)
        options[0] = kinds.OVERWRITE
        try:
            context = self.jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path(uri).toUri(), self._conf)
            context.rename(self._path(partial), self._path(uri), options)
        except Py4JJavaError:
            # A cluster's own class for the scheme may know no such rename; then it is missing for a moment.
            self.delete(uri)
            self.rename(partial, uri)

    def writer(self, uri: str) -> TextWriter:
        """A new file of a spool, for writing text piece by piece; on a disk it has the rights of its directory."""
        if uri.startswith("file:"):
            return TextWriter(os.fdopen(spool_files.create("/" + uri.removeprefix("file:").lstrip("/")), "wb"))
        return self._created(uri)

    def _created(self, uri: str) -> TextWriter:
        return TextWriter(self._filesystem(uri).create(self._path(uri), False))

    def class_name(self, java_object: Any) -> str:
        """The name of a Java object's class."""
        return str(java_object.getClass().getName())

    def new_array(self, java_class: Any) -> Any:
        """An empty Java array."""
        return self.gateway.new_array(java_class, 0)

    @property
    def conf(self) -> Any:
        """Hadoop's configuration of the application; copy it before changing anything."""
        return self._conf


@lru_cache(maxsize=1)
def _of_application(context: SparkContext) -> HadoopFilesystem:
    return HadoopFilesystem(context._gateway, java_names(context), context._jsc.hadoopConfiguration())


class TextWriter:
    """Text into a Hadoop output stream, in large pieces."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._pieces: list[bytes] = []
        self._pending = 0

    def __enter__(self) -> TextWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, text: str) -> None:
        """Append text."""
        piece = text.encode()
        self._pieces.append(piece)
        self._pending += len(piece)
        if self._pending >= _COPY_BUFFER:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._stream.write(bytearray(b"".join(self._pieces)))
            self._pieces, self._pending = [], 0

    def close(self) -> None:
        """Write what is left and close the file."""
        try:
            self._flush()
        finally:
            self._stream.close()


def in_threads(call: Callable[[S], R], items: Sequence[S]) -> list[R]:
    """``[call(item) for item in items]``, several at a time; the first error is raised."""
    if len(items) < 2:
        return [call(item) for item in items]
    with ThreadPoolExecutor(min(_THREADS, len(items)), thread_name_prefix="hadoop") as pool:
        return list(pool.map(call, items))


def _entry(path: str, text: str) -> Entry:
    """Read a FileStatus's text; its path is known, so nothing in a file name can mislead."""
    marker = "{path=" + path + "; "
    rest = text[text.index(marker) + len(marker) :]
    fields = dict(part.split("=", 1) for part in rest.split("; ", 3)[:2])
    is_directory = fields["isDirectory"] == "true"
    return Entry(path, 0 if is_directory else int(fields["length"]), is_directory)
