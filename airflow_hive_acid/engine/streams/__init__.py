"""Rows that keep coming: transaction batches, and the micro-batches of streaming applications.

Imports ``engine.statements`` and below.
"""
