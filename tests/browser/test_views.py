"""Every view, as somebody sees it who looks: content, links, filters, pages, graph, charts, refresh, fallbacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from sqlalchemy import delete, insert
from ui_data import queue_for, task

from airflow_hive_acid.format.services import Caller, ServiceState
from airflow_hive_acid.metastore.schema.hive_transactions import COMPLETED_COMPACTIONS
from tests.browser.conftest import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

    from tests.browser.conftest import Visit, World

VIEWS = {
    "Overview": ("Oldest open txn", "Cleaner lag", "Waiting locks", "Compactions that failed", "night load"),
    "Transactions": ("ann@worker-3", "shop_customers", "Abort"),
    "Locks": ("shop.returns", "shared write", "waiting"),
    "Compactions": ("shop.returns", "failed", "bucket_00000 is no ORC file", "How long compactions took"),
    "Leases": ("shop.customers", "night load", "Force-drop", "Nobody waits for a lease."),
    "Tables": ("shop.orders", "shop.customers", "full"),
    "Replication": ("shop-copy", "following", "warehouse_berlin", "1 directories arrived", "Every event was applied."),
}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_is_one_click_away_from_airflows_navigation(visit: Callable[..., Visit], theme: str) -> None:
    seen = visit("admin", theme)
    page = seen.page
    page.goto(seen.url)
    page.get_by_role("link", name="Hive ACID").click()
    page.wait_for_selector(".ha-tabs")
    for name, texts in VIEWS.items():
        seen.tab(name)
        for text in texts:
            expect(page.locator(".ha")).to_contain_text(text, timeout=PATIENCE)
        expect(page.locator(".ha-tab[aria-current=page]")).to_have_text(name)
    assert page.evaluate("document.documentElement.classList.contains('dark')") is (theme == "dark")
    brightness = page.evaluate(
        """() => {
            const canvas = document.createElement("canvas").getContext("2d");
            const bright = (colour) => {
                canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
                return r + g + b;
            };
            const table = getComputedStyle(document.querySelector(".ha-scroll"));
            return [bright(table.backgroundColor), bright(getComputedStyle(document.querySelector(".ha")).color)];
        }"""
    )
    assert (brightness[0] < brightness[1]) is (theme == "dark"), "text and background have the theme's colours"


def test_a_txn_leads_to_its_dag_its_run_and_the_log_of_its_try(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="transactions", dag_id="shop_customers")
    row = seen.row("Transactions", "merge_changes").first
    run = "dags/shop_customers/runs/scheduled__2026-11-22T06%3A00%3A00%2B00%3A00"
    links = [link.get_attribute("href") for link in row.locator(".ha-task a").all()]
    assert links == [
        f"{seen.url}/dags/shop_customers",
        f"{seen.url}/{run}",
        f"{seen.url}/{run}/tasks/merge_changes?try_number=2",
    ]
    row.get_by_role("link", name=re.compile(r"^\d+$")).click()
    expect(seen.page.get_by_role("heading", name=re.compile(r"Txn \d+"))).to_be_visible()
    expect(seen.page.locator(".ha")).to_contain_text("shop.customers")


def test_filters_are_in_the_address_and_the_way_back_leads_to_the_state_before(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="locks")
    page = seen.page
    page.get_by_label("State", exact=True).select_option("waiting")
    page.wait_for_url("**state=waiting**")
    page.get_by_label("Table", exact=True).fill("returns")
    page.wait_for_url("**table=returns**")
    expect(seen.row("Locks", "acquired")).to_have_count(0)
    page.reload()
    seen.settle()
    expect(page.get_by_label("Table", exact=True)).to_have_value("returns")
    expect(seen.row("Locks", "shop.returns")).not_to_have_count(0)
    page.get_by_label("Table", exact=True).fill("nothing_like_it")
    expect(page.locator(".ha")).to_contain_text("No lock fits these filters.")
    page.go_back()
    expect(page.get_by_label("Table", exact=True)).to_have_value("")


def test_long_lists_come_in_pages_of_the_server(
    world: World, visit: Callable[..., Visit], request: pytest.FixtureRequest
) -> None:
    def fill(connection: Connection) -> None:
        first = {"CC_DATABASE": "pages", "CC_TABLE": "t", "CC_STATE": "s", "CC_TYPE": "a", "CC_START": 1, "CC_END": 2}
        connection.execute(insert(COMPLETED_COMPACTIONS), [{"CC_ID": 900_000 + i, **first} for i in range(230)])

    def empty(connection: Connection) -> None:
        connection.execute(delete(COMPLETED_COMPACTIONS).where(COMPLETED_COMPACTIONS.c.CC_DATABASE == "pages"))

    world.client.database.run(fill)
    request.addfinalizer(lambda: world.client.database.run(empty))
    seen = visit("viewer").open(view="compactions", database="pages")
    page, rows = seen.page, seen.page.get_by_role("table", name="Compactions").locator("tbody tr")
    pages = page.get_by_role("navigation", name="Pages of Compactions")
    ids = []
    for size in (100, 100, 30):
        expect(rows).to_have_count(size)
        ids += [int(text) for text in rows.locator("td:first-child").all_inner_texts()]
        if size == 100:
            first = rows.first.inner_text()
            pages.get_by_role("button", name="Next").click()
            expect(rows.first).not_to_have_text(first, use_inner_text=True)
    assert ids == sorted(set(ids), reverse=True)
    assert len(ids) == 230
    expect(pages.get_by_role("button", name="Next")).to_be_disabled()
    pages.get_by_role("button", name="Previous").click()
    expect(rows).to_have_count(100)
    pages.get_by_role("button", name="Previous").click()
    expect(rows.first).to_contain_text(str(ids[0]))


def test_who_waits_for_whom_is_drawn(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="locks", graph=1, table="returns")
    page = seen.page
    nodes = page.locator(".ha-node")
    expect(nodes).to_have_count(5)
    expect(page.locator(".ha-edge")).to_have_count(4)
    lefts = nodes.evaluate_all("all => all.map(one => one.getBoundingClientRect().left)")
    assert len(set(lefts)) > 1, "who waits stands right of whom it waits for"
    nodes.nth(1).focus()
    page.keyboard.press("Enter")
    expect(nodes.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".ha-graph .ha-section")).to_contain_text("In its way")
    page.wait_for_url("**node=txn**")
    page.locator(".ha-graph .ha-aside").get_by_role("link").click()
    expect(page.get_by_role("heading", name=re.compile(r"Txn \d+"))).to_be_visible()


def test_a_graph_of_2000_waiters_is_a_few_boxes_that_can_be_opened(visit: Callable[..., Visit]) -> None:
    node = {"lock_id": None, "user": "ann", "agent_info": None, "task": None, "in_cycle": False, "started": 1}
    nodes = [{**node, "id": f"txn:{i}", "txn_id": i, "waiting": i > 0, "blocks": 1, "depth": i} for i in range(2000)]
    edges = [
        {"source": f"txn:{i}", "target": f"txn:{i - 1}", "object": "shop.orders", "in_cycle": False}
        for i in range(1, 2000)
    ]
    answer = {
        "now": 2, "nodes": nodes, "edges": edges, "cycles": [], "waiters": 1999, "total_nodes": 2000,
        "total_edges": 1999, "truncated": False,
    }  # fmt: skip
    seen = visit("viewer")
    seen.page.route("**/locks/graph*", lambda route: route.fulfill(json=answer))
    seen.open(view="locks", graph=1)
    page = seen.page
    expect(page.locator(".ha-node")).to_have_count(2)
    expect(page.locator(".ha-node-group")).to_contain_text("1,999 wait")
    page.locator(".ha-node-group").click()
    expect(page.locator(".ha-members li")).to_have_count(50)
    page.get_by_role("button", name="Draw the first 20").click()
    expect(page.locator(".ha-node")).to_have_count(22)


def test_a_table_shows_its_history_and_why_it_is_not_compacted(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="tables")
    page = seen.page
    seen.row("Tables", "shop.customers").get_by_role("link", name="shop.customers").click()
    seen.settle()
    expect(page.locator(".ha-chart svg")).to_have_count(2)
    assert page.locator(".ha-mark").count() > 0, "compactions are marked"
    chart = page.locator(".ha-chart").first
    newest = chart.locator("figcaption").inner_text()
    chart.locator("svg").focus()
    page.keyboard.press("ArrowLeft")
    expect(chart.locator("figcaption")).not_to_have_text(newest, use_inner_text=True)
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".ha-decision").first).to_be_visible()


def test_a_partitioned_table_explains_the_partition_that_is_chosen(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="tables", database="shop", table="orders")
    seen.page.get_by_role("link", name="day=2026-11-16").click()
    seen.page.wait_for_url("**partition=day**")
    seen.page.get_by_role("button", name="Explain day=2026-11-16").click()
    expect(seen.page.locator(".ha-decision").first).to_be_visible()


def test_a_refresh_changes_what_is_new_and_nothing_else(world: World, visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="transactions")
    page = seen.page
    page.evaluate("""() => {
        const row = document.querySelector(".ha-table tbody tr");
        row.mine = true;
        getSelection().selectAllChildren(row.querySelector("td"));
    }""")
    selected = page.evaluate("String(getSelection())")
    txn = queue_for(world.client, "shop.elsewhere", task("shop_new", "just_now"))
    try:
        expect(seen.row("Transactions", "shop_new")).to_be_visible()
        assert page.evaluate("document.querySelector('.ha-table tbody tr').mine"), "the row is the same element"
        assert page.evaluate("String(getSelection())") == selected
    finally:
        world.client.heartbeats.remove(txn)
        world.client.abort_txn(txn)


def test_a_page_that_nobody_sees_asks_nothing(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer")
    page, asked = seen.page, []
    page.on("request", lambda request: asked.append(request.url) if "/transactions" in request.url else None)
    page.clock.install()
    seen.open(view="transactions")
    with page.expect_request("**/transactions*"):
        page.clock.run_for(6000)
    hidden = "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true }); "
    tell = "document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hidden + tell, True)
    page.wait_for_load_state("networkidle")
    before = len(asked)
    page.clock.run_for(120_000)
    assert len(asked) == before
    with page.expect_request("**/transactions*"):
        page.evaluate(hidden + tell, False)


def test_a_page_that_is_held_still_asks_nothing(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="transactions")
    page, asked = seen.page, []
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".ha-live")).to_contain_text("paused")
    page.wait_for_load_state("networkidle")
    page.on("request", lambda request: asked.append(request.url) if "/transactions" in request.url else None)
    with page.expect_request("**/transactions*"):
        page.get_by_role("button", name="Resume").click()
    assert len(asked) == 1


def test_the_page_works_without_airflows_components(visit: Callable[..., Visit]) -> None:
    """Plain HTML instead of Chakra's, with the same names and roles."""
    seen = visit("op")
    withhold(seen, "ChakraUI")
    seen.open()
    for name, texts in VIEWS.items():
        seen.tab(name)
        expect(seen.page.locator(".ha")).to_contain_text(texts[0], timeout=PATIENCE)
    assert seen.page.locator(".ha [class*=chakra]").count() == 0
    seen.tab("Leases")
    seen.row("Leases held", "night load").get_by_role("button").click()
    expect(seen.page.get_by_role("button", name="Force-drop lease", exact=True)).to_be_disabled()
    seen.page.keyboard.press("Escape")
    expect(seen.page.get_by_role("dialog")).to_have_count(0)


