"""Our tables of replication, in the metastore of the replica: where each policy is, object by object.

The position is where the data is: whoever restores a replica's metastore from a backup gets the position that goes
with it.
"""

from __future__ import annotations

from sqlalchemy import Index

from airflow_hive_acid.metastore.schema.types import code, identity, number, table, text_value, words

HIVE_ACID_REPL_POLICY = table(
    "HIVE_ACID_REPL_POLICY",
    words("HRP_POLICY", 64, in_key=True, exact=True),
    words("HRP_SOURCE", 256, null=False),
    code("HRP_PHASE", null=False),
    number("HRP_POSITION"),
    number("HRP_TARGET"),
    number("HRP_TOLD"),
    number("HRP_EPOCH", null=False),
    number("HRP_AS_OF"),
    number("HRP_STARTED"),
    number("HRP_ENDED"),
    words("HRP_HOLDER", 256),
    text_value("HRP_ERROR"),
    text_value("HRP_REPORT"),
)
"""A policy at its destination; times are milliseconds by this database's clock.

HRP_PHASE: 'n' never copied, 'b' first copy under way, 'i' follows the events, 'o' failed over: nothing is applied any
more. HRP_POSITION is the last event of the source that is applied; HRP_TARGET the event that the first copy began at,
HRP_TOLD the last one of whose commits assets have heard.
HRP_EPOCH counts cycles and is their fencing token: whoever has an older one changes nothing here any more (R3).
HRP_AS_OF is a moment at which everything committed at the source by then is here. HRP_STARTED without HRP_ENDED: a
cycle is under way, or was killed. HRP_REPORT is JSON, ASCII; its "seen" is the event at HRP_POSITION (HRP_TARGET), and
when that was written, and changes with them.
"""

HIVE_ACID_REPL_OBJECT = table(
    "HIVE_ACID_REPL_OBJECT",
    identity("HRO_ID"),
    words("HRO_POLICY", 64, null=False, exact=True),
    words("HRO_SOURCE_TABLE", 400, null=False),
    words("HRO_TABLE", 400, null=False),
    number("HRO_STATE"),
    number("HRO_AS_OF"),
    number("HRO_APPLIED", null=False),
    number("HRO_BYTES", null=False),
    number("HRO_FILES", null=False),
    text_value("HRO_SAID"),
    text_value("HRO_ERROR"),
)
"""What a policy has done last with a table; names are 'db.table'. HRO_STATE is its state id, an event of the source."""
Index("HIVE_ACID_REPL_OBJECT_OF", HIVE_ACID_REPL_OBJECT.c.HRO_POLICY, HIVE_ACID_REPL_OBJECT.c.HRO_SOURCE_TABLE)

HIVE_ACID_REPL_EVENT = table(
    "HIVE_ACID_REPL_EVENT",
    identity("HRE_ID"),
    words("HRE_POLICY", 64, null=False, exact=True),
    number("HRE_EVENT_ID", null=False),
    number("HRE_TIME", null=False),
    words("HRE_TYPE", 64, null=False),
    words("HRE_DATABASE", 128),
    words("HRE_TABLE", 256),
    words("HRE_WHY", 256, null=False),
    text_value("HRE_MESSAGE"),
    number("HRE_KEPT", null=False),
)
"""Events that nothing here knows how to apply: kept as they were, for people."""
Index(
    "HIVE_ACID_REPL_EVENT_OF",
    HIVE_ACID_REPL_EVENT.c.HRE_POLICY,
    HIVE_ACID_REPL_EVENT.c.HRE_EVENT_ID,
    unique=True,
)

HIVE_ACID_REPL_GRANT = table(
    "HIVE_ACID_REPL_GRANT",
    words("HRG_POLICY", 64, in_key=True, exact=True),
    words("HRG_HASH", 64, in_key=True, exact=True),
    text_value("HRG_ENTRY", null=False),
    number("HRG_OBJECT"),
    number("HRG_GRANTED", null=False),
)
"""What a policy has granted here (roles, members, owners, privileges), to tell it from what the replica's admin did.

HRG_ENTRY is JSON, ASCII; HRG_HASH is the SHA-256 of its identity. HRG_OBJECT is the DB_ID or TBL_ID that it was granted
on: a table that was dropped and made again is another one.
"""

REPLICATION_TABLES = (HIVE_ACID_REPL_POLICY, HIVE_ACID_REPL_OBJECT, HIVE_ACID_REPL_EVENT, HIVE_ACID_REPL_GRANT)
"""All of them; since version 7."""
