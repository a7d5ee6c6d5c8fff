"""Reading: from a table's snapshot to the files that hold it, and from files to rows.

Imports the modules of ``spark`` itself and ``format``; never anything that writes.
"""
