"""Files that a streaming writer has not closed: only what its side file vouches for is part of the table.

``bucket_N_flush_length`` holds 8-byte lengths, one for each flush; the last one counts (Hive's OrcAcidUtils). Bytes
behind it belong to a transaction that may never commit, and need not end in a readable footer. Spark's ORC source has
no option for that, so of such a file the part that counts is copied into a hidden directory: of a job that has staging
into that, otherwise beside the file. It is removed when the application ends; what a killed one leaves goes with the
staging, or with the delta, by its name. Writers remove the side file when
they close theirs, so only files of batches that are open, or were given up, are copied.

A writer works on while we look. What it flushes after our listing belongs to txns that no snapshot of ours sees, so any
length that was valid since the listing will do. The length is read before the size, because files only grow.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CorruptTableError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import FLUSH_LENGTH_SUFFIX, DirectoryKind, flushed_copy_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.format.acid_state import StateDirectory
    from airflow_hive_acid.spark.hadoop import HadoopFilesystem
    from airflow_hive_acid.spark.read.data_files import EventFile


def flushed(fs: HadoopFilesystem, directory: StateDirectory, root: str, files: Sequence[EventFile]) -> list[EventFile]:
    """The files of one directory, cut to the lengths of their side files; those with nothing flushed are left out.

    :param root: where directories with copies are made: the partition, or the staging of a job.
    :raises CorruptTableError: when a file is shorter than what was flushed into it, or that is no length.
    """
    named = directory.directory
    is_base = named.kind is DirectoryKind.BASE
    if is_base or named.min_write_id == named.max_write_id or directory.compacted:
        return list(files)  # one transaction, and its commit vouches for the whole file
    found = []
    for file in files:
        # Asked for even if it was not listed: it may have come between the two, and a listing is no moment in time.
        length = fs.last_long(file.uri + FLUSH_LENGTH_SUFFIX)
        if length is None:
            # There was none, or the writer has closed the file meanwhile; it is longer now than it was listed.
            size = fs.size(file.uri)
            found += [replace(file, size=size)] if size else []
            continue
        if length < 0:
            raise CorruptTableError(
                f"{file.uri}{FLUSH_LENGTH_SUFFIX} says that {length} bytes were flushed; restore the file, or that of "
                "the table"
            )
        size = fs.size(file.uri)
        if length > size and not fs.reaches(file.uri, length):
            raise CorruptTableError(
                f"{file.uri} has {size} bytes, and {length} were flushed into it: rows of committed transactions "
                "are missing; restore the file"
            )
        if length > 0:
            # Also when it is all of the file: by the time it is read there may be more.
            aside = paths.join(root, flushed_copy_name(directory.name, str(uuid.uuid4())))
            copy = paths.join(aside, file.uri.rpartition("/")[2])
            fs.copy_beginning(file.uri, copy, length, aside)
            found.append(replace(file, uri=copy, size=length))
    return found
