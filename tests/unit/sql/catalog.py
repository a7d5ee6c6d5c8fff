"""A small catalog and temporary views for tests of the sql room."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.format.jobs import Column, Source


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
    view_text: str | None = None


def columns(text: str) -> tuple[Column, ...]:
    """``"id:int name:string"`` as columns."""
    return tuple(Column(*part.split(":", 1)) for part in text.split())


TABLES = (
    Facts("default.t", columns("id:int name:string amount:decimal(10,2)")),
    Facts("demo.flights", columns("carrier:string flight:int delay:int s:struct<a:int,b:int>"), columns("month:int")),
    Facts("demo.days", columns("id:int v:string"), columns("ds:string h:int")),
    Facts("demo.airlines", columns("carrier:string name:string")),
    Facts("other.airlines", columns("carrier:string country:string")),
    Facts("demo.plain", columns("id:int"), is_transactional=False),
    Facts("demo.ext", columns("id:int"), is_transactional=False, type="EXTERNAL_TABLE"),
    Facts("demo.plainp", columns("id:int"), columns("ds:string h:int"), is_transactional=False),
    Facts("demo.logs", columns("id:int"), is_insert_only=True),
    Facts("demo.keyed", (Column("id", "int", required=True), Column("name", "string"))),
    Facts("demo.users", columns("id:int email:string"), bucket_columns=("id",)),
)
_VIEWS = (
    Source("src", "csv", {"path": "/in/src.csv"}, columns("carrier:string flight:int delay:int month:int")),
    Source("raw", "json", {"path": "/in/raw"}),
)


def table_of(name: str) -> Facts:
    """Facts of a table.

    :raises NoSuchObjectError: when there is none.
    """
    found = {table.qualified_name: table for table in TABLES}.get(name)
    if found is None:
        raise NoSuchObjectError(f"table {name} does not exist")
    return found


VIEWS = {view.name: view for view in _VIEWS}
