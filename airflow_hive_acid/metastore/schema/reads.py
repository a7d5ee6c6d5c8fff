"""Our table of reads: how often tables and partitions are read, and what a compaction last made of them.

Hive never reads it. It is written where ``hive.acid.initiator.policy`` is ``benefit``, and nowhere else.
"""

from __future__ import annotations

from airflow_hive_acid.metastore.schema.types import number, table, words

HIVE_ACID_READ = table(
    "HIVE_ACID_READ",
    words("HRD_KEY", 64, in_key=True),
    words("HRD_DATABASE", 128, null=False),
    words("HRD_TABLE", 256, null=False),
    words("HRD_PART_NAME", 767, null=False, exact=True),
    number("HRD_READS", null=False),
    number("HRD_LAST", null=False),
    number("HRD_COMPACTION", null=False),
    number("HRD_COMPACTION_READS", null=False),
    number("HRD_COMPACTION_SINCE", null=False),
    number("HRD_BASE", null=False),
    number("HRD_BASE_READS", null=False),
    number("HRD_BASE_SINCE", null=False),
)
"""HRD_KEY is the digest of the names. HRD_READS counts reads of our jobs since the row is there (HRD_PART_NAME is ''
for a table, and for reads of all partitions of one), HRD_LAST is when it was noted last, ms by the database's clock.

The Initiator's marks: the txn of the newest compaction (HRD_COMPACTION) and the write id of the base (HRD_BASE) that it
has found, how many reads there were then, and when that was. A mark that was never made is -1, since 0.
"""

READ_TABLES = (HIVE_ACID_READ,)
