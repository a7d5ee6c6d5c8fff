"""Catalog objects as Hive's Thrift text, in dumps and in the messages of the notification log.

Imports ``catalog.values``, and ``catalog.rows`` for what an event tells of.
"""
