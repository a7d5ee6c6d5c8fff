"""Leases: rights to a table or partition for a time, that writers and a real Hive honour.

``model`` has the values, ``grants`` the decision, ``manager`` the verbs that users call.
"""
