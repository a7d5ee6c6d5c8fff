"""Reads that compare what they list with what there ought to be (``hive.acid.read.verify``).

The control plane says what it knows (``TableSnapshot.expected``); the rules are those of ``format.row_counts``, which
the doctor keeps, too. If numbers of rows are wanted, the ends of all files are read, by several threads of the driver:
a footer that contradicts itself is refused with or without the optional jar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import FilesGoneError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.row_counts import CountedRows, count_live, counted_files, differs, missing_files
from airflow_hive_acid.spark.hadoop import in_threads

if TYPE_CHECKING:
    from airflow_hive_acid.format.acid_state import AcidState
    from airflow_hive_acid.format.jobs import Expected, PartitionRef, TableSnapshot
    from airflow_hive_acid.spark.hadoop import HadoopFilesystem

_SHOWN = 10
"""So many directories a message names."""


def verify(
    fs: HadoopFilesystem, snapshot: TableSnapshot, partition: PartitionRef, root: str, state: AcidState
) -> None:  # fmt: skip
    """Compare what a snapshot sees of a table or partition with what it ought to see, if that is wanted.

    :param root: the partition's directory, as listings spell it.
    :raises FilesGoneError: when files are gone, or the rows are not those that commits have counted.
    :raises CorruptTableError: for a file whose footer cannot be read or contradicts itself.
    """
    expected = (snapshot.expected or {}).get(partition.name)
    if expected is None:
        return
    of = f"partition {partition.name} of {snapshot.table}" if partition.name else snapshot.table
    gone = missing_files(state, expected.published)
    if gone:
        lost = ", ".join(paths.join(root, one.path) for one in gone[:_SHOWN])
        more = f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
        raise FilesGoneError(
            f"{of}: {lost}{more}: published by a txn that has committed, and gone. {_what_to_do(snapshot)}"
        )
    if not expected.footers:
        return
    text = differs(_counted(expected), _live(fs, snapshot, root, state))
    if text is not None:
        there = [directory.name for directory in (*state.inserts, *state.deletes)]
        listed = ", ".join(there[:_SHOWN]) + (f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else "")
        raise FilesGoneError(
            f"{of}: {text}. There are, in {root}: {listed or 'no directories'}. {_what_to_do(snapshot)}"
        )


def _counted(expected: Expected) -> CountedRows | None:
    return None if expected.rows is None else CountedRows(expected.rows, expected.claimed)


def _live(fs: HadoopFilesystem, snapshot: TableSnapshot, root: str, state: AcidState) -> int | None:
    """The rows that the footers tell; each of them is looked at, whether or not their sum means something."""
    if snapshot.format not in ("orc", "parquet"):
        return None
    files = counted_files(state, insert_only=snapshot.insert_only)
    uris = [paths.join(root, entry.path) for entry in files]
    if not snapshot.insert_only:
        rows = [events.rows for events in in_threads(fs.footers.orc_events, uris)]
    else:
        rows = in_threads(fs.footers.orc_rows if snapshot.format == "orc" else fs.footers.parquet_rows, uris)
    known = dict(zip((entry.path for entry in files), rows, strict=True))
    return count_live(state, lambda entry: known.get(entry.path), insert_only=snapshot.insert_only)


def _what_to_do(snapshot: TableSnapshot) -> str:
    return (
        f"Do not compact the table. Look with hive-acid doctor {snapshot.table}, and restore what is missing; if "
        "nothing is, let a Hive count (ANALYZE TABLE … COMPUTE STATISTICS), or read with hive.acid.read.verify = off"
    )
