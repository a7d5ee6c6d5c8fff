"""ACID tables of a replica, brought from one snapshot of the source to the next.

Imports ``replication.dumps`` and below.
"""
