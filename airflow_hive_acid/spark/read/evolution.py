"""Columns that were renamed since a file was written: Hive resolves the columns of ORC files by position.

Spark resolves them by name, which is the same as long as columns were only added at the end or widened. Of a table
that was never altered the oldest data file shows it. Of one that was, every file is asked for its names, and each group
of files with the same names is read under those: a column may have had another name for a while, and the oldest
directory may be the compaction of rows that were there before a rename, written after it.

Files all of whose columns are called ``_col0``, ``_col1``, … have no names to orc-core: it reads them by position, and
so all columns have to be asked for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pyspark.sql import types as T

from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.hadoop import in_threads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from pyspark.sql import SparkSession

    from airflow_hive_acid.spark.hadoop import HadoopFilesystem
    from airflow_hive_acid.spark.read.data_files import EventFile

FileNames = tuple[str, ...]
_NAMELESS = re.compile(r"_col[0-9]+")
_TEXTS = ("string", "char", "varchar")


class _HasUri(Protocol):
    @property
    def uri(self) -> str: ...


_F = TypeVar("_F", bound=_HasUri)


def renamed_columns(
    fs: HadoopFilesystem, files: Sequence[EventFile], columns: Sequence[schema.TableColumn], *, altered: bool
) -> dict[str, FileNames]:
    """The column names in each file that has others than the table, or none; empty for most tables.

    :param altered: whether the table may have been altered since it was made. If not, one file speaks for all.
    """
    if not files:
        return {}
    oldest = min(files, key=lambda f: (f.min_write_id, f.max_write_id))
    known = fs.footers.orc_row_names(oldest.uri)
    if not altered and len(known) >= len(columns) and _agree(known, columns) and not is_nameless(known):
        return {}
    names = in_threads(lambda f: tuple(fs.footers.orc_row_names(f.uri)), files)
    return {
        f.uri: found for f, found in zip(files, names, strict=True) if is_nameless(found) or not _agree(found, columns)
    }


class StoredColumn(NamedTuple):
    """A column of a table in a file without ACID columns.

    :param name: what it is called there; None where the file does not have it.
    :param is_other: whether a column of texts is something else there. Spark would judge conditions on it by the type
        in the file, and fail.
    """

    name: str | None
    is_other: bool


def stored_columns(
    fs: HadoopFilesystem,
    files: Sequence[_F],
    columns: Sequence[schema.TableColumn],
    *,
    altered: bool,
    own: bool = False,
    origins: Sequence[object] = (),
) -> dict[str, tuple[StoredColumn, ...]]:
    """The table's columns in each ORC file without ACID columns where they are not what Spark finds by name.

    By position, as a Hive does. But such files may have been there before the table, with other columns or in another
    order: where that is so, their names are believed. Spark itself reads files without names by position.

    :param altered: whether the table may have been altered since it was made. If not, one file of each origin speaks
        for all.
    :param own: whether all files are found by position: they were written for the table, or loaded into it.
    :param origins: of each file, who may have written it; None: nobody else than the others. LOAD DATA brings files
        whose columns are called as somebody else called them.
    """

    def stored_in(file: _F) -> tuple[StoredColumn, ...]:
        return _stored(fs.footers.orc_columns(file.uri), columns, own=own)

    known: dict[str, tuple[StoredColumn, ...]] = {}
    if not altered:
        first = {origins[i] if origins else None: files[i] for i in reversed(range(len(files)))}
        looked = in_threads(stored_in, list(first.values()))
        known = {f.uri: stored for f, stored in zip(first.values(), looked, strict=True)}
        if not any(known.values()):
            return {}
    others = [file for file in files if file.uri not in known]
    known |= {f.uri: stored for f, stored in zip(others, in_threads(stored_in, others), strict=True)}
    return {file.uri: known[file.uri] for file in files if known[file.uri]}


def _stored(
    fields: Sequence[tuple[str, str]], columns: Sequence[schema.TableColumn], *, own: bool
) -> tuple[StoredColumn, ...]:
    """Nothing where Spark finds them by itself."""
    names = [name for name, _ in fields]
    if is_nameless(names):
        return ()
    known = {name.lower(): i for i, name in enumerate(names)}
    by_place = own or _only_renamed(names, known.keys(), columns)
    places = [(i if i < len(names) else -1) if by_place else known.get(c.name, -1) for i, c in enumerate(columns)]
    stored = tuple(
        StoredColumn(None, False)
        if at < 0
        else StoredColumn(names[at], isinstance(c.type, T.StringType) and not fields[at][1].startswith(_TEXTS))
        for at, c in zip(places, columns, strict=True)
    )
    same = all(known.get(c.name, -1) == at for c, at in zip(columns, places, strict=True))
    return () if same and not any(s.is_other for s in stored) else stored


def _only_renamed(names: Sequence[str], stored: Set[str], columns: Sequence[schema.TableColumn]) -> bool:
    """Whether the names of a file and those of the table differ as if columns had been renamed and added.

    :param stored: the names of the file, in lower case.
    """
    known = {c.name for c in columns}
    return all(
        name.lower() == column.name or (name.lower() not in known and column.name not in stored)
        for name, column in zip(names, columns, strict=False)
    )


def retyped_columns(
    spark: SparkSession, fs: HadoopFilesystem, files: Sequence[_F], row: T.StructType
) -> dict[str, T.StructType]:
    """The columns in each Parquet file that has some of another type than the table.

    Spark reads few types as another one there; orc-core converts by itself.

    :param row: the columns of the table.
    """
    java: Any = spark._jsparkSession
    conf = java.sessionState().conf()
    found = in_threads(lambda f: fs.footers.parquet_types(f.uri, conf), files)
    stored = [
        T.StructType([T.StructField(f.name, _read_as(types.get(f.name.lower()), f.dataType)) for f in row.fields])
        for types in found
    ]
    return {file.uri: types for file, types in zip(files, stored, strict=True) if types != row}


def _read_as(stored: Any, wanted: T.DataType) -> T.DataType:
    """The type under which to read a column of a Parquet file: numbers as numbers, and what may become a text."""
    if not isinstance(stored, str) or not isinstance(wanted, T.NumericType | T.StringType):
        return wanted
    field = {"name": "c", "type": stored, "nullable": True, "metadata": {}}
    found = T.StructType.fromJson({"type": "struct", "fields": [field]})[0].dataType
    if isinstance(found, T.IntegerType) and isinstance(wanted, T.ByteType | T.ShortType):
        return wanted  # a Hive stores what is smaller as an int
    texts = (T.BooleanType, T.DateType, T.TimestampType) if isinstance(wanted, T.StringType) else ()
    return found if isinstance(found, (T.NumericType, *texts)) else wanted


def is_nameless(names: Sequence[str]) -> bool:
    """Whether orc-core reads a file with these columns by position."""
    return all(_NAMELESS.fullmatch(name) for name in names)


def by_names(files: Sequence[_F], renamed: Mapping[str, FileNames]) -> dict[FileNames | None, list[_F]]:
    """Files grouped by the names under which to read them; None stands for the table's own."""
    groups: dict[FileNames | None, list[_F]] = {}
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


