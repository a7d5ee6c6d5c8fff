"""The notification log: its rows and messages, as Hive's listeners write and read them."""
