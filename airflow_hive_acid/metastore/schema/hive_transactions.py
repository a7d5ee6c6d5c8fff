"""Hive's transaction, lock, compaction and notification tables, column for column, and our extension tables.

Source: the table lists 1.1 to 1.4 of Hive 4's schema (identical columns in 4.0, 4.1 and 4.2). Tables named
``HIVE_ACID_*`` are ours: Hive never reads them, and its ``VERSION`` row does not speak of them.

On MySQL, Hive's script gives some tables a primary key that they lack elsewhere. What it means for locks and duplicates
is the same here, as unique indexes of MySQL alone (``…_KEY``). Partition names are compared exactly there, too: with
Hive's collation ``p=A`` and ``p=a`` would be one.
"""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Index, PrimaryKeyConstraint, column

from airflow_hive_acid.metastore.schema.types import (
    code,
    identity,
    integer,
    key,
    long_text,
    meta_info,
    number,
    table,
    text_value,
    timestamp_now,
    words,
)

__all__ = [
    "AUX_TABLE",
    "COMPACTION_METRICS_CACHE",
    "COMPACTION_QUEUE",
    "COMPLETED_COMPACTIONS",
    "COMPLETED_TXN_COMPONENTS",
    "HIVE_ACID_JOB",
    "HIVE_ACID_LEGACY_LOCK",
    "HIVE_ACID_LOCK_OBJECT",
    "HIVE_ACID_VERSION",
    "HIVE_ACID_WRITE_SET",
    "HIVE_LOCKS",
    "MATERIALIZATION_REBUILD_LOCKS",
    "MIN_HISTORY_LEVEL",
    "MIN_HISTORY_WRITE_ID",
    "NEXT_COMPACTION_QUEUE_ID",
    "NEXT_LOCK_ID",
    "NEXT_WRITE_ID",
    "NOTIFICATION_LOG",
    "NOTIFICATION_SEQUENCE",
    "REPL_TXN_MAP",
    "SEQUENCE_TABLE",
    "TXNS",
    "TXN_COMPONENTS",
    "TXN_LOCK_TBL",
    "TXN_TO_WRITE_ID",
    "TXN_WRITE_NOTIFICATION_LOG",
    "VERSION",
    "WRITE_SET",
]

# --- transactions -----------------------------------------------------------------------------------------------

TXNS = table(
    "TXNS",
    identity("TXN_ID"),
    code("TXN_STATE", null=False),
    number("TXN_STARTED", null=False),
    number("TXN_LAST_HEARTBEAT", null=False),
    words("TXN_USER", 128, null=False),
    words("TXN_HOST", 128, null=False),
    words("TXN_AGENT_INFO", 128),
    words("TXN_META_INFO", 128),
    integer("TXN_HEARTBEAT_COUNT"),
    integer("TXN_TYPE"),
    sqlite_autoincrement=True,  # without it SQLite reuses the largest id after a purge
)
Index("TXN_STATE_IDX", TXNS.c.TXN_STATE, TXNS.c.TXN_ID, unique=True)

TXN_LOCK_TBL = table("TXN_LOCK_TBL", number("TXN_LOCK", null=False))

TXN_COMPONENTS = table(
    "TXN_COMPONENTS",
    number("TC_TXNID", "TXNS.TXN_ID", null=False),
    words("TC_DATABASE", 128, null=False),
    words("TC_TABLE", 256),
    words("TC_PARTITION", 767, exact=True),
    code("TC_OPERATION_TYPE", null=False),
    number("TC_WRITEID"),
)
Index("tc_txnid_index", TXN_COMPONENTS.c.TC_TXNID, postgresql_using="hash")

COMPLETED_TXN_COMPONENTS = table(
    "COMPLETED_TXN_COMPONENTS",
    number("CTC_TXNID", null=False),
    words("CTC_DATABASE", 128, null=False),
    words("CTC_TABLE", 256),
    words("CTC_PARTITION", 767, exact=True),
    timestamp_now("CTC_TIMESTAMP"),
    number("CTC_WRITEID"),
    code("CTC_UPDATE_DELETE", null=False),
)
Index(
    "COMPLETED_TXN_COMPONENTS_INDEX",
    COMPLETED_TXN_COMPONENTS.c.CTC_DATABASE,
    COMPLETED_TXN_COMPONENTS.c.CTC_TABLE,
    COMPLETED_TXN_COMPONENTS.c.CTC_PARTITION,
)

