"""Lock managers: the interface and the metastore's own (Hive's HIVE_LOCKS table)."""
