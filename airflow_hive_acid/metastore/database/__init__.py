"""The database under the metastore: connections, dialects, row locks, retries, its clock, and the codes in its rows.

The only room that knows which database it is. It knows the tables it locks, and no verb.
"""
