"""Airflow operators: SQL and changes of data, transactions across tasks, leases, compaction, replication, mirrors, time
travel.

The names of ``__all__`` are public; each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.operators.changes import (
        HiveAcidDeleteOperator,
        HiveAcidInsertOperator,
        HiveAcidMergeOperator,
        HiveAcidUpdateOperator,
    )
    from airflow_hive_acid.operators.compact import HiveAcidCompactOperator
    from airflow_hive_acid.operators.exim import HiveAcidExportTableOperator, HiveAcidImportTableOperator
    from airflow_hive_acid.operators.export import HiveAcidExportOperator
    from airflow_hive_acid.operators.foreign_tables import HiveAcidImportForeignTableOperator
    from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
    from airflow_hive_acid.operators.leases import (
        HiveAcidConfirmLeaseOperator,
        HiveAcidDropLeaseOperator,
        HiveAcidGrabLeaseOperator,
        lease_on,
    )
    from airflow_hive_acid.operators.mirror import HiveAcidMirrorCutOverOperator, HiveAcidMirrorOperator
    from airflow_hive_acid.operators.replication import HiveAcidReplicationOperator
    from airflow_hive_acid.operators.retries import HiveAcidRetryPolicy
    from airflow_hive_acid.operators.services import HiveAcidSparkServiceOperator
    from airflow_hive_acid.operators.spark import HiveAcidSparkOperator
    from airflow_hive_acid.operators.stream import HiveAcidStreamOperator
    from airflow_hive_acid.operators.time_travel import (
        HiveAcidChangesOperator,
        HiveAcidPinOperator,
        HiveAcidUnpinOperator,
    )
    from airflow_hive_acid.operators.transaction_groups import hive_acid_transaction, hive_acid_transaction_tries
    from airflow_hive_acid.operators.transactions import (
        HiveAcidBeginTransactionOperator,
        HiveAcidCommitTransactionOperator,
        HiveAcidEndTransactionOperator,
        HiveAcidKeepTransactionOperator,
        HiveAcidTransactionOutcomeOperator,
    )
    from airflow_hive_acid.operators.worker import (
        HiveAcidCleanOperator,
        HiveAcidCompactionWorkerOperator,
        HiveAcidPlanWorkersOperator,
    )

__all__ = [
    "HiveAcidBeginTransactionOperator",
    "HiveAcidChangesOperator",
    "HiveAcidCleanOperator",
    "HiveAcidCommitTransactionOperator",
    "HiveAcidCompactOperator",
    "HiveAcidCompactionWorkerOperator",
    "HiveAcidConfirmLeaseOperator",
    "HiveAcidDeleteOperator",
    "HiveAcidDropLeaseOperator",
    "HiveAcidEndTransactionOperator",
    "HiveAcidExportOperator",
    "HiveAcidExportTableOperator",
    "HiveAcidGrabLeaseOperator",
    "HiveAcidImportForeignTableOperator",
    "HiveAcidImportTableOperator",
    "HiveAcidInsertOperator",
    "HiveAcidKeepTransactionOperator",
    "HiveAcidMergeOperator",
    "HiveAcidMirrorCutOverOperator",
    "HiveAcidMirrorOperator",
    "HiveAcidOperator",
    "HiveAcidPinOperator",
    "HiveAcidPlanWorkersOperator",
    "HiveAcidReplicationOperator",
    "HiveAcidRetryPolicy",
    "HiveAcidSparkOperator",
    "HiveAcidSparkServiceOperator",
    "HiveAcidStreamOperator",
    "HiveAcidTransactionOutcomeOperator",
    "HiveAcidUnpinOperator",
    "HiveAcidUpdateOperator",
    "hive_acid_transaction",
    "hive_acid_transaction_tries",
    "lease_on",
]

_HOMES = {
    "HiveAcidBeginTransactionOperator": "transactions",
    "HiveAcidChangesOperator": "time_travel",
    "HiveAcidCleanOperator": "worker",
    "HiveAcidCommitTransactionOperator": "transactions",
    "HiveAcidCompactOperator": "compact",
    "HiveAcidCompactionWorkerOperator": "worker",
    "HiveAcidConfirmLeaseOperator": "leases",
    "HiveAcidDeleteOperator": "changes",
    "HiveAcidDropLeaseOperator": "leases",
    "HiveAcidEndTransactionOperator": "transactions",
    "HiveAcidExportOperator": "export",
    "HiveAcidExportTableOperator": "exim",
    "HiveAcidGrabLeaseOperator": "leases",
    "HiveAcidImportForeignTableOperator": "foreign_tables",
    "HiveAcidImportTableOperator": "exim",
    "HiveAcidInsertOperator": "changes",
    "HiveAcidKeepTransactionOperator": "transactions",
    "HiveAcidMergeOperator": "changes",
    "HiveAcidMirrorCutOverOperator": "mirror",
    "HiveAcidMirrorOperator": "mirror",
    "HiveAcidOperator": "hive_acid",
    "HiveAcidPinOperator": "time_travel",
    "HiveAcidPlanWorkersOperator": "worker",
    "HiveAcidReplicationOperator": "replication",
    "HiveAcidRetryPolicy": "retries",
    "HiveAcidSparkOperator": "spark",
    "HiveAcidSparkServiceOperator": "services",
    "HiveAcidStreamOperator": "stream",
    "HiveAcidTransactionOutcomeOperator": "transactions",
    "HiveAcidUnpinOperator": "time_travel",
    "HiveAcidUpdateOperator": "changes",
    "hive_acid_transaction": "transaction_groups",
    "hive_acid_transaction_tries": "transaction_groups",
    "lease_on": "leases",
}

#: Names of before the prefix was one for all.
_RENAMED = {
    "BeginTransactionOperator": "HiveAcidBeginTransactionOperator",
    "CleanOperator": "HiveAcidCleanOperator",
    "CommitTransactionOperator": "HiveAcidCommitTransactionOperator",
    "CompactionWorkerOperator": "HiveAcidCompactionWorkerOperator",
    "DropLeaseOperator": "HiveAcidDropLeaseOperator",
    "EndTransactionOperator": "HiveAcidEndTransactionOperator",
    "GrabLeaseOperator": "HiveAcidGrabLeaseOperator",
    "KeepTransactionOperator": "HiveAcidKeepTransactionOperator",
    "PlanWorkersOperator": "HiveAcidPlanWorkersOperator",
    "TransactionOutcomeOperator": "HiveAcidTransactionOutcomeOperator",
}

__getattr__ = lazily(__name__, _HOMES, _RENAMED)
