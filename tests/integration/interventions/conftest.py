"""Counts of the matrix."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest

COUNTS = pytest.StashKey["Matrix"]()


@dataclass
class Matrix:
    """What is run, and what came of it."""

    whole: bool
    run: int = 0
    failures: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def verbs(self) -> tuple[str, ...]:
        return ("INTO", "OVERWRITE") if self.whole else ("INTO",)


def pytest_collection_modifyitems(config, items):
    """The small form is of SQLite alone."""
    if config.getoption("--interventions") == "whole":
        return
    here = [i for i in items if "test_matrix" in i.nodeid and i.callspec.params.get("backend", "sqlite") != "sqlite"]
    config.hook.pytest_deselected(items=here)
    items[:] = [item for item in items if item not in here]


@pytest.fixture(scope="session")
def matrix(request):
    """Its counts are printed at the end."""
    matrix = Matrix(request.config.getoption("--interventions") == "whole")
    request.config.stash[COUNTS] = matrix
    return matrix


def pytest_terminal_summary(terminalreporter, config):
    """With several processes each has run a part, and tells nothing."""
    matrix = config.stash.get(COUNTS, None)
    if matrix is None:
        return
    refused = sum(matrix.refused.values())
    terminalreporter.write_line(
        f"intervention matrix: {matrix.run} cells run, {refused} refused, failures {matrix.failures}"
    )
    for rule, number in matrix.refused.items():
        terminalreporter.write_line(f"  {number} refused: {rule}")
