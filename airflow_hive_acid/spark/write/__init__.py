"""Writing: rows to deltas, delete deltas and bases in staging, whatever the statement or the compaction.

Imports ``spark.read`` and below.
"""
