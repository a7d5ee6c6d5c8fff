"""Plans over the test's catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.sql import parse_script, plan
from tests.unit.sql import catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.model.plans import Plan


@pytest.fixture
def table_of() -> Callable[[str], catalog.Facts]:
    """Facts of the test's tables."""
    return catalog.table_of


@pytest.fixture
def plan_of() -> Callable[[str], Plan]:
    """Parse a script and plan its last statement over the test's catalog and temporary views."""

    def make(sql: str) -> Plan:
        *_, statement = parse_script(sql)
        return plan(statement, catalog.table_of, catalog.VIEWS)  # type: ignore[arg-type]

    return make
