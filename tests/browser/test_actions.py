"""What may be done on the page, by whom, and what the question before it is like."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from ui_data import ask, queue_for, task

from airflow_hive_acid.metastore.compaction.model import CompactionState, CompactionType
from airflow_hive_acid.metastore.database.codes import TxnState

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browser.conftest import Visit, World


def state_of(world: World, txn: int) -> TxnState | None:
    """How a txn stands in the metastore; None if nothing is known of it any more."""
    return next((row.state for row in world.client.show_transactions() if row.txn_id == txn), None)


def locks_of(world: World, lock: int) -> int:
    """How many rows a lock has."""
    return sum(row.lock_id == lock for row in world.client.show_locks())


def answer(page: Page, verb: str, reason: str | None = None) -> None:
    """Answer the question with its verb, and wait until it is gone."""
    dialog = page.get_by_role("dialog")
    if reason is not None:
        dialog.get_by_label(re.compile("Reason")).fill(reason)
    dialog.get_by_role("button", name=verb, exact=True).click()
    expect(dialog).to_have_count(0)


@pytest.fixture
def txn(world: World) -> int:
    """An open txn that nobody needs."""
    return queue_for(world.client, "shop.nothing", task("shop_doomed", "to_be_aborted"))


@pytest.mark.parametrize("role", ["op", "admin"])
def test_who_operates_airflow_aborts_a_txn(world: World, visit: Callable[..., Visit], txn: int, role: str) -> None:
    seen = visit(role).open(view="transactions", dag_id="shop_doomed", state="open")
    seen.txn_row(txn).get_by_role("button").click()
    expect(seen.page.get_by_role("dialog")).to_contain_text(f"Abort txn {txn}?")
    answer(seen.page, "Abort txn", "it hangs")
    expect(seen.page.locator(".ha-notice")).to_contain_text(str(txn))
    assert state_of(world, txn) is TxnState.ABORTED
    expect(seen.txn_row(txn)).to_have_count(0)


@pytest.mark.parametrize("role", ["viewer", "user"])
def test_who_only_looks_finds_no_buttons_and_the_server_refuses_all_the_same(
    world: World, visit: Callable[..., Visit], txn: int, role: str
) -> None:
    seen = visit(role).open(view="transactions", dag_id="shop_doomed")
    expect(seen.txn_row(txn)).to_be_visible()
    for name in ("Transactions", "Locks", "Compactions", "Leases"):
        seen.tab(name)
        expect(seen.page.locator(".ha-table tbody tr").first).to_be_visible()
        expect(seen.page.locator(".ha-table button")).to_have_count(0)
    expect(seen.page.locator(".ha-header")).to_contain_text("read only")
    answered = seen.page.request.post(
        f"{seen.url}/hive-acid/api/v1/connections/hive_acid_default/transactions/{txn}/abort",
        data={"reason": "mine"}, headers={"X-Hive-Acid": "1", "Sec-Fetch-Site": "same-origin"},
    )  # fmt: skip
    assert answered.status == 403
    assert state_of(world, txn) is TxnState.OPEN
    world.client.abort_txn(txn)


def test_a_compaction_is_requested_and_cancelled(world: World, visit: Callable[..., Visit]) -> None:
    seen = visit("op").open(view="tables", database="shop", table="returns")
    page = seen.page
    page.get_by_role("button", name=re.compile("Request compaction")).click()
    page.get_by_role("dialog").get_by_label("Type").select_option("minor")
    answer(page, "Request compaction")
    expect(page.locator(".ha-notice")).to_be_visible()
    request = next(c for c in world.client.compactions.active() if c.resource.table == "returns")
    assert (request.type, request.state) == (CompactionType.MINOR, CompactionState.INITIATED)
    seen.open(view="compactions", queued="true")
    seen.row("Compactions", "shop.returns").get_by_role("button").click()
    answer(page, "Cancel compaction", "not now")
    expect(seen.row("Compactions", "shop.returns")).to_have_count(0)
    assert request.id not in {c.id for c in world.client.compactions.active()}


def test_a_lease_is_dropped_only_with_a_reason(world: World, visit: Callable[..., Visit]) -> None:
    lease = world.client.leases.grab_lease(["shop.stuck"], 600, user="somebody stuck")
    seen = visit("op").open(view="leases", user="somebody stuck")
    seen.row("Leases held", "somebody stuck").get_by_role("button").click()
    drop = seen.page.get_by_role("dialog").get_by_role("button", name="Force-drop lease", exact=True)
    expect(drop).to_be_disabled()
    seen.page.get_by_role("dialog").get_by_label(re.compile("Reason")).fill("   ")
    expect(drop).to_be_disabled()
    answer(seen.page, "Force-drop lease", "its task is dead")
    expect(seen.row("Dropped by force", "its task is dead")).to_contain_text("op")
    assert not world.client.leases.confirm_lease(lease)


def test_a_lock_outside_of_txns_is_withdrawn(world: World, visit: Callable[..., Visit]) -> None:
    lock = ask(world.client, 0, "shop.left_behind", "a client that died")
    seen = visit("admin").open(view="locks", table="left_behind")
    seen.row("Locks", "shop.left_behind").get_by_role("button").click()
    answer(seen.page, "Withdraw lock")
    expect(seen.page.locator(".ha")).to_contain_text("No lock fits these filters.")
    assert locks_of(world, lock) == 0


def test_the_question_keeps_the_focus_and_escape_answers_no(
    world: World, visit: Callable[..., Visit], txn: int
) -> None:
    """The whole way by keyboard: from the view's link to the button, around the dialog, and back."""
    seen = visit("op").open()
    page = seen.page
    page.locator(".ha-tab", has_text="Transactions").focus()
    page.keyboard.press("Enter")
    seen.settle()
    button = seen.txn_row(txn).get_by_role("button")
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label(re.compile("Reason"))).to_be_focused()
    inside = "document.querySelector('dialog').contains(document.activeElement)"
    names = []
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate(inside)
        names.append(page.evaluate("document.activeElement.textContent || document.activeElement.type"))
    assert names == ["Cancel", "Abort txn", "text"] * 2
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.textContent") == "Abort txn"
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()
    assert state_of(world, txn) is TxnState.OPEN
    page.keyboard.press("Enter")
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.locator(".ha-notice")).to_be_visible()
    assert state_of(world, txn) is TxnState.ABORTED


def test_a_double_click_acts_once(world: World, visit: Callable[..., Visit], txn: int) -> None:
    seen = visit("op").open(view="transactions", dag_id="shop_doomed", state="open")
    posts: list[str] = []
    seen.page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    seen.txn_row(txn).get_by_role("button").click()
    dialog = seen.page.get_by_role("dialog")
    # Both clicks in one turn of the event loop: nothing was drawn in between.
    dialog.get_by_role("button", name="Abort txn", exact=True).evaluate("button => { button.click(); button.click(); }")
    expect(dialog).to_have_count(0)
    assert len(posts) == 1
    assert state_of(world, txn) is TxnState.ABORTED


def test_what_vanished_meanwhile_is_told_in_the_question(world: World, visit: Callable[..., Visit]) -> None:
    lock = ask(world.client, 0, "shop.vanishing", "a client that goes")
    seen = visit("op").open(view="locks", table="vanishing")
    seen.tolerate(404)
    seen.page.get_by_role("button", name="Pause").click()
    seen.row("Locks", "shop.vanishing").get_by_role("button").click()
    world.client.unlock(lock)
    dialog = seen.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Withdraw lock", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("It is gone")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
