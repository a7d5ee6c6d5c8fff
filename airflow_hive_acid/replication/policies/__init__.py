"""Policies as values: what is replicated from where to where under which names, and how far it has come.

Imports the rooms below replication and nothing else of it.
"""
