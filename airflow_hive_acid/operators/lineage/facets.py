"""Our own OpenLineage facets; their JSON schemas are in ``docs/facets``."""

from __future__ import annotations

import attr
from openlineage.client.generated.base import DatasetFacet, RunFacet
from openlineage.client.utils import RedactMixin

TRANSACTIONS = "hiveAcid_transactions"
"""Key of the run facet."""
WRITTEN = "hiveAcid_written"
"""Key of the facet of a table that was written."""


@attr.define
class HiveAcidTransaction(RedactMixin):
    """One txn of the run.

    :param txnId: its id in the metastore.
    :param state: ``read``, ``open``, ``committed`` or ``aborted``; one that several tasks share is open until the last.
    :param operations: what it was declared for, by table.
    :param writeIds: its write id, by table that it may have written.
    :param snapshot: highest write id that it saw, by table; of those below some may have been open or aborted.
    """

    txnId: int
    state: str
    operations: dict[str, str]
    writeIds: dict[str, int]
    snapshot: dict[str, int]


@attr.define
class HiveAcidTransactionsRunFacet(RunFacet):
    """The txns of a run."""

    transactions: list[HiveAcidTransaction]

    @staticmethod
    def _get_schema() -> str:
        return "urn:airflow-hive-acid:facets:1-0-0:HiveAcidTransactionsRunFacet"


@attr.define
class HiveAcidWrittenDatasetFacet(DatasetFacet):
    """What a run has written to a table.

    :param writeId: the last one under which it wrote; None for a table without transactions.
    :param rowsInserted: rows inserted, updated and deleted, as a user counts them.
    """

    writeId: int | None
    rowsInserted: int
    rowsUpdated: int
    rowsDeleted: int

    @staticmethod
    def _get_schema() -> str:
        return "urn:airflow-hive-acid:facets:1-0-0:HiveAcidWrittenDatasetFacet"
