"""Mirrors in Iceberg: rows are written to a branch, and one commit of the table's metadata shows them.

That commit moves ``main``, sets the state and removes the branch. It is made on the metadata that was looked at, and a
catalog refuses it when somebody else has committed since; nothing is tried again on other metadata. Iceberg's own
classes are called through Spark's gateway, whatever catalog they are in.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError, MirrorConflictError, MirrorRefusedError
from airflow_hive_acid.format.mirrors import SEQUENCE_PROPERTY, STATE_PROPERTY, WRITE_IDS_PROPERTY, MirrorState
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import full_text
from airflow_hive_acid.spark.java_names import java_names
from airflow_hive_acid.spark.mirrors.counting import CountedRows
from airflow_hive_acid.spark.mirrors.targets import Found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.mirrors import ColumnStep
    from airflow_hive_acid.spark.mirrors.columns import MirrorColumns

_BRANCH = "hive_acid_mirror_"
_MAIN = "main"
_SUMMARY = "spark.sql.iceberg.snapshot-property."
#: The target's rows need not be sorted where those that were changed turn out to fit into memory.
_JOIN = {"spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64m"}
_NEW_TABLE = {
    "format-version": "2",
    # What is merged is a few rows of many.
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
}
_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "NO_SUCH_NAMESPACE", "NO_SUCH_TABLE")
_CONFLICTS = ("CommitFailedException", "ValidationException", "AlreadyExistsException", "TableAlreadyExistsException",
              "CherrypickAncestorCommitException")  # fmt: skip
_MOST_ANCESTORS = 10_000


class IcebergTarget:
    """A mirror in an Iceberg table.

    :param place: ``catalog.namespace.table``.
    """

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._spark = spark
        self._parts = tuple(place.split("."))
        self._shown = f"iceberg:{place}"
        self._name = schema.quoted(*self._parts)
        self._metadata: Any = None
        self._operations: Any = None

    def look(self) -> Found:
        """The state in the table's properties, if the snapshots since are no change of its rows."""
        table = self._load()
        if table is None:
            self._metadata = None
            return Found(exists=False)
        self._operations = table.operations()
        self._metadata = self._operations.refresh()
        properties = self._metadata.properties()
        text = properties.get(STATE_PROPERTY)
        if text is None:
            raise MirrorRefusedError(
                f"{self._shown} is there and no mirror of ours; nothing was changed: name another table, or drop it"
            )
        try:
            state = MirrorState.parse(text)
        except InvalidArgumentsError as problem:
            return Found(exists=True, strange=str(problem))
        return Found(True, state, state.sequence, self._strange(state))

    def _strange(self, state: MirrorState) -> str:
        """Why the rows are not those of the state."""
        snapshot = self._metadata.currentSnapshot()
        for _ in range(_MOST_ANCESTORS):
            if snapshot is None:
                break
            noted = snapshot.summary().get(SEQUENCE_PROPERTY)
            if noted is not None:
                if noted == str(state.sequence):
                    return ""
                return f"it was brought back to an earlier snapshot, {snapshot.snapshotId()}"
            if snapshot.operation() != "replace":
                return f"somebody else has written snapshot {snapshot.snapshotId()} ({snapshot.operation()})"
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._metadata.snapshot(parent)
            if snapshot is None:
                return ""  # expired; whoever rewrites files keeps the rows
        return "its snapshots do not lead back to the one that was mirrored"

    def follows(self, steps: Sequence[ColumnStep]) -> bool:
        """Iceberg's columns have ids: all that the rules allow."""
        return True

    def alter(self, steps: Sequence[ColumnStep], columns: MirrorColumns) -> None:
        """Rename, widen and add columns."""
        there = {f.name: f.dataType for f in self._spark.table(self._name).schema.fields}
        for step in steps:
            name, kind = schema.quoted(step.name), columns.type_of(step.name)
            if step.is_renamed and step.name not in there:
                self._spark.sql(f"ALTER TABLE {self._name} RENAME COLUMN {schema.quoted(str(step.before))} TO {name}")
                there[step.name] = there.pop(str(step.before))
            if step.is_added and step.name not in there:
                self._spark.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({name} {schema.sql_type(kind)})")
            elif step.widened and there[step.name] != kind:
                self._spark.sql(f"ALTER TABLE {self._name} ALTER COLUMN {name} TYPE {schema.sql_type(kind)}")
        self._refreshed()

    def _refreshed(self) -> None:
        """Look at the metadata again after a change of our own that is no snapshot."""
        before = self._metadata.currentSnapshot()
        state = self._metadata.properties().get(STATE_PROPERTY)
        self._metadata = self._operations.refresh()
        now = self._metadata.currentSnapshot()
        same = (before is None) == (now is None) and (before is None or before.snapshotId() == now.snapshotId())
        if not same or self._metadata.properties().get(STATE_PROPERTY) != state:
            raise self._conflict()

    def replace(self, rows: DataFrame, columns: MirrorColumns, state: MirrorState, before: MirrorState | None) -> None:
        """A new table, the rows of the old one overwritten, or another table in its place where its columns differ."""
        if self._metadata is not None and before is not None and self._fits(columns, state, before):
            self._through_branch(state, lambda branch: self._writer(rows, branch, state).overwrite(F.lit(True)))
            return
        if self._metadata is None:
            self._create_namespace()
        else:
            self._refreshed()
        name = self._name
        properties = {**_NEW_TABLE, STATE_PROPERTY: state.to_text(), WRITE_IDS_PROPERTY: state.source.write_ids}
        writer = self._writer(rows, name, state).using("iceberg")
        for key, value in properties.items():
            writer = writer.tableProperty(key, value)
        if columns.partition:
            first, *others = [F.col(schema.quoted(c)) for c in columns.partition]
            writer = writer.partitionedBy(first, *others)
        with self._conflicts():
            if self._metadata is None:
                writer.create()
            else:
                writer.createOrReplace()

    def _fits(self, columns: MirrorColumns, state: MirrorState, before: MirrorState) -> bool:
        if state.source.partition_columns != before.source.partition_columns:
            return False
        there = {f.name: f.dataType for f in self._spark.table(self._name).schema.fields}
        return there == dict(columns.fields)

    def append(self, rows: DataFrame, columns: MirrorColumns, state: MirrorState) -> int:
        """Rows, and the state; also without any rows."""
        self._through_branch(state, lambda branch: self._writer(rows, branch, state).append())
        return int(self._metadata.currentSnapshot().summary().get("added-records") or 0)

    def merge(self, changes: DataFrame, statement: str, state: MirrorState) -> dict[str, int]:
        """A MERGE on the branch."""
        view, counted, counts = f"hive_acid_changes_{uuid.uuid4().hex}", CountedRows(changes), {}
        counted.rows.createOrReplaceTempView(view)

        def write(branch: str) -> None:
            with self._summary(state):
                counts.update(counted.counts(self._spark.sql(statement.format(target=branch, changes=view))))

        try:
            self._through_branch(state, write)
        finally:
            self._spark.catalog.dropTempView(view)
        return counts

    def rows(self) -> DataFrame:
        """The rows of ``main``."""
        self._forget()
        return self._spark.table(self._name)

    def _through_branch(self, state: MirrorState, write: Callable[[str], None]) -> None:
        """Write to a branch that begins where the table was looked at, and show it."""
        branch = f"{_BRANCH}{uuid.uuid4().hex}"
        current = self._metadata.currentSnapshot()
        begin = self._builder()
        # Those of runs that died; one that is alive meets its conflict now instead of later.
        for old in [str(name) for name in self._metadata.refs() if str(name).startswith(_BRANCH)]:
            begin = begin.removeRef(old)
        if current is None:
            raise self._conflict()
        begin = begin.setRef(branch, self._ref(current.snapshotId()))
        with self._conflicts():
            self._operations.commit(self._metadata, begin.build())
            self._metadata = self._operations.refresh()
            self._forget()
            name = schema.quoted(*self._parts, f"branch_{branch}")
            write(name)
            head = self._head(branch, current.snapshotId())
            if head == current.snapshotId():
                # Nothing came of it, and still the state is a new one: it is noted in a snapshot of its own.
                self._writer(self._spark.table(name).limit(0), name, state).append()
                head = self._head(branch, current.snapshotId())
            properties = self._java_map({STATE_PROPERTY: state.to_text(), WRITE_IDS_PROPERTY: state.source.write_ids})
            shown = self._builder().setRef(_MAIN, self._ref(head)).removeRef(branch)
            self._operations.commit(self._metadata, shown.setProperties(properties).build())
        self._metadata = self._operations.refresh()
        self._forget()

    def _head(self, branch: str, begin: int) -> int:
        """The snapshot at the end of our branch, if it goes on from where the table still is.

        Without its branch, which another run may have swept away, a write goes on from ``main``, wherever that is.

        :param begin: id of the snapshot that was looked at.
        """
        self._metadata = self._operations.refresh()
        now, ref = self._metadata.currentSnapshot(), self._metadata.ref(branch)
        if ref is None or now is None or now.snapshotId() != begin:
            raise self._conflict()
        head = int(ref.snapshotId())
        if head != begin and self._metadata.snapshot(head).parentId() != begin:
            raise self._conflict()
        return head

    def _writer(self, rows: DataFrame, name: str, state: MirrorState) -> Any:
        writer = rows.writeTo(name)
        for key, value in _noted(state).items():
            writer = writer.option(f"snapshot-property.{key}", value)
        return writer

    @contextlib.contextmanager
    def _summary(self, state: MirrorState) -> Iterator[None]:
        """What statements inside the block note in the summary of their snapshot, and how they join."""
        keys = {f"{_SUMMARY}{key}": value for key, value in _noted(state).items()} | _JOIN
        for key, value in keys.items():
            self._spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in keys:
                self._spark.conf.unset(key)

    @contextlib.contextmanager
    def _conflicts(self) -> Iterator[None]:
        """Around commits: an answer that says that somebody else was first."""
        try:
            yield
        except (Py4JJavaError, PySparkException) as failure:
            text = full_text(self._spark, failure)
            if any(name in text for name in _CONFLICTS) or "TABLE_OR_VIEW_ALREADY_EXISTS" in text:
                raise self._conflict() from failure
            raise

    def _conflict(self) -> MirrorConflictError:
        return MirrorConflictError(
            f"somebody else changed {self._shown} while it was written; nothing of this run is in it. Run the mirror "
            "again: it goes on from what is there"
        )

    def _load(self) -> Any:
        """The table, None when there is none.

        :raises ConfigurationError: when Spark has no such catalog, or it is none of Iceberg's.
        """
        jvm = java_names(self._spark)
        session: Any = self._spark._jsparkSession
        loader = jvm.org.apache.iceberg.spark.Spark3Util
        if isinstance(loader, JavaPackage):
            raise ConfigurationError(
                f"{self._shown}: this Spark has no Iceberg; give it the jar, for example by spark.jars.packages "
                "org.apache.iceberg:iceberg-spark-runtime-…"
            )
        try:
            if not self._forget() and self._has_catalog():
                return None
            return loader.loadIcebergTable(session, self._name)
        except AnalysisException as failure:
            if any(name in str(failure) for name in _MISSING) and self._has_catalog():
                return None
            raise self._no_catalog(failure) from failure
        except (Py4JJavaError, PySparkException) as failure:
            raise self._no_catalog(failure) from failure

    def _forget(self) -> bool:
        """Let the catalog forget what it knows of the table by heart.

        :return: whether there is such a table; asked so, Spark logs no error when there is none.
        """
        jvm = java_names(self._spark)
        found = jvm.org.apache.iceberg.spark.Spark3Util.catalogAndIdentifier(self._spark._jsparkSession, self._name)
        found.catalog().invalidateTable(found.identifier())
        return bool(found.catalog().tableExists(found.identifier()))

    def _has_catalog(self) -> bool:
        return bool(self._spark.conf.get(f"spark.sql.catalog.{self._parts[0]}", ""))

    def _no_catalog(self, failure: BaseException) -> ConfigurationError:
        said = str(failure).partition("\n")[0][:300]
        return ConfigurationError(
            f"{self._shown} cannot be found: {said}. Spark needs the settings spark.sql.catalog.{self._parts[0]} "
            f"(org.apache.iceberg.spark.SparkCatalog) and those of the catalog"
        )

    def _create_namespace(self) -> None:
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {schema.quoted(*self._parts[:-1])}")

    def _builder(self) -> Any:
        jvm = java_names(self._spark)
        return jvm.org.apache.iceberg.TableMetadata.buildFrom(self._metadata)

    def _ref(self, snapshot_id: int) -> Any:
        jvm = java_names(self._spark)
        return jvm.org.apache.iceberg.SnapshotRef.branchBuilder(snapshot_id).build()

    def _java_map(self, values: Mapping[str, str]) -> Any:
        jvm = java_names(self._spark)
        found = jvm.java.util.HashMap()
        for key, value in values.items():
            found.put(key, value)
        return found


def _noted(state: MirrorState) -> dict[str, str]:
    return {SEQUENCE_PROPERTY: str(state.sequence), WRITE_IDS_PROPERTY: state.source.write_ids}
