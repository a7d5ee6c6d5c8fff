"""Writes through the optional jar: rows go from Spark straight into ORC's column vectors.

Spark's own source builds an object per value, and converters anew for every row of a nested struct; the jar's data
source (``accelerator/src/hiveacid/write``) takes flat columns and fills in the header itself. It reports the files of
the task attempts that Spark let commit, and only those are looked at. What it writes is what Spark's source would have
written, with Hive's key index, statistics and version in the footer besides.
"""

from __future__ import annotations

import json
import uuid
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.accelerator import accelerator
from airflow_hive_acid.spark.write.output import Destination, FinishedFile, arrange, orc_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import WrittenDirectory
    from airflow_hive_acid.spark.write.output import Staging

_FORMAT = "hiveacid.write.Sink"
_SIMPLE = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
)


class Part(NamedTuple):
    """A file of a committed task.

    :param keys: values of the key columns.
    :param inserts: whether it holds insert events, else delete events.
    :param upload: id of the upload of a file that is not in staging.
    """

    uri: str
    bucket: int
    inserts: bool
    rows: int
    size: int
    keys: tuple[str, ...]
    upload: str = ""


class FinalNames(NamedTuple):
    """What the final names of the files of a write are made of, for ``FinalNames`` of the jar.

    :param columns: the partition columns in order, ``values`` of those that are the same for all rows, None for others.
    :param directory: name of the directory, below the table's or the partition's.
    :param spelled: places of partitions whose names in the catalog are not made of the values as we spell them, by the
        names that would be; empty for one whose files go to staging.
    """

    columns: tuple[str, ...]
    values: tuple[str | None, ...]
    directory: str
    spelled: Mapping[str, str] = MappingProxyType({})


class ChangeNames(NamedTuple):
    """What the final names of the files of changed rows are made of, for ``ChangeNames`` of the jar.

    :param deletes: name of the directory of delete events.
    :param inserts: name of the directory of the new rows, None where rows are only deleted.
    :param partitions: names of the partitions, by their ordinals.
    :param shared: groups that several tasks write: what a task has of them is no whole file.
    """

    deletes: str
    inserts: str | None
    partitions: tuple[str, ...]
    shared: tuple[int, ...]


class Changes(NamedTuple):
    """What a write of changes has left.

    :param unmatched: for a MERGE: of the source's rows, with the column of their numbers, those that matched nothing.
        Works once.
    """

    directories: list[WrittenDirectory]
    unmatched: Callable[[DataFrame, str], DataFrame] | None


