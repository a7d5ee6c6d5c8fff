"""A copy of the catalog in memory, synchronised by ValidWriteIdList and the notification log.

Imports ``metastore.verbs``, ``metastore.catalog`` and the rooms below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.cache.statistics import CacheStatistics
else:
    __getattr__ = lazily(__name__, {"CacheStatistics": "statistics"})

__all__ = ["CacheStatistics"]
