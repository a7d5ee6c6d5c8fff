"""Our tables of the replication of ACID tables, in the metastore of the replica."""

from __future__ import annotations

from airflow_hive_acid.metastore.schema.types import number, table, text_value, words

HIVE_ACID_REPL_SYNC = table(
    "HIVE_ACID_REPL_SYNC",
    words("HRS_POLICY", 64, in_key=True, exact=True),
    words("HRS_ATTEMPT", 64, null=False),
    text_value("HRS_TABLES", null=False),
    number("HRS_STATE"),
    number("HRS_STARTED", null=False),
    number("HRS_FAILED_OVER"),
)
"""The last sync of a policy's ACID tables.

HRS_ATTEMPT is the fencing token: who began later has another, and an earlier one commits nothing any more (R5).
HRS_TABLES is JSON: the tables in whose directories that attempt may have left something. HRS_STATE is the event of the
source whose state the replica has. HRS_FAILED_OVER, in milliseconds, ends it: the replica is a primary now.
"""

HIVE_ACID_REPL_TABLE = table(
    "HIVE_ACID_REPL_TABLE",
    words("HRT_POLICY", 64, in_key=True, exact=True),
    number("HRT_TABLE_ID", in_key=True),
    words("HRT_SOURCE_TABLE", 400, null=False),
    number("HRT_SOURCE_ID", null=False),
    text_value("HRT_WRITE_IDS", null=False),
    number("HRT_STATE", null=False),
)
"""An ACID table that follows another: TBL_ID here and at the source, and the source's list of write ids at the last
sync, with every id that was aborted since: what else is allocated here somebody else has written."""

REPLICATION_ACID_TABLES = (HIVE_ACID_REPL_SYNC, HIVE_ACID_REPL_TABLE)
"""Both; since version 7."""
