"""The rows of the catalog: read into values and written from values, renamed and dropped, with ids and statistics.

Each function works on the connection of somebody's transaction and tells nobody. Imports ``catalog.values`` and the
rooms of the metastore below the catalog.
"""
