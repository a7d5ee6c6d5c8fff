"""A small catalog for tests of the sql room, and plans over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.format.jobs import Column, Source
from airflow_hive_acid.sql import parse_script, plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.plans import Plan


@dataclass(frozen=True)
class Facts:
    """A table of the catalog, as far as the planner asks."""

    qualified_name: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    is_transactional: bool = True
    is_insert_only: bool = False
    bucket_columns: tuple[str, ...] = ()
    type: str = "MANAGED_TABLE"


def columns(text: str) -> tuple[Column, ...]:
    """``"id:int name:string"`` as columns."""
    return tuple(Column(*part.split(":", 1)) for part in text.split())


_TABLES = (
    Facts("default.t", columns("id:int name:string amount:decimal(10,2)")),
    Facts("demo.flights", columns("carrier:string flight:int delay:int s:struct<a:int,b:int>"), columns("month:int")),
    Facts("demo.days", columns("id:int v:string"), columns("ds:string h:int")),
    Facts("demo.airlines", columns("carrier:string name:string")),
    Facts("other.airlines", columns("carrier:string country:string")),
    Facts("demo.plain", columns("id:int"), is_transactional=False),
    Facts("demo.ext", columns("id:int"), is_transactional=False, type="EXTERNAL_TABLE"),
    Facts("demo.plainp", columns("id:int"), columns("ds:string h:int"), is_transactional=False),
    Facts("demo.logs", columns("id:int"), is_insert_only=True),
    Facts("demo.users", columns("id:int email:string"), bucket_columns=("id",)),
)
_VIEWS = (
    Source("src", "csv", {"path": "/in/src.csv"}, columns("carrier:string flight:int delay:int month:int")),
    Source("raw", "json", {"path": "/in/raw"}),
)


def _table(name: str) -> Facts:
    found = {table.qualified_name: table for table in _TABLES}.get(name)
    if found is None:
        raise NoSuchObjectError(f"table {name} does not exist")
    return found


@pytest.fixture
def table_of() -> Callable[[str], Facts]:
    """Facts of the test's tables."""
    return _table


@pytest.fixture
def plan_of() -> Callable[[str], Plan]:
    """Parse a script and plan its last statement over the test's catalog and temporary views."""

    def make(sql: str) -> Plan:
        *_, statement = parse_script(sql)
        return plan(statement, _table, {view.name: view for view in _VIEWS})  # type: ignore[arg-type]

    return make
