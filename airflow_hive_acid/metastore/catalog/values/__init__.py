"""What Hive's metastore knows of databases, tables, partitions and views, as values, and the rules for them.

Nothing here reads or writes a row. Imports ``format`` and, of the metastore, names and the expressions of ``database``
(conditions on partition values become SQL).
"""
