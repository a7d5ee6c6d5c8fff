"""Our table of streams: which micro-batch of each was the last to be committed (R14). Hive never reads it."""

from __future__ import annotations

import json

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
the last micro-batch that was committed (-1: none), in txn HSR_TXNID, with what HSR_OFFSETS says of its sources, and the
id of the table that it was written to: a name passes from one table to another.
"""

_TABLE_ID = "table_id"

STREAM_TABLES = (HIVE_ACID_STREAM,)


def offsets_text(offsets: str | None, table_id: int) -> str:
    """HSR_OFFSETS of a commit.

    :param offsets: what is told of the sources, as JSON text.
    :param table_id: of the table that was written to.
    """
    return json.dumps({**(json.loads(offsets) if offsets else {}), _TABLE_ID: table_id})


def read_offsets(text: str | None) -> tuple[str | None, int | None]:
    """The inverse of :func:`offsets_text`; no id in what an older release has written."""
    document = json.loads(text) if text else {}
    table_id = document.pop(_TABLE_ID, None)
    return (json.dumps(document) if document else None), table_id
