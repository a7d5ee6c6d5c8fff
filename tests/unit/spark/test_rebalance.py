"""A rebalance finds the share of a row by its id, without Spark: the expression is one that SQLite reads, too."""

import bisect
import re
import sqlite3

import pytest

from airflow_hive_acid.spark.write.rebalance import _share, _shares


@pytest.mark.parametrize(
    ("total", "buckets", "rows"),
    [(0, 3, ()), (1, 3, (1,)), (10, 3, (4, 4, 2)), (10, 4, (3, 3, 3, 1)), (9, 4, (3, 3, 3)), (4, 4, (1, 1, 1, 1))],
)
def test_each_bucket_takes_the_next_even_share(total, buckets, rows):
    """As Hive: ceil(N / n) rows each; with few rows the last buckets get none."""
    for tasks in (1, 2, 7):
        assert _shares(total, buckets, tasks).of_buckets() == rows
    assert _shares(total, buckets, 1).of_tasks() == rows


@pytest.mark.parametrize(
    ("total", "buckets", "tasks", "rows"),
    [
        (10, 1, 2, (5, 5)),
        (10, 1, 4, (3, 3, 3, 1)),
        (10, 3, 2, (2, 2, 2, 2, 2)),
        (9, 1, 4, (3, 3, 3)),
        (11, 2, 4, (2, 2, 2, 2, 2, 1)),
        (3, 1, 7, (1, 1, 1)),
        (0, 2, 2, ()),
    ],
)
def test_tasks_that_share_a_bucket_take_the_next_rows_of_it(total, buckets, tasks, rows):
    """SQL says of each row which task has it, and of each task which row is its first."""
    shares = _shares(total, buckets, tasks)
    assert shares.of_tasks() == rows
    begins = [sum(rows[:i]) for i in range(len(rows))]
    if rows:
        assert _numbers(shares.writer("n"), range(total)) == [bisect.bisect_right(begins, n) - 1 for n in range(total)]
        assert _numbers(shares.first("n"), range(len(rows))) == begins


def _numbers(text, numbers):
    """Values of an expression with whole numbers for n."""
    text = re.sub(r"\b(\d+)L\b", r"\1", text).replace(" div ", " / ")
    with sqlite3.connect(":memory:") as database:
        return [database.execute(f"select {text} from (select ? as n)", (n,)).fetchone()[0] for n in numbers]  # noqa: S608


@pytest.mark.parametrize("count", [0, 1, 2, 7, 4095])
def test_the_share_of_a_row_is_found_by_its_id(count):
    begins = [(1 + i // 100, 536870912 + i % 100 // 10 * 65536, i % 10 * 1000) for i in range(1, count + 1)]
    near = begins[:: max(1, count // 50)]
    ids = [(0, 0, 0), *near, *((w, b, n - 1) for w, b, n in near), *((w, b, n + 1) for w, b, n in near), (10**6, 0, 0)]
    text = re.sub(r"\b(\d+)L\b", r"\1", _share(begins)).replace("if(", "iif(")
    with sqlite3.connect(":memory:") as database:
        database.execute("create table ids (originalTransaction, bucket, rowId)")
        database.executemany("insert into ids values (?, ?, ?)", ids)
        rows = database.execute(f"select originalTransaction, bucket, rowId, {text} from ids").fetchall()  # noqa: S608
    assert [row[3] for row in rows] == [bisect.bisect_right(begins, row[:3]) for row in rows]
