"""What SQLite, PostgreSQL and MySQL or MariaDB each do in their own way, a file each; and which of them a URL needs.

Imports :mod:`..backend` (what they share), and the clock, expressions and layouts of ``metastore.database``. Of the
rest of the package only that room imports it.
"""
