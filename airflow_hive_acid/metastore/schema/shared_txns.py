"""Our tables of transactions across tasks: one row for each, one for each member. Hive never reads them."""

from __future__ import annotations

from sqlalchemy import Index

from airflow_hive_acid.metastore.schema.types import code, key, long_text, number, table, text_value, words

HIVE_ACID_SHARED_TXN = table(
    "HIVE_ACID_SHARED_TXN",
    key("HST_TXNID"),
    text_value("HST_SCOPE", null=False),
    words("HST_AGENT", 256, null=False),
    code("HST_STATE", null=False),
    words("HST_ERROR", 64),
    text_value("HST_REASON"),
    long_text("HST_DOCUMENT", null=False),
    long_text("HST_WRITTEN", null=False),
    text_value("HST_STATEMENTS", null=False),
    words("HST_TURN", 64),
    words("HST_TURN_MEMBER", 64),
    number("HST_TURN_UNTIL"),
    number("HST_BEGUN", null=False),
    number("HST_UNTIL", null=False),
    number("HST_MOST_BYTES"),
    number("HST_KEPT"),
    number("HST_UPDATED", null=False),
)
"""A transaction that several tasks work in.

HST_DOCUMENT is the txn as a process resumes it (lists, locks, write ids) with its operations and its claim;
HST_WRITTEN what its finished members have written, table by table; HST_STATEMENTS the statement ids given out so far,
those of members that failed included (R5). HST_TURN is the token of the member that may work now. HST_KEPT is the
last beat of its keeper: NULL before the first, -1 where none can run.
"""
Index("HIVE_ACID_SHARED_TXN_STATE", HIVE_ACID_SHARED_TXN.c.HST_STATE)

HIVE_ACID_MEMBER = table(
    "HIVE_ACID_MEMBER",
    number("HSM_TXNID", in_key=True),
    words("HSM_MEMBER", 64, in_key=True),
    text_value("HSM_NAME", null=False),
    code("HSM_STATE", null=False),
    text_value("HSM_JOBS", null=False),
    long_text("HSM_RESULT"),
    number("HSM_UPDATED", null=False),
)
"""A task that worked, or works, in such a transaction; HSM_MEMBER is the digest of what HSM_NAME says in words.

HSM_JOBS are the jobs of tries that are not undone; of a member that is done they belong to the transaction.
"""

SHARED_TABLES = (HIVE_ACID_SHARED_TXN, HIVE_ACID_MEMBER)
