"""Hostile names, a metastore that does not answer, an expired login, things that are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from sqlalchemy import insert, update
from ui_data import DAYS, OrcTable, queue_for

from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.schema.hive_catalog import TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import COMPLETED_COMPACTIONS, HIVE_LOCKS
from tests.browser.conftest import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.engine import Connection

    from tests.browser.conftest import Visit, World

VIEWS = ("Overview", "Transactions", "Locks", "Compactions", "Leases", "Tables")


@pytest.fixture
def hostile(world: World) -> Iterator[int]:
    """Every text that somebody else chooses is markup; names of tables, too, as if another program had written them."""
    with MetastoreClient(world.url, user=HOSTILE[:120], host=HOSTILE[:120]) as client:
        table = OrcTable(client, "shop.hostile", (("id", "bigint"),), "day").create()
        partition = f"day={HOSTILE}".replace("/", "")
        table.insert([(1,)], partition, agent=HOSTILE)
        holder = queue_for(client, "shop.hostile", HOSTILE)
        waiter = queue_for(client, "shop.hostile", HOSTILE)
        lease = client.leases.grab_lease(["shop.hostile_lease"], 600, user=HOSTILE)
        client.compactions.enqueue(
            "shop.hostile", f"day={HOSTILE}".replace("/", ""), CompactionType.MAJOR, pool=HOSTILE
        )
        row = {
            "CC_ID": 800_000, "CC_DATABASE": HOSTILE, "CC_TABLE": HOSTILE, "CC_PARTITION": HOSTILE, "CC_STATE": "f",
            "CC_TYPE": "a", "CC_START": 1, "CC_END": 2, "CC_WORKER_ID": HOSTILE, "CC_ERROR_MESSAGE": HOSTILE,
            "CC_INITIATOR_ID": HOSTILE, "CC_POOL_NAME": HOSTILE, "CC_HADOOP_JOB_ID": "<script>", "CC_RUN_AS": HOSTILE,
        }  # fmt: skip

        def rename(connection: Connection) -> None:
            connection.execute(insert(COMPLETED_COMPACTIONS), [row])
            connection.execute(update(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_TXNID == waiter).values(HL_PARTITION=HOSTILE))
            connection.execute(update(TBLS).where(TBLS.c.TBL_NAME == "returns").values(OWNER=HOSTILE))

        client.database.run(rename)
        yield waiter
        client.leases.drop_lease(lease)
        client.heartbeats.remove(holder)
        client.heartbeats.remove(waiter)
        client.abort_txns([holder, waiter])


def test_hostile_names_are_text_on_every_view(visit: Callable[..., Visit], hostile: int) -> None:
    seen = visit("op").open()
    page = seen.page
    for name in VIEWS:
        seen.tab(name)
        if name not in ("Tables",):
            expect(page.locator(".ha")).to_contain_text("onerror=")
        assert page.evaluate("window.__injected") is None
        assert page.locator(".ha img, .ha script").count() == 0
    for query in (
        {"view": "transactions", "txn_id": hostile}, {"view": "locks", "graph": 1},
        {"view": "compactions", "compaction_id": 800_000}, {"view": "tables", "database": "shop", "table": "hostile"},
        {"view": "tables", "database": "shop", "table": "returns"},
    ):  # fmt: skip
        seen.open(**query)
        expect(page.locator(".ha")).to_contain_text("onerror=")
        assert page.evaluate("window.__injected") is None
        assert page.locator(".ha img, .ha script").count() == 0
    seen.open(view="compactions", state="initiated")
    seen.row("Compactions", "hostile").get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_contain_text("<script>")
    assert page.locator("dialog img").count() == 0
    page.keyboard.press("Escape")
    page.goto(f"{seen.url}/hive-acid/?view=transactions")
    expect(page.locator("main")).to_contain_text("onerror=")
    assert page.evaluate("window.__injected") is None
    assert page.locator("main img").count() == 0


def test_a_metastore_that_cannot_be_reached_is_told_on_every_view(visit: Callable[..., Visit]) -> None:
    seen = visit("admin")
    seen.tolerate(503)
    seen.open(conn_id="unreachable")
    for name in VIEWS:
        seen.tab(name)
        expect(seen.page.get_by_role("alert").first).to_contain_text("The metastore cannot be reached")
        assert "secret" not in seen.text
    expect(seen.page.locator(".ha-live")).to_contain_text("retrying")
    seen.page.get_by_label("Connection").select_option("hive_acid_default")
    expect(seen.page.locator(".ha")).to_contain_text("shop.")


def test_what_was_known_stays_readable_while_the_metastore_is_away(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="leases")
    seen.tolerate(503)
    message = {"error": {"code": "metastore_unavailable", "message": "it rests", "retryable": True}}
    seen.page.route("**/leases?*", lambda route: route.fulfill(status=503, json=message))
    seen.page.route("**/leases", lambda route: route.fulfill(status=503, json=message))
    expect(seen.page.get_by_role("alert").first).to_contain_text("it rests")
    expect(seen.row("Leases held", "night load")).to_be_visible()
    seen.page.unroute_all()
    expect(seen.page.get_by_role("alert")).to_have_count(0)


def test_an_expired_login_is_told_with_the_way_to_a_new_one(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="leases")
    seen.tolerate(401)
    # Airflow's own page would leave for its login form; here it shall be ours that notices.
    seen.page.route("**/ui/**", lambda route: route.abort())
    seen.page.route("**/api/v2/**", lambda route: route.abort())
    seen.page.context.clear_cookies()
    alert = seen.page.get_by_role("alert").first
    expect(alert).to_contain_text("Your login has expired")
    way = alert.get_by_role("link").get_attribute("href")
    assert way is not None
    assert way.startswith(f"{seen.url}/auth/login?next=")
    assert "view%3Dleases" in way
    expect(seen.row("Leases held", "night load")).to_be_visible()


@pytest.mark.parametrize(
    "query",
    [
        {"view": "transactions", "txn_id": 999_999}, {"view": "compactions", "compaction_id": 999_999},
        {"view": "tables", "database": "shop", "table": "gone"},
    ],
    ids=lambda query: str(query["view"]),
)  # fmt: skip
def test_what_is_not_there_is_told_and_leads_back(visit: Callable[..., Visit], query: dict[str, object]) -> None:
    seen = visit("viewer")
    seen.tolerate(404)
    seen.open(**query)
    expect(seen.page.get_by_role("alert")).to_contain_text("It is gone")
    seen.page.get_by_role("link", name=f"All {query['view']}").click()
    expect(seen.page.locator(".ha-table tbody tr").first).to_be_visible()


def test_a_lock_that_is_gone_is_told(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="locks", lock_id=999_999)
    expect(seen.page.locator(".ha")).to_contain_text("It is gone")


def test_an_unknown_connection_leads_to_the_default_one(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(conn_id="nobody")
    expect(seen.page.locator(".ha")).to_contain_text("There is no connection nobody")
    seen.page.get_by_role("link", name="Go to the default one").click()
    expect(seen.page.locator(".ha")).to_contain_text(DAYS[0])


def test_filters_that_nobody_could_mean_are_refused_in_words(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer")
    seen.tolerate(422)
    seen.open(view="transactions", state="asleep")
    expect(seen.page.get_by_role("alert").first).to_contain_text("The request was refused")
