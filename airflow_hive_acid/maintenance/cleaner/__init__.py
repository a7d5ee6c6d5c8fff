"""The Cleaner: rules, the look at what readers need, the removal, the trash.

Imports ``maintenance.warehouse``.
"""
