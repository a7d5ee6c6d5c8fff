"""Catalog objects as Hive's Thrift text, in dumps and in the messages of the notification log."""