def plain_row_in_file(row: T.StructType, stored: Sequence[StoredColumn]) -> T.StructType:
    """The table's columns that a file has, under its names."""
    found = zip(row.fields, stored, strict=True)
    return T.StructType([T.StructField(s.name, f.dataType) for f, s in found if s.name is not None])


def plain_columns_of_table(row: T.StructType, stored: Sequence[StoredColumn]) -> list[str]:
    """The table's columns from those of a file."""
    fields = []
    for field, (name, is_other) in zip(row.fields, stored, strict=True):
        value = "null" if name is None else schema.quoted(name)
        # Nothing but a text of itself: no condition on it goes into the scan.
        text = f"concat({value}, '')" if is_other else f"cast({value} as {schema.sql_type(field.dataType)})"
        fields.append(f"{text} as {schema.quoted(field.name)}")
    return fields


def whole_row() -> str:
    """The ``row`` field in a way that nothing of it is left out of the scan, whichever columns are asked for."""
    return f"element_at(transform(array({schema.ROW}), r -> r), 1) as {schema.ROW}"


def _agree(names: Sequence[str], columns: Sequence[schema.TableColumn]) -> bool:
    """Whether position and name lead to the same columns."""
    return [n.lower() for n in names] == [c.name for c in columns[: len(names)]]
