"""EXPORT and IMPORT: a table as a directory with its metadata, files copied and checked, drops that respect state.

Imports ``replication.presence`` and ``replication.site``.
"""
