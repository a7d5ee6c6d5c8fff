"""Hive's metrics of transactions and compaction, and when one of them is a reason to act.

Imports the rooms below maintenance.
"""
