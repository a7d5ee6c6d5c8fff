"""The reaper and the purge: ends what has timed out, forgets what nobody needs.

Imports ``maintenance.cleaner`` and below.
"""
