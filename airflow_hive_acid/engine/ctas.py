"""CREATE TABLE … AS: the columns of a query as those of a new table, in Hive's types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.catalog_types import normalise_type
from airflow_hive_acid.sql.statements import ColumnDefinition

if TYPE_CHECKING:
    from airflow_hive_acid.engine.results import StatementResult

_PLAIN_NAME = re.compile(r"[a-z0-9_]+")
_OF_SPARK = {"timestamp_ntz": "timestamp", "void": "string"}


def columns_of(result: StatementResult) -> tuple[ColumnDefinition, ...]:
    """The columns of a query; one without a name is called ``_cN`` by its place, as in Hive.

    :raises InvalidArgumentsError: for a name that comes twice, and for a type that Hive does not have.
    """
    if result.rows is None:
        raise AssertionError("a query without columns")
    found: list[ColumnDefinition] = []
    for number, column in enumerate(result.rows.columns):
        name = column.name.lower()
        if not _PLAIN_NAME.fullmatch(name):
            name = f"_c{number}"
        if any(name == other.name for other in found):
            raise InvalidArgumentsError(f"the query gives two columns called {name}; give one of them an alias")
        found.append(ColumnDefinition(name, normalise_type(_OF_SPARK.get(column.type, column.type))))
    return tuple(found)
