"""Mirrors in Delta Lake, by path: each state is one commit with a number, which Delta itself applies once.

The number is the version of our application id (Delta's ``txn`` action): a commit with one that is not larger than the
last is left out, and of two that meet one fails. The state is in the commit's user metadata.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError, MirrorConflictError, MirrorRefusedError
from airflow_hive_acid.format.mirrors import MirrorState
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import full_text
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.java_names import java_names
from airflow_hive_acid.spark.mirrors.targets import DELETE, INSERT, UPDATE, Found

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.mirrors import ColumnStep
    from airflow_hive_acid.spark.mirrors.columns import MirrorColumns

_NEEDS = (
    "Spark needs Delta's jars (for example by spark.jars.packages io.delta:delta-spark_…), spark.sql.extensions "
    "io.delta.sql.DeltaSparkSessionExtension and spark.sql.catalog.spark_catalog "
    "org.apache.spark.sql.delta.catalog.DeltaCatalog"
)
_APPLICATION = "hive-acid-mirror"
_ID, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
#: Delta's own names of what a MERGE did.
_MERGED = {INSERT: "numTargetRowsInserted", UPDATE: "numTargetRowsUpdated", DELETE: "numTargetRowsDeleted"}
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
#: What leaves the rows as they are.
_HARMLESS = frozenset({
    "OPTIMIZE", "VACUUM START", "VACUUM END", "ADD COLUMNS", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "REORG",
    "CLUSTER BY", "COMPUTE STATS", "UPGRADE PROTOCOL", "FSCK",
})  # fmt: skip
_CONFLICTS = ("ConcurrentTransactionException", "ConcurrentAppendException", "ConcurrentDeleteReadException",
              "ConcurrentDeleteDeleteException", "MetadataChangedException", "ProtocolChangedException",
              "ConcurrentWriteException", "CONCURRENT_TRANSACTION", "CONCURRENT_APPEND", "CONCURRENT_DELETE",
              "CONCURRENT_WRITE", "METADATA_CHANGED")  # fmt: skip


class DeltaTarget:
    """A mirror in a Delta table.

    :param place: its directory.
    """

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._spark = spark
        self._place = place
        self._shown = f"delta:{place}"
        self._name = f"delta.{schema.quoted(place)}"
        self._metrics: dict[str, int] = {}

    def look(self) -> Found:
        """The state in the history, if the commits since leave the rows as they are."""
        jvm = java_names(self._spark)
        if isinstance(jvm.org.apache.spark.sql.delta.DeltaLog, JavaPackage):
            raise ConfigurationError(f"{self._shown}: this Spark has no Delta Lake. {_NEEDS}")
        fs = HadoopFilesystem.of(self._spark)
        if not fs.exists(f"{self._place}/_delta_log"):
            if fs.entries(self._place):
                raise MirrorRefusedError(f"{self._shown} is there and no Delta table; nothing was changed")
            return Found(exists=False)
        found = self._newest(fs)
        if found is not None:
            return found
        try:
            rows = self._spark.sql(f"DESCRIBE HISTORY {self._name}").select(
                "version", "operation", "userMetadata", "operationMetrics"
            )
            history = rows.orderBy("version", ascending=False).toLocalIterator()
        except (AnalysisException, PySparkException) as failure:
            said = str(failure).partition("\n")[0][:300]
            raise ConfigurationError(f"{self._shown} cannot be read: {said}. {_NEEDS}") from failure
        strange = ""
        for row in history:
            if row.userMetadata is not None:
                with contextlib.suppress(InvalidArgumentsError):
                    state = MirrorState.parse(row.userMetadata)
                    self._metrics = _numbers(row.operationMetrics)
                    return Found(True, state, max(state.sequence, self._numbered()), strange)
            if row.operation not in _HARMLESS and not strange:
                strange = f"somebody else has written version {row.version} ({row.operation})"
        number = self._numbered()
        if number == 0:
            raise MirrorRefusedError(
                f"{self._shown} is there and no mirror of ours; nothing was changed: name another path, or remove it"
            )
        return Found(exists=True, sequence=number, strange="its history does not reach back to the state it carries")

    def _newest(self, fs: HadoopFilesystem) -> Found | None:
        """What the newest commit says, if it is one of ours; without a Spark job, which the history needs."""
        jvm = java_names(self._spark)
        with contextlib.suppress(Py4JError, OSError, KeyError, TypeError, ValueError, InvalidArgumentsError):
            pair = jvm.org.apache.spark.sql.delta.DeltaLog.forTableWithSnapshot(self._spark._jsparkSession, self._place)
            text = fs.read_text(f"{self._place}/_delta_log/{pair._2().version():020d}.json")
            actions: dict[str, Any] = {}
            for line in (text or "").splitlines():
                actions |= json.loads(line)
            state = MirrorState.parse(actions["commitInfo"]["userMetadata"])
            number = actions["txn"]
            if number["appId"] == _APPLICATION and number["version"] == state.sequence:
                self._metrics = _numbers(actions["commitInfo"].get("operationMetrics"))
                return Found(True, state, state.sequence)
        return None

    def _numbered(self) -> int:
        """The last number that Delta has of us."""
        jvm = java_names(self._spark)
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._spark._jsparkSession, self._place)
        found = log.unsafeVolatileSnapshot().transactions().get(_APPLICATION)
        return int(found.get()) if found.isDefined() else 0

    def follows(self, steps: Sequence[ColumnStep]) -> bool:
        """Columns can be added; to rename or widen one, a Delta table needs features that old readers lack."""
        return all(step.is_added for step in steps)

    def alter(self, steps: Sequence[ColumnStep], columns: MirrorColumns) -> None:
        """Add columns."""
        there = {f.name for f in self.rows().schema.fields}
        for step in steps:
            if step.name not in there:
                kind = schema.sql_type(columns.type_of(step.name))
                self._spark.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({schema.quoted(step.name)} {kind})")

    def replace(self, rows: DataFrame, columns: MirrorColumns, state: MirrorState, before: MirrorState | None) -> None:
        """All rows and columns anew, in one commit."""
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        if columns.partition:
            writer = writer.partitionBy(*columns.partition)
        with self._once(state):
            writer.save(self._place)
        self._require(state)

    def append(self, rows: DataFrame, columns: MirrorColumns, state: MirrorState) -> int:
        """Rows, and the state; also without any rows."""
        with self._once(state):
            rows.write.format("delta").mode("append").save(self._place)
        return self._require(state).get("numOutputRows", 0)

    def merge(self, changes: DataFrame, statement: str, state: MirrorState) -> dict[str, int]:
        """A MERGE. Delta reads the rows more than once, and keeps them for that itself."""
        view = f"hive_acid_changes_{uuid.uuid4().hex}"
        changes.createOrReplaceTempView(view)
        try:
            with self._once(state):
                self._spark.sql(statement.format(target=self._name, changes=view))
        finally:
            self._spark.catalog.dropTempView(view)
        metrics = self._require(state)
        return {operation: metrics.get(name, 0) for operation, name in _MERGED.items()}

    def rows(self) -> DataFrame:
        """The rows of the newest version."""
        return self._spark.read.format("delta").load(self._place)

    @contextlib.contextmanager
    def _once(self, state: MirrorState) -> Iterator[None]:
        """Around a commit: its number, and its metadata."""
        keys = {_ID: _APPLICATION, _VERSION: str(state.sequence), _METADATA: state.to_text()}
        for key, value in keys.items():
            self._spark.conf.set(key, value)
        try:
            yield
        except (Py4JJavaError, PySparkException) as failure:
            if any(name in full_text(self._spark, failure) for name in _CONFLICTS):
                raise self._conflict() from failure
            raise
        finally:
            for key in keys:
                self._spark.conf.unset(key)

    def _require(self, state: MirrorState) -> dict[str, int]:
        """Delta leaves out a commit whose number is taken, and says nothing.

        :return: the numbers that Delta has noted of the commit.
        """
        found = self.look()
        if found.state is None or not found.state.holds_the_same(state):
            raise self._conflict()
        return self._metrics

    def _conflict(self) -> MirrorConflictError:
        return MirrorConflictError(
            f"somebody else changed {self._shown} while it was written; nothing of this run is in it. Run the mirror "
            "again: it goes on from what is there"
        )


def _numbers(metrics: Mapping[str, str] | None) -> dict[str, int]:
    """Delta notes its numbers as texts."""
    return {name: int(text) for name, text in (metrics or {}).items() if text.isdecimal()}
