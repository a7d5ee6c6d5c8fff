"""The link of a task to the page "Hive ACID": the txn, compaction, lease or table it has to do with.

Airflow asks for it in the worker, when the task has run; the operator has noted by then what there is to see. The page
takes views and filters from its query string, so a link is a place to start from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink

from airflow_hive_acid.airflow_versions import conf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk.types import TaskInstanceKey

PAGE = "plugin/hive-acid"
"""Path of the page, relative to Airflow's base URL."""


def page_url(base: str, view: str, conn_id: str, **filters: Any) -> str:
    """Where something is shown.

    :param base: Airflow's base URL, or only its path.
    :param filters: what the view is restricted to; those that are None are left out.
    """
    given = {name: str(value) for name, value in filters.items() if value is not None}
    return f"{base.rstrip('/')}/{PAGE}?{urlencode({'view': view, 'conn_id': conn_id, **given})}"


def object_filters(table: str | None, partition: str | None = None) -> dict[str, str | None]:
    """Filters of a view for ``db.table`` or ``db``."""
    database, _, name = (table or "").lower().partition(".")
    return {"database": database or None, "table": name or None, "partition": partition}


def linked_to(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the result of a task is shown by: its lease, its compaction, or its last txn; None when it has none."""
    if "lease_id" in document:
        first = next(iter(document.get("objects", ())), "")
        return {"view": "leases", "lease_id": document["lease_id"], **object_filters(str(first).partition("/")[0])}
    for request in document.get("requests", [document] if "request_id" in document else []):
        return {"view": "compactions", "compaction_id": request["request_id"]}
    txns = [statement["txn_id"] for statement in document.get("statements", ()) if statement["txn_id"] is not None]
    return {"view": "transactions", "txn_id": txns[-1]} if txns else None


class HiveAcidLink(BaseOperatorLink):
    """Link to what a task of ours has to do with."""

    name = "Hive ACID"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """The URL, empty when the task came to nothing that could be shown.

        An operator notes it in ``linked``: the view, and its filters.
        """
        linked: Mapping[str, Any] | None = getattr(operator, "linked", None)
        if not linked:
            return ""
        return page_url(conf.get("api", "base_url", fallback="/"), conn_id=operator.hive_acid_conn_id, **linked)


LINKS = (HiveAcidLink(),)
"""``operator_extra_links`` of every operator of ours."""
