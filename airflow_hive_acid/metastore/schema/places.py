"""Our table of places: warehouses and other directories that this metastore has seen, and how each is known again.

Hive never reads it.
"""

from __future__ import annotations

from airflow_hive_acid.metastore.schema.types import number, table, text_value, words

HIVE_ACID_PLACE = table(
    "HIVE_ACID_PLACE",
    words("HPL_PLACE", 64, in_key=True),
    text_value("HPL_URI", null=False),
    words("HPL_ID", 64, null=False),
    number("HPL_SEEN", null=False),
)
"""HPL_PLACE is the digest of HPL_URI, HPL_ID what the marker file in that directory says, HPL_SEEN when it was first
seen, or accepted, ms by the database's clock.
"""

PLACE_TABLES = (HIVE_ACID_PLACE,)
