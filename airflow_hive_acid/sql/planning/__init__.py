"""A statement and facts of the catalog become a plan: names, columns, targets, and the text that Spark runs.

Pure. Imports ``sql.text`` and ``sql.model``.
"""
