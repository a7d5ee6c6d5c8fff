"""Job specs and result documents: all that passes between the control plane and a Spark job.

A spec holds everything a job needs (snapshot, write id, statement ids, locations, schema, expressions), so the job
never sees the metastore database. A result says what was written; the control plane compares it with a listing
before anything is published. :mod:`.documents` makes JSON of both, and reads it. Imports ``format`` alone.
"""

from airflow_hive_acid.format.jobs.results import (
    JobError,
    JobResult,
    WrittenDirectory,
    WrittenFile,
)
from airflow_hive_acid.format.jobs.specs import (
    DATAFRAME,
    HIVE_TEXT,
    RECORDS,
    SPEC_VERSION,
    Append,
    Assignment,
    CloseBatch,
    Compact,
    CopiedFile,
    Copy,
    Delete,
    Export,
    FirstRows,
    Insert,
    JobSpec,
    Merge,
    MergeClause,
    Program,
    Select,
    Source,
    Step,
    Update,
)
from airflow_hive_acid.format.jobs.tables import (
    FETCH_DELETED_ROWS,
    AsOf,
    Bucketing,
    Column,
    Expected,
    PartitionRef,
    TableSnapshot,
    View,
)

__all__ = [
    "DATAFRAME",
    "FETCH_DELETED_ROWS",
    "HIVE_TEXT",
    "RECORDS",
    "SPEC_VERSION",
    "Append",
    "AsOf",
    "Assignment",
    "Bucketing",
    "CloseBatch",
    "Column",
    "Compact",
    "CopiedFile",
    "Copy",
    "Delete",
    "Expected",
    "Export",
    "FirstRows",
    "Insert",
    "JobError",
    "JobResult",
    "JobSpec",
    "Merge",
    "MergeClause",
    "PartitionRef",
    "Program",
    "Select",
    "Source",
    "Step",
    "TableSnapshot",
    "Update",
    "View",
    "WrittenDirectory",
    "WrittenFile",
]
