"""From plans to locks: which lock manager, what is asked for, how it is waited for and held.

Hive 4's locks and those of the Hive Concurrency Model. Imports ``engine.tables`` and below.
"""
