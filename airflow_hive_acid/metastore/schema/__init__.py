"""Tables of the metastore as values: Hive 4's own, and ours beside them. Nothing here runs a statement."""
