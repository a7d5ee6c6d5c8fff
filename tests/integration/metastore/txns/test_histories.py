"""Histories of real processes on a real server hold no anomaly; and the checker finds those of a broken protocol.

``make histories`` runs many more. What is looked for: tests/histories/checker.py; the table is in
docs/explanation/safety.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.histories.mariadb import mariadb
from tests.histories.run import postgresql, run_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.backends("postgresql", "mariadb")
OF_VALUES = pytest.mark.repeats("tests/unit/test_history_checker.py has histories of values with each of them")


@pytest.fixture(scope="module")
def server(backend: str) -> Iterator[tuple[str, Callable[[], None]]]:
    with postgresql() if backend == "postgresql" else mariadb() as running:
        yield running


@pytest.mark.rule("R1", "R2", "R10", "R11", "R17")
def test_clients_that_are_killed_and_stopped_beside_a_server_that_crashes_leave_a_clean_history(
    server: tuple[str, Callable[[], None]], tmp_path: Path
) -> None:
    """Write skew is permitted, and found: the checker looks."""
    url, restart = server
    report, done = run_history(url, tmp_path, 360, clients=6, seed=7, restart=restart, limit=900)
    assert report.violations == {}, report.examples
    assert report.committed > 100
    assert report.found["write skew"]
    assert min(done.killed, done.stopped, done.restarts) > 0


@pytest.mark.backends("postgresql")  # what is tried is the checker
@pytest.mark.parametrize(
    ("broken", "classes"),
    [
        ("conflicts", {"P4", "G-single"}),  # R2: no look for write conflicts
        pytest.param("snapshots", {"OTV", "PMP"}, marks=OF_VALUES),  # R10, R11: a snapshot for each read
        ("visibility", {"G1a", "G1b"}),  # open and aborted write ids are not left out
        pytest.param("order", {"G0", "G1c"}, marks=OF_VALUES),  # R1: write ids one by one, in any order
    ],
)
def test_what_a_broken_protocol_would_do_is_found(
    server: tuple[str, Callable[[], None]], tmp_path: Path, broken: str, classes: set[str]
) -> None:
    report, _ = run_history(server[0], tmp_path, 120, clients=6, broken=broken, trouble=False, limit=300)
    assert classes <= set(report.violations), report.found
