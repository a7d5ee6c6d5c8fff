"""Helpers of the catalog's tests: metastore dumps of a real Hive, and rows of every table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore.setup.schema import METADATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient

Rows = dict[str, list[dict[str, Any]]]

_INSERT = re.compile(r'^INSERT INTO public\."(\w+)" \(([^)]*)\) VALUES \(', re.MULTILINE)
_VALUE = re.compile(r"\s*(NULL|true|false|-?\d+(?:\.\d+)?|'(?:[^']|'')*')\s*(,|\);)")


def parse_dump(text: str) -> Rows:
    """The rows of a data-only dump, by table."""
    tables: Rows = {}
    for match in _INSERT.finditer(text):
        columns = [name.strip().strip('"') for name in match[2].split(",")]
        values, position, end = [], match.end(), ","
        while end == ",":
            value = _VALUE.match(text, position)
            assert value is not None, text[position : position + 80]
            values.append(_literal(value[1]))
            position, end = value.end(), value[2]
        tables.setdefault(match[1], []).append(dict(zip(columns, values, strict=True)))
    return tables


def _literal(text: str) -> Any:
    if text == "NULL":
        return None
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    return float(text) if "." in text else int(text)


NOT_READ = {"RUNTIME_STATS"}
"""Of Hive's optimizer; on PostgreSQL in lower case in a Hive 3.1."""
COUNTS = sa.union_all(
    *(
        sa.select(sa.literal(table.name), sa.func.count()).select_from(table)
        for table in METADATA.sorted_tables
        if table.name not in NOT_READ
    )
)
"""The number of rows of each table; one statement, that is compiled once."""


@pytest.fixture
def dump() -> Callable[[str], Rows]:
    """Parse ``metastore.sql`` of a Hive-written table; ``@WH@`` becomes ``/warehouse``."""
    return lambda text: parse_dump(text.replace("@WH@", "/warehouse"))


@pytest.fixture
def load(client: MetastoreClient, dump: Callable[[str], Rows]) -> Callable[[str], None]:
    """Put the rows of a Hive metastore into ours, in place of the seed rows."""

    def run(text: str) -> None:
        rows = dump(text)
        missing = client.database.layout().missing
        with client.database.transaction() as connection:
            for table in reversed(METADATA.sorted_tables):
                if table.name in rows and table.name not in NOT_READ:
                    connection.execute(sa.delete(table))
            for table in METADATA.sorted_tables:
                if table.name in missing or table.name in NOT_READ:
                    continue
                kept = [_fit(table, row) for row in rows.get(table.name, [])]
                if kept:
                    connection.execute(sa.insert(table), kept)

    return run


def _fit(table: sa.Table, row: dict[str, Any]) -> dict[str, Any]:
    """Values as the driver wants them: bytes and timestamps are text in a dump."""
    from datetime import datetime

    fitted = dict(row)
    for name, value in row.items():
        kind = table.c[name].type
        if isinstance(value, str) and isinstance(kind, sa.LargeBinary):
            fitted[name] = bytes.fromhex(value.removeprefix("\\x"))
        elif isinstance(value, str) and isinstance(kind, sa.DateTime):
            fitted[name] = datetime.fromisoformat(value)
    return fitted


@pytest.fixture
def stored(client: MetastoreClient) -> Callable[..., list[dict[str, Any]]]:
    """Read all rows of a table: ``stored("TBLS")``."""

    def read(name: str) -> list[dict[str, Any]]:
        with client.database.reading() as connection:
            return [dict(row) for row in connection.execute(sa.select(METADATA.tables[name])).mappings()]

    return read


@pytest.fixture
def row_counts(client: MetastoreClient) -> Callable[[], dict[str, int]]:
    """The number of rows of every table that has any."""

    def count() -> dict[str, int]:
        with client.database.reading() as connection:
            return {name: number for name, number in connection.execute(COUNTS) if number}

    return count
