"""Which locks a plan asks for, each with the rule that gave it.

Imports ``sql.planning`` and below.
"""
