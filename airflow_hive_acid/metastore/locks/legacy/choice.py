"""Which lock manager of the Hive Concurrency Model is meant: ``hive.lock.manager``, looked up in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.metastore.locks.legacy.manager import LegacyLockManager
from airflow_hive_acid.metastore.locks.legacy.zookeeper import ZooKeeperLockManager
from airflow_hive_acid.settings_table import EMBEDDED_LOCK_MANAGER, ZOOKEEPER_LOCK_MANAGER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.locks.legacy.concurrency_model import ConcurrencyModelLocks
    from airflow_hive_acid.settings import Settings

_MANAGERS: Mapping[str, Callable[[Database, Settings], ConcurrencyModelLocks]] = {
    EMBEDDED_LOCK_MANAGER: LegacyLockManager,
    ZOOKEEPER_LOCK_MANAGER: ZooKeeperLockManager,
}
"""By the name of Hive's class."""


def legacy_lock_manager(database: Database, settings: Settings) -> ConcurrencyModelLocks:
    """The lock manager that DummyTxnManager uses; the caller closes it.

    :param database: the metastore.
    :raises ConfigurationError: when ``hive.lock.manager`` names a class that has no counterpart here.
    """
    name = settings.string("hive.lock.manager")
    try:
        manager = _MANAGERS[name]
    except KeyError:
        raise ConfigurationError(
            f"hive.lock.manager ({settings['hive.lock.manager'].source.value}) names {name}, which is none of the lock "
            f"managers of this version; set it to {', '.join(_MANAGERS)}"
        ) from None
    return manager(database, settings)
