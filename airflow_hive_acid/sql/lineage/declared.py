"""The declared types of a query's columns: ``char(n)`` and ``varchar(n)`` of a column that is a table's as it is.

Spark computes with texts of any length. In ``CREATE TABLE … AS`` and in views Hive keeps the length of a column that
nothing was made of, and in a UNION the larger of two (``FunctionRegistry.getCommonClassForUnionAll``). A CASE, IF or
COALESCE has the type of its values if they have the same one, and is a STRING otherwise, also of ``char(5)`` and
``char(9)`` (``getCommonClass``); NULL has no type. MAX, LAG, NULLIF, UPPER and their like have that of their first
argument, a CAST the one it names. A LAG with a default of another type is a STRING here: a Hive cuts the default to the
argument's length, Spark does not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.sql.lineage.queries import Walker
from airflow_hive_acid.sql.lineage.values import How, Use, Uses, through
from airflow_hive_acid.sql.planning.view_texts import Parse, no_parser
from airflow_hive_acid.sql.text.casts import kept_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.sql.model.plans import ColumnFacts, TableLookup
    from airflow_hive_acid.sql.model.statements import Select
    from airflow_hive_acid.sql.model.views import CreateTemporaryQuery

_WITH_LENGTH = re.compile(r"\b(char|varchar)\(([0-9]+)\)")
_SAID = ""
"""The relation of what is no column: its "column" is a type that the words of the query say."""
_NO_TYPE = frozenset({Use(_SAID, "void")})


def declared_types(
    select: Select,
    table_of: TableLookup,
    views: Mapping[str, Source],
    queries: Mapping[str, CreateTemporaryQuery],
    parse: Parse = no_parser,
) -> tuple[tuple[str, str | None], ...]:
    """The columns of a query with the types that have a length in them, None for all others.

    :param table_of: facts of a table by ``db.table``; its NoSuchObjectError passes through.
    :param views: temporary views of the session over files, by lower-case name; ``queries`` those of a query.
    :param parse: reads the text of a view of the catalog.
    :return: nothing where only Spark knows the columns.
    """

    def one_of(values: Sequence[Uses]) -> Uses:
        kinds = {_type_of(uses, table_of, views) for uses in values}
        several = frozenset[Use]().union(*values)
        return several if len(kinds) == 1 and None not in kinds else through(several, How.TRANSFORMATION)

    walker = Walker(
        table_of, views, select.default_database, queries=queries, parse=parse, together=_of_columns, one_of=one_of,
        typed=_typed,
    )  # fmt: skip
    found = walker.query(select.query.tree)
    return () if found.is_open else tuple((name, _type_of(uses, table_of, views)) for name, uses in found.columns)


def without_lengths(hive_type: str) -> str:
    """A type as Spark computes with it."""
    return _WITH_LENGTH.sub("string", hive_type)


def _of_columns(one: Uses, other: Uses) -> Uses:
    """A value that is one of two: no column as it is if one of them is none, as a constant is."""
    both = one | other
    return both if one and other else through(both, How.TRANSFORMATION)


def _typed(value: exp.Expr) -> Uses | None:
    """What stands for a NULL, and for a value that is cast to a text with a length."""
    if isinstance(value, exp.Null):
        return _NO_TYPE
    kind = kept_type(value) if isinstance(value, exp.Cast) else None
    return None if kind is None else frozenset({Use(_SAID, kind)})


def _type_of(uses: Uses, table_of: TableLookup, views: Mapping[str, Source]) -> str | None:
    direct = [use for use in uses if use.how.is_direct]
    if not direct or any(use.how is not How.IDENTITY for use in direct):
        return None
    kinds: set[str] = set()
    for use in direct:
        columns: Iterable[ColumnFacts]
        if use.relation == _SAID:
            kinds.add(use.column)
            continue
        if use.relation in views:
            columns = views[use.relation].columns
        else:
            facts = table_of(use.relation)
            columns = (*facts.columns, *facts.partition_columns)
        kinds |= {column.type for column in columns if column.name.lower() == use.column}
    return _common(kinds)


def _common(kinds: set[str]) -> str | None:
    kinds = kinds - {use.column for use in _NO_TYPE}
    if len(kinds) == 1:
        (kind,) = kinds
        return kind if _WITH_LENGTH.search(kind) else None
    found = [_WITH_LENGTH.fullmatch(kind) for kind in kinds]
    names = {None if one is None else one[1] for one in found}
    if len(names) != 1 or None in names:
        return None
    return f"{names.pop()}({max(int(one[2]) for one in found if one is not None)})"
