"""The notification log: its rows and messages, as Hive's listeners write and read them.

Imports ``metastore.names`` and ``metastore.database``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.notifications.events import CATALOG
    from airflow_hive_acid.metastore.notifications.log import LoggedEvent, is_another_log
else:
    __getattr__ = lazily(__name__, {"CATALOG": "events", "LoggedEvent": "log", "is_another_log": "log"})

__all__ = ["CATALOG", "LoggedEvent", "is_another_log"]
