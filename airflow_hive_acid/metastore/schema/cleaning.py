"""Our tables of the Cleaner: what it did or waits for, and what it moved to the trash. Hive never reads them."""

from __future__ import annotations

from sqlalchemy import Index

from airflow_hive_acid.metastore.schema.types import long_text, number, table, text_value, words

__all__ = ["HIVE_ACID_CLEANING", "HIVE_ACID_TRASH"]

HIVE_ACID_CLEANING = table(
    "HIVE_ACID_CLEANING",
    words("HCL_ID", 64, in_key=True),
    number("HCL_REQUEST_ID"),
    words("HCL_DATABASE", 128, null=False),
    words("HCL_TABLE", 256, null=False),
    words("HCL_PARTITION", 767, exact=True),
    words("HCL_KIND", 32, null=False),
    text_value("HCL_REASON", null=False),
    long_text("HCL_DETAILS", null=False),
    number("HCL_SINCE", null=False),
    number("HCL_UNTIL", null=False),
)
"""An outcome of the Cleaner, since when it has been the same, and when it was last."""
Index("HIVE_ACID_CLEANING_OBJECT", HIVE_ACID_CLEANING.c.HCL_DATABASE, HIVE_ACID_CLEANING.c.HCL_TABLE)

HIVE_ACID_TRASH = table(
    "HIVE_ACID_TRASH",
    words("HTR_ID", 64, in_key=True),
    words("HTR_BATCH", 64, null=False),
    number("HTR_REQUEST_ID"),
    words("HTR_DATABASE", 128, null=False),
    words("HTR_TABLE", 256, null=False),
    words("HTR_PARTITION", 767, exact=True),
    words("HTR_SOURCE", 4000, null=False),
    words("HTR_ROOT", 4000, null=False),
    words("HTR_PATH", 4000, null=False),
    number("HTR_WRITEID"),
    number("HTR_MOVED", null=False),
)
"""A directory or file that the Cleaner moved to the trash instead of deleting it (R13)."""
Index("HIVE_ACID_TRASH_BATCH", HIVE_ACID_TRASH.c.HTR_BATCH)
Index("HIVE_ACID_TRASH_OBJECT", HIVE_ACID_TRASH.c.HTR_DATABASE, HIVE_ACID_TRASH.c.HTR_TABLE)
