"""Connections of type ``hive_acid`` and what they lead to: metastore, engine, Spark."""
