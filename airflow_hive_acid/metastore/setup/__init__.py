"""Creating, checking and upgrading the schema of a metastore.

Imports ``metastore.database`` and ``metastore.schema``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.setup.schema import COMPACTION_QUEUE, COMPLETED_TXN_COMPONENTS
else:
    __getattr__ = lazily(__name__, {"COMPACTION_QUEUE": "schema", "COMPLETED_TXN_COMPONENTS": "schema"})

__all__ = ["COMPACTION_QUEUE", "COMPLETED_TXN_COMPONENTS"]
