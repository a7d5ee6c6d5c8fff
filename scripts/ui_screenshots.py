"""Makes docs/images/ui-*.png: the views of the page, light and dark, on data that scripts/ui_data.py makes.

    python scripts/ui_screenshots.py [NAME …]

Starts an Airflow of its own in a temporary directory, and Debian's Chromium. Pictures over 150 KB are an error.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from playwright.sync_api import sync_playwright
from ui_airflow import REPOSITORY, UiAirflow
from ui_data import DAYS, Shop, open_work, queue_for, queue_work, replicate, task, write_history, write_tables

from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page

IMAGES = REPOSITORY / "docs" / "images"
MOST_BYTES = 150_000
SIZE = {"width": 1280, "height": 700}
SETTINGS = {"hive.compactor.delta.num.threshold": "4", "hive.acid.oldest.waiting.threshold.warning": "1s"}


def choose_node(page: Page) -> None:
    """One of those who wait in the graph."""
    page.locator(".ha-node").nth(1).click()
    page.wait_for_selector(".ha-graph .ha-facts")


def ask_to_abort(page: Page) -> None:
    """The question before an action."""
    page.locator(".ha-table tbody button").first.click()
    page.wait_for_selector("dialog[open]")


def explain(page: Page) -> None:
    """Why it is not compacted."""
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector(".ha-decision")
    page.locator("section[aria-label^=Why]").evaluate("section => section.scrollIntoView()")


#: Name, address, what to do there, and the themes it is shown in.
VIEWS: list[tuple[str, str, Callable[[Page], None] | None, tuple[str, ...]]] = [
    ("overview", "", None, ("light", "dark")),
    ("transactions", "?view=transactions", ask_to_abort, ("light",)),
    ("locks", "?view=locks&graph=1", choose_node, ("light", "dark")),
    ("compactions", "?view=compactions", None, ("light",)),
    ("leases", "?view=leases", None, ("light",)),
    ("tables", "?view=tables", None, ("light",)),
    ("table", "?view=tables&database=shop&table=customers", explain, ("light", "dark")),
]


def main(names: list[str]) -> int:
    """Make the pictures of these views, or of all."""
    home = Path(tempfile.mkdtemp(prefix="hive-acid-pictures-"))
    url, warehouse = f"sqlite:///{home / 'metastore.db'}", f"file:{home / 'warehouse'}"
    (home / "dags").mkdir()
    airflow = UiAirflow(
        home / "airflow", {"hive_acid_default": {"metastore_url": url, "warehouse": warehouse, **SETTINGS}},
        dags=home / "dags",
    )  # fmt: skip
    try:
        airflow.start(wait=False)
        with MetastoreClient(url, Settings({Source.CONNECTION: SETTINGS}), user="ann", host="worker-3") as client:
            client.create_schema()
            client.catalog.set_warehouse(warehouse)
            shop = Shop.open(client)
            write_tables(shop)
            write_history(client)
            replicate(client)
            open_work(shop)
            for number in range(40):
                queue_for(client, "shop.orders", task("shop_orders", f"load_{number}"))
            client.leases.waiting_grab([f"shop.orders/{DAYS[0]}"], 600, user="bob").look()
            queue_work(shop, warehouse)
            airflow.wait_until_it_answers()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", "--disable-quic"]
                )
                wanted = [view for view in VIEWS if not names or view[0] in names]
                sizes = [take(browser, airflow.url, view, theme) for view in wanted for theme in view[3]]
                browser.close()
    finally:
        airflow.stop()
        shutil.rmtree(home, ignore_errors=True)
    return 1 if max(sizes) > MOST_BYTES else 0


def take(browser: Browser, url: str, view: Any, theme: str) -> int:
    """One picture; returns its bytes."""
    name, query, act, _ = view
    with browser.new_context(viewport=SIZE) as context:
        context.set_default_timeout(120_000)
        context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        page = context.new_page()
        page.goto(f"{url}/auth/login")
        page.fill("input[name=username]", "admin")
        page.fill("input[name=password]", "admin")
        page.click("button[type=submit]")
        page.wait_for_url(lambda where: "/auth/login" not in where)
        page.goto(f"{url}/plugin/hive-acid{query}")
        page.wait_for_selector(".ha-tabs")
        page.wait_for_selector(".ha-table, .ha-graph, .ha-tile")
        page.wait_for_function("document.querySelector('.ha-waiting') === null")
        if act is not None:
            act(page)
        page.wait_for_load_state("networkidle")
        target = IMAGES / f"ui-{name}{'-dark' if theme == 'dark' else ''}.png"
        target.parent.mkdir(exist_ok=True)
        page.screenshot(path=target, animations="disabled")
    size = target.stat().st_size
    sys.stdout.write(f"{target.relative_to(REPOSITORY)}  {size // 1000} KB\n")
    return size


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
