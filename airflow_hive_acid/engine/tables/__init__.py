"""What a transaction knows of the tables it reads: look-ups, partitions, snapshots, the points they are looked at from.

Gives values for job specs, and refuses what a replica's readers must not write. Imports the rooms
below the engine.
"""
