"""Files that a streaming writer has not closed: only what its side file vouches for is part of the table.

``bucket_N_flush_length`` holds 8-byte lengths, one for each flush; the last one counts (Hive's OrcAcidUtils). Bytes
behind it belong to a transaction that may never commit, and need not end in a readable footer. Spark's ORC source has
no option for that, so of such a file the part that counts is copied into a hidden directory beside it. It is removed
when the application ends; what a killed one leaves goes with the delta, by its name. Writers flush and close before
they commit, so this is rare.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CorruptTableError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import FLUSH_LENGTH_SUFFIX, flushed_copy_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.format.acid_state import StateDirectory
    from airflow_hive_acid.spark.files import EventFile
    from airflow_hive_acid.spark.hadoop import HadoopFilesystem


def flushed(fs: HadoopFilesystem, directory: StateDirectory, root: str, files: Sequence[EventFile]) -> list[EventFile]:
    """The files of one directory, cut to the lengths of their side files; those with nothing flushed are left out.

    :raises CorruptTableError: when a file is shorter than what was flushed into it.
    """
    named = directory.directory
    if named.min_write_id == named.max_write_id or directory.compacted:
        return list(files)  # one transaction, and its commit vouches for the whole file
    sides = {paths.join(root, e.path): e.size for e in directory.files if e.path.endswith(FLUSH_LENGTH_SUFFIX)}
    if not sides:
        return list(files)
    found = []
    for file in files:
        side = file.uri + FLUSH_LENGTH_SUFFIX
        length = file.size if side not in sides else fs.last_long(side, sides[side])
        if length > file.size:
            raise CorruptTableError(
                f"{file.uri} has {file.size} bytes, and {length} were flushed into it: rows of committed transactions "
                "are missing; restore the file"
            )
        if length == file.size:
            found.append(file)
        elif length > 0:
            aside = paths.join(root, flushed_copy_name(directory.name, str(uuid.uuid4())))
            copy = paths.join(aside, file.uri.rpartition("/")[2])
            fs.copy_beginning(file.uri, copy, length, aside)
            found.append(replace(file, uri=copy, size=length))
    return found
