"""Statements and plans as values.

Imports ``format`` and the errors; nothing here knows how a text becomes one of these values.
"""
