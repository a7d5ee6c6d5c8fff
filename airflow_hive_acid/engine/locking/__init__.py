"""How what runs is locked: one interface, and two transaction managers that implement it.

``interface`` is what the rest of the engine knows; ``hive4`` and ``legacy`` are chosen by ``choice``, once for each
engine. Imports ``engine.tables`` and below.
"""
