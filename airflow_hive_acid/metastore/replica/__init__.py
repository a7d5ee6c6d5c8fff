"""What replication asks of the metastore: mapped txns, applied events, whole objects written as the source has them."""
