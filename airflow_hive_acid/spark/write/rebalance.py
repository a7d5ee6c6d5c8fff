"""Rebalance compaction: all live rows in a new base, evenly over its buckets, with new ids.

As Hive 4 numbers them: the rows in the order of their ids, or in the order that was asked for, get the numbers 0 to
N - 1, which do not start again in each bucket; of n buckets each takes the next ceil(N / n) rows. Rows keep their write
ids, except in an order that was asked for: then all have the highest of them, because a file must be sorted by id.
Several tasks may share a bucket, each with the next rows of it; the optional jar makes one file of these (decision 70).
The ids that a deleter has read are gone afterwards, so the Worker holds the table for itself (EXCL_WRITE) meanwhile.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyspark import StorageLevel
from pyspark.sql import functions as F

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.buckets import MAX_BUCKET, encode_bucket
from airflow_hive_acid.format.ordering import read_order
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.events import task_row_number
from airflow_hive_acid.spark.versions import repartition_by_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from airflow_hive_acid.format.ordering import OrderTerm

Identity: TypeAlias = tuple[int, int, int]
"""Write id, bucket value and row number."""
_TASK = f"{schema.INTERNAL_PREFIX}task"
_NUMBER = f"{schema.INTERNAL_PREFIX}number"
_WRITER = f"{schema.INTERNAL_PREFIX}writer"
_BLOCK = f"{schema.INTERNAL_PREFIX}block"
_BLOCK_ROWS = 1 << 16
"""Row numbers that are counted together: to find the row in which a share begins, only these are sorted."""


class Rebalanced(NamedTuple):
    """Live insert events with new ids, each in the task that writes it and sorted.

    :param rows: how many rows each bucket gets; those without any are left out.
    :param tasks: how many rows each task has; some that follow each other may have a bucket together.
    :param kept: what is persisted, for the caller to release.
    """

    events: DataFrame
    rows: tuple[int, ...]
    tasks: tuple[int, ...]
    kept: DataFrame | None = None


def rebalanced(events: DataFrame, buckets: int, order_by: str | None, tasks: int = 1) -> Rebalanced:
    """Number the rows anew.

    :param buckets: how many there will be, one that a directory can have (see ``check_buckets``).
    :param order_by: what follows ORDER BY, with or without these words: columns of the rows and their directions.
    :param tasks: how many may share each bucket.
    :raises InvalidArgumentsError: when the order is anything else.
    """
    if order_by is None:
        return _by_ids(events, buckets, tasks)
    return _by_order(events, buckets, tasks, read_order(order_by, _columns(events)))


class Shares(NamedTuple):
    """How rows are dealt out: a bucket takes the next ones, and so does each of its tasks; the last take what is left.

    :param total: all rows.
    :param bucket: how many of them a bucket takes.
    :param task: how many of these a task takes.
    """

    total: int
    bucket: int
    task: int

    @property
    def tasks(self) -> int:
        """How many tasks a bucket has; the last bucket may have fewer."""
        return -(-self.bucket // self.task)

    def of_buckets(self) -> tuple[int, ...]:
        """Rows of each bucket; with few rows the last buckets get none and are left out."""
        return _dealt(self.total, self.bucket)

    def of_tasks(self) -> tuple[int, ...]:
        """Rows of each task."""
        return tuple(rows for of_bucket in self.of_buckets() for rows in _dealt(of_bucket, self.task))

    def first(self, writer: str) -> str:
        """Spark SQL for the number of the first row of a task, from the number of that task."""
        return f"({writer} div {self.tasks}) * {self.bucket}L + ({writer} % {self.tasks}) * {self.task}L"

    def writer(self, number: str) -> str:
        """Spark SQL for the number of the task that writes a row, from the number of that row."""
        within = f"({number} % {self.bucket}L) div {self.task}L"
        return f"cast(({number} div {self.bucket}L) * {self.tasks} + {within} as int)"


def _shares(total: int, buckets: int, tasks: int) -> Shares:
    """Of n buckets each takes ceil(N / n) rows, as in Hive, and of them each of its tasks an even part."""
    bucket = -(-total // buckets)
    return Shares(total, bucket, -(-bucket // tasks))


def _dealt(total: int, each: int) -> tuple[int, ...]:
    return tuple(min(each, total - start) for start in range(0, total, each)) if total else ()


def _by_ids(events: DataFrame, buckets: int, tasks: int) -> Rebalanced:
    """Where the shares begin is found in the ids alone; then each row moves once, and its share's task numbers it."""
    write_id, bucket, number = schema.IDENTITY
    ids = events.selectExpr(*schema.IDENTITY, f"{number} div {_BLOCK_ROWS}L as {_BLOCK}")
    group = (write_id, bucket, _BLOCK)
    counted = ids.groupBy(*group).count().orderBy(*group).collect()
    groups = [(int(row[0]), int(row[1]), int(row[2]), int(row[3])) for row in counted]
    shares = _shares(sum(count for *_, count in groups), buckets, tasks)
    rows = shares.of_tasks()
    if not rows:
        return Rebalanced(events.select(*schema.HEADER, schema.ROW), (), ())
    writer = _share(_begins(ids, groups, rows))
    shared = events.selectExpr(*schema.IDENTITY, schema.ROW, f"{writer} as {_WRITER}")
    placed = repartition_by_id(shared, len(rows), F.col(_WRITER)).sortWithinPartitions(*schema.IDENTITY)
    # The last projection before the write: it counts the rows of the task in their order.
    numbered = _event(f"{shares.first(_WRITER)} + ({task_row_number()})", shares)
    return Rebalanced(placed.selectExpr(*numbered), shares.of_buckets(), rows)


