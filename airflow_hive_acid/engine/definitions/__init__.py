"""Statements about tables and databases themselves: CREATE, DROP, ALTER, CTAS, CONCATENATE, COMPACT.

Imports ``engine.locking`` and below; each is a DDL txn of its own.
"""
