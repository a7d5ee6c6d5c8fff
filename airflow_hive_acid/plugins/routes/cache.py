"""The route about the catalog cache of this process: what it answers from memory, and how far it is behind."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Depends

from airflow_hive_acid.plugins import models
from airflow_hive_acid.plugins.access import reader
from airflow_hive_acid.plugins.routes.parameters import Client

router = APIRouter(prefix="/connections", dependencies=[Depends(reader)], responses=models.RESPONSES)


class Cache(models.Model):
    """The cache of the API server that answered; others have their own."""

    state: Literal["off", "following", "behind"]
    hits: int
    missing: int
    stale: int
    other: int
    hit_ratio: float | None
    entries: int
    bytes: int
    max_bytes: int
    evictions: int
    position: int | None
    lag_events: int | None
    lag_seconds: float | None
    restarts: int


@router.get("/{conn_id}/cache", tags=["cache"])
def cache(client: Client) -> Cache:
    """How many reads were answered from memory, how many by the database because the reader's list was newer."""
    found = client.cache.statistics(ask_log=True)
    return Cache(
        state=found.state,
        hits=found.hits,
        missing=found.missing,
        stale=found.stale,
        other=found.reads - found.hits - found.missing - found.stale,
        hit_ratio=found.hit_ratio,
        entries=found.entries,
        bytes=found.bytes,
        max_bytes=found.max_bytes,
        evictions=found.evictions,
        position=found.position,
        lag_events=found.lag_events,
        lag_seconds=found.lag_seconds,
        restarts=found.restarts,
    )
