"""How a table grew: from what was found of its partitions to points of a chart."""

from __future__ import annotations

from airflow_hive_acid.metastore.compaction.measures import NOTHING, Measure, Measured, Point, series
from airflow_hive_acid.metastore.compaction.model import Resource

ONE, TWO = Resource("d", "t", "p=1"), Resource("d", "t", "p=2")


def size(deltas: int) -> Measure:
    return Measure(deltas + 1, deltas, 0, 100, deltas * 10, 0)


def test_at_each_change_the_partitions_known_by_then_are_added_up() -> None:
    found = [
        Measured(ONE, 10, 15, size(1)),
        Measured(TWO, 20, 50, size(2)),
        Measured(ONE, 30, 60, size(5)),
    ]
    assert series(found, 0, 100) == [
        Point(10, size(1)), Point(20, size(1) + size(2)), Point(30, size(5) + size(2)), Point(60, size(5) + size(2)),
    ]  # fmt: skip


def test_what_was_so_before_the_beginning_is_the_first_point() -> None:
    found = [Measured(ONE, 10, 19, size(1)), Measured(ONE, 20, 90, size(3)), Measured(ONE, 91, 91, size(0))]
    assert series(found, 50, 100) == [Point(50, size(3)), Point(91, size(0))]


def test_of_too_many_points_the_first_and_the_last_stay() -> None:
    found = [Measured(ONE, time, time, size(time)) for time in range(1000)]
    points = series(found, 0, 11)
    assert [point.time for point in points] == [0, 100, 200, 300, 400, 500, 599, 699, 799, 899, 999]


def test_without_measurements_there_is_no_point() -> None:
    assert series([], 0, 10) == []


def test_the_delete_ratio_is_the_part_of_delete_deltas_in_all_bytes() -> None:
    assert Measure(3, 2, 1, 60, 40, 25).delete_ratio == 0.25
    assert NOTHING.delete_ratio == 0.0
