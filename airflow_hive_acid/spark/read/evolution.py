"""Columns that were renamed since a file was written: Hive resolves the columns of ACID files by position.

Spark resolves them by name, which is the same as long as columns were only added at the end or widened. Of a table
that was never altered the oldest data file shows it. Of one that was, every file is asked for its names, and each group
of files with the same names is read under those: a column may have had another name for a while, and the oldest
directory may be the compaction of rows that were there before a rename, written after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.hadoop import in_threads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.spark.hadoop import HadoopFilesystem
    from airflow_hive_acid.spark.read.data_files import EventFile

FileNames = tuple[str, ...]


def renamed_columns(
    fs: HadoopFilesystem, files: Sequence[EventFile], columns: Sequence[schema.TableColumn], *, altered: bool
) -> dict[str, FileNames]:
    """The column names in each file that has others than the table; empty for most tables.

    :param altered: whether the table may have been altered since it was made. If not, one file speaks for all.
    """
    if not files:
        return {}
    oldest = min(files, key=lambda f: (f.min_write_id, f.max_write_id))
    known = fs.footers.orc_row_names(oldest.uri)
    if not altered and len(known) >= len(columns) and _agree(known, columns):
        return {}
    names = in_threads(lambda f: tuple(fs.footers.orc_row_names(f.uri)), files)
    return {f.uri: found for f, found in zip(files, names, strict=True) if not _agree(found, columns)}


def by_names(files: Sequence[EventFile], renamed: Mapping[str, FileNames]) -> dict[FileNames | None, list[EventFile]]:
    """Files grouped by the names under which to read them; None stands for the table's own."""
    groups: dict[FileNames | None, list[EventFile]] = {}
    for file in files:
        groups.setdefault(renamed.get(file.uri), []).append(file)
    return groups


def row_in_file(row: T.StructType, names: FileNames) -> T.StructType:
    """The table's row under the names of a file; columns that came later are missing, dropped ones are not read."""
    return T.StructType([T.StructField(n, f.dataType) for n, f in zip(names, row.fields, strict=False)])


def row_of_table(row: T.StructType, names: FileNames) -> str:
    """The ``row`` field of such a file as the table's row, by position."""
    fields = []
    for i, field in enumerate(row.fields):
        value = schema.quoted(schema.ROW, names[i]) if i < len(names) else "null"
        fields.append(f"cast({value} as {schema.sql_type(field.dataType)}) as {schema.quoted(field.name)}")
    return f"struct({', '.join(fields)}) as row"


def _agree(names: Sequence[str], columns: Sequence[schema.TableColumn]) -> bool:
    """Whether position and name lead to the same columns."""
    return [n.lower() for n in names] == [c.name for c in columns[: len(names)]]
