"""Scripts: which statements share a transaction, and each kind of statement run in its order.

Gives what the engine's verbs call. Imports ``engine.transactions`` and below.
"""
