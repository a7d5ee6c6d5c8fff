"""Our table of streams: which micro-batch of each was the last to be committed (R14). Hive never reads it."""

from __future__ import annotations

from airflow_hive_acid.metastore.schema.types import long_text, number, table, text_value, words

HIVE_ACID_STREAM = table(
    "HIVE_ACID_STREAM",
    words("HSR_STREAM", 64, in_key=True),
    text_value("HSR_NAME", null=False),
    words("HSR_TABLE", 512, null=False),
    words("HSR_SOURCE", 128, null=False),
    words("HSR_OWNER", 64, null=False),
    text_value("HSR_WHO", null=False),
    number("HSR_BEAT", null=False),
    words("HSR_ATTEMPT", 64, null=False),
    text_value("HSR_OPEN_TXNS", null=False),
    number("HSR_BATCH", null=False),
    number("HSR_TXNID"),
    number("HSR_WRITEID"),
    number("HSR_BATCHES", null=False),
    number("HSR_ROWS", null=False),
    number("HSR_QUARANTINED", null=False),
    long_text("HSR_OFFSETS"),
    number("HSR_UPDATED", null=False),
)
"""A stream of micro-batches into one table.

HSR_STREAM is the digest of HSR_NAME, HSR_SOURCE what tells one checkpoint from another (Spark's id of the query).
HSR_OWNER is the token of the process that runs it now, '' for nobody, HSR_BEAT its last sign of life; HSR_ATTEMPT the
token of the micro-batch it is at, HSR_OPEN_TXNS the txns of attempts that nobody is known to have ended. HSR_BATCH is
the last micro-batch that was committed (-1: none), in txn HSR_TXNID, with what HSR_OFFSETS says of its sources.
"""

STREAM_TABLES = (HIVE_ACID_STREAM,)
