"""A copy of the catalog in memory, synchronised by ValidWriteIdList and the notification log."""
