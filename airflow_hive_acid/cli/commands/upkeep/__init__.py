"""The words that keep a metastore and its tables in order: services, compaction, cleaning, the doctor, the schema.

Imports ``cli.session``, ``cli.output`` and the rooms below the terminal.
"""
