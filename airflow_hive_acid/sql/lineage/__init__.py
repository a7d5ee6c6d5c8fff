"""Where the columns of what a statement writes come from.

Imports ``sql.planning`` and below.
"""
