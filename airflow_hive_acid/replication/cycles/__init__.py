"""Cycles of a policy: one after the other from the position the last has reached, and fail-over.

Imports all other rooms of replication.
"""