TXN_TO_WRITE_ID = table(
    "TXN_TO_WRITE_ID",
    number("T2W_TXNID", null=False),
    words("T2W_DATABASE", 128, null=False),
    words("T2W_TABLE", 256, null=False),
    number("T2W_WRITEID", null=False),
)
Index(
    "TBL_TO_TXN_ID_IDX",
    TXN_TO_WRITE_ID.c.T2W_DATABASE,
    TXN_TO_WRITE_ID.c.T2W_TABLE,
    TXN_TO_WRITE_ID.c.T2W_TXNID,
    unique=True,
)
Index(
    "TBL_TO_WRITE_ID_IDX",
    TXN_TO_WRITE_ID.c.T2W_DATABASE,
    TXN_TO_WRITE_ID.c.T2W_TABLE,
    TXN_TO_WRITE_ID.c.T2W_WRITEID,
    unique=True,
)

NEXT_WRITE_ID = table(
    "NEXT_WRITE_ID",
    words("NWI_DATABASE", 128, null=False),
    words("NWI_TABLE", 256, null=False),
    number("NWI_NEXT", null=False),
)
Index("NEXT_WRITE_ID_IDX", NEXT_WRITE_ID.c.NWI_DATABASE, NEXT_WRITE_ID.c.NWI_TABLE, unique=True)

WRITE_SET = table(
    "WRITE_SET",
    words("WS_DATABASE", 128, null=False),
    words("WS_TABLE", 256, null=False),
    words("WS_PARTITION", 767, exact=True),
    number("WS_TXNID", null=False),
    number("WS_COMMIT_ID", null=False),
    code("WS_OPERATION_TYPE", null=False),
)
HIVE_ACID_WRITE_SET = Index(
    "HIVE_ACID_WRITE_SET", WRITE_SET.c.WS_DATABASE, WRITE_SET.c.WS_TABLE, WRITE_SET.c.WS_COMMIT_ID
)
"""Ours: conflicts are looked for while every other client waits to open a txn."""

MIN_HISTORY_LEVEL = table("MIN_HISTORY_LEVEL", key("MHL_TXNID"), number("MHL_MIN_OPEN_TXNID", null=False))
Index("MIN_HISTORY_LEVEL_IDX", MIN_HISTORY_LEVEL.c.MHL_MIN_OPEN_TXNID)

MIN_HISTORY_WRITE_ID = table(
    "MIN_HISTORY_WRITE_ID",
    number("MH_TXNID", "TXNS.TXN_ID", null=False),
    words("MH_DATABASE", 128, null=False),
    words("MH_TABLE", 256, null=False),
    number("MH_WRITEID", null=False),
)

MATERIALIZATION_REBUILD_LOCKS = table(
    "MATERIALIZATION_REBUILD_LOCKS",
    key("MRL_TXN_ID"),
    words("MRL_DB_NAME", 128, null=False),
    words("MRL_TBL_NAME", 256, null=False),
    number("MRL_LAST_HEARTBEAT", null=False),
)

REPL_TXN_MAP = table(
    "REPL_TXN_MAP",
    words("RTM_REPL_POLICY", 256, in_key=True),
    key("RTM_SRC_TXN_ID"),
    number("RTM_TARGET_TXN_ID", null=False),
)

AUX_TABLE = table("AUX_TABLE", words("MT_KEY1", 128, in_key=True), key("MT_KEY2"), words("MT_COMMENT", 255))

# --- locks ------------------------------------------------------------------------------------------------------

HIVE_LOCKS = table(
    "HIVE_LOCKS",
    key("HL_LOCK_EXT_ID"),
    key("HL_LOCK_INT_ID"),
    number("HL_TXNID", null=False),
    words("HL_DB", 128, null=False),
    words("HL_TABLE", 256),
    words("HL_PARTITION", 767, exact=True),
    code("HL_LOCK_STATE", null=False),
    code("HL_LOCK_TYPE", null=False),
    number("HL_LAST_HEARTBEAT", null=False),
    number("HL_ACQUIRED_AT"),
    words("HL_USER", 128, null=False),
    words("HL_HOST", 128, null=False),
    integer("HL_HEARTBEAT_COUNT"),
    words("HL_AGENT_INFO", 128),
    number("HL_BLOCKEDBY_EXT_ID"),
    number("HL_BLOCKEDBY_INT_ID"),
)
Index("hl_txnid_index", HIVE_LOCKS.c.HL_TXNID, postgresql_using="hash")

