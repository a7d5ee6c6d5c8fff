"""Replication: what happens at one site is done again at another (the HiveReplicationDevelopment seed).

Lazy and primary-copy: events of the primary's notification log become tasks, and those become exports, copies and
imports, tagged with state ids, so that whatever is repeated or comes late does no harm.
"""
