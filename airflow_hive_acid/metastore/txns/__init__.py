"""Txns and their write ids: open, heartbeat, commit, abort, conflicts, snapshots, and the jobs that work for them.

Each module is one verb of Hive's TxnHandler, as functions of a connection; whoever calls them owns the transaction.
"""