class Sink:
    """The jar's writer for tables with these columns."""

    def __init__(self, jvm: Any, row: T.StructType, properties: Mapping[str, str]) -> None:
        self._jvm = jvm
        self._row = row.json()
        self._orc = orc_options(properties)

    def write_inserts(
        self,
        staging: Staging,
        rows: DataFrame,
        keys: Sequence[str],
        place: Callable[[tuple[str, ...]], Destination],
        label: str,
        names: FinalNames,
        **options: int,
    ) -> list[WrittenDirectory]:
        """Write new rows.

        :param rows: the data columns in the table's order, then the key columns, by which a task's rows are sorted.
        :param keys: columns that decide where a row belongs.
        :param place: from the values of the keys (unescaped) to the place of their files.
        :param names: of the files, if they can be uploaded under them.
        :param options: ``writeId``, ``statementId`` and ``offset``, the first bucket number.
        """
        uploads = _names_for_jar(staging, names)
        parts = self._save(staging, rows, label, str(uuid.uuid4()), mode="insert", keys=len(keys), **options, **uploads)
        return self._arranged(staging, parts, lambda part: place(part.keys), label)

    def write_changes(
        self,
        staging: Staging,
        rows: DataFrame,
        place: Callable[[Part], Destination],
        label: str,
        names: ChangeNames,
        **options: int | str,
    ) -> Changes:
        """Write delete events, and insert events beside them where rows are changed.

        :param rows: group, identity, action, where there are inserts the columns then, for a MERGE the number of the
            source row; a group is one task's, whose rows are sorted by group and identity.
        :param place: from a file, whose key is the ordinal of its partition, to where it belongs.
        :param names: of the files, if they can be uploaded under them.
        :param options: ``writeId``, ``statementId`` of the inserts if any, ``buckets``, ``matched``.
        """
        name = str(uuid.uuid4())
        uploads = _change_names_for_jar(staging, names)
        parts = self._save(staging, rows, label, name, mode="change", **options, **uploads)
        parts = self._one_per_bucket(rows.sparkSession, staging, parts, place, label)

        def unmatched(source: DataFrame, column: str) -> DataFrame:
            return DataFrame(self._jvm.write.Written.unmatched(source._jdf, column, name), source.sparkSession)

        return Changes(self._arranged(staging, parts, place, label), unmatched if "matched" in options else None)

    def write_moves(
        self,
        staging: Staging,
        rows: DataFrame,
        keys: Sequence[str],
        place: Callable[[Part], Destination],
        label: str,
        names: ChangeNames,
        new: FinalNames,
        **options: int | str,
    ) -> list[WrittenDirectory]:
        """Write delete events where rows were, and insert events where they belong.

        :param rows: group, the key columns, identity, the columns; see ``MoveWriter`` of the jar.
        :param keys: columns that decide where a new row belongs.
        :param place: from a file, whose keys are those of new rows or the ordinal of a partition, to where it belongs.
        :param names: of the files of delete events, ``new`` of new rows, if they can be uploaded under them.
        :param options: ``writeId``, ``statementId`` of the inserts, ``buckets``.
        """
        uploads = _change_names_for_jar(staging, names) | _names_for_jar(staging, new, "newNames")
        name = str(uuid.uuid4())
        parts = self._save(staging, rows, label, name, mode="move", keys=len(keys), **options, **uploads)
        return self._arranged(staging, parts, place, label)

    def write_events(
        self,
        staging: Staging,
        events: DataFrame,
        columns: Sequence[str],
        destination: Destination,
        label: str,
        several: Sequence[int] = (),
    ) -> list[WrittenDirectory]:
        """Write events as they are.

        :param events: the six columns; a task has the events of one bucket, sorted by identity.
        :param columns: names of the data columns; none where these are delete events.
        :param several: rows of each task where some of them have a bucket together, each the next rows of it; their
            files are put together. By default each has a bucket.
        """
        data = [f"{schema.ROW}.{schema.quoted(name)} as {schema.INTERNAL_PREFIX}c{i}" for i, name in enumerate(columns)]
        flat = events.selectExpr(*schema.IDENTITY, schema.CURRENT_WRITE_ID, *data)
        # What is not the whole file of a bucket goes to staging.
        directory = None if several else staging.final_directory(destination)
        options = {} if directory is None else {"directory": directory}
        operation = schema.INSERTED if columns else schema.DELETED
        name = str(uuid.uuid4())
        written = self._written(staging, flat, label, name, mode="events", operation=operation, **options)
        if several:
            written = self._put_together(events.sparkSession, staging, written, destination, label, several)
        return self._arranged(staging, _parts(written), lambda _: destination, label)

    def _save(self, staging: Staging, rows: DataFrame, label: str, name: str, **options: int | str) -> list[Part]:
        return _parts(self._written(staging, rows, label, name, **options))

    def _written(self, staging: Staging, rows: DataFrame, label: str, name: str, **options: int | str) -> str:
        """Write rows: the files of all tasks, in the order of the tasks, as the jar tells them."""
        path = staging.fs.qualify(staging.scratch(label))
        every = {**self._orc, "row": self._row, **{k: str(v) for k, v in options.items()}, "path": path, "id": name}
        rows.write.format(_FORMAT).options(**every).mode("append").save()
        return str(self._jvm.write.Written.take(name))

    def _put_together(
        self,
        spark: SparkSession,
        staging: Staging,
        written: str,
        destination: Destination,
        label: str,
        rows: Sequence[int],
    ) -> str:
        """One file for each bucket, of those that its tasks wrote.

        :param written: files of one directory, as the jar tells them; those of a bucket in the order of their rows.
        :param rows: how many each of them must have.
        """
        parts = _parts(written)
        found = [part.rows for part in parts]
        if found != [*rows]:
            raise JobFailedError(
                f"the tasks that write {destination.name} have {found} rows instead of {[*rows]}; nothing is published"
            )
        uploads = {bucket: staging.final_name(destination, bucket) for bucket in {part.bucket for part in parts}}
        spec = {**self._spec(staging, label), "parts": json.loads(written), "uploads": uploads}
        return str(self._jvm.write.Stitching.run(spark._jsparkSession, json.dumps(spec)))

    def _one_per_bucket(
        self,
        spark: SparkSession,
        staging: Staging,
        parts: Sequence[Part],
        place: Callable[[Part], Destination],
        label: str,
    ) -> list[Part]:
        """One file of delete events for each bucket of a partition: several tasks may have written some.

        Their rows are others, and each is sorted, so merging them costs far less than finding the rows did. Where only
        one of the tasks that share a bucket had rows of it, its file is small, and giving it its name by a copy is
        cheaper than a job.
        """
        found: dict[tuple[tuple[str, ...], int], list[Part]] = {}
        for part in parts:
            if not part.inserts:
                found.setdefault((part.keys, part.bucket), []).append(part)
        several = {place: files for place, files in found.items() if len(files) > 1}
        if not several:
            return list(parts)
        buckets = [
            {
                "bucket": bucket,
                "files": [{"uri": part.uri} for part in files],
                "deletes": [],
                "upload": staging.final_name(place(files[0]), bucket),
            }
            for (_, bucket), files in several.items()
        ]
        spec = {**self._spec(staging, label), "kind": "deletes", "buckets": buckets}
        merged = _parts(self._jvm.compact.Compaction.mergeDeletes(spark._jsparkSession, json.dumps(spec)))
        whole = [part._replace(keys=keys) for part, (keys, _) in zip(merged, several, strict=True)]
        return [part for part in parts if part.inserts or (part.keys, part.bucket) not in several] + whole

    def compact(
        self, spark: SparkSession, staging: Staging, work: Mapping[str, object], destination: Destination, label: str
    ) -> list[WrittenDirectory]:
        """Merge the files of each bucket into one, large buckets range by range.

        :param work: ``kind``, ``highWatermark``, ``hidden`` and ``buckets``, see ``Compaction.Spec`` in the jar.
        :param destination: where the files belong; their final names are in the buckets, if they are uploaded.
        """
        spec = {**self._spec(staging, label), **work}
        parts = _parts(self._jvm.compact.Compaction.run(spark._jsparkSession, json.dumps(spec)))
        return self._arranged(staging, parts, lambda _: destination, label)

    def _spec(self, staging: Staging, label: str) -> dict[str, object]:
        """Where files go, and what they are like."""
        directory = staging.fs.qualify(staging.scratch(label))
        return {"directory": directory, "row": self._row, "options": self._orc}

    def _arranged(
        self, staging: Staging, parts: Sequence[Part], place: Callable[[Part], Destination], label: str
    ) -> list[WrittenDirectory]:
        files = [FinishedFile(place(p), p.bucket, p.uri, p.rows, p.size, p.upload) for p in parts]
        return arrange(staging, files, label)


