"""docs/explanation/cache.md: each guarantee names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_hive_acid.settings import Settings

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "explanation" / "cache.md"


def test_every_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", DOCUMENT.read_text()))
    there = {
        name
        for path in TESTS.rglob("test_cache*.py")
        for name in re.findall(r"def (test_[a-z0-9_]+)\(", path.read_text())
    }
    assert len(named) > 30
    assert named - there == set()


def test_every_guarantee_names_a_test() -> None:
    section = DOCUMENT.read_text().split("## Guarantees")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| Guarantee")]
    assert len(rows) > 20
    assert [row for row in rows if "`test_" not in row] == []


def test_the_settings_of_the_page_are_those_of_the_table() -> None:
    page = set(re.findall(r"^\| `(hive\.acid\.cache\.[a-z.]+)`", DOCUMENT.read_text(), re.MULTILINE))
    assert page == {resolved.setting.key for resolved in Settings() if "acid.cache" in resolved.setting.key}
