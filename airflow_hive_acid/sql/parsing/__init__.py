"""Text to statements: heads read word by word, queries by sqlglot, and statements built from typed arguments.

Imports ``sql.planning`` and below.
"""
