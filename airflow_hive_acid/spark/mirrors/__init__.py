"""The job side of mirrors: a copy of an ACID table in Iceberg or Delta, brought from one state to the next.

``run`` is what a job calls: it looks at the target, decides by ``format.mirrors`` what it needs, and makes one commit.
``targets`` says what a target can do; ``iceberg`` and ``delta`` do it; ``columns`` are the target's columns,
``merging`` makes rows and a MERGE of what was changed, ``counting`` counts them while it runs; ``partitions`` finds
those that came or went by no write id, ``checksums`` compares both sides, ``foreign_tables`` those of an import;
``snapshots`` are the source at a write id. Nothing here imports Iceberg or Delta: their jars are the user's, and are
spoken to through Spark.
"""
