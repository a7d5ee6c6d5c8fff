"""The files of transaction batches: one per partition and bucket, open from the first txn that writes to it to the end.

Hive's streaming writer keeps an ORC file open for several txns and ends each with a footer in the middle of the file
(``writeIntermediateFooter``), whose end is the flush length. So does this one: rows are written by Spark as those of
any insert, into staging, and copied from there column batch by column batch; nothing is called per row. A file is begun
in the staging of the txn that needs it first, and the control plane moves it to its place while it stays open; from
then on every txn stages nothing but the side file with the new lengths (decision 33). What this process writes counts
only when such a side file is moved: a writer that was given up can append what it wants (R4).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.jobs import WrittenDirectory, WrittenFile
from airflow_hive_acid.format.names import FLUSH_LENGTH_SUFFIX, bucket_file_name, delta_name, parse_bucket_file
from airflow_hive_acid.spark.java_errors import java_message
from airflow_hive_acid.spark.write import insert
from airflow_hive_acid.spark.write.output import Destination, Staging, orc_options, start_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import Append, CloseBatch
    from airflow_hive_acid.spark.hadoop import HadoopFilesystem

_LOCAL = "file:"
_HDFS_STREAM = "org.apache.hadoop.hdfs.client.HdfsDataOutputStream"


@dataclass(slots=True)
class OpenFile:
    """A bucket file that is being written.

    :param writer: ORC's writer in the JVM; ``stream`` is what it writes to.
    :param lengths: the flush lengths so far, in bytes.
    :param rows: rows in it.
    """

    writer: Any
    stream: Any
    lengths: list[int] = field(default_factory=list)
    rows: int = 0


@dataclass(slots=True)
class OpenFiles:
    """The open files of one batch, by directory and bucket number.

    :param broken: why nothing can be appended any more.
    """

    files: dict[Destination, dict[int, OpenFile]] = field(default_factory=dict)
    broken: str | None = None


_open: dict[str, OpenFiles] = {}


def append(spark: SparkSession, step: Append, staging: Staging) -> list[WrittenDirectory]:
    """Run an insert and append its rows to the open files of its batch; flush them.

    :return: the directories written to; ``bytes`` of a file is its new flush length, ``rows`` those of this txn.
    :raises HiveAcidError: what the insert raises; nothing of it is in the files of the batch then.
    :raises JobFailedError: when a file could not be written; the batch takes no more rows.
    """
    batch = _open.setdefault(step.batch, OpenFiles())
    if batch.broken is not None:
        raise JobFailedError(f"batch {step.batch} takes no more rows: {batch.broken}")
    scratch = Staging(staging.fs, staging.scratch("rows"))
    written = insert.insert(spark, step.insert, scratch)
    name = delta_name(step.min_write_id, step.max_write_id)
    try:
        found = [_append_directory(step, directory, scratch, staging, batch, name) for directory in written]
    except BaseException as failure:
        batch.broken = f"a file could not be written ({failure})"
        if isinstance(failure, Py4JJavaError):
            raise JobFailedError(f"batch {step.batch}: {java_message(failure)}") from failure
        raise
    staging.fs.delete(scratch.root)
    return found


def close(step: CloseBatch) -> list[WrittenDirectory]:
    """Finish the files of a batch.

    :return: the directories with all rows and the last flush lengths; nothing when the batch is given up.
    """
    batch = _open.pop(step.batch, OpenFiles())
    finished = []
    for destination, files in sorted(batch.files.items(), key=lambda item: item[0]):
        for file in files.values():
            _finish(file, discard=step.discard)
        closed = tuple(WrittenFile(bucket_file_name(b), f.rows, f.lengths[-1]) for b, f in sorted(files.items()))
        finished.append(WrittenDirectory(destination.partition, destination.values, destination.name, closed))
    return [] if step.discard else finished


def _append_directory(
    step: Append, written: WrittenDirectory, scratch: Staging, staging: Staging, batch: OpenFiles, name: str
) -> WrittenDirectory:
    source = scratch.directory(Destination(written.partition, written.values, written.name))
    destination = Destination(written.partition, written.values, name)
    place, files = staging.directory(destination), batch.files.setdefault(destination, {})
    flushed = []
    if files:
        staging.fs.make_directories(place)
    else:
        start_directory(staging, destination)
    for file in written.files:
        parsed = parse_bucket_file(file.name)
        if parsed is None:
            raise InvalidArgumentsError(f"{file.name} is no bucket file")
        target = paths.join(place, file.name)
        if parsed.bucket not in files:
            files[parsed.bucket] = _opened(staging.fs, paths.join(source, file.name), target, step.target.properties)
        opened = files[parsed.bucket]
        _copy_rows(staging.fs, paths.join(source, file.name), opened.writer)
        opened.rows += file.rows
        _note(staging.fs, opened)
        opened.lengths.append(int(opened.writer.writeIntermediateFooter()))
        _tell_length(staging.fs, opened)
        if int(opened.writer.getNumberOfRows()) != opened.rows:
            raise JobFailedError(f"{target} has {opened.writer.getNumberOfRows()} rows instead of {opened.rows}")
        # As Hive's stream of longs, of which the last one counts.
        lengths = struct.pack(f">{len(opened.lengths)}q", *opened.lengths)
        staging.fs.write_bytes(target + FLUSH_LENGTH_SUFFIX, lengths)
        flushed.append(WrittenFile(file.name, file.rows, opened.lengths[-1]))
    return WrittenDirectory(written.partition, written.values, name, tuple(flushed))


def _opened(fs: HadoopFilesystem, like: str, target: str, properties: Mapping[str, str]) -> OpenFile:
    """A new file, for events like those of another file."""
    jvm, conf = fs.jvm, fs.jvm.org.apache.hadoop.conf.Configuration(fs.conf)
    options = orc_options(properties)
    codec = options.pop("compression").upper()
    for key, value in options.items():
        conf.set(key, value)
    conf.set("orc.compress", "NONE" if codec == "UNCOMPRESSED" else codec)
    reader = fs.footers.orc_reader(like)
    try:
        schema = reader.getSchema()
    finally:
        reader.close()
    path = jvm.org.apache.hadoop.fs.Path(target)
    filesystem = path.getFileSystem(conf)
    if target.startswith((_LOCAL, "/")):
        # Checksums beside it would be those of an older length, and flushing does not write them.
        filesystem = filesystem.getRawFileSystem()
    stream = filesystem.create(path, False)
    orc = jvm.org.apache.orc
    wanted = orc.OrcFile.writerOptions(conf).setSchema(schema).fileSystem(filesystem)
    no_keys = fs.new_array(orc.impl.writer.WriterEncryptionVariant)
    wanted.physicalWriter(orc.impl.PhysicalFsWriter(stream, wanted, no_keys))
    return OpenFile(orc.OrcFile.createWriter(path, wanted), stream)


def _tell_length(fs: HadoopFilesystem, file: OpenFile) -> None:
    """Let others see how long the file is by now: HDFS tells the length of an open file only if asked to."""
    hdfs = fs.jvm.org.apache.hadoop.hdfs.client
    if fs.class_name(file.stream).startswith(_HDFS_STREAM):
        file.stream.hsync(fs.jvm.java.util.EnumSet.of(hdfs.HdfsDataOutputStream.SyncFlag.UPDATE_LENGTH))


def _note(fs: HadoopFilesystem, file: OpenFile) -> None:
    """What Hive's own writer leaves in a footer, but for the key index, which must be exact or absent (R18)."""
    wrap = fs.jvm.java.nio.ByteBuffer.wrap
    file.writer.addUserMetadata("hive.acid.stats", wrap(bytearray(f"{file.rows},0,0".encode())))
    file.writer.addUserMetadata("hive.acid.version", wrap(bytearray(b"2")))


def _copy_rows(fs: HadoopFilesystem, source: str, writer: Any) -> None:
    """Append all rows of a file: two calls for a thousand rows."""
    reader = fs.footers.orc_reader(source)
    try:
        batch, records = reader.getSchema().createRowBatch(), reader.rows()
        try:
            while records.nextBatch(batch):
                writer.addRowBatch(batch)
        finally:
            records.close()
    finally:
        reader.close()


def _finish(file: OpenFile, *, discard: bool) -> None:
    """Close a file; of one that is given up its side file says what counts."""
    try:
        file.writer.close()
    except Py4JJavaError as failure:
        if not discard:
            raise JobFailedError(f"a file of the batch could not be closed: {java_message(failure)}") from failure
