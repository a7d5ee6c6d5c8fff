"""Which transaction manager is meant: ``hive.txn.manager``, looked up in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.engine.locking.hive4 import Hive4Locking
from airflow_hive_acid.engine.locking.legacy import LegacyLocking
from airflow_hive_acid.settings_table import DB_TXN_MANAGER, DUMMY_TXN_MANAGER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.engine.locking.interface import Locking
    from airflow_hive_acid.engine.tables.lookup import Tables
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.settings import Settings

_MANAGERS: Mapping[str, type[Hive4Locking | LegacyLocking]] = {
    DB_TXN_MANAGER: Hive4Locking,
    DUMMY_TXN_MANAGER: LegacyLocking,
}
"""By the name of Hive's class."""


def locking_of(client: MetastoreClient, settings: Settings, tables: Tables, agent_info: str) -> Locking:
    """How the transaction manager locks that is configured; the settings know no other names than these."""
    return _MANAGERS[settings.string("hive.txn.manager")](client, settings, tables, agent_info)
