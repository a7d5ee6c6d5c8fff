"""The table format as values: names, codecs, lists of valid ids, what a snapshot sees. Standard library only."""
