"""docs/reference/conformance.md: every behaviour of txns, conflicts, locks and compaction has a test with its id."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "reference" / "conformance.md"


def listed() -> set[str]:
    return set(re.findall(r"^([A-Z][0-9]{2}) ", DOCUMENT.read_text(), re.MULTILINE))


def marked() -> set[str]:
    marks = (
        m for path in TESTS.rglob("test_*.py") for m in re.findall(r"mark\.conformance\(([^)]*)\)", path.read_text())
    )
    return {name for mark in marks for name in re.findall(r'"([A-Z][0-9]{2})"', mark)}


def test_every_line_of_txns_conflicts_locks_and_compaction_has_a_test() -> None:
    wanted = {name for name in listed() if name[0] in "TWLCK"}
    assert len(wanted) >= 144
    assert wanted - marked() == set()


def test_every_mark_is_a_line_of_the_document() -> None:
    assert marked() - listed() == set()
