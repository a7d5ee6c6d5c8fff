"""Statements of Hive, Spark and others that are not run here, each with the reason, or with what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_hive_acid.sql.parsing.cursor import Cursor

_ACCESS = "access is a matter of the warehouse's filesystem and the metastore database"
_COMPACTION = "ALTER TABLE … COMPACT 'major'; the Cleaner removes what nobody reads any more"
_FRESH = "every statement reads a fresh snapshot; leave it out"
_TEMPLATES = "write the statement itself; values come from variables (SET hivevar:name=value) or a template"
_INDEXES = "Hive has no indexes any more; ORC files have their own"
_WORKLOAD = "where a job runs is said with spark_conf, and in Airflow with pools"
_SCHEDULES = "a DAG of Airflow has a schedule"
_CATALOGS = "there is one catalog, the metastore"

#: What a statement begins with, and what to do instead.
BEGINNINGS = {
    "CACHE": "leave it out",
    "CALL": "a statement of its own: ALTER TABLE … COMPACT, SHOW …, MERGE; there are no procedures",
    "COMMENT": "ALTER TABLE … SET TBLPROPERTIES ('comment' = '…'), or ALTER TABLE … CHANGE COLUMN … COMMENT '…'",
    "DECLARE": _TEMPLATES,
    "DFS": "statements see tables only; a task of Airflow or the shell handles files",
    "EXECUTE": _TEMPLATES,
    "GRANT": _ACCESS,
    "KILL": "ABORT TRANSACTIONS id; SHOW TRANSACTIONS has the ids",
    "LOCK": "BEGIN … COMMIT takes the locks its statements need",
    "OPTIMIZE": _COMPACTION,
    "PREPARE": _TEMPLATES,
    "REFRESH": _FRESH,
    "RENAME": "INSERT INTO … SELECT into a table of the new name",
    "REPL": "a replication policy (docs/how-to/running/replication.md), or EXPORT TABLE … FOR REPLICATION",
    "REPLACE": "INSERT OVERWRITE, or MERGE",
    "RESTORE": "INSERT OVERWRITE … SELECT * FROM t FOR SYSTEM_VERSION AS OF n",
    "REVOKE": _ACCESS,
    "SAVEPOINT": "BEGIN … COMMIT, or ROLLBACK of the whole transaction",
    "UNCACHE": "leave it out",
    "UNLOCK": "COMMIT or ROLLBACK ends a transaction and its locks",
    "UPSERT": "MERGE INTO … WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "VACUUM": _COMPACTION,
}

_OBJECTS = {
    "CATALOG": _CATALOGS,
    "CONNECTOR": "CREATE TEMPORARY VIEW … USING reads files, a job of your own the rest (docs/how-to/dags/pyspark.md)",
    "INDEX": _INDEXES,
    "POOL": _WORKLOAD,
    "RESOURCE": _WORKLOAD,
    "ROLE": _ACCESS,
    "SCHEDULED": _SCHEDULES,
    "USER": _ACCESS,
}


def refuse_object(cursor: Cursor, verb: str) -> None:
    """Refuse CREATE and DROP (ALTER, too) of what only a Hive or a Spark has.

    :param verb: the word in front of the cursor.
    :raises UnsupportedStatementError: with the reason.
    """
    word = cursor.word()
    if word in _OBJECTS:
        raise cursor.unsupported(f"{verb} {word} is not supported: {_OBJECTS[word]}")