def test_without_react_the_plain_page_takes_over(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer")
    withhold(seen, "React")
    seen.page.goto(f"{seen.url}/plugin/hive-acid")
    seen.page.wait_for_url("**/hive-acid/")
    expect(seen.page.locator("main")).to_contain_text("Waiting locks")


def test_the_plain_page_shows_every_view(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer")
    page = seen.page
    page.goto(f"{seen.url}/hive-acid/")
    for name, text in {
        "Overview": "shop.returns", "Transactions": "shop_customers", "Locks": "shared_write", "Compactions": "failed",
        "Leases": "night load", "Tables": "shop.orders",
    }.items():  # fmt: skip
        page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
        expect(page.locator("main")).to_contain_text(text)


def withhold(seen: Visit, name: str) -> None:
    """An Airflow that does not share this with its plugins."""
    script = "Object.defineProperty(globalThis, NAME, { get: () => undefined, set() {} })".replace("NAME", repr(name))
    seen.page.add_init_script(script)


def test_spark_services_are_shown_with_whom_they_serve_and_with_why_one_is_not_used(
    world: World, visit: Callable[..., Visit]
) -> None:
    state = ServiceState(
        incarnation="one", beat=1, application_id="app-7", package="0.0.1", python="3.9", spark="4.3.0",
        place="elsewhere", pid=1, started=1, places=2, max_callers=9, idle_seconds=0.0,
        callers=(Caller("nightly/run/load", "INSERT INTO <b>t</b>"), Caller("ann@host", "", True)),
    )  # fmt: skip
    seen = visit("viewer").open(view="overview")
    expect(seen.page.locator(".ha")).to_contain_text("Spark services")
    (world.spool / "services" / "etl").mkdir(parents=True)
    (world.spool / "services" / "etl" / "state.json").write_text(state.to_json())
    row = seen.row("Spark services", "etl")
    for text in ("not used", "it is of airflow-hive-acid 0.0.1", "2 of 9", "1 of 2", "app-7"):
        expect(row).to_contain_text(text, timeout=PATIENCE)
    caller = seen.row("Callers of Spark services", "nightly/run/load")
    expect(caller).to_contain_text("INSERT INTO <b>t</b>")
    expect(caller).to_contain_text("runs")
