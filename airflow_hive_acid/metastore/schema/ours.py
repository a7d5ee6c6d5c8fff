"""Our extension tables from version 5 on; the older ones stand beside the tables of Hive that they serve.

Hive never reads them, its ``VERSION`` row does not speak of them, and nothing that Hive needs depends on them.
"""

from __future__ import annotations

from sqlalchemy import Index

from airflow_hive_acid.metastore.schema.claims import HIVE_ACID_CLAIM
from airflow_hive_acid.metastore.schema.cleaning import HIVE_ACID_CLEANING, HIVE_ACID_TRASH
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_ACID_JOB, HIVE_ACID_LEGACY_LOCK, HIVE_ACID_VERSION
from airflow_hive_acid.metastore.schema.leases import LEASE_TABLES
from airflow_hive_acid.metastore.schema.mirrors import MIRROR_TABLES
from airflow_hive_acid.metastore.schema.pins import PIN_TABLES
from airflow_hive_acid.metastore.schema.places import PLACE_TABLES
from airflow_hive_acid.metastore.schema.reads import READ_TABLES
from airflow_hive_acid.metastore.schema.replication import REPLICATION_TABLES
from airflow_hive_acid.metastore.schema.replication_acid import REPLICATION_ACID_TABLES
from airflow_hive_acid.metastore.schema.shared_txns import SHARED_TABLES
from airflow_hive_acid.metastore.schema.streams import STREAM_TABLES
from airflow_hive_acid.metastore.schema.types import code, identity, integer, key, number, table, text_value, words

HIVE_ACID_DECISION = table(
    "HIVE_ACID_DECISION",
    identity("HAD_ID"),
    words("HAD_DATABASE", 128, null=False),
    words("HAD_TABLE", 256, null=False),
    words("HAD_PART_NAME", 767, null=False, exact=True),
    code("HAD_NEWEST", null=False),
    code("HAD_AGAIN", null=False),
    number("HAD_SINCE", null=False),
    number("HAD_LOOKED", null=False),
    integer("HAD_LOOKS", null=False),
    number("HAD_WRITES", null=False),
    number("HAD_TXN_SUM", null=False),
    words("HAD_KIND", 32, null=False),
    words("HAD_RULE", 64, null=False),
    text_value("HAD_REASON", null=False),
    text_value("HAD_NUMBERS"),
    text_value("HAD_BLOCKED_BY"),
    number("HAD_REQUEST_ID"),
)
"""What the Initiator decided about a table or partition (HAD_PART_NAME is '' for a table), newest marked with 'Y'.

(SQLAlchemy does not see an index on MySQL if a column's name ends in PARTITION.)

A row stands for all looks in a row with the same outcome. HAD_WRITES and HAD_TXN_SUM are number and sum of the txn ids
of the completed components that were there: what the next look compares with, to see whether something was written.
HAD_AGAIN says that it is looked at in any case.
"""
Index(
    "HIVE_ACID_DECISION_OBJECT",
    HIVE_ACID_DECISION.c.HAD_DATABASE,
    HIVE_ACID_DECISION.c.HAD_TABLE,
    HIVE_ACID_DECISION.c.HAD_PART_NAME,
)

HIVE_ACID_COMPACTION_CANCEL = table(
    "HIVE_ACID_COMPACTION_CANCEL",
    key("HCN_ID"),
    words("HCN_USER", 128, null=False),
    text_value("HCN_REASON"),
    number("HCN_REQUESTED", null=False),
)
"""Running compactions that shall end; HCN_ID is the CQ_ID. The Worker looks here while its job runs."""

HIVE_ACID_MEASURE = table(
    "HIVE_ACID_MEASURE",
    identity("HME_ID"),
    words("HME_DATABASE", 128, null=False),
    words("HME_TABLE", 256, null=False),
    words("HME_PART_NAME", 767, null=False, exact=True),
    code("HME_NEWEST", null=False),
    number("HME_SINCE", null=False),
    number("HME_UNTIL", null=False),
    number("HME_FILES", null=False),
    number("HME_DELTAS", null=False),
    number("HME_DELETE_DELTAS", null=False),
    number("HME_BASE_BYTES", null=False),
    number("HME_DELTA_BYTES", null=False),
    number("HME_DELETE_BYTES", null=False),
)
"""How large a table or partition was (HME_PART_NAME is '' for a table), whenever a service listed its directory.

A row stands for all listings in a row that found the same; the newest is marked with 'Y'. HME_DELTAS counts deltas
and delete deltas, as the Initiator does.
"""
Index(
    "HIVE_ACID_MEASURE_OBJECT",
    HIVE_ACID_MEASURE.c.HME_DATABASE,
    HIVE_ACID_MEASURE.c.HME_TABLE,
    HIVE_ACID_MEASURE.c.HME_PART_NAME,
)

VERSION_5 = (
    HIVE_ACID_DECISION,
    HIVE_ACID_COMPACTION_CANCEL,
    HIVE_ACID_CLEANING,
    HIVE_ACID_TRASH,
    HIVE_ACID_CLAIM,
    *LEASE_TABLES,
)
"""The tables that version 5 adds."""

VERSION_6 = (HIVE_ACID_MEASURE, *SHARED_TABLES)
"""The tables that version 6 adds."""

VERSION_7 = (*REPLICATION_TABLES, *STREAM_TABLES, *PIN_TABLES, *REPLICATION_ACID_TABLES)
"""The tables that version 7 adds."""

VERSION_8 = (*PLACE_TABLES,)
"""The tables that version 8 adds."""

VERSION_9 = (*MIRROR_TABLES,)
"""The tables that version 9 adds."""

VERSION_10 = (*READ_TABLES,)
"""The tables that version 10 adds."""

EXTENSION_TABLES = (
    HIVE_ACID_VERSION, HIVE_ACID_JOB, HIVE_ACID_LEGACY_LOCK, *VERSION_5, *VERSION_6, *VERSION_7, *VERSION_8,
    *VERSION_9, *VERSION_10,
)  # fmt: skip
"""All of ours."""
