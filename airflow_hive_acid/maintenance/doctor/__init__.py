"""What is wrong with a live warehouse, and the safe repair of each finding.

Imports ``maintenance.warehouse``.
"""
