"""Airflow sensors: wait for locks, leases, txns, commits, compactions and replicas without a worker slot.

The names of ``__all__`` are public; each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.sensors.commits import HiveAcidTableCommitSensor
    from airflow_hive_acid.sensors.compactions import HiveAcidCompactionSensor
    from airflow_hive_acid.sensors.leases import HiveAcidLeaseSensor
    from airflow_hive_acid.sensors.locks import HiveAcidLockReleasedSensor
    from airflow_hive_acid.sensors.replication import HiveAcidReplicationLagSensor
    from airflow_hive_acid.sensors.transactions import HiveAcidTransactionSensor

__all__ = [
    "HiveAcidCompactionSensor",
    "HiveAcidLeaseSensor",
    "HiveAcidLockReleasedSensor",
    "HiveAcidReplicationLagSensor",
    "HiveAcidTableCommitSensor",
    "HiveAcidTransactionSensor",
]

_HOMES = {
    "HiveAcidCompactionSensor": "compactions",
    "HiveAcidLeaseSensor": "leases",
    "HiveAcidLockReleasedSensor": "locks",
    "HiveAcidReplicationLagSensor": "replication",
    "HiveAcidTableCommitSensor": "commits",
    "HiveAcidTransactionSensor": "transactions",
}

#: Names of before the prefix was one for all.
_RENAMED = {
    "HiveCompactionSensor": "HiveAcidCompactionSensor",
    "HiveLeaseSensor": "HiveAcidLeaseSensor",
    "HiveLockReleasedSensor": "HiveAcidLockReleasedSensor",
    "HiveReplicationLagSensor": "HiveAcidReplicationLagSensor",
    "HiveTableCommitSensor": "HiveAcidTableCommitSensor",
    "HiveTransactionSensor": "HiveAcidTransactionSensor",
}

__getattr__ = lazily(__name__, _HOMES, _RENAMED)