HIVE_ACID_LOCK_OBJECT = Index("HIVE_ACID_LOCK_OBJECT", HIVE_LOCKS.c.HL_DB, HIVE_LOCKS.c.HL_TABLE)
"""Ours: who is in the way is asked by object, and a busy Hive may hold ten thousand locks on others."""

NEXT_LOCK_ID = table("NEXT_LOCK_ID", number("NL_NEXT", null=False))

# --- compaction -------------------------------------------------------------------------------------------------

COMPACTION_QUEUE = table(
    "COMPACTION_QUEUE",
    key("CQ_ID"),
    words("CQ_DATABASE", 128, null=False),
    words("CQ_TABLE", 256, null=False),
    words("CQ_PARTITION", 767, exact=True),
    code("CQ_STATE", null=False),
    code("CQ_TYPE", null=False),
    words("CQ_TBLPROPERTIES", 2048),
    words("CQ_WORKER_ID", 128),
    number("CQ_ENQUEUE_TIME"),
    number("CQ_START"),
    words("CQ_RUN_AS", 128),
    number("CQ_HIGHEST_WRITE_ID"),
    meta_info("CQ_META_INFO"),
    words("CQ_HADOOP_JOB_ID", 32),
    text_value("CQ_ERROR_MESSAGE"),
    number("CQ_NEXT_TXN_ID"),
    number("CQ_TXN_ID"),
    number("CQ_COMMIT_TIME"),
    words("CQ_INITIATOR_ID", 128),
    words("CQ_INITIATOR_VERSION", 128),
    words("CQ_WORKER_VERSION", 128),
    number("CQ_CLEANER_START"),
    number("CQ_RETRY_RETENTION", null=False, default=0),
    words("CQ_POOL_NAME", 128),
    integer("CQ_NUMBER_OF_BUCKETS"),
    words("CQ_ORDER_BY", 4000),
)

COMPLETED_COMPACTIONS = table(
    "COMPLETED_COMPACTIONS",
    key("CC_ID"),
    words("CC_DATABASE", 128, null=False),
    words("CC_TABLE", 256, null=False),
    words("CC_PARTITION", 767, exact=True),
    code("CC_STATE", null=False),
    code("CC_TYPE", null=False),
    words("CC_TBLPROPERTIES", 2048),
    words("CC_WORKER_ID", 128),
    number("CC_ENQUEUE_TIME"),
    number("CC_START"),
    number("CC_END"),
    words("CC_RUN_AS", 128),
    number("CC_HIGHEST_WRITE_ID"),
    meta_info("CC_META_INFO"),
    words("CC_HADOOP_JOB_ID", 32),
    text_value("CC_ERROR_MESSAGE"),
    number("CC_NEXT_TXN_ID"),
    number("CC_TXN_ID"),
    number("CC_COMMIT_TIME"),
    words("CC_INITIATOR_ID", 128),
    words("CC_INITIATOR_VERSION", 128),
    words("CC_WORKER_VERSION", 128),
    words("CC_POOL_NAME", 128),
    integer("CC_NUMBER_OF_BUCKETS"),
    words("CC_ORDER_BY", 4000),
)
Index(
    "COMPLETED_COMPACTIONS_RES",
    COMPLETED_COMPACTIONS.c.CC_DATABASE,
    COMPLETED_COMPACTIONS.c.CC_TABLE,
    COMPLETED_COMPACTIONS.c.CC_PARTITION,
)

NEXT_COMPACTION_QUEUE_ID = table("NEXT_COMPACTION_QUEUE_ID", number("NCQ_NEXT", null=False))

COMPACTION_METRICS_CACHE = table(
    "COMPACTION_METRICS_CACHE",
    words("CMC_DATABASE", 128, null=False),
    words("CMC_TABLE", 256, null=False),
    words("CMC_PARTITION", 767, exact=True),
    words("CMC_METRIC_TYPE", 128, null=False),
    integer("CMC_METRIC_VALUE", null=False),
    integer("CMC_VERSION", null=False),
)

# --- notifications and housekeeping -----------------------------------------------------------------------------

NOTIFICATION_LOG = table(
    "NOTIFICATION_LOG",
    key("NL_ID"),
    number("EVENT_ID", null=False),
    integer("EVENT_TIME", null=False),
    words("EVENT_TYPE", 32, null=False),
    words("CAT_NAME", 256),
    words("DB_NAME", 128),
    words("TBL_NAME", 256),
    long_text("MESSAGE"),
    words("MESSAGE_FORMAT", 16),
)
Index("NOTIFICATION_LOG_EVENT_ID", NOTIFICATION_LOG.c.EVENT_ID, unique=True)

