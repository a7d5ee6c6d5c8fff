"""How many tasks share a bucket."""

from __future__ import annotations

import pytest

from airflow_hive_acid.spark.write.ranges import MOST_RANGES, MOST_SHARES, ranges_of, shares_of

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "cores", "expected"),
    [
        ({0: 100 * MIB}, 2, {0: 2}),
        ({0: 100 * MIB}, 4, {0: 4}),
        ({0: 100 * MIB}, 64, {0: 6}),
        ({0: 20 * MIB}, 64, {0: 1}),
        ({0: 0}, 64, {0: 1}),
        ({0: 100 * MIB, 1: 100 * MIB}, 2, {0: 1, 1: 1}),
        ({0: 100 * MIB, 1: 100 * MIB}, 8, {0: 4, 1: 4}),
        ({0: 300 * MIB, 1: 20 * MIB, 2: 20 * MIB}, 4, {0: 4, 1: 1, 2: 1}),
        ({0: 1 << 50}, 1 << 30, {0: MOST_RANGES}),
        ({}, 4, {}),
    ],
)
def test_large_buckets_are_divided_until_all_cores_have_work(
    sizes: dict[int, int], cores: int, expected: dict[int, int]
) -> None:
    assert ranges_of(sizes, cores, 16 * MIB) == expected


@pytest.mark.parametrize(
    ("size", "buckets", "cores", "expected"),
    [
        (100 * MIB, 1, 2, 2),
        (100 * MIB, 1, 64, 6),
        (100 * MIB, 2, 2, 1),
        (100 * MIB, 2, 4, 2),
        (100 * MIB, 4096, 64, 1),
        (0, 3, 64, 1),
        (1 << 50, 1, 1 << 30, MOST_RANGES),
        (1 << 50, 1000, 1 << 30, MOST_SHARES // 1000),
    ],
)
def test_the_even_buckets_of_a_rebalance_are_shared_until_all_cores_have_work(
    size: int, buckets: int, cores: int, expected: int
) -> None:
    assert shares_of(size, buckets, cores, 16 * MIB) == expected


def test_nothing_is_divided_when_it_is_off() -> None:
    assert ranges_of({0: 1 << 40, 3: 1}, 64, 0) == {0: 1, 3: 1}
    assert shares_of(1 << 40, 1, 64, 0) == 1
