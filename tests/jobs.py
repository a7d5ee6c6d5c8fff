"""Jobs that are recorded for a table, whatever became of their txns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_ACID_JOB
from airflow_hive_acid.metastore.txns.jobs import jobs_of_txns

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.txns.jobs import Job


def jobs_of(client: MetastoreClient, table: str) -> list[Job]:
    """Attempts of jobs that write to a table, or wrote, in the order of their txns."""
    name, job = table_name(table), HIVE_ACID_JOB.c
    txns = sa.select(job.HAJ_TXNID).where(job.HAJ_DATABASE == name.database, job.HAJ_TABLE == name.name)
    with client.database.reading() as connection:
        found = jobs_of_txns(connection, sorted(set(connection.execute(txns).scalars())))
    return [one for txn_id in sorted(found) for one in found[txn_id] if one.table == str(name)]
