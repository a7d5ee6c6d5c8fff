"""The Cleaner: ``cleaner.py`` looks, ``cleaning.py`` handles a request.

``subject.py`` and ``rules.py`` say whether it may be cleaned, ``replaced.py`` and ``dropped.py`` remove, ``endings.py``
says how it ends. Beside them are the trash, and what aborted txns have left.

Imports ``maintenance.warehouse``.
"""
