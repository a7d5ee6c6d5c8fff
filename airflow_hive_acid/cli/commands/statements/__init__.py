"""The words that run SQL and write rows: ``sql``, ``explain``, ``ingest``, ``stream``, ``demo``.

Imports ``cli.commands.lease`` (a statement may run under one), ``cli.session``, ``cli.output`` and the rooms below the
terminal.
"""
