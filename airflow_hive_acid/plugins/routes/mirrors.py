"""The route about mirrors: how far copies in Iceberg and Delta are behind their tables, and what went wrong."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from airflow_hive_acid.metastore.database import now_ms
from airflow_hive_acid.mirrors.listing import Listed, list_mirrors
from airflow_hive_acid.plugins import models
from airflow_hive_acid.plugins.access import reader
from airflow_hive_acid.plugins.routes.parameters import Client

router = APIRouter(prefix="/connections", dependencies=[Depends(reader)], responses=models.RESPONSES)


class MirrorRow(models.Model):
    """A mirror: ``behind`` counts write ids of the table that have ended; it had all of them when a run last looked.

    ``differ`` is how many partitions differed when both sides were last compared.
    """

    id: str
    table: str
    target: str
    write_id: int | None
    behind: int | None
    looked: int | None
    last: str | None
    changed: int | None
    error: str | None
    failed: int | None
    differ: int | None
    verified: int | None
    primary: int | None


@router.get("/{conn_id}/mirrors", tags=["mirrors"])
def mirrors(client: Client, table: str | None = None) -> models.Page[MirrorRow]:
    """Mirrors of all tables or of one, those that failed and those furthest behind first."""
    found = sorted(list_mirrors(client, table), key=lambda one: (one.mirror.error is None, -(one.behind or 0)))
    items = [_row(one) for one in found]
    return models.Page(items=items, next=None, total=len(items), now=client.database.read(now_ms))


def _row(one: Listed) -> MirrorRow:
    mirror = one.mirror
    last = None if mirror.todo is None else f"{mirror.todo}: {mirror.reason}"
    return MirrorRow(
        id=f"{mirror.table} {mirror.target}", table=mirror.table, target=mirror.target, write_id=mirror.write_id,
        behind=one.behind, looked=mirror.looked, last=last, changed=mirror.changed, error=mirror.error,
        failed=mirror.failed, differ=mirror.differ, verified=mirror.verified, primary=mirror.primary,
    )  # fmt: skip
