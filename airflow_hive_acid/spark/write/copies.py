"""Copies files through Hadoop's FileSystem, as distcp does: the list is spread over tasks, and each copies its files.

The bytes are copied and hashed inside the executors' JVMs by a static method of the optional jar, which Spark's own
``reflect`` calls row by row. Without the jar the driver does the same in threads, with what Hadoop and Java bring; the
files then all go through the driver. Either way a file is read at its source, written, read again at its target, and
both checksums must agree; a target that is whole already is kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from airflow_hive_acid.errors import CopyFailedError, CorruptDumpError
from airflow_hive_acid.format.jobs import CopiedFile
from airflow_hive_acid.spark.accelerator import accelerator
from airflow_hive_acid.spark.hadoop import in_threads
from airflow_hive_acid.spark.java_errors import is_java
from airflow_hive_acid.spark.java_names import java_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import Copy

_CLASS = "hiveacid.copy.Copier"
_BUFFER = 1 << 20


def copy(spark: SparkSession, step: Copy) -> tuple[CopiedFile, ...]:
    """Copy the files of a step.

    :raises CopyFailedError: when a file vanished, changed, or did not arrive as it was sent.
    :raises CorruptDumpError: when a source is not the file of its checksum.
    """
    answers = _in_tasks(spark, step) if accelerator(spark) is not None else _in_driver(spark, step)
    return tuple(_checked(file, answer) for file, answer in zip(step.files, answers, strict=True))


def _in_tasks(spark: SparkSession, step: Copy) -> list[str]:
    """A row per file; so many partitions that a large file does not wait behind others."""
    from pyspark.sql import functions as f

    cores = max(1, spark.sparkContext.defaultParallelism)
    # The largest first, dealt out in turn: no task gets all the large ones.
    order = sorted(range(len(step.files)), key=lambda index: -step.files[index].size)
    parts = min(len(order), cores * 4)
    dealt = [index for part in range(parts) for index in order[part::parts]]
    rows = [(i, step.files[i].source, step.files[i].target, step.files[i].checksum or "") for i in dealt]
    frame = spark.createDataFrame(spark.sparkContext.parallelize(rows, parts), "i int, s string, t string, c string")
    call = f.call_function("reflect", f.lit(_CLASS), f.lit("copy"), f.col("s"), f.col("t"), f.col("c"))
    found = {row[0]: row[1] for row in frame.select("i", call.alias("answer")).collect()}
    return [found[index] for index in range(len(step.files))]


def _in_driver(spark: SparkSession, step: Copy) -> list[str]:
    copier = _DriverCopier(spark)
    return in_threads(copier.copy, list(step.files))


class _DriverCopier:
    """Copies with Hadoop's streams, called from Python: a dozen calls per file, however long it is."""

    def __init__(self, spark: SparkSession) -> None:
        jvm = java_names(spark)
        self._conf = spark.sparkContext._jsc.hadoopConfiguration()
        self._path = jvm.org.apache.hadoop.fs.Path
        self._copy_bytes = jvm.org.apache.hadoop.io.IOUtils.copyBytes
        self._digest_of = jvm.java.security.MessageDigest.getInstance
        self._hashing = jvm.java.security.DigestInputStream
        self._nowhere = jvm.java.io.OutputStream.nullOutputStream

    def copy(self, file: CopiedFile) -> str:
        """As :mod:`hiveacid.copy.Copier` answers."""
        try:
            known = file.checksum or self._hash(file.source)
            if self._length(file.target) == self._length(file.source) and self._hash(file.target) == known:
                return json.dumps({"checksum": known, "size": self._length(file.target), "reused": True})
            read = self._transfer(file)
            written = self._hash(file.target)
            return json.dumps({"checksum": read, "written": written, "size": self._length(file.target)})
        except Py4JJavaError as error:
            if is_java(error, "java.io.FileNotFoundException"):
                return json.dumps({"missing": str(error.java_exception.getMessage())})
            raise

    def _filesystem(self, uri: str) -> Any:
        """Local files without the checksum files that Hadoop keeps beside them: others write these files, too."""
        filesystem = self._path(uri).getFileSystem(self._conf)
        is_local = filesystem.getClass().getName() == "org.apache.hadoop.fs.LocalFileSystem"
        return filesystem.getRawFileSystem() if is_local else filesystem

    def _length(self, uri: str) -> int:
        filesystem, path = self._filesystem(uri), self._path(uri)
        return int(filesystem.getFileStatus(path).getLen()) if filesystem.exists(path) else -1

    def _hash(self, uri: str) -> str:
        return self._pump(uri, self._nowhere())

    def _transfer(self, file: CopiedFile) -> str:
        return self._pump(file.source, self._filesystem(file.target).create(self._path(file.target), True))

    def _pump(self, source: str, output: Any) -> str:
        digest = self._digest_of("SHA-256")
        try:
            stream = self._hashing(self._filesystem(source).open(self._path(source)), digest)
            try:
                self._copy_bytes(stream, output, _BUFFER, False)
            finally:
                stream.close()
        finally:
            output.close()
        return f"sha256:{bytes(digest.digest()).hex()}"


def _checked(file: CopiedFile, answer: str) -> CopiedFile:
    said = json.loads(answer)
    if "missing" in said:
        raise CopyFailedError(f"{file.source} is not there any more ({said['missing']}); export again")
    if said["size"] != file.size:
        raise CopyFailedError(
            f"{file.source} has {said['size']} bytes instead of {file.size}: it was changed while it was copied; "
            "export again"
        )
    if file.checksum is not None and said["checksum"] != file.checksum:
        raise CorruptDumpError(
            f"{file.source} is not the file that was exported: its checksum is not {file.checksum}; copy the dump "
            "again, or export again"
        )
    if said.get("written", said["checksum"]) != said["checksum"]:
        raise CopyFailedError(f"{file.target} does not hold what was written to it; try again")
    return CopiedFile(file.source, file.target, file.size, said["checksum"], bool(said.get("reused")))
