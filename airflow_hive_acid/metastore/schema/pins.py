"""Our tables of pins: named snapshots of tables, what they see, and what a Cleaner has left for them.

Hive never reads them; what it knows of a pin is an open txn (see ``pins``).
"""

from __future__ import annotations

from sqlalchemy import Index

from airflow_hive_acid.metastore.schema.types import (
    code,
    identity,
    integer,
    long_text,
    number,
    table,
    text_value,
    words,
)

__all__ = ["HIVE_ACID_PIN", "HIVE_ACID_PIN_HELD", "HIVE_ACID_PIN_TABLE", "PIN_TABLES"]

HIVE_ACID_PIN = table(
    "HIVE_ACID_PIN",
    identity("HPN_ID"),
    words("HPN_NAME", 128, null=False),
    words("HPN_LIVE", 128),
    code("HPN_STATE", null=False),
    number("HPN_TXNID", null=False),
    number("HPN_CREATED", null=False),
    number("HPN_EXPIRES", null=False),
    number("HPN_MAX_BYTES"),
    number("HPN_BYTES", null=False, default=0),
    number("HPN_MEASURED"),
    words("HPN_USER", 128, null=False),
    text_value("HPN_COMMENT"),
    long_text("HPN_TXNS", null=False),
    number("HPN_ENDED"),
    number("HPN_END_TXNID"),
    text_value("HPN_REASON"),
)
"""A pin. HPN_LIVE is its name while it may be read, NULL afterwards, so that the name is free again.

HPN_STATE: ``a`` it may be read; ``e`` it has ended, and whoever read it then may still do so (HPN_END_TXNID is the
newest txn of that moment); ``s`` settled: nothing is kept for it any more. HPN_TXNS is the text of its list of valid
txns.
"""
Index("HIVE_ACID_PIN_LIVE", HIVE_ACID_PIN.c.HPN_LIVE, unique=True)
Index("HIVE_ACID_PIN_STATE", HIVE_ACID_PIN.c.HPN_STATE)

HIVE_ACID_PIN_TABLE = table(
    "HIVE_ACID_PIN_TABLE",
    number("HPT_PIN", in_key=True),
    words("HPT_DATABASE", 128, in_key=True),
    words("HPT_TABLE", 256, in_key=True),
    long_text("HPT_WRITE_IDS", null=False),
    long_text("HPT_PARTITIONS"),
)
"""What a pin sees of a table: the text of its list of valid write ids, and its partitions as JSON."""
Index("HIVE_ACID_PIN_OF", HIVE_ACID_PIN_TABLE.c.HPT_DATABASE, HIVE_ACID_PIN_TABLE.c.HPT_TABLE)

HIVE_ACID_PIN_HELD = table(
    "HIVE_ACID_PIN_HELD",
    identity("HPH_ID"),
    number("HPH_PIN", null=False),
    words("HPH_DATABASE", 128, null=False),
    words("HPH_TABLE", 256, null=False),
    words("HPH_PART_NAME", 767, null=False, exact=True),
    number("HPH_WRITEID", null=False),
    words("HPH_RUN_AS", 128),
    integer("HPH_DIRECTORIES", null=False),
    number("HPH_BYTES", null=False),
)
"""What the Cleaner left for a pin in a table or partition (HPH_PART_NAME is '' for a table).

HPH_WRITEID is how far the compaction reached that was cleaned up after, HPH_RUN_AS the user it ran as: when the pin has
ended, that is done again.
"""
Index("HIVE_ACID_PIN_HELD_BY", HIVE_ACID_PIN_HELD.c.HPH_PIN)

PIN_TABLES = (HIVE_ACID_PIN, HIVE_ACID_PIN_TABLE, HIVE_ACID_PIN_HELD)
