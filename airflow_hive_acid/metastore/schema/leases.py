"""Tables of leases: the leases themselves, the rows that changes of them lock, who waits, and what was done by force.

Hive never reads them; what it sees of a lease is its mirror in HIVE_LOCKS (R7).
"""

from __future__ import annotations

from sqlalchemy import Index

from airflow_hive_acid.metastore.schema.types import code, identity, key, number, table, text_value, words

HIVE_LEASE = table(
    "HIVE_LEASE",
    key("LEASE_ID"),
    key("LEASE_NUMBER"),
    words("LEASE_USER", 128, null=False),
    words("DB_NAME", 128, null=False),
    words("TABLE_NAME", 256, null=False),
    words("PARTITION_NAME", 767, null=False, exact=True),
    number("START_UTC", null=False),
    number("END_UTC", null=False),
    code("LEASE_TYPE", null=False),
    words("SECRET_HASH", 64, null=False),
    number("MIRROR_EXT_ID"),
    number("MIRROR_INT_ID"),
)
"""The document's HiveLease, one row for each object of a lease; PARTITION_NAME is '' for a table.

SECRET_HASH is the SHA-256 of the holder's secret. MIRROR_… name the lock in HIVE_LOCKS that stands for the lease, NULL
when none does; all s leases of an object name the same one.
"""
Index("HIVE_LEASE_OBJECT", HIVE_LEASE.c.DB_NAME, HIVE_LEASE.c.TABLE_NAME, HIVE_LEASE.c.PARTITION_NAME)
Index("HIVE_LEASE_MIRROR", HIVE_LEASE.c.MIRROR_EXT_ID, HIVE_LEASE.c.MIRROR_INT_ID)
Index("HIVE_LEASE_END", HIVE_LEASE.c.END_UTC)

HIVE_ACID_LEASE_OBJECT = table(
    "HIVE_ACID_LEASE_OBJECT", words("HLO_DATABASE", 128, in_key=True), words("HLO_TABLE", 256, in_key=True)
)
"""One row for each table that was ever leased, in whole or in part: whoever changes a lease on it locks this row."""

HIVE_ACID_LEASE_QUEUE = table(
    "HIVE_ACID_LEASE_QUEUE",
    key("HLQ_TICKET"),
    key("HLQ_NUMBER"),
    words("HLQ_DATABASE", 128, null=False),
    words("HLQ_TABLE", 256, null=False),
    words("HLQ_PARTITION", 767, null=False, exact=True),
    code("HLQ_TYPE", null=False),
    words("HLQ_USER", 128, null=False),
    number("HLQ_SINCE", null=False),
    number("HLQ_ALIVE_UNTIL", null=False),
    number("HLQ_HIVE_ID"),
)
"""Who waits for a lease, one row for each object wanted; tickets are ids of NEXT_LOCK_ID and say who was first.

HLQ_HIVE_ID is the waiting lock that stands for it in HIVE_LOCKS, NULL while other leases are in the way: who holds one
of those may be writing through Hive, and must not wait for who waits for him (R6). A ticket counts until
HLQ_ALIVE_UNTIL.
"""
Index("HIVE_ACID_LEASE_QUEUE_OBJECT", HIVE_ACID_LEASE_QUEUE.c.HLQ_DATABASE, HIVE_ACID_LEASE_QUEUE.c.HLQ_TABLE)

HIVE_ACID_LEASE_AUDIT = table(
    "HIVE_ACID_LEASE_AUDIT",
    identity("HLA_ID"),
    number("HLA_TIME", null=False),
    words("HLA_WHO", 128, null=False),
    text_value("HLA_WHY", null=False),
    number("HLA_LEASE_ID", null=False),
    words("HLA_USER", 128, null=False),
    words("HLA_DATABASE", 128, null=False),
    words("HLA_TABLE", 256, null=False),
    words("HLA_PARTITION", 767, null=False, exact=True),
    code("HLA_TYPE", null=False),
    number("HLA_START", null=False),
    number("HLA_END", null=False),
)
"""Leases dropped by force: by whom, why, and what they were."""

LEASE_TABLES = (HIVE_LEASE, HIVE_ACID_LEASE_OBJECT, HIVE_ACID_LEASE_QUEUE, HIVE_ACID_LEASE_AUDIT)