def _begins(ids: DataFrame, groups: Sequence[tuple[int, int, int, int]], rows: Sequence[int]) -> list[Identity]:
    """The id of the first row of each share but the first.

    :param groups: write id, bucket value, block and number of rows, in this order.
    :param rows: of the shares.
    """
    wanted: dict[tuple[int, int, int], list[int]] = {}
    before = 0
    begins = deque(accumulate(rows[:-1]))
    for write_id, bucket, block, count in groups:
        while begins and begins[0] < before + count:
            wanted.setdefault((write_id, bucket, block), []).append(begins.popleft() - before + 1)
        before += count
    if not wanted:
        return []
    group = ", ".join((*schema.IDENTITY[:2], _BLOCK))
    chosen = ", ".join(f"({w}L, {b}, {block}L)" for w, b, block in wanted)
    exact = ", ".join(f"({w}L, {b}, {block}L, {n})" for (w, b, block), numbers in wanted.items() for n in numbers)
    # coalesce: must not be pushed down into the ORC reader, which would look for a user's column of that name.
    place = f"coalesce({schema.ORIGINAL_WRITE_ID}, 0L), coalesce({schema.BUCKET}, 0), coalesce({_BLOCK}, 0L)"
    found = (
        ids.where(f"({place}) in ({chosen})")
        .selectExpr(
            *(*schema.IDENTITY, _BLOCK),
            f"row_number() over (partition by {group} order by {schema.ROW_NUMBER}) as {_NUMBER}",
        )
        .where(f"({group}, {_NUMBER}) in ({exact})")
        .select(*schema.IDENTITY)
        .collect()
    )
    return sorted((int(row[0]), int(row[1]), int(row[2])) for row in found)


def _share(begins: Sequence[Identity], first: int = 0) -> str:
    """Spark SQL for the share of a row by its id: as many comparisons as a binary search makes.

    :param begins: the id of the first row of each share but the first, ascending.
    """
    if not begins:
        return str(first)
    middle = len(begins) // 2
    write_id, bucket, number = begins[middle]
    columns = schema.IDENTITY
    below = (
        f"{columns[0]} < {write_id}L or {columns[0]} = {write_id}L and ({columns[1]} < {bucket} or {columns[1]} = "
        f"{bucket} and {columns[2]} < {number}L)"
    )
    left, right = _share(begins[:middle], first), _share(begins[middle + 1 :], first + middle + 1)
    return f"if({below}, {left}, {right})"


