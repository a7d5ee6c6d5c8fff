"""MERGE: one join of target and source, then updates, deletes and inserts in one pass over the target.

The rows that match are kept (in memory, else on local disk) because three things look at them: the check that no
target row has two source rows, the events, and which source rows matched nothing. Two delete events for one row can
make Hive lose other deletes, so the check is not optional (R18); like Hive's it counts matches of the ON condition,
whatever the clauses then do with them. With the optional jar nothing is kept: its writer sees all matches of a row one
after the other, and remembers the numbers of the source rows.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from airflow_hive_acid.errors import CardinalityViolationError, InvalidArgumentsError, JobFailedError
from airflow_hive_acid.format.names import delta_name, parse_bucket_file
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import full_text
from airflow_hive_acid.spark.parsed_texts import rows_of
from airflow_hive_acid.spark.read.reader import IDENTITY, open_table, presented, project, without_blanks
from airflow_hive_acid.spark.read.scan import PartitionValues
from airflow_hive_acid.spark.write.bucketing import buckets_of
from airflow_hive_acid.spark.write.change import (
    CHANGE,
    CHANGED,
    DELETE,
    NEW,
    ChangeWriter,
    check_assignable,
    checked_changes,
    moves_rows,
    target_rows,
    with_assigned,
)
from airflow_hive_acid.spark.write.insert import InsertWriter, checked, default_of, without_value
from airflow_hive_acid.spark.write.kept_rows import can_be_lost, times, with_time
from airflow_hive_acid.spark.write.output import merged
from airflow_hive_acid.spark.write.sink import sink_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import Merge, MergeClause, TableSnapshot, WrittenDirectory
    from airflow_hive_acid.spark.read.open_tables import OpenTable
    from airflow_hive_acid.spark.write.output import Staging
    from airflow_hive_acid.spark.write.sink import Sink

BROADCAST_SOURCE_BYTES = 64 << 20
"""Size of a source in memory up to which it is broadcast."""
_CARDINALITY = re.compile(r"\[hive-acid cardinality\] (\d+) (\d+) (\d+) (\d+) (\d+)")
_CLAUSE = f"{schema.INTERNAL_PREFIX}clause"
_SOURCE_ROW = f"{schema.INTERNAL_PREFIX}source_row"
_ORDINAL = f"{schema.INTERNAL_PREFIX}ordinal"


class MergeOutcome:
    """What a MERGE wrote.

    :param directories: all directories.
    :param inserted: rows that came through WHEN NOT MATCHED.
    """

    def __init__(self, directories: list[WrittenDirectory], inserted: int) -> None:
        self.directories = directories
        self.inserted = inserted


def merge(spark: SparkSession, step: Merge, staging: Staging) -> MergeOutcome:
    """Run a MERGE.

    Where ON demands that partition columns equal columns of a small source, only the partitions whose values the
    source has are listed and read.

    :raises CardinalityViolationError: when several source rows match one target row.
    :raises JobFailedError: when rows of the source had to be made again while their numbers counted.
    """
    kept: list[DataFrame] = []
    try:
        source = rows_of(spark, step.source)
        small = _is_small(source)
        # Kept, because the numbers of its rows must not change between its uses.
        source = source.selectExpr("*", f"monotonically_increasing_id() as {_SOURCE_ROW}")
        lost = can_be_lost(spark)
        source = _keep(with_time(source) if lost else source, kept)
        if lost or not small:
            source.count()  # fills the cache; only then Spark knows the size
            small = _is_small(source)
        made = times(source) if lost else {}
        source = source.alias(step.source_alias)
        target = matching_partitions(spark, step, source) if small else step.target
        outcome = _Merge(spark, step, open_table(spark, target), staging).run(source, small, kept)
        if lost and times(source) != made:
            raise JobFailedError(
                f"MERGE INTO {step.target.table}: an executor that kept rows of the source was lost, and they were "
                "made again, perhaps in another order; nothing is published: run the statement again"
            )
        return outcome
    finally:
        for frame in kept:
            frame.unpersist()


def matching_partitions(spark: SparkSession, step: Merge, source: DataFrame) -> TableSnapshot:
    """The target without the partitions in which no row can match.

    Spark compares the values as it will in the join: a table of the partitions, with their columns' types, is joined
    with the source.

    :param source: under the source's alias.
    """
    target = step.target
    if not step.partition_pairs or len(target.partitions) < 2:
        return target
    columns = schema.table_columns(target.partition_columns, target.table)
    values = PartitionValues(columns, tuple(p.values for p in target.partitions))
    names = [f"{schema.INTERNAL_PREFIX}t{i}" for i in range(len(columns))]
    rows = [(ordinal, *values.nullable(ordinal)) for ordinal in range(len(target.partitions))]
    texts = spark.createDataFrame(rows, f"{_ORDINAL} int, {', '.join(f'{name} string' for name in names)}")
    typed = [
        presented(f"try_cast({name} as {schema.sql_type(column.type)})", column)
        for name, column in zip(names, columns, strict=True)
    ]
    partitions = without_blanks(project(texts, [_ORDINAL, *typed])).alias(step.target_alias)
    equal = " and ".join(
        f"{schema.quoted(step.target_alias, mine)} = {schema.quoted(step.source_alias, theirs)}"
        for mine, theirs in step.partition_pairs
    )
    found = partitions.join(F.broadcast(source), F.expr(equal), "left_semi").select(_ORDINAL).collect()
    hit = {row[0] for row in found}
    return replace(target, partitions=tuple(p for i, p in enumerate(target.partitions) if i in hit))


class _Merge:
    def __init__(self, spark: SparkSession, step: Merge, table: OpenTable, staging: Staging) -> None:
        self._spark = spark
        self._step = step
        self._table = table
        self._staging = staging
        self._of_target = [c for c in step.clauses if c.of_target]
        self._not_matched = [c for c in step.clauses if not c.of_target]
        self._by_source = any(c.by_source for c in step.clauses)
        self._moves = any(moves_rows(table, c.assignments) for c in self._of_target)

    def run(self, source: DataFrame, small: bool, kept: list[DataFrame]) -> MergeOutcome:
        """Join, check, write.

        :param source: its rows numbered, under its alias.
        :param small: whether it can be spread to all tasks.
        :param kept: what is to be let go of in the end.
        """
        target = target_rows(self._spark, self._table, self._step.target_alias)
        # A small source goes to where the rows of the target lie.
        # With WHEN NOT MATCHED BY SOURCE those that match nothing are looked at, too.
        how = "left_outer" if self._by_source else "inner"
        joined = target.join(F.broadcast(source) if small else source, F.expr(self._step.on), how)
        changes: list[WrittenDirectory] = []
        sink = sink_for(self._spark, self._table.columns, self._table.snapshot.properties)
        matches = self._decided(joined)
        # Without a WHEN MATCHED clause nothing becomes of a row of the target that several of the source match.
        once = any(not clause.by_source for clause in self._of_target)
        if once and sink is not None and not self._moves and self._table.files.buckets():
            changes, new = self._write_matches(sink, matches, source)
        else:
            if once or not self._of_target:
                matches = _keep(matches, kept)
            elif self._not_matched:
                matches = _keep(matches.where(f"{_CLAUSE} is not null or {_SOURCE_ROW} >= 0"), kept)
            if once:
                self._check_cardinality(matches)
            if self._of_target:
                changes = self._write_changes(matches)
            numbers = matches.select(_SOURCE_ROW) if self._not_matched else None
            new = None if numbers is None else source.join(numbers, _SOURCE_ROW, "left_anti")
        inserts = self._write_inserts(new, changes) if new is not None else []
        inserted = sum(file.rows for directory in inserts for file in directory.files)
        return MergeOutcome(merged(changes, inserts), inserted)

    def _decided(self, joined: DataFrame) -> DataFrame:
        """The matches: identity, which clause takes them, new values, and the number of the source row."""
        # Source rows have numbers from 0; -1 is for a row of the target that none of them matches.
        numbers = [f"coalesce({_SOURCE_ROW}, -1L) as {_SOURCE_ROW}"] if self._not_matched else []
        if not self._of_target:
            return joined.selectExpr(*numbers)
        decided = joined.selectExpr("*", f"{_first_clause(self._of_target)} as {_CLAUSE}")
        updates = [i for i, clause in enumerate(self._of_target) if clause.action == "update"]
        values: list[str] = []
        if updates:
            decided, values = self._new_values(decided, updates)
        changed = f"coalesce({_CLAUSE} in ({', '.join(map(str, updates))}), false)" if updates else "false"
        found = decided.selectExpr(*IDENTITY, schema.PARTITION, _CLAUSE, f"{changed} as {CHANGED}", *values, *numbers)
        return checked_changes(found, self._table) if updates else found

    def _new_values(self, rows: DataFrame, updates: Sequence[int]) -> tuple[DataFrame, list[str]]:
        """The columns after the update clauses; NULL where a row is not updated (nobody will look)."""
        alias = self._step.target_alias
        columns = (*self._table.columns, *self._table.partition_columns) if self._moves else self._table.columns
        cases: dict[str, list[str]] = {c.name: [] for c in columns}
        for index in updates:
            assignments = self._of_target[index].assignments
            check_assignable(self._table, assignments, "MERGE … UPDATE")
            taken = f"{_CLAUSE} = {index}"
            rows, new = with_assigned(rows, assignments, columns, self._table.name, str(index), taken)
            for name, whens in cases.items():
                whens.append(f"when {index} then {new.get(name) or schema.quoted(alias, name)}")
        values = [f"case {_CLAUSE} {' '.join(whens)} end as {NEW}{i}" for i, whens in enumerate(cases.values())]
        return rows, values

    def _check_cardinality(self, matches: DataFrame) -> None:
        twice = matches.groupBy(schema.PARTITION, *IDENTITY).count().where("count > 1").limit(1).collect()
        if twice:
            raise self._matched_twice(*twice[0])

    def _matched_twice(self, ordinal: int, write_id: int, bucket: int, number: int, count: int) -> Exception:
        partition = self._table.snapshot.partitions[ordinal].name
        return CardinalityViolationError(
            f"MERGE INTO {self._table.name}: {count} rows of the source match the target row with row__id "
            f"(writeid {write_id}, bucketid {bucket}, rowid {number})"
            + (f" of partition {partition}" if partition else "")
            + "; make the ON condition or the source unique per target row"
        )

    def _change_writer(self) -> ChangeWriter:
        updates = any(c.action == "update" for c in self._of_target)
        return ChangeWriter(
            self._table,
            self._step.write_id,
            self._step.delete_statement_id,
            self._step.insert_statement_id if updates else None,
            self._moves,
        )

    def _write_changes(self, matches: DataFrame) -> list[WrittenDirectory]:
        rows = matches.where(f"{_CLAUSE} is not null")
        return self._change_writer().write(self._spark, rows, self._staging, "write_1")

    def _write_matches(
        self, sink: Sink, matches: DataFrame, source: DataFrame
    ) -> tuple[list[WrittenDirectory], DataFrame | None]:
        """The changes, and the source rows that matched nothing if anybody will ask."""
        action = f"if({CHANGED}, {CHANGE}, if({_CLAUSE} is null, 0, {DELETE}))"
        numbers = _SOURCE_ROW if self._not_matched else None
        try:
            changes = self._change_writer().write_matches(sink, matches, action, self._staging, "write_1", numbers)
        except Exception as failure:
            twice = _CARDINALITY.search(full_text(self._spark, failure))
            if twice is None:
                raise
            raise self._matched_twice(*map(int, twice.groups())) from failure
        unmatched = changes.unmatched
        return changes.directories, None if unmatched is None else unmatched(source, _SOURCE_ROW)

    def _write_inserts(self, new: DataFrame, changes: Sequence[WrittenDirectory]) -> list[WrittenDirectory]:
        """Source rows that matched nothing, through the first WHEN NOT MATCHED clause that takes them."""
        decided = new.alias(self._step.source_alias).selectExpr("*", f"{_first_clause(self._not_matched)} as {_CLAUSE}")
        statement_id = self._step.new_rows_statement_id
        if statement_id is None:
            statement_id = self._step.insert_statement_id
        name = delta_name(self._step.write_id, self._step.write_id, statement_id)
        writer = InsertWriter(
            self._step.write_id,
            statement_id,
            name,
            self._table.columns,
            self._table.partition_columns,
            {},
            buckets_of(self._table.snapshot),
        )
        # Updates may have written into the same directories: their buckets are taken.
        taken = [parse_bucket_file(f.name) for d in changes if d.name == name for f in d.files]
        offset = 1 + max((b.bucket for b in taken if b is not None), default=-1)
        rows = self._inserted(decided.where(f"{_CLAUSE} is not null"))
        return writer.write(rows, self._staging, self._table.snapshot.properties, "write_2", offset)

    def _inserted(self, rows: DataFrame) -> DataFrame:
        """The new rows, partition columns included; what no clause assigns is NULL."""
        columns = (*self._table.columns, *self._table.partition_columns)
        cases: dict[str, list[str]] = {c.name: [] for c in columns}
        for index, clause in enumerate(self._not_matched):
            for name in (a.column.lower() for a in clause.assignments):
                if name not in cases:
                    raise InvalidArgumentsError(
                        f"MERGE … INSERT of {self._table.name}: there is no column {name}; it has {[*cases]}"
                    )
            taken = f"{_CLAUSE} = {index}"
            rows, new = with_assigned(rows, clause.assignments, columns, self._table.name, str(index), taken)
            for name, value in new.items():
                cases[name].append(f"when {index} then {value}")
        made = rows.selectExpr(
            *[
                f"case {_CLAUSE} {' '.join(cases[c.name])}{_otherwise(rows, c, self._table.name)} end"
                f" as {schema.quoted(c.name)}"
                if cases[c.name]
                else without_value(rows, c, self._table.name)
                for c in columns
            ]
        )
        return checked(made, self._table.snapshot)


def _otherwise(rows: DataFrame, column: schema.TableColumn, table: str) -> str:
    """What the rows of a clause get that gives the column no value."""
    return "" if column.default is None else f" else {default_of(rows, column, table)}"


def _first_clause(clauses: Sequence[MergeClause]) -> str:
    """Index of the first clause whose condition holds, NULL when there is none."""
    whens = [f"when {_taken(clause, clauses)} then {index}" for index, clause in enumerate(clauses)]
    return f"case {' '.join(whens)} end"


def _taken(clause: MergeClause, clauses: Sequence[MergeClause]) -> str:
    """Which rows a clause takes, of those that no clause before it has taken."""
    condition = clause.condition or "true"
    if not any(other.by_source for other in clauses):
        return condition
    return f"{_SOURCE_ROW} is {'null' if clause.by_source else 'not null'} and ({condition})"


def _is_small(source: DataFrame) -> bool:
    """Whether a source can be spread to all tasks, by Spark's estimate, which errs on the large side."""
    size = source._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    return int(str(size)) <= BROADCAST_SOURCE_BYTES


def _keep(frame: DataFrame, kept: list[DataFrame]) -> DataFrame:
    frame = frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)
    kept.append(frame)
    return frame
