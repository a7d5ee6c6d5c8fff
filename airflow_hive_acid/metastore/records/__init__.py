"""What we note beside Hive's tables: claims of statements, shared txns, streams, and marks of places."""
