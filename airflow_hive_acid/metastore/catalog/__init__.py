"""Databases, tables and partitions: their model, their rows, and the verbs that read and change them.

:mod:`.thrift` has their text, as dumps and messages hold it.
"""
