"""The pins on the page: what they keep, until when, who may drop them, and whether a Hive knows of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from sqlalchemy import update

from airflow_hive_acid.metastore.schema.pins import HIVE_ACID_PIN
from airflow_hive_acid.metastore.txns.pin_rules import PinState
from tests.browser.conftest import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.browser.conftest import Visit, World

DAY = 86_400.0


@pytest.fixture
def pins(world: World) -> Iterator[None]:
    """One that holds back much, and one whose txn somebody has aborted."""
    client = world.client
    made = client.pins.pin(
        "month end", ["shop.orders", "shop.customers"], expires=30 * DAY, max_bytes=5 << 30, comment=HOSTILE
    )
    held = update(HIVE_ACID_PIN).where(HIVE_ACID_PIN.c.HPN_ID == made.id).values(HPN_BYTES=3 << 20)
    client.database.run(lambda connection: connection.execute(held))
    dead = client.pins.pin("forgotten", ["shop.customers"], expires=DAY)
    client.abort_txn(dead.txn_id, "by hand")
    yield
    for pin in client.pins.show():
        client.pins.unpin(pin.name)


@pytest.mark.usefixtures("pins")
def test_pins_are_shown_with_what_they_hold_back_and_dropped_by_who_operates(
    world: World, visit: Callable[..., Visit]
) -> None:
    looks = visit("viewer").open(view="leases")
    row = looks.row("Pins", "month end")
    for text in ("shop.customers, shop.orders", "3.0 MB", "5.0 GB", "ann", "yes"):
        expect(row).to_contain_text(text)
    expect(row.locator("time").last).to_have_text(re.compile("in .*d"))
    assert row.get_by_text("month end", exact=True).get_attribute("title") == HOSTILE
    lost = looks.row("Pins", "forgotten")
    expect(lost.get_by_text("no", exact=True)).to_have_attribute("title", re.compile("ended from outside"))
    names = looks.page.get_by_role("table", name="Pins", exact=True).locator("tbody tr td:first-child")
    expect(names).to_have_text(["month end", "forgotten"])  # what holds back most comes first
    expect(looks.page.get_by_role("table", name="Pins", exact=True).locator("button")).to_have_count(0)

    acts = visit("op").open(view="leases")
    acts.row("Pins", "month end").get_by_role("button").click()
    dialog = acts.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Drop pin month end?")
    expect(dialog).to_contain_text("ann pinned shop.customers, shop.orders.")
    assert "month end" in [pin.name for pin in world.client.pins.show()], "asked first"
    dialog.get_by_label(re.compile("Reason")).fill("the books are closed")
    dialog.get_by_role("button", name="Drop pin", exact=True).click()
    expect(acts.row("Pins", "month end")).to_have_count(0)
    expect(acts.row("Pins", "forgotten")).to_be_visible()
    dropped = next(pin for pin in reversed(world.client.pins.show(ended=True)) if pin.name == "month end")
    assert dropped.state in (PinState.ENDED, PinState.SETTLED)
    assert "the books are closed" in (dropped.reason or "")
    for seen in (looks, acts):
        assert seen.page.evaluate("window.__injected") is None
