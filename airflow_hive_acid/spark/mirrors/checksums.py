"""Counts and checksums of both sides of a mirror, partition by partition.

The sum of the rows' hashes does not depend on their order. A hash is made of the values as the target has them, the
same expression on both sides. A pair of differences that cancel each other out is as likely as two equal 64-bit hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.mirrors.merging import partition_condition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_hive_acid.spark.mirrors.columns import MirrorColumns

MOST_SHOWN = 100
"""So many partitions that differ are named."""
_MAPS = "spark.sql.legacy.allowHashOnMapType"


def differences(source: DataFrame, target: DataFrame, columns: MirrorColumns) -> dict[str, Any]:
    """Compare two sides.

    :param source: in the target's types.
    :return: ``rows`` of source and target, number of ``partitions``, how many ``differ``, and the first of them.
    """
    source.sparkSession.conf.set(_MAPS, "true")
    left, right = _summed(source, columns, "source"), _summed(target, columns, "target")
    if columns.partition:
        both = left.alias("s").join(
            right.alias("t"), F.expr(partition_condition(columns.partition, "s", "t")), "full_outer"
        )
        shown = [
            f"concat('{_name(n)}=', coalesce(cast(coalesce(s.{schema.quoted(n)}, t.{schema.quoted(n)}) as string), "
            "'__HIVE_DEFAULT_PARTITION__'))"
            for n in columns.partition
        ]
        name = f"concat_ws('/', {', '.join(shown)})"
    else:
        both, name = left.alias("s").crossJoin(right.alias("t")), "''"
    compared = both.selectExpr(
        f"{name} as partition",
        "coalesce(source_rows, 0L) as source_rows",
        "coalesce(target_rows, 0L) as target_rows",
        "source_rows <=> target_rows and source_sum <=> target_sum and source_mix <=> target_mix as same",
    )
    sums = compared.selectExpr("count(*)", "sum(source_rows)", "sum(target_rows)", "count_if(not same)").first()
    if sums is None:
        raise AssertionError("an aggregate without a row")
    partitions, source_rows, target_rows, differ = (int(value or 0) for value in sums)
    named = []
    if differ:
        wrong = compared.where("not same").orderBy("partition").limit(MOST_SHOWN)
        named = [
            {"partition": row.partition, "source_rows": row.source_rows, "target_rows": row.target_rows}
            for row in wrong.collect()
        ]
    return {
        "rows": [source_rows, target_rows],
        "partitions": partitions,
        "differ": differ,
        "different": named,
    }


def _summed(rows: DataFrame, columns: MirrorColumns, side: str) -> DataFrame:
    values = ", ".join(schema.quoted(name) for name, _ in columns.user_fields)
    hashed = rows.selectExpr(
        *[schema.quoted(name) for name in columns.partition], f"xxhash64({values}) as _hive_acid_hash"
    )
    by = [F.col(schema.quoted(name)) for name in columns.partition]
    return hashed.groupBy(*by).agg(
        F.expr("count(*)").alias(f"{side}_rows"),
        F.expr("sum(cast(_hive_acid_hash as decimal(20,0)))").alias(f"{side}_sum"),
        F.expr("bit_xor(_hive_acid_hash)").alias(f"{side}_mix"),
    )


def _name(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
