"""Mirrors on the page, under Replication: how far behind they are and since when, what failed, what was compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from sqlalchemy import update

from airflow_hive_acid.metastore.schema.mirrors import HIVE_ACID_MIRROR
from tests.browser.conftest import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.browser.conftest import Visit, World

TABLE = "shop.orders"
LATE, FAILED, OVER = "iceberg:lake.shop.late", "delta:/lake/failed", "iceberg:lake.shop.over"
COLUMNS = (
    "Table", "Mirror", "Commits behind", "For at most", "Last look", "It did", "Compared", "Differ", "Primary since"
)  # fmt: skip


@pytest.fixture
def newest(world: World) -> int:
    """The newest write id of the table."""
    return world.client.get_valid_write_ids([TABLE])[TABLE].high_watermark


@pytest.fixture
def mirrors(world: World, newest: int) -> Iterator[None]:
    """One that has followed two hours ago and is three commits behind, one that failed, and one that is the primary."""
    mirrors = world.client.mirrors
    for target in (LATE, FAILED, OVER):
        mirrors.register(TABLE, target, "ann")
    mirrors.note_state(TABLE, LATE, 1, newest - 3, "{}", ("follow", f"write ids 1 to {newest - 3}"))
    mirrors.note_verified(TABLE, LATE, 2, [{"partition": "day=1", "source_rows": 5, "target_rows": 4}])
    mirrors.note_failure(TABLE, FAILED, f"two rows of {TABLE} have the key id = 7 {HOSTILE}")
    mirrors.note_state(TABLE, OVER, 1, newest, "{}", None)
    # Ages are the database's: what happened is moved into the past.
    looked = HIVE_ACID_MIRROR.c.HMI_LOOKED
    earlier = (
        update(HIVE_ACID_MIRROR).where(HIVE_ACID_MIRROR.c.HMI_TARGET == LATE).values(HMI_LOOKED=looked - 7_200_000)
    )
    primary = update(HIVE_ACID_MIRROR).where(HIVE_ACID_MIRROR.c.HMI_TARGET == OVER).values(HMI_PRIMARY=looked)
    for statement in (earlier, primary):
        world.client.database.run(lambda connection, statement=statement: connection.execute(statement))
    yield
    mirrors.end_primary(TABLE, OVER)
    for target in (LATE, FAILED, OVER):
        mirrors.forget(TABLE, target)


@pytest.mark.usefixtures("mirrors")
def test_mirrors_show_their_lag_their_last_error_and_what_was_compared(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="replication")

    def cell(row: str, title: str) -> object:
        return seen.row("Mirrors", row).locator("td").nth(COLUMNS.index(title))

    table = seen.page.get_by_role("table", name="Mirrors", exact=True)
    expect(table.locator("tbody tr td:nth-child(2)")).to_have_text([FAILED, LATE, OVER])  # the worst come first
    expect(cell(LATE, "Commits behind")).to_have_text("3")
    expect(cell(LATE, "For at most")).to_have_text(re.compile(r"^2 ?h"))
    expect(cell(LATE, "It did")).to_contain_text("follow: write ids 1 to")
    expect(cell(LATE, "Differ")).to_have_text("2")
    failed = seen.row("Mirrors", FAILED).get_by_text("failed", exact=True)
    expect(failed).to_have_attribute("title", f"two rows of {TABLE} have the key id = 7 {HOSTILE}")
    expect(cell(OVER, "Commits behind")).to_have_text("0")
    expect(cell(OVER, "For at most")).to_have_text(re.compile(r"^\W*$"))
    expect(cell(OVER, "Primary since").locator("time")).to_be_visible()
    expect(cell(LATE, "Primary since").locator("time")).to_have_count(0)
    assert seen.page.evaluate("window.__injected") is None


def test_without_mirrors_the_page_says_so(visit: Callable[..., Visit]) -> None:
    seen = visit("viewer").open(view="replication")
    section = seen.page.locator("section", has=seen.page.get_by_role("heading", name="Mirrors"))
    expect(section).to_contain_text("None.")
