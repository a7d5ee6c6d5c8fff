"""Hive 4's lock manager: requests, compatibility, the queue, and who waits for whom.

:mod:`.legacy` has the manager of the Hive Concurrency Model.
"""
