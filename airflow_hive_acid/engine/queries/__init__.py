"""Statements that only look: SELECT, SHOW and EXPLAIN.

Imports ``engine.locking`` and below; knows no transaction that writes.
"""
