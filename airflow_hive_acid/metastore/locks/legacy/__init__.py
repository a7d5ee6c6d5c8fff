"""The Hive Concurrency Model: S and X locks in a table of ours or in ZooKeeper."""
