"""Spark settings that the data plane relies on; nothing here needs Spark to be imported.

What a wrong value would cost stands beside each. ``session_settings`` goes into every session, whatever else the user
sets; JVM options must be known before a JVM starts and are the launcher's business (``JAVA_OPTIONS`` says which).
"""

from __future__ import annotations

JAVA_OPTIONS = "-Duser.timezone=UTC"
"""For driver and executors: Hive keeps the wall clock of a timestamp, Spark's ORC writer the JVM's idea of it."""

SMALL_JVM = (
    "-XX:+UseSerialGC -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""For local jobs, most of them short: most of their CPU would go into compiling code that is never run again.

The optimising compiler starts later, so that the start costs little more than without it, and a long job still gets
it. Measured on 2 cores, CPU seconds of the start and of each later write of 3 M rows: without it (TieredStopAtLevel=1)
7.2 and 5.4, as usual 10.9 and 2.3, so 8.5 and 2.3.
"""

ACCELERATOR_KEY = "spark.hive.acid.accelerator"
"""Setting of an application, a session or a statement: ``off`` leaves the jar unused even where it is loaded."""

RANGE_BYTES_KEY = "spark.hive.acid.range.bytes"
"""Setting of an application, a session or a statement: bytes of a bucket's files that are worth a task of their own.

0 leaves every bucket to one task. The default is about half a second of compaction on one core.
"""
RANGE_BYTES = 16 << 20

GENERATED_CLASSES = {"spark.sql.codegen.cache.maxEntries": "500"}
"""For applications that run more than one statement: how many generated classes Spark keeps.

A statement has 10 to 40, and each counts twice, for driver and executor. Of Spark's 100 those of a statement that comes
again are gone when two others have run, and are compiled anew, by Java's optimising compiler, too.
"""

EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"

REQUIRED = {
    # The wall clock of timestamps, see above.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Values that do not fit are errors, never silent NULLs.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    # ${…} in a value is text; Spark would put settings and environment variables in its place.
    "spark.sql.variable.substitute": "false",
    # Texts in quotes are read before Spark sees them, to choose partitions (sql/text/literals.py): both read the same.
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    # 'it''s' is its, two texts as one, as Hive and Spark before 4.0 read it.
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "true",
    # The columns of an ACID table are fields of a struct.
    "spark.sql.orc.impl": "native",
    "spark.sql.orc.enableNestedColumnVectorizedReader": "true",
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "true",
    # Spark would push predicates on row.column down under names that orc-core looks up inside row.
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "parquet",
    # The numbers of a row must be made by the task that writes it; this rule would make them on the driver, as if by
    # task 0, when a query is nothing but constants.
    EXCLUDED_RULES: "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    # A union of single-partition inputs must not melt two buckets into one file.
    "spark.sql.unionOutputPartitioning": "false",
    # A vanished or damaged file is an error, never "no rows".
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # One file per task and directory: two would be the same bucket twice.
    "spark.sql.files.maxRecordsPerFile": "0",
    # Exact lists of files are given to Spark; it must not start a job to look at each of them again.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text",
    "spark.sql.optimizer.plannedWrite.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    # Every column expression would tell the JVM its line number, in five calls.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Version 2 of the committer leaves files of failed attempts behind.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "1",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}

# Settings of Spark's core, or static ones: they exist once per application and cannot be set in a running session.
_ONCE = ("spark.hadoop.", "spark.sql.catalogImplementation", "spark.python.sql.dataFrameDebugging.enabled")


def session_settings() -> dict[str, str]:
    """The part of ``REQUIRED`` that every new session can set for itself."""
    return {key: value for key, value in REQUIRED.items() if not key.startswith(_ONCE)}
