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
from airflow_hive_acid.spark.read.scan import lookup_table

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import TableSnapshot
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
    made: Collection[str],
) -> ChangedPartitions:
    """Compare the target's partitions with those of the source.

    :param target: the target's rows.
    :param made: names of the source's partitions that may be others than those of these names in the target.
    """
    if not columns.partition:
        return ChangedPartitions()
    names = [schema.quoted(name) for name in columns.partition]
    listed = _typed(spark, columns, [p.values for p in snapshot.partitions])
    there = target.select(*[F.col(name) for name in names]).distinct()
    pairs = listed.alias("s").join(
        there.alias("t").withColumn("_hive_acid_there", F.lit(True)),
        F.expr(partition_condition(columns.partition, "s", "t")),
        "full_outer",
    )
    shown = [f"cast(coalesce(s.{n}, t.{n}) as string)" for n in names]
    found = pairs.selectExpr(*shown, _ORDINAL, "coalesce(_hive_acid_there, false) as present").collect()
    anew, gone = set(), []
    for *values, ordinal, present in found:
        is_new = ordinal is not None and snapshot.partitions[ordinal].name in made
        if ordinal is None or (is_new and present):
            gone.append(values)
        if ordinal is not None and (is_new or not present):
            anew.add(ordinal)
    if not gone:
        return ChangedPartitions(frozenset(anew))
    condition = F.expr(partition_condition(columns.partition, "t", "g"))
    lost = F.broadcast(_typed(spark, columns, gone).alias("g"))
    return ChangedPartitions(frozenset(anew), target.alias("t").join(lost, condition, "left_semi"))


def _typed(spark: SparkSession, columns: MirrorColumns, partitions: Sequence[Sequence[str | None]]) -> DataFrame:
    """Partition values, given as texts, in the target's types, each with its place in the list."""
    fields = [T.StructField(name, T.StringType()) for name in columns.partition]
    rows: list[dict[str, object]] = []
    for ordinal, texts in enumerate(partitions):
        values = [None if text == DEFAULT_PARTITION else text for text in texts]
        rows.append({**dict(zip(columns.partition, values, strict=True)), _ORDINAL: ordinal})
    casts = [
        f"cast({schema.quoted(n)} as {schema.sql_type(columns.type_of(n))}) as {schema.quoted(n)}"
        for n in columns.partition
    ]
    return lookup_table(spark, rows, T.StructType([*fields, T.StructField(_ORDINAL, T.IntegerType())])).selectExpr(
        *casts, _ORDINAL
    )
