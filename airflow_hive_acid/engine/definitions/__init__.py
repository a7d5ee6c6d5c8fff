"""Statements about tables and databases themselves: CREATE, DROP, ALTER, CTAS, CONCATENATE, COMPACT.

Imports ``engine.context`` and below; each is a DDL txn of its own.
"""
