"""Events: read from a notification log, kept, chosen, collapsed, and turned into tasks.

Pure but for the store. Imports ``replication.policies`` and below.
"""
