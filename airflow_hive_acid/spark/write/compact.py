"""Compaction of one partition (or of an unpartitioned table): fewer files, the same rows with the same ids.

Minor copies the events of all deltas into one delta and one delete delta over the whole range; both kinds get the same
range, because a narrower delete delta inside it would be taken for replaced (R18). Major applies the deletes and
writes a base. Events of aborted write ids are dropped one by one. Buckets stay what they are, so each is one task;
a bucket that is one file is copied in its order, without an exchange or a sort. Sources stay: the Cleaner removes them.

The optional jar copies buckets from ORC's vectors to ORC's vectors, one file after the other and deletes as bitmaps,
without Spark SQL. Rebalances, and buckets with files from before the table had transactions, go through Spark SQL; with
the jar it writes their files, too.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError, UnsupportedStatementError
from airflow_hive_acid.format.names import base_name, delete_delta_name, delta_name
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.accelerator import accelerator
from airflow_hive_acid.spark.hadoop import HadoopFilesystem, in_threads
from airflow_hive_acid.spark.read import originals
from airflow_hive_acid.spark.read.open_tables import only_seen
from airflow_hive_acid.spark.read.reader import (
    are_sent_to_all_tasks,
    delete_events,
    insert_events,
    live_events,
    live_originals,
    open_table,
)
from airflow_hive_acid.spark.read.scan import bucket_number, read_files_whole, union
from airflow_hive_acid.spark.versions import repartition_by_id
from airflow_hive_acid.spark.write.change import bucket_index
from airflow_hive_acid.spark.write.output import Destination, merged, start_directory, write_events
from airflow_hive_acid.spark.write.ranges import ranges, shares
from airflow_hive_acid.spark.write.rebalance import check_buckets, rebalanced
from airflow_hive_acid.spark.write.sink import sink_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import Compact, WrittenDirectory
    from airflow_hive_acid.spark.read.data_files import EventFile, OriginalDataFile
    from airflow_hive_acid.spark.read.open_tables import OpenTable
    from airflow_hive_acid.spark.write.output import Staging
    from airflow_hive_acid.spark.write.sink import Sink

_EVENT = (*schema.HEADER, schema.ROW)


def compact(spark: SparkSession, step: Compact, staging: Staging) -> list[WrittenDirectory]:
    """Run a compaction.

    :return: the directories written; none when there is nothing to compact.
    """
    if len(step.target.partitions) != 1:
        raise InvalidArgumentsError(
            f"a compaction of {step.target.table} takes exactly one partition, not {len(step.target.partitions)}"
        )
    table = open_table(spark, step.target, compactor=True, staging=staging.root)
    if accelerator(spark) is None:
        _check_footers(spark, table)
    compactor = _Compaction(spark, step, table, staging)
    match step.type:
        case "minor":
            return compactor.minor()
        case "major":
            return compactor.major()
        case _:
            return compactor.rebalance()


def _check_footers(spark: SparkSession, table: OpenTable) -> None:
    """Refuse damaged input, whose originals would be cleaned away; the optional jar looks while it reads.

    Spark's own source does not show what the footers say. A compaction may spend the look; a query counts on the scan.

    :raises CorruptTableError: for a footer that contradicts itself.
    """
    footers = HadoopFilesystem.of(spark).footers
    in_threads(footers.orc_events, [f.uri for f in (*table.files.inserts, *table.files.deletes)])


class _Compaction:
    def __init__(self, spark: SparkSession, step: Compact, table: OpenTable, staging: Staging) -> None:
        self._spark = spark
        self._step = step
        self._table = table
        self._staging = staging
        self._high = table.write_ids.high_watermark
        self._sink = sink_for(spark, table.columns, step.target.properties)

    def minor(self) -> list[WrittenDirectory]:
        """One delta and one delete delta instead of many; a kind without a row is left out."""
        files, above = self._table.files, self._step.above
        inserts = [f for f in files.inserts if not f.in_base and f.min_write_id > above]
        deletes_there = [f for f in files.deletes if f.min_write_id > above]
        loaded = [f for f in files.originals if f.in_delta and f.write_id > above]
        sources = [f.min_write_id for f in (*inserts, *deletes_there)] + [f.write_id for f in loaded]
        if not sources:
            return []
        if self._table.changing:
            raise UnsupportedStatementError(
                f"{self._table.name} holds updates in place of a Hive before version 3 "
                f"({min(self._table.changing)}), which a minor compaction cannot merge; run a major one"
            )
        low = min(sources)
        visibility = self._step.visibility_txn_id
        rows = delta_name(low, self._high, None, visibility)
        deletes = delete_delta_name(low, self._high, None, visibility)
        return merged(
            self._write(rows, "inserts", inserts, loaded, self._copied_inserts, self._copied_originals),
            self._write(deletes, "deletes", deletes_there, (), self._copied_deletes, self._copied_originals),
        )

    def major(self) -> list[WrittenDirectory]:
        """A base of all live rows; an empty one when there are none."""
        files = self._table.files
        changes = not all(f.in_base for f in (*files.inserts, *files.deletes)) or self._table.changing
        if not changes and not files.originals:
            return []
        name = base_name(self._high, self._step.visibility_txn_id)
        written = self._write(name, "base", files.inserts, files.originals, self._live_inserts, self._live_originals)
        return written or [start_directory(self._staging, self._destination(name))]

    def rebalance(self) -> list[WrittenDirectory]:
        """A base of all live rows with new ids; an empty one when there are none."""
        files = self._table.files
        name = base_name(self._high, self._step.visibility_txn_id)
        parts = [self._live_inserts(files.inserts)] if files.inserts else []
        if files.originals:
            parts.append(self._live_originals(files.originals))
        written: list[WrittenDirectory] = []
        if parts:
            buckets = self._step.buckets or len(files.buckets())
            check_buckets(buckets)
            size = sum(f.size for f in files.inserts) + sum(f.size for f in files.originals)
            # Only the jar makes one file of those that several tasks wrote.
            tasks = 1 if self._sink is None else shares(self._spark, size, buckets)
            events = union([p.select(*_EVENT) for p in parts])
            placed = rebalanced(events, buckets, self._step.order_by, tasks)
            several = placed.tasks if len(placed.tasks) > len(placed.rows) else ()
            try:
                written = self._save(placed.events, name, "rows", several=several)
            finally:
                if placed.kept is not None:
                    placed.kept.unpersist()
            # Numbers go on from bucket to bucket, so a share of another size would be a number twice.
            found = tuple(file.rows for directory in written for file in directory.files)
            if found != placed.rows:
                raise JobFailedError(
                    f"the rebalance of {self._table.name} has buckets of {found} rows instead of {placed.rows}, "
                    "so numbers would come twice; nothing is published"
                )
        return written or [start_directory(self._staging, self._destination(name))]

    def _copied_inserts(self, files: Sequence[EventFile]) -> DataFrame:
        return only_seen(insert_events(self._spark, self._table, files), self._table, files)

    def _copied_deletes(self, files: Sequence[EventFile]) -> DataFrame:
        row = schema.row_type(self._table.columns)
        null = f"cast(null as {schema.sql_type(row)}) as row"
        return delete_events(self._spark, self._table, files).selectExpr(*schema.HEADER, null)

    def _copied_originals(self, files: Sequence[OriginalDataFile]) -> DataFrame:
        return originals.rows(self._spark, self._table, files, identity=True)

    def _live_inserts(self, files: Sequence[EventFile]) -> DataFrame:
        clean, filtered = set(self._table.files.clean), set(self._table.files.filtered)
        parts = []
        untouched = [f for f in files if f in clean]
        if untouched:
            parts.append(insert_events(self._spark, self._table, untouched))
        hit = [f for f in files if f in filtered]
        if hit:
            parts.append(live_events(self._spark, self._table, hit))
        # A row of a base is its insert event; who changed what is over.
        current = f"{schema.ORIGINAL_WRITE_ID} as {schema.CURRENT_WRITE_ID}"
        return union([p.selectExpr(schema.OPERATION, *schema.IDENTITY, current, schema.ROW) for p in parts])

    def _live_originals(self, files: Sequence[OriginalDataFile]) -> DataFrame:
        return live_originals(self._spark, self._table, files, identity=True)

    def _write(
        self,
        name: str,
        label: str,
        files: Sequence[EventFile],
        loaded: Sequence[OriginalDataFile],
        events_of: Callable[[Sequence[EventFile]], DataFrame],
        events_of_loaded: Callable[[Sequence[OriginalDataFile]], DataFrame],
    ) -> list[WrittenDirectory]:
        """Copy buckets of one file as they are, gather and sort the others."""
        if self._sink is not None and files and not loaded and not self._table.mixed:
            return self._merged(self._sink, name, label, files)
        deletes = label == "deletes"
        mixed = {f.bucket for f in loaded} | {bucket for _, bucket in self._table.mixed}
        per_bucket = Counter([f.bucket for f in files] + [f.bucket for f in loaded])
        # Rows that are exchanged, because of many deletes, have to be gathered again.
        stay = label != "base" or are_sent_to_all_tasks(self._table.files.deletes)
        moved = frozenset() if stay else frozenset(self._table.files.filtered)
        alone = [f for f in files if per_bucket[f.bucket] == 1 and f.bucket not in mixed and f not in moved]
        several = [f for f in files if f not in set(alone)]
        written: list[WrittenDirectory] = []
        if alone:
            read_files_whole(self._spark, max(f.size for f in alone))
            written += self._save(events_of(alone).select(*_EVENT), name, f"{label}_alone", deletes=deletes)
        parts = [events_of(several)] if several else []
        if loaded:
            parts.append(events_of_loaded(loaded))
        if parts:
            buckets = sorted(per_bucket.keys() - {f.bucket for f in alone})
            gathered = self._gathered(union([p.select(*_EVENT) for p in parts]), buckets)
            written += self._save(gathered, name, f"{label}_several", deletes=deletes)
        return merged(written)

    def _merged(self, sink: Sink, name: str, label: str, files: Sequence[EventFile]) -> list[WrittenDirectory]:
        """Bucket by bucket, by the optional jar."""
        live = label == "base"
        kind = "rows" if live else label
        deletes = self._table.files.deletes if live else ()
        destination = self._destination(name)
        sizes: Counter[int] = Counter()
        for file in files:
            sizes[file.bucket] += file.size
        tasks = ranges(self._spark, sizes)
        buckets = [
            {
                "bucket": bucket,
                "files": [self._source(f) for f in files if f.bucket == bucket],
                "deletes": [self._source(f) for f in deletes if f.bucket == bucket],
                "tasks": tasks[bucket],
                "upload": self._staging.final_name(destination, bucket),
            }
            for bucket in sorted(sizes)
        ]
        seen = self._table.write_ids
        work = {"kind": kind, "highWatermark": self._high, "hidden": sorted(seen.exceptions), "buckets": buckets}
        return sink.compact(self._spark, self._staging, work, destination, label)

    def _source(self, file: EventFile) -> dict[str, object]:
        names = self._table.renamed.get(file.uri)
        return {"uri": file.uri, "least": file.min_write_id, "check": file.check_rows, "names": names}

    def _gathered(self, events: DataFrame, buckets: Sequence[int]) -> DataFrame:
        """One task per bucket, events in the order of their rows; of two about one row the later comes first."""
        index = bucket_index(bucket_number(schema.BUCKET), buckets)
        exchanged = repartition_by_id(events, len(buckets), F.expr(index))
        return exchanged.sortWithinPartitions(*schema.IDENTITY, F.desc(schema.CURRENT_WRITE_ID))

    def _save(
        self, events: DataFrame, name: str, label: str, *, deletes: bool = False, several: Sequence[int] = ()
    ) -> list[WrittenDirectory]:
        """Write events, of which each task has those of a bucket in their order.

        :param several: rows of each task where some of them have a bucket together, for the jar.
        """
        destination = self._destination(name)
        if self._sink is not None:
            columns = [] if deletes else [c.name for c in self._table.columns]
            return self._sink.write_events(self._staging, events, columns, destination, label, several)
        return write_events(self._staging, events, (), lambda _: destination, self._step.target.properties, label)

    def _destination(self, name: str) -> Destination:
        partition = self._step.target.partitions[0]
        return Destination(partition.name, partition.values, name)
