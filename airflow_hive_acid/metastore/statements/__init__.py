"""ALTER, SET, ADD and DROP of the catalog with their locks, fences and events, each a transaction of its own.

Imports ``metastore.protocol`` and below.
"""
