"""Open transactions: what they have locked and written, how they are published, committed, given up and shared.

Imports ``engine.queries``, ``engine.definitions`` and below.
"""
