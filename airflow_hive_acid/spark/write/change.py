"""UPDATE and DELETE: events about rows that exist.

The matching rows (few, usually) are brought together by partition and bucket, because a delete event must lie in the
bucket file of its row's own number. An update writes its delete and its insert event from the same row in the same
task, so both sides always agree, whatever the query's expressions are, and the table is scanned once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.buckets import MAX_BUCKET
from airflow_hive_acid.format.names import delete_delta_name, delta_name
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.events import delete_event, insert_event, row_of, task_row_number
from airflow_hive_acid.spark.read.reader import IDENTITY, ROW_ID, table_rows, without_blanks
from airflow_hive_acid.spark.read.scan import bucket_number
from airflow_hive_acid.spark.versions import repartition_by_id
from airflow_hive_acid.spark.write.assignment import assigned, stored
from airflow_hive_acid.spark.write.bucketing import buckets_of
from airflow_hive_acid.spark.write.insert import checked, partition_of, partition_text
from airflow_hive_acid.spark.write.output import Destination, write_events
from airflow_hive_acid.spark.write.ranges import ranges_of_groups
from airflow_hive_acid.spark.write.sink import ChangeNames, FinalNames, sink_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import Assignment, Delete, FirstRows, Update, WrittenDirectory
    from airflow_hive_acid.spark.read.open_tables import OpenTable
    from airflow_hive_acid.spark.write.bucketing import Buckets
    from airflow_hive_acid.spark.write.output import Staging
    from airflow_hive_acid.spark.write.sink import Changes, Sink

_GROUP = f"{schema.INTERNAL_PREFIX}group"
_NUMBER = f"{schema.INTERNAL_PREFIX}number"
_KEY = f"{schema.INTERNAL_PREFIX}out"
_BLOCK = 4096
"""Rows that follow each other and stay together when several tasks share a bucket."""
_RANK = f"{schema.INTERNAL_PREFIX}rank"
NEW = f"{schema.INTERNAL_PREFIX}new_"
"""Prefix of the columns that hold the new values of a changed row."""
CHANGED = f"{schema.INTERNAL_PREFIX}changed"
"""Whether a row is changed (it gets an insert event too) or only deleted."""
DELETE, CHANGE = 1, 2
"""What becomes of a row, for the optional jar."""


def delete(spark: SparkSession, step: Delete, table: OpenTable, staging: Staging) -> list[WrittenDirectory]:
    """Run a DELETE; no directory when nothing matches."""
    rows = matching(spark, table, step)
    writer = ChangeWriter(table, step.write_id, step.statement_id, None)
    return writer.write(spark, rows.selectExpr(*IDENTITY, schema.PARTITION), staging)


def update(spark: SparkSession, step: Update, table: OpenTable, staging: Staging) -> list[WrittenDirectory]:
    """Run an UPDATE; no directory when nothing matches."""
    check_assignable(table, step.assignments, "UPDATE")
    moves = moves_rows(table, step.assignments)
    columns = (*table.columns, *table.partition_columns) if moves else table.columns
    rows = matching(spark, table, step)
    rows, new = with_assigned(rows, step.assignments, columns, table.name)
    after = [new.get(c.name) or schema.quoted(step.alias, c.name) for c in columns]
    values = [f"{value} as {NEW}{i}" for i, value in enumerate(after)]
    changed = checked_changes(rows.selectExpr(*IDENTITY, schema.PARTITION, f"true as {CHANGED}", *values), table)
    writer = ChangeWriter(table, step.write_id, step.delete_statement_id, step.insert_statement_id, moves)
    return writer.write(spark, changed, staging)


def matching(spark: SparkSession, table: OpenTable, step: Update | Delete) -> DataFrame:
    """The rows of the target that a statement is about, with their identity, under its alias."""
    rows = target_rows(spark, table, step.alias)
    rows = rows if step.where is None else rows.where(step.where)
    return rows if step.first is None else _first(rows, step.first, step.alias, table.name)


def _first(rows: DataFrame, first: FirstRows, alias: str, table: str) -> DataFrame:
    """Of these rows the first in an order.

    :raises InvalidArgumentsError: where the order leaves open which rows they are.
    """
    if first.count == 0:
        return rows.limit(0)
    ranked = rows.selectExpr("*", f"rank() over (order by {first.order}) as {_RANK}").where(f"{_RANK} <= {first.count}")
    # Rows that share the last place have one rank, so that there are too many of them.
    found = ranked.limit(first.count + 1).count()
    if found > first.count:
        raise InvalidArgumentsError(
            f"{table}: the ORDER BY does not say which rows the first {first.count} are: several share the last place; "
            "order by more columns, until no two rows are equal"
        )
    return ranked.alias(alias)


def moves_rows(table: OpenTable, assignments: Sequence[Assignment]) -> bool:
    """Whether rows may get into another partition."""
    return bool({c.name for c in table.partition_columns} & {a.column.lower() for a in assignments})


def target_rows(spark: SparkSession, table: OpenTable, alias: str) -> DataFrame:
    """All rows of the target under its alias, with identity columns and ``row__id``."""
    return without_blanks(table_rows(spark, table, identity=True)).selectExpr("*", ROW_ID).alias(alias)


def check_assignable(table: OpenTable, assignments: Sequence[Assignment], statement: str) -> None:
    """Refuse assignments to columns that do not exist, or come twice.

    :raises InvalidArgumentsError: for unknown or repeated columns.
    """
    known = {c.name for c in (*table.columns, *table.partition_columns)}
    names = [a.column.lower() for a in assignments]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentsError(f"{statement} of {table.name}: {name} is assigned twice")
        if name not in known:
            raise InvalidArgumentsError(f"{statement} of {table.name}: there is no column {name}; it has {[*known]}")


def with_assigned(
    rows: DataFrame,
    assignments: Sequence[Assignment],
    columns: Sequence[schema.TableColumn],
    table: str,
    label: str = "0",
    when: str = "true",
) -> tuple[DataFrame, dict[str, str]]:
    """Evaluate assignments over ``rows``.

    :param label: tells the values of several lists of assignments over the same rows apart.
    :param when: the rows that these assignments are about. Of others nothing is evaluated: what another clause takes
        need not be a number, for example.
    :return: the rows with the raw values added, and per assigned column the expression that stores its value.
    """
    if not assignments:
        return rows, {}
    known = {c.name: c for c in columns}
    raw = [f"{schema.INTERNAL_PREFIX}value_{label}_{i}" for i in range(len(assignments))]
    # Inside of CASE Spark refuses explode() and its like, which would make several rows of one, or none.
    values = [f"case when {when} then ({a.expression}) end" for a in assignments]
    valued = rows.selectExpr("*", *[f"{value} as {name}" for value, name in zip(values, raw, strict=True)])
    types = {f.name: f.dataType for f in valued.schema.fields}
    return valued, {
        a.column.lower(): assigned(name, types[name], known[a.column.lower()], table)
        for a, name in zip(assignments, raw, strict=True)
    }


@dataclass(frozen=True, slots=True)
class ChangeWriter:
    """Writes delete events, and insert events beside them where rows are changed.

    :param insert_statement_id: None when rows are only deleted.
    :param moves: changed rows may get into another partition: the ``NEW`` columns go on with the partition columns.
    """

    table: OpenTable
    write_id: int
    delete_statement_id: int
    insert_statement_id: int | None
    moves: bool = False

    def write(
        self, spark: SparkSession, rows: DataFrame, staging: Staging, label: str = "write_1"
    ) -> list[WrittenDirectory]:
        """Write the events of these rows.

        :param rows: identity columns and partition ordinal; with an insert statement also ``CHANGED`` and the
            ``NEW`` columns. One row per row of the table: two delete events for one row may cost other deletes.
        """
        buckets = self.table.files.buckets()
        if not buckets:
            return []
        properties = self.table.snapshot.properties
        sink = sink_for(spark, self.table.columns, properties)
        if self.moves and self.insert_statement_id is not None:
            return self._write_moved(spark, rows, staging, label, sink, self.insert_statement_id)
        if sink is not None:
            action = str(DELETE) if self.insert_statement_id is None else f"if({CHANGED}, {CHANGE}, {DELETE})"
            return self.write_matches(sink, rows, action, staging, label).directories
        # Sorted by key first, so that Spark adds no sort of its own; then as delete files must be, which insert
        # events, numbered before, satisfy as well.
        events = self._events(self._grouped(rows, buckets), len(buckets)).sortWithinPartitions(_KEY, *schema.IDENTITY)
        return write_events(staging, events, [_KEY], lambda v: self._place(int(v[0]), len(buckets)), properties, label)

    def _write_moved(
        self, spark: SparkSession, rows: DataFrame, staging: Staging, label: str, sink: Sink | None, statement_id: int
    ) -> list[WrittenDirectory]:
        """Delete events where the rows were, insert events where their new values belong, in one pass.

        Both come from the same row in the same task, as those of a row that stays; the insert events of a task are
        in the file of its own number in each partition it writes.
        """
        table, buckets = self.table, self.table.files.buckets()
        columns, kept = table.partition_columns, len(table.columns)
        keys = [f"{schema.INTERNAL_PREFIX}k{i}" for i in range(len(columns))]
        # As columns of their own name, which the spelling of partition values asks for.
        named = [f"{NEW}{kept + i} as {schema.quoted(c.name)}" for i, c in enumerate(columns)]
        texts = [f"{partition_text(c)} as {key}" for c, key in zip(columns, keys, strict=True)]
        grouped = self._grouped(rows, buckets).selectExpr("*", *named).selectExpr("*", *texts)
        inserted, none = f"0 as {_KEY}", [f"'' as {key}" for key in keys]
        places = known_places(spark, table)

        def place_of_new(values: tuple[str, ...]) -> Destination:
            ordinal = places.get(values)
            if ordinal is not None:
                return self._destination(ordinal, inserts=True)
            partition, texts = partition_of(columns, {}, values)
            return Destination(partition, texts, self._name(inserts=True))

        if sink is not None:
            moved = grouped.selectExpr(f"inline({self._moved(keys)})").sortWithinPartitions(_GROUP, *keys, *IDENTITY)
            spelled = self._spelled(staging, places)
            new = FinalNames(tuple(c.name for c in columns), (None,) * len(columns), self._name(inserts=True), spelled)
            return sink.write_moves(
                staging,
                moved,
                keys,
                lambda p: place_of_new(p.keys) if p.inserts else self._destination(int(p.keys[0]), inserts=False),
                label,
                self._change_names(()),
                new,
                writeId=self.write_id,
                statementId=statement_id,
                buckets=",".join(map(str, buckets)),
            )
        events = self._paired(grouped, [f"1 + {_GROUP} as {_KEY}", *none], [inserted, *keys])
        events = events.sortWithinPartitions(_KEY, *keys, *schema.IDENTITY)

        def place(values: tuple[str, ...]) -> Destination:
            group = int(values[0]) - 1
            return place_of_new(values[1:]) if group < 0 else self._destination(group // len(buckets), inserts=False)

        return write_events(staging, events, [_KEY, *keys], place, table.snapshot.properties, label)

    def _moved(self, keys: Sequence[str]) -> str:
        """The row that is deleted, and the new row if it is changed, for ``MoveWriter`` of the jar: SQL of an array."""
        columns = list(enumerate(self.table.columns))
        none = [f"cast(null as {schema.sql_type(c.type)}) as {NEW}{i}" for i, c in columns]
        values = [f"{stored(f'{NEW}{i}', c)} as {NEW}{i}" for i, c in columns]
        deleted = [_GROUP, *[f"'' as {key}" for key in keys], *IDENTITY, *none]
        inserted = [f"-1 as {_GROUP}", *keys, *IDENTITY, *values]
        only, new = f"struct({', '.join(deleted)})", f"struct({', '.join(inserted)})"
        return f"if({CHANGED}, array({only}, {new}), array({only}))"

    def _spelled(self, staging: Staging, places: Mapping[tuple[str, ...], int]) -> dict[str, str]:
        """Where partitions lie whose names are not made of their values as this package spells them."""
        columns, known = self.table.partition_columns, self.table.snapshot.partitions
        names = {partition_of(columns, {}, values)[0]: known[ordinal].name for values, ordinal in places.items()}
        others = {mine: name for mine, name in names.items() if mine != name}
        return {mine: place or "" for mine, place in zip(others, staging.places([*others.values()]), strict=True)}

    def _change_names(self, shared: Iterable[int]) -> ChangeNames:
        """What the final names of files are made of.

        :param shared: groups that several tasks write.
        """
        return ChangeNames(
            self._name(inserts=False),
            None if self.insert_statement_id is None else self._name(inserts=True),
            tuple(partition.name for partition in self.table.snapshot.partitions),
            tuple(shared),
        )

    def write_matches(
        self,
        sink: Sink,
        rows: DataFrame,
        action: str,
        staging: Staging,
        label: str,
        source_row: str | None = None,
    ) -> Changes:
        """Write through the optional jar.

        :param rows: as for :meth:`write`.
        :param action: SQL for what becomes of a row: ``DELETE``, ``CHANGE``, or nothing (0).
        :param source_row: column with the number of the source row that a row matched, for a MERGE.
        """
        buckets = self.table.files.buckets()
        options: dict[str, int | str] = {"writeId": self.write_id, "buckets": ",".join(map(str, buckets))}
        columns = [_GROUP, *IDENTITY, f"{action} as {CHANGED}"]
        if self.insert_statement_id is not None:
            options["statementId"] = self.insert_statement_id
            columns += [f"{stored(f'{NEW}{i}', c)} as {NEW}{i}" for i, c in enumerate(self.table.columns)]
        if source_row is not None:
            options["matched"] = "true"
            columns.append(source_row)
        # Several tasks may write a large group; their files are made one afterwards.
        shared = {} if self._placed() else ranges_of_groups(rows.sparkSession, self.table.files, buckets)
        grouped = self._grouped(rows, buckets, shared).selectExpr(*columns)
        return sink.write_changes(
            staging,
            grouped.sortWithinPartitions(_GROUP, *IDENTITY),
            lambda part: self._destination(int(part.keys[0]), inserts=part.inserts),
            label,
            self._change_names(shared),
            **options,
        )

    def _placed(self) -> Buckets | None:
        """The buckets in which changed rows have to stay, None where they may lie in any."""
        return None if self.insert_statement_id is None else buckets_of(self.table.snapshot)

    def _grouped(self, rows: DataFrame, buckets: Sequence[int], several: Mapping[int, int] | None = None) -> DataFrame:
        """One task per group, a bucket of a partition: a bucket of a directory has exactly one writer.

        :param several: how many tasks write a large group, if their files are made one afterwards.
        """
        groups = len(buckets) * len(self.table.snapshot.partitions)
        tasks, task = _tasks_of_groups(several or {}, groups)
        # New versions of rows are in the bucket of their task's number, and a directory has so many of them.
        most = min(_shuffle_partitions(rows), MAX_BUCKET + 1)
        if tasks > most:
            tasks, task = most, f"({task}) % {most}"
        placed = self._placed()
        if placed is not None:
            # Changed rows stay in their bucket: bucketing columns keep their values, and task b writes bucket b.
            tasks, task = max(placed.count, buckets[-1] + 1), bucket_number(IDENTITY[1])
        group = f"{schema.PARTITION} * {len(buckets)} + {bucket_index(bucket_number(IDENTITY[1]), buckets)}"
        return repartition_by_id(rows.selectExpr("*", f"{group} as {_GROUP}"), tasks, F.expr(task))

    def _events(self, rows: DataFrame, buckets: int) -> DataFrame:
        """One or two events per row, with the key of the file they belong to."""
        # Slot 0 of a partition takes its insert events, slot i + 1 the delete events of its i-th bucket.
        first = f"{schema.PARTITION} * {buckets + 1}"
        deleted = f"{first} + 1 + {_GROUP} % {buckets} as {_KEY}"
        return self._paired(rows, [deleted], [f"{first} as {_KEY}"])

    def _paired(self, rows: DataFrame, delete_keys: Sequence[str], insert_keys: Sequence[str]) -> DataFrame:
        """The delete event of each row, and beside it the insert event of one that is changed."""
        row = schema.row_type(self.table.columns)
        deleted = [*delete_event(IDENTITY, self.write_id, row), *delete_keys]
        if self.insert_statement_id is None:
            return rows.selectExpr(*deleted)
        new = row_of((c.name, stored(f"{NEW}{i}", c)) for i, c in enumerate(self.table.columns))
        inserted = [*insert_event(new, self.write_id, self.insert_statement_id, row_number=_NUMBER), *insert_keys]
        only, pair = f"struct({', '.join(deleted)})", f"struct({', '.join(inserted)})"
        numbered = rows.selectExpr("*", f"{task_row_number()} as {_NUMBER}")
        return numbered.selectExpr(f"inline(if({CHANGED}, array({only}, {pair}), array({only})))")

    def _place(self, key: int, buckets: int) -> Destination:
        ordinal, slot = divmod(key, buckets + 1)
        return self._destination(ordinal, inserts=slot == 0)

    def _destination(self, ordinal: int, *, inserts: bool) -> Destination:
        partition = self.table.snapshot.partitions[ordinal]
        return Destination(partition.name, partition.values, self._name(inserts=inserts))

    def _name(self, *, inserts: bool) -> str:
        if inserts and self.insert_statement_id is not None:
            return delta_name(self.write_id, self.write_id, self.insert_statement_id)
        return delete_delta_name(self.write_id, self.write_id, self.delete_statement_id)


def checked_changes(rows: DataFrame, table: OpenTable) -> DataFrame:
    """Changed rows; one whose new values do not keep a CHECK ends the job."""
    if not table.snapshot.checks:
        return rows
    # A char without blanks, as in the rows of an INSERT.
    named = [f"{stored(f'{NEW}{i}', c)} as {schema.quoted(c.name)}" for i, c in enumerate(table.columns)]
    return checked(rows.selectExpr("*", *named), table.snapshot, CHANGED, CHANGED).select(*rows.columns)


def known_places(spark: SparkSession, table: OpenTable) -> dict[tuple[str, ...], int]:
    """Ordinals of the snapshot's partitions, by their values as this package spells them.

    A Hive may have spelled them otherwise: ``k=01`` of an int column is 1 (decision 41).
    """
    values = table.partitions
    given = {partition.values: ordinal for ordinal, partition in enumerate(table.snapshot.partitions)}
    if all(isinstance(c.type, T.StringType) and c.length is None for c in values.columns):
        return given
    names = [schema.quoted(c.name) for c in values.columns]
    rows = [(ordinal, *values.nullable(ordinal)) for ordinal in range(len(table.snapshot.partitions))]
    texts = spark.createDataFrame(rows, f"{_GROUP} int, {', '.join(f'{name} string' for name in names)}")
    types = [schema.sql_type(c.type) for c in values.columns]
    typed = [f"try_cast({name} as {kind}) as {name}" for name, kind in zip(names, types, strict=True)]
    spelled = texts.selectExpr(_GROUP, *typed).selectExpr(_GROUP, *[partition_text(c) for c in values.columns])
    return {tuple(row[1:]): row[0] for row in spelled.collect()} | given


def _tasks_of_groups(several: Mapping[int, int], groups: int) -> tuple[int, str]:
    """How many tasks there are, and Spark SQL for the task of a row.

    Blocks of row numbers are dealt out in turn, so that all tasks have work wherever in the table the rows lie.

    :param several: how many tasks the groups have that have more than one.
    """
    if not several:
        return groups, _GROUP
    firsts, counts, tasks = [], [], 0
    for group in range(groups):
        firsts.append(tasks)
        counts.append(several.get(group, 1))
        tasks += counts[-1]
    block = f"cast(pmod({IDENTITY[2]} div {_BLOCK}L, element_at(array({_numbers(counts)}), {_GROUP} + 1)) as int)"
    return tasks, f"element_at(array({_numbers(firsts)}), {_GROUP} + 1) + {block}"


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _shuffle_partitions(rows: DataFrame) -> int:
    return int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)


def bucket_index(bucket: str, buckets: Sequence[int]) -> str:
    """Position of a bucket number among those of the table; usually they are 0, 1, 2 … and it is the number."""
    if list(buckets) == list(range(len(buckets))):
        return f"({bucket})"
    return f"(cast(array_position(array({', '.join(map(str, buckets))}), {bucket}) as int) - 1)"
