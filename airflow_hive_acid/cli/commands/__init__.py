"""The commands of ``hive-acid``, one module for each word behind it.

Those that run SQL are in :mod:`.statements`, those that keep a warehouse in order in :mod:`.upkeep`. Imports
``cli.session``, ``cli.output`` and the rooms below the terminal.
"""
