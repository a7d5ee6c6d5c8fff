"""Spark applications: finding Java and Spark, their settings, environment and package, starting them, talking to them.

Gives launchers, sessions and the application that statements share. Imports ``engine.outcomes`` and the rooms below
the engine.
"""
