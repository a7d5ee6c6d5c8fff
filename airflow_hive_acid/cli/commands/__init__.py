"""The commands of ``hive-acid``, one module for each word behind it.

Imports ``cli.session``, ``cli.output`` and the rooms below the terminal.
"""
