"""The Hive Concurrency Model: S and X locks in a table of ours or in ZooKeeper.

Imports the values of ``metastore.locks`` and the rooms below.
"""
