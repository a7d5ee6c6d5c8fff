"""Three-valued logic over an ACID table with deletes: every row is in exactly one of p, not p, p is null."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Planning an expression is what costs; a few of each form are in any hundred.
PREDICATES, PER_JOB, FILTERED = examples(examples(2000)), 250, examples(24)
LEAVES = {
    "id": ["0", "17", "-5", "499", "null", "2147483647"],
    "big": ["0L", "100L", "-9223372036854775808L", "null"],
    "name": ["'n1'", "''", "'N3'", "null", "'zzz'"],
    "amount": ["0.5", "10.25", "-1.0", "null"],
    "day": ["date'2024-01-15'", "date'1500-01-01'", "null"],
    "flag": ["true", "false", "null"],
}


def leaf(rng: random.Random) -> str:
    column = rng.choice(sorted(LEAVES))
    one, other = (rng.choice(LEAVES[column]) for _ in range(2))
    return rng.choice(
        [
            f"{column} {rng.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {one}",
            f"{column} is null",
            f"{column} in ({one}, {other})",
            f"{column} not in ({one}, {other})",
            f"{column} between {one} and {other}",
            "name like 'n%'",
        ]
    )


def predicate(rng: random.Random, depth: int = 2) -> str:
    if depth == 0 or rng.random() < 0.3:
        return leaf(rng)
    one, other = predicate(rng, depth - 1), predicate(rng, depth - 1)
    return rng.choice([f"({one} and {other})", f"({one} or {other})", f"(not {one})"])


def test_rows_of_p_and_not_p_and_unknown_are_all_rows(acid_table: Callable, spark: SparkSession) -> None:
    table = acid_table("id int, big bigint, name string, amount decimal(12,2), day date, flag boolean")
    table.insert(
        "select cast(id as int), if(id % 7 = 0, null, id * 100), if(id % 5 = 0, null, concat('n', id % 9)), "
        "if(id % 3 = 0, null, cast(id / 4 as decimal(12,2))), if(id % 11 = 0, null, date_add(date'2024-01-01', "
        "cast(id % 60 as int))), if(id % 4 = 0, null, id % 2 = 0) from range(500)"
    )
    table.delete("id % 13 = 0")
    table.update("id % 17 = 0", name="'N3'", id="null")
    rng = random.Random(20)
    predicates = [predicate(rng) for _ in range(PREDICATES)]
    frame = table.frame()
    total = frame.count()
    # Compiling code for so many expressions would cost more than they do.
    for key, value in (("wholeStage", "false"), ("factoryMode", "NO_CODEGEN")):
        frame.sparkSession.conf.set(f"spark.sql.codegen.{key}", value)
    # Cached: 2,000 predicates are about logic over what was read, and a few below about how it is read.
    rows = frame.cache()
    found: list[tuple[int, int, int]] = []
    for start in range(0, PREDICATES, PER_JOB):
        batch = predicates[start : start + PER_JOB]
        counts = [f"count_if({text})" for p in batch for text in (p, f"not ({p})", f"({p}) is null")]
        values = list(rows.selectExpr(*counts).first())
        found += [tuple(values[i : i + 3]) for i in range(0, len(values), 3)]  # type: ignore[misc]
    assert [p for p, counts in zip(predicates, found, strict=True) if sum(counts) != total] == []
    rows.unpersist()
    # The same through WHERE, where conditions are pushed into the files and rows are skipped.
    for p, counts in list(zip(predicates, found, strict=True))[:FILTERED]:
        assert (p, table.frame().where(p).count()) == (p, counts[0])
