"""The routes about pins: what is pinned until when, and what that holds back from cleaning."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Depends

from airflow_hive_acid.metastore.database import now_ms
from airflow_hive_acid.metastore.txns import Pin, PinState
from airflow_hive_acid.plugins import models
from airflow_hive_acid.plugins.access import reader
from airflow_hive_acid.plugins.routes.parameters import Client

router = APIRouter(prefix="/connections", dependencies=[Depends(reader)], responses=models.RESPONSES)
_STATES: dict[PinState, Literal["active", "ended", "settled"]] = {
    PinState.ACTIVE: "active", PinState.ENDED: "ended", PinState.SETTLED: "settled",
}  # fmt: skip


class PinRow(models.Model):
    """A pin: ``held_bytes`` is what the Cleaner left for it when it last looked."""

    pin_id: int
    name: str
    tables: list[str]
    state: Literal["active", "ended", "settled"]
    created: int
    ends: int
    held_bytes: int
    max_bytes: int | None
    user: str
    comment: str | None
    honoured_by_hive: bool
    reason: str | None


@router.get("/{conn_id}/pins", tags=["pins"])
def pins(client: Client, ended: bool = False) -> models.Page[PinRow]:
    """Pins, those that hold back most first; if asked for those that have ended, too."""
    found = sorted(client.pins.show(ended=ended), key=lambda pin: (-pin.held_bytes, pin.id))
    return models.Page(
        items=[_row(pin) for pin in found], next=None, total=len(found), now=client.database.read(now_ms)
    )


def _row(pin: Pin) -> PinRow:
    return PinRow(
        pin_id=pin.id, name=pin.name, tables=list(pin.tables), state=_STATES[pin.state], created=pin.created,
        ends=pin.expires if pin.ended is None else pin.ended, held_bytes=pin.held_bytes, max_bytes=pin.max_bytes,
        user=pin.user, comment=pin.comment, honoured_by_hive=pin.txn_open, reason=pin.reason,
    )  # fmt: skip
