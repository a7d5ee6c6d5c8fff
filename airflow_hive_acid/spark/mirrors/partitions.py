"""Partitions that came or went by no write id: dropped ones, and those made again under the name of another.

No write id tells of them; the target's own partitions do, beside the list of the catalog. What is compared are values,
not their spellings: a partition ``m=07`` of an int column is one with the value 7.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.mirrors.merging import partition_condition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import TableSnapshot
    from airflow_hive_acid.format.mirrors import SourceTable
    from airflow_hive_acid.spark.mirrors.columns import MirrorColumns

_ORDINAL = "_hive_acid_ordinal"


@dataclass(frozen=True, slots=True)
class ChangedPartitions:
    """What has become of partitions.

    :param anew: ordinals, in the source's snapshot, of those that are copied whole.
    :param gone: rows of the target whose partition is no more, or is copied whole; None: there are none.
    """

    anew: frozenset[int] = field(default_factory=frozenset)
    gone: DataFrame | None = None


def changed_partitions(
    spark: SparkSession,
    snapshot: TableSnapshot,
    target: DataFrame,
    columns: MirrorColumns,
    ids: Mapping[str, int],
    before: SourceTable,
) -> ChangedPartitions:
    """Compare the target's partitions with those of the source.

    :param target: the target's rows.
    :param ids: by name, the id of each partition of the source.
    :param before: the source at the target's state; a larger id is of a partition made since.
    """
    if not columns.partition:
        return ChangedPartitions()
    names = [schema.quoted(name) for name in columns.partition]
    listed = _listed(spark, snapshot, columns)
    there = target.select(*[F.col(name) for name in names]).distinct().persist()
    try:
        pairs = listed.alias("s").join(
            there.alias("t").withColumn("_hive_acid_there", F.lit(True)),
            F.expr(partition_condition(columns.partition, "s", "t")),
            "full_outer",
        )
        shown = [f"coalesce(s.{n}, t.{n}) as {n}" for n in names]
        found = pairs.selectExpr(*shown, _ORDINAL, "coalesce(_hive_acid_there, false) as present").collect()
    finally:
        there.unpersist()
    anew, gone = set(), []
    for row in found:
        ordinal, present = row[-2], row[-1]
        is_new = ordinal is not None and ids.get(snapshot.partitions[ordinal].name, 0) > before.newest_partition
        if ordinal is None or (is_new and present):
            gone.append(tuple(row[:-2]))
        if ordinal is not None and (is_new or not present):
            anew.add(ordinal)
    if not gone:
        return ChangedPartitions(frozenset(anew))
    kind = T.StructType([T.StructField(name, columns.type_of(name)) for name in columns.partition])
    values = spark.createDataFrame(gone, kind)
    condition = F.expr(partition_condition(columns.partition, "t", "g"))
    rows = target.alias("t").join(F.broadcast(values.alias("g")), condition, "left_semi")
    return ChangedPartitions(frozenset(anew), rows)


def _listed(spark: SparkSession, snapshot: TableSnapshot, columns: MirrorColumns) -> DataFrame:
    """The partition values of the source, in the target's types."""
    text = T.StructType(
        [T.StructField(name, T.StringType()) for name in columns.partition] + [T.StructField(_ORDINAL, T.IntegerType())]
    )
    rows = [
        (*[None if value == DEFAULT_PARTITION else value for value in partition.values], ordinal)
        for ordinal, partition in enumerate(snapshot.partitions)
    ]
    casts = [
        f"cast({schema.quoted(n)} as {schema.sql_type(columns.type_of(n))}) as {schema.quoted(n)}"
        for n in columns.partition
    ]
    return spark.createDataFrame(rows, text).selectExpr(*casts, _ORDINAL)