NOTIFICATION_SEQUENCE = table(
    "NOTIFICATION_SEQUENCE",
    key("NNI_ID"),
    number("NEXT_EVENT_ID", null=False),
    CheckConstraint(column("NNI_ID") == 1, name="ONE_ROW_CONSTRAINT"),
)

TXN_WRITE_NOTIFICATION_LOG = table(
    "TXN_WRITE_NOTIFICATION_LOG",
    number("WNL_ID", null=False),
    number("WNL_TXNID", null=False),
    number("WNL_WRITEID", null=False),
    words("WNL_DATABASE", 128, null=False),
    words("WNL_TABLE", 256, null=False),
    words("WNL_PARTITION", 767, null=False, exact=True),
    long_text("WNL_TABLE_OBJ", null=False),
    long_text("WNL_PARTITION_OBJ"),
    long_text("WNL_FILES"),
    integer("WNL_EVENT_TIME", null=False),
    PrimaryKeyConstraint("WNL_TXNID", "WNL_DATABASE", "WNL_TABLE", "WNL_PARTITION"),
)

SEQUENCE_TABLE = table(
    "SEQUENCE_TABLE", words("SEQUENCE_NAME", 255, in_key=True, exact=True), number("NEXT_VAL", null=False)
)

VERSION = table(
    "VERSION",
    key("VER_ID"),
    words("SCHEMA_VERSION", 127, null=False),
    words("VERSION_COMMENT", 255, null=False),
)

# --- ours -------------------------------------------------------------------------------------------------------

HIVE_ACID_VERSION = table("HIVE_ACID_VERSION", key("HAV_ID"), integer("HAV_VERSION", null=False))
"""One row: the version of our extension tables."""

HIVE_ACID_JOB = table(
    "HIVE_ACID_JOB",
    words("HAJ_JOB_ID", 64, in_key=True),
    number("HAJ_TXNID", null=False),
    words("HAJ_DATABASE", 128, null=False),
    words("HAJ_TABLE", 256, null=False),
    number("HAJ_WRITEID"),
    integer("HAJ_STATEMENT", null=False),
    integer("HAJ_ATTEMPT", null=False),
    words("HAJ_KIND", 16, null=False),
    words("HAJ_TABLE_LOCATION", 4000, null=False),
    words("HAJ_STAGING", 4000),
    words("HAJ_APPLICATION_ID", 256),
    code("HAJ_STATE", null=False),
    long_text("HAJ_MANIFEST"),
    text_value("HAJ_ERROR"),
    number("HAJ_STARTED", null=False),
    number("HAJ_UPDATED", null=False),
)
"""Every attempt of a Spark job (R4, R5): what must be fenced before a txn may be forgotten."""
Index("HIVE_ACID_JOB_TXN", HIVE_ACID_JOB.c.HAJ_TXNID)
Index("HIVE_ACID_JOB_OBJECT", HIVE_ACID_JOB.c.HAJ_DATABASE, HIVE_ACID_JOB.c.HAJ_TABLE, HIVE_ACID_JOB.c.HAJ_STATE)

HIVE_ACID_LEGACY_LOCK = table(
    "HIVE_ACID_LEGACY_LOCK",
    key("HLL_LOCK_ID"),
    key("HLL_NUMBER"),
    words("HLL_DATABASE", 128, null=False),
    words("HLL_TABLE", 256, null=False),
    words("HLL_PARTITION", 767, null=False, exact=True),
    code("HLL_MODE", null=False),
    number("HLL_ACQUIRED", null=False),
    number("HLL_HEARTBEAT", null=False),
    words("HLL_USER", 128, null=False),
    words("HLL_HOST", 128, null=False),
    words("HLL_AGENT_INFO", 128),
    number("HLL_TXN_ID", null=False),
    words("HLL_QUERY_ID", 128),
    text_value("HLL_QUERY"),
)
"""S and X locks of the Hive Concurrency Model; one row for each object of a request, parents included."""
Index("HIVE_ACID_LEGACY_LOCK_OBJECT", HIVE_ACID_LEGACY_LOCK.c.HLL_DATABASE, HIVE_ACID_LEGACY_LOCK.c.HLL_TABLE)
