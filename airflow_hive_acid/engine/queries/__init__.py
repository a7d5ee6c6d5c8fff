"""Statements that only look: SELECT, SHOW and EXPLAIN.

Imports ``engine.context`` and below; knows no transaction that writes.
"""
