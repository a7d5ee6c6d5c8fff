"""Connections of type ``hive_acid`` and what they lead to: metastore, engine, Spark, assets.

The names of ``__all__`` are public; each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.hooks.assets import commits, table_asset
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.hooks.replication import policy_asset

__all__ = ["HiveAcidHook", "commits", "policy_asset", "table_asset"]

_HOMES = {"HiveAcidHook": "hive_acid", "commits": "assets", "policy_asset": "replication", "table_asset": "assets"}

__getattr__ = lazily(__name__, _HOMES)
