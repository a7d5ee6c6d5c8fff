"""Names of columns, tables and databases in SQL, as Hive and Spark both read them."""

from __future__ import annotations


def quoted_name(*names: str) -> str:
    """A (qualified) name in backquotes, whatever characters it has."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)