def _names_for_jar(staging: Staging, names: FinalNames, option: str = "names") -> dict[str, str]:
    """The option that makes the jar upload under final names; none where files go to staging."""
    if staging.uploads is None:
        return {}
    location, elsewhere = staging.uploads.location, {**staging.uploads.elsewhere, **names.spelled}
    text = {"columns": names.columns, "values": names.values, "directory": names.directory}
    return {option: json.dumps({**text, "location": location, "elsewhere": elsewhere})}


def _change_names_for_jar(staging: Staging, names: ChangeNames) -> dict[str, str]:
    """The same for changed rows."""
    if staging.uploads is None:
        return {}
    text = {"deletes": names.deletes, "inserts": names.inserts, "shared": names.shared}
    return {"names": json.dumps({**text, "places": staging.places(names.partitions)})}


def _parts(text: str) -> list[Part]:
    return [
        Part(
            found["file"],
            found["bucket"],
            found["operation"] == 0,
            found["rows"],
            found["size"],
            (*found["keys"],),
            found["upload"],
        )
        for found in json.loads(text)
    ]


def sink_for(spark: SparkSession, columns: Sequence[schema.TableColumn], properties: Mapping[str, str]) -> Sink | None:
    """The jar's writer, None where it is not to be used: then Spark's own source does the work."""
    row = schema.row_type(columns)
    jvm = accelerator(spark) if all(_is_known(field.dataType) for field in row.fields) else None
    return None if jvm is None else Sink(jvm, row, properties)


def _is_known(kind: T.DataType) -> bool:
    """Whether the jar knows how to store values of a type."""
    if isinstance(kind, T.ArrayType):
        return _is_known(kind.elementType)
    if isinstance(kind, T.MapType):
        return _is_known(kind.keyType) and _is_known(kind.valueType)
    if isinstance(kind, T.StructType):
        return all(_is_known(field.dataType) for field in kind.fields)
    return isinstance(kind, _SIMPLE)
