"""The page in a real Chromium, in a real Airflow: one API server, one metastore and one browser for all these tests.

``make test-browser`` runs them. They need Debian's package ``chromium``; HIVE_ACID_CHROMIUM names another program.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.settings import Settings, Source

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from ui_airflow import UiAirflow, free_port
from ui_data import Shop, open_work, queue_work, replicate, write_history, write_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

SECONDS = 60
#: How long a test waits for something on the page, in milliseconds.
PATIENCE = int(os.environ.get("HIVE_ACID_BROWSER_SECONDS", SECONDS)) * 1000
HOSTILE = '<img src=x onerror="window.__injected=1"><script>window.__injected=1</script>\'"&amp;'


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@dataclass
class World:
    """What the page shows: an Airflow, its metastore, and who works there."""

    airflow: UiAirflow
    client: MetastoreClient
    shop: Shop
    warehouse: str
    url: str
    spool: Path


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("browser")
    url, warehouse = f"sqlite:///{directory / 'metastore.db'}", f"file:{directory / 'warehouse'}"
    settings = {"hive.compactor.delta.num.threshold": "4"}
    nobody = f"postgresql://nobody:secret@127.0.0.1:{free_port()}/nothing"
    airflow = UiAirflow(directory / "airflow", {
        "hive_acid_default": {"metastore_url": url, "warehouse": warehouse, "spool": f"{directory}/spool", **settings},
        "unreachable": {"metastore_url": nobody, "warehouse": warehouse},
    }, dags=directory / "dags")  # fmt: skip
    (directory / "dags").mkdir()
    try:
        # The server is a process of its own, and starts while the tables are made.
        airflow.start(wait=False)
        with MetastoreClient(url, Settings({Source.CONNECTION: settings}), user="ann", host="worker-3") as client:
            client.create_schema()
            client.catalog.set_warehouse(warehouse)
            shop = Shop.open(client)
            write_tables(shop)
            open_work(shop)
            write_history(client)
            replicate(client)
            queue_work(shop, warehouse)
            airflow.wait_until_it_answers()
            yield World(airflow, client, shop, warehouse, url, directory / "spool")
    finally:
        airflow.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = os.environ.get("HIVE_ACID_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.fail(
            "Chromium is not installed; it is Debian's package chromium: apt-get install chromium, or run make "
            "test-browser as root, which does that. HIVE_ACID_CHROMIUM may name the program",
            pytrace=False,
        )
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        pytest.fail("Playwright is not installed; make install puts it into .venv", pytrace=False)
    expect.set_options(timeout=PATIENCE)
    switches = [
        "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync",
    ]  # fmt: skip
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=switches)
        yield launched
        launched.close()


@dataclass
class Visit:
    """A page that somebody with a role looks at, and what it complained about."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    tolerated: set[int] = field(default_factory=set)

    def tolerate(self, status: int) -> None:
        """The browser writes answers that are errors to its console; those of this status are meant."""
        self.tolerated.add(status)

    def heard(self, text: str) -> None:
        """Note what the console says, unless it is about an answer that is meant."""
        if not any(f"the server responded with a status of {status} " in text for status in self.tolerated):
            self.complaints.append(text)

    def open(self, **query: object) -> Visit:
        """Go to a view by its address, and wait until it has data or says why not."""
        text = "&".join(f"{key}={value}" for key, value in query.items())
        self.page.goto(f"{self.url}/plugin/hive-acid" + (f"?{text}" if text else ""))
        self.page.wait_for_selector(".ha-tabs", timeout=PATIENCE)
        self.settle()
        return self

    def settle(self) -> None:
        """Wait until nothing is loading any more."""
        self.page.wait_for_function("document.querySelector('.ha-waiting') === null", timeout=PATIENCE)

    def tab(self, name: str) -> None:
        """Choose a view."""
        self.page.get_by_role("navigation", name="Views").get_by_role("link", name=name, exact=True).click()
        self.settle()

    @property
    def text(self) -> str:
        """All that can be read."""
        return self.page.locator(".ha").inner_text()

    def row(self, label: str, text: str) -> Any:
        """The row of a table that has this text."""
        return self.page.get_by_role("table", name=label, exact=True).locator("tbody tr", has_text=text)

    def txn_row(self, txn: int) -> Any:
        """The row of a txn; times and names may have its digits, too."""
        rows = self.page.get_by_role("table", name="Transactions", exact=True).locator("tbody tr")
        return rows.filter(has=self.page.get_by_text(str(txn), exact=True))


@pytest.fixture(scope="session")
def states(world: World, browser: Browser) -> dict[str, Any]:
    """Cookies of each role that has logged in."""
    return {}


@pytest.fixture
def visit(world: World, browser: Browser, states: dict[str, Any]) -> Iterator[Callable[..., Visit]]:
    """Open the browser as a role; after the test no page may have complained on its console."""
    visits: list[Visit] = []
    contexts: list[BrowserContext] = []

    def begin(role: str = "admin", theme: str = "light", width: int = 1400) -> Visit:
        if role not in states:
            states[role] = login(world, browser, role)
        context = browser.new_context(storage_state=states[role], viewport={"width": width, "height": 900})
        context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        made = Visit(page, world.airflow.url)
        page.on("pageerror", lambda error: made.complaints.append(str(error)))
        page.on("console", lambda said: made.heard(said.text) if said.type == "error" else None)
        visits.append(made)
        return made

    yield begin
    for context in contexts:
        context.close()
    assert [complaint for one in visits for complaint in one.complaints] == []


def login(world: World, browser: Browser, role: str) -> Any:
    """Log in with Airflow's own form; the cookies."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{world.airflow.url}/auth/login")
        page.fill("input[name=username]", role)
        page.fill("input[name=password]", role)
        page.click("button[type=submit]")
        page.wait_for_url(lambda url: "/auth/login" not in url, timeout=PATIENCE)
        return context.storage_state()
