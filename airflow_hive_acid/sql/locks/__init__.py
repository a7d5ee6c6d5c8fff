"""Which locks a plan asks for, each with the rule that gave it.

Imports ``sql.model``, and what locks are from the metastore.
"""
