"""Tables as Airflow assets: ``hiveacid://<connection id>/<database>/<table>``.

The connection id stands for the metastore: it is known where a DAG is written, and holds nothing secret. Partitions are
in the extra of an event, not in the URI: a DAG can follow a table without naming partitions that do not exist yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from airflow.sdk import Asset, AssetAlias

from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from urllib.parse import SplitResult

    from airflow_hive_acid.maintenance.decisions import CompactionOutcome

SCHEME = "hiveacid"
COMPACTIONS = AssetAlias(name="hive_acid_compactions")
"""The outlet of tasks that compact: which tables they will meet is not known when the DAG is written."""


def table_asset(table: str, conn_id: str = DEFAULT_CONN_ID) -> Asset:
    """The asset of a table, to schedule a DAG on its compactions.

    :param table: ``db.table``.
    :param conn_id: the connection of type ``hive_acid``.
    """
    database, _, name = table.lower().partition(".")
    uri = f"{SCHEME}://{conn_id}/{quote(database, safe='')}/{quote(name, safe='')}"
    return Asset(name=f"{conn_id}/{database}.{name}", uri=uri)


def check_uri(uri: SplitResult) -> SplitResult:
    """What Airflow asks of a URI of ours.

    :raises ValueError: when it does not name connection, database and table.
    """
    parts = [unquote(part) for part in uri.path.strip("/").split("/")]
    if not uri.netloc or len(parts) != 2 or not all(parts):
        raise ValueError(f"{SCHEME}://<connection id>/<database>/<table> expected, not {uri.geturl()!r}")
    return uri


def announce(events: Any, conn_id: str, outcomes: Sequence[CompactionOutcome]) -> None:
    """Tell of each compaction that was committed, as an event of its table.

    :param events: ``outlet_events`` of the task's context; the task has the outlet :data:`COMPACTIONS`.
    """
    for outcome in outcomes:
        if not outcome.directories:
            continue
        extra = {
            "kind": "compaction",
            "type": outcome.type.name.lower(),
            "request_id": outcome.request_id,
            "partition": outcome.resource.partition,
            "directories": list(outcome.directories),
            "rows": outcome.rows,
            "highest_write_id": outcome.numbers.get("highest_write_id"),
            "txn_id": outcome.txn_id,
        }
        events[COMPACTIONS].add(table_asset(str(outcome.resource.table_name), conn_id), extra=extra)
