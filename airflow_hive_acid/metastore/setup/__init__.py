"""Creating, checking and upgrading the schema of a metastore."""
