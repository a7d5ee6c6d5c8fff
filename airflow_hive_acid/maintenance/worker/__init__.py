"""The Worker: takes a request, plans its job, watches it, publishes what it has made.

Imports ``maintenance.warehouse``.
"""
