"""Files from before a table was transactional, or brought in by LOAD DATA: no ACID columns, synthetic ROW__IDs.

Hive numbers the rows of all files of one bucket in path order: ``000000_0``, then ``000000_0_copy_1`` …; their write
id is 0 in a converted table, else the one of the directory they lie in. Numbers must be Hive's exactly, because
delete events name them (OrcRawRecordMerger.OriginalReaderPair).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from airflow_hive_acid.format.buckets import encode_bucket
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.events import task_row_number
from airflow_hive_acid.spark.hadoop import HadoopFilesystem, in_threads
from airflow_hive_acid.spark.read.scan import (
    PATH,
    ScanFile,
    found_or_fail,
    lookup_table,
    metadata_path,
    read_files_whole,
    scan_plain,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.spark.read.data_files import OriginalDataFile
    from airflow_hive_acid.spark.read.open_tables import OpenTable

_NUMBER = f"{schema.INTERNAL_PREFIX}number"
_KNOWN_PATH = f"{schema.INTERNAL_PREFIX}original_path"
_WRITE_ID = f"{schema.INTERNAL_PREFIX}original_write_id"
_BUCKET = f"{schema.INTERNAL_PREFIX}original_bucket"
_OFFSET = f"{schema.INTERNAL_PREFIX}offset"
_LOOKUP = T.StructType(
    [
        T.StructField(_KNOWN_PATH, T.StringType()),
        T.StructField(_WRITE_ID, T.LongType()),
        T.StructField(_BUCKET, T.IntegerType()),
        T.StructField(_OFFSET, T.LongType()),
    ]
)


def rows(spark: SparkSession, table: OpenTable, files: Sequence[OriginalDataFile], identity: bool) -> DataFrame:
    """The rows of original files as insert events: ``row``, partition columns and, if wanted, the identity columns.

    :param files: in path order, and all files of their buckets: rows are counted through them.
    :param identity: number the rows. Files are then read whole, one task each.
    """
    row = schema.row_type(table.columns)
    wanted = [ScanFile(f.uri, f.partition) for f in files]
    nested = f"struct({', '.join(schema.quoted(name) for name in row.names)}) as row"
    others = [schema.PARTITION, *table.partitions.internal_names]
    if not identity:
        nothing = [f"cast(null as {schema.header_type(n).simpleString()}) as {n}" for n in schema.HEADER]
        return scan_plain(spark, row, wanted, table.partitions, table.stored).selectExpr(*nothing, nested, *others)
    read_files_whole(spark, max(f.size for f in files))
    # The number must be taken before anything can filter rows: the projection is not deterministic, so no predicate
    # passes below it.
    number = f"{task_row_number()} as {_NUMBER}"
    numbered = scan_plain(spark, row, wanted, table.partitions, table.stored).selectExpr("*", number)
    known = lookup_table(spark, _identities(HadoopFilesystem.of(spark), files), _LOOKUP)
    joined = numbered.join(F.broadcast(known), F.expr(f"{PATH} = {_KNOWN_PATH}"), "left")
    write_id = found_or_fail(_WRITE_ID, "no row numbers are known for file")
    return joined.selectExpr(
        f"{schema.INSERTED} as operation",
        f"{write_id} as originalTransaction",
        f"{_BUCKET} as bucket",
        f"{_NUMBER} + {_OFFSET} as rowId",
        f"{write_id} as currentTransaction",
        nested,
        *others,
    )


def _identities(fs: HadoopFilesystem, files: Sequence[OriginalDataFile]) -> list[dict[str, object]]:
    """Write id, bucket value and first row number of each file."""
    counts = in_threads(fs.footers.orc_rows, [f.uri for f in files])
    reached: dict[tuple[int, int, int], int] = {}
    found: list[dict[str, object]] = []
    for file, count in zip(files, counts, strict=True):
        group = (file.partition, file.write_id, file.bucket)
        offset = reached.get(group, 0)
        reached[group] = offset + count
        bucket = encode_bucket(file.bucket, file.statement_id)
        found.append({_KNOWN_PATH: metadata_path(file.uri), _WRITE_ID: file.write_id, _BUCKET: bucket, _OFFSET: offset})
    return found
