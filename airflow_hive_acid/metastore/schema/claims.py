"""Our table of idempotency records (R14). Hive never reads it."""

from __future__ import annotations

from sqlalchemy import Index

from airflow_hive_acid.metastore.schema.types import code, integer, long_text, number, table, text_value, words

HIVE_ACID_CLAIM = table(
    "HIVE_ACID_CLAIM",
    words("HAC_SCOPE", 64, in_key=True),
    integer("HAC_UNIT", in_key=True),
    text_value("HAC_NAME", null=False),
    words("HAC_DIGEST", 64, null=False),
    words("HAC_LIFE", 64, null=False),
    code("HAC_STATE", null=False),
    words("HAC_OWNER", 64, null=False),
    number("HAC_TXNID"),
    text_value("HAC_EARLIER_TXNS", null=False),
    long_text("HAC_RESULT"),
    number("HAC_UPDATED", null=False),
)
"""Who may apply a unit of work, and what came of it.

HAC_SCOPE is the digest of what HAC_NAME says in words: the DAG, run, task and map index. A unit is a statement, or the
statements of one transaction, by the number of its first statement. HAC_EARLIER_TXNS are the txns of earlier tries
that nobody is known to have fenced yet.
"""
Index("HIVE_ACID_CLAIM_UPDATED", HIVE_ACID_CLAIM.c.HAC_UPDATED)