def _event(number: str, shares: Shares, write_id: str = schema.ORIGINAL_WRITE_ID) -> list[str]:
    """The six columns of a row in its bucket."""
    bucket = f"cast({_WRITER} div {shares.tasks} as int)"
    return [
        f"{schema.INSERTED} as {schema.OPERATION}",
        f"{write_id} as {schema.ORIGINAL_WRITE_ID}",
        f"{encode_bucket(0, 0)} | shiftleft({bucket}, 16) as {schema.BUCKET}",
        f"{number} as {schema.ROW_NUMBER}",
        f"{write_id} as {schema.CURRENT_WRITE_ID}",
        schema.ROW,
    ]


def _by_order(events: DataFrame, buckets: int, tasks: int, order_by: Sequence[OrderTerm]) -> Rebalanced:
    """The order is anybody's, so the rows are sorted, kept, counted task by task, and then moved to their buckets."""
    ordered = _ordered(events, order_by).selectExpr(
        "spark_partition_id() as " + _TASK, f"{task_row_number()} as {_NUMBER}", *schema.HEADER, schema.ROW
    )
    # Kept, so that both looks at it see the same rows in the same tasks.
    ordered = ordered.persist(StorageLevel.MEMORY_AND_DISK)
    found = ordered.groupBy(_TASK).agg(F.count("*").alias("n"), F.max(schema.ORIGINAL_WRITE_ID).alias("w")).collect()
    counts = {int(row[_TASK]): int(row["n"]) for row in found}
    starts, total = _starts(counts)
    shares = _shares(total, buckets, tasks)
    rows = shares.of_tasks()
    if not rows:
        return Rebalanced(ordered.selectExpr(*schema.HEADER, schema.ROW), (), (), ordered)
    highest = max(int(row["w"]) for row in found)
    number = f"element_at(array({', '.join(f'{s}L' for s in starts)}), {_TASK} + 1) + {_NUMBER}"
    shared = ordered.selectExpr(f"{number} as {_NUMBER}", schema.ROW).selectExpr(
        "*", f"{shares.writer(_NUMBER)} as {_WRITER}"
    )
    placed = repartition_by_id(shared, len(rows), F.col(_WRITER)).sortWithinPartitions(_NUMBER)
    return Rebalanced(placed.selectExpr(*_event(_NUMBER, shares, f"{highest}L")), shares.of_buckets(), rows, ordered)


def check_buckets(buckets: int) -> None:
    """Refuse a number of buckets that a directory cannot have.

    :raises InvalidArgumentsError: with the limit.
    """
    if not 1 <= buckets <= MAX_BUCKET + 1:
        raise InvalidArgumentsError(
            f"a rebalance into {buckets} buckets: a directory has 1 to {MAX_BUCKET + 1}; say CLUSTERED INTO n BUCKETS"
        )


def _ordered(events: DataFrame, order_by: Sequence[OrderTerm]) -> DataFrame:
    """The rows in the order of columns alone; nobody's text becomes part of a query (see ``format/ordering.py``)."""
    # The ids decide between equals, so that a task that runs again finds the same order.
    return events.orderBy(*(_direction(term) for term in order_by), *schema.IDENTITY)


def _direction(term: OrderTerm) -> Column:
    column = F.col(f"{schema.ROW}.{schema.quoted(term.column)}")
    if term.ascending is False:
        return column.desc_nulls_first() if term.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_last() if term.nulls_first is False else column.asc_nulls_first()


def _columns(events: DataFrame) -> list[str]:
    """The names of the columns of a row."""
    row: Any = events.schema[schema.ROW].dataType
    return list(row.names)


def _starts(counts: dict[int, int]) -> tuple[list[int], int]:
    """The number of the first row of each task, and of all rows."""
    starts: list[Any] = []
    total = 0
    for task in range(max(counts, default=-1) + 1):
        starts.append(total)
        total += counts.get(task, 0)
    return starts, total
