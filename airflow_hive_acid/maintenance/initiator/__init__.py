"""The Initiator: which tables and partitions should be compacted, and why.

Imports ``maintenance.cleaner`` for what its explanation says of clean-up, and below.
"""
