"""The routes of the page's API that read, by what they are about; what changes something is in ``plugins.actions``.

They stand on the metastore's rooms and on ``plugins``' models and shaping; ``parameters`` opens the metastore for them.
"""
