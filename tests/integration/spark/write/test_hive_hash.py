"""Spark's expressions of the bucket hash give what Hive gave, for every type that Spark can write."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import types as T

from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.format.bucketing import Instant, bucket_hash
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.write.hive_hash import hive_hash
from tests.examples import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def spark(spark: SparkSession) -> SparkSession:
    """A session that compiles expressions, as a user's does: what Spark makes of a hash decides about buckets."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "true")
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    return session


LOCAL = "timestamp with local time zone"
SEVERAL_COLUMNS = examples(24)


def as_spark(value: Any) -> Any:
    if isinstance(value, Instant):
        return datetime(1970, 1, 1) + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if isinstance(value, list):
        return [as_spark(item) for item in value]
    if isinstance(value, tuple):
        return tuple(as_spark(item) for item in value)
    if isinstance(value, dict):
        return {as_spark(k): as_spark(v) for k, v in value.items()}
    return value


def has_nanos(values: tuple[Any, ...]) -> bool:
    return any(isinstance(value, Instant) and value.nanos % 1000 for value in values)


@pytest.mark.parametrize("version", [1, 2])
def test_hashes_are_hives(spark: SparkSession, hashed_rows: list[Any], version: int) -> None:
    """One query for all: a column per type and a struct for rows of several columns, filled up with NULLs."""
    groups: dict[tuple[str, ...], list[Any]] = defaultdict(list)
    for row in hashed_rows:
        # Spark's timestamps end at microseconds; local time zones are refused.
        if LOCAL not in row.types and not has_nanos(row.values):
            groups[row.types].append(row)
    several = [types for types in groups if len(types) > 1][:SEVERAL_COLUMNS]
    chosen = [types for types in groups if len(types) == 1] + several
    columns = [
        [T.StructField(f"c{i}_{j}", c.type) for j, c in enumerate(hive_columns(types))]
        for i, types in enumerate(chosen)
    ]
    absent = {types: tuple(None for _ in types) for types in chosen}
    lines = [
        [as_spark(v) for types, row in zip(chosen, rows, strict=True) for v in (row.values if row else absent[types])]
        for rows in zip_longest(*[groups[types] for types in chosen])
    ]
    frame = spark.createDataFrame(lines, T.StructType([f for fields in columns for f in fields]))
    hashes = [
        hive_hash(spark, [(f.name, t) for f, t in zip(fields, types, strict=True)], version).alias(f"h{i}")
        for i, (fields, types) in enumerate(zip(columns, chosen, strict=True))
    ]
    found = frame.coalesce(1).select(*hashes).collect()
    wrong = [
        (row.types, row.values, row.hashes[version], found[number][i])
        for i, types in enumerate(chosen)
        for number, row in enumerate(groups[types])
        if found[number][i] != row.hashes[version]
    ]
    assert sum(len(groups[types]) for types in chosen) > 500
    assert wrong == []


def hive_columns(types: tuple[str, ...]) -> tuple[schema.TableColumn, ...]:
    return schema.table_columns([Column(f"c{i}", kind) for i, kind in enumerate(types)], "t")


def test_the_hash_is_computed_in_the_stage(spark: SparkSession) -> None:
    kinds = ["int", "string", "decimal(9,2)"]
    columns = [(f"cast(id as {kind})", kind) for kind in kinds]
    rows = spark.range(5).select("id", hive_hash(spark, columns, 2).alias("h"))
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert "*(1) Project" in plan
    assert "Python" not in plan
    assert [row.h for row in rows.collect()] == [bucket_hash([i, str(i), Decimal(i)], kinds) for i in range(5)]


def test_a_type_that_spark_has_no_values_of_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedStatementError, match="timestamp with local time zone"):
        hive_hash(spark, [("now()", LOCAL)], 2)
