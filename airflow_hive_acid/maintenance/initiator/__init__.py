"""The Initiator: which tables and partitions should be compacted, and why.

Imports ``maintenance.cleaner`` and ``maintenance.worker`` for rules of theirs, and below.
"""
