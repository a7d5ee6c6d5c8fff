"""Partitions found by ranges of their names, by the database, against those that a filter in memory keeps of all.

A partition that a range leaves out is lost rows; so values here are the odd ones: signs that names escape, in both
cases of their digits, NULL, blanks at the end, what is beyond the BMP, dates and numbers as no Hive spells them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from airflow_hive_acid.engine.tables.partitions import condition_of
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.cache.partitions import PartitionSet
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.catalog.values.partition_conditions import And, Between, Compare, In, IsNull, Or
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITION_KEY_VALS, PARTITIONS
from airflow_hive_acid.sql.model.pruning import partition_filter
from tests.examples import examples

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient

NULL = "__HIVE_DEFAULT_PARTITION__"
BEYOND = "\N{GRINNING FACE}"
VALUES = {
    "string": [
        "a", "A", "aB", "ab", "a0", "a/b", "a:b", "a b", "a'b", 'a"', "a\\", "a%", "a%2Fb", "a=", "a#", "a?", "a*",
        "a^", "a[", "a{", "a}", "a~", "a!", "a\n", "a.", "a-", "a_", "9", "9:", "Z", "z", "z{", "1", "01", "ä", "",
        NULL,
    ],
    "varchar(5)": ["a", "a ", "ab", "abcde", "a:", "x y", "9", NULL],
    "char(4)": ["a", "a ", "ab", "a:", "", NULL],
    "int": ["1", "77", "-1", "10", "2", NULL],
    "date": ["2026-01-05", "2026-01-15", "2099-09-09", "2025-12-31", NULL],
    "timestamp": ["2026-01-05 00:00:00", "2026-01-05 00:00:00.5", "2026-01-05 10:00:00", NULL],
    "boolean": ["true", "false", NULL],
}  # fmt: skip
SPELLED = {"77": "01", "2099-09-09": "2026-1-5", "a%3A": "a%3a", "a%2F": "a%2f"}
"""What other programs store, by what we do."""
TABLES = [
    ("string", "string"), ("string", "int"), ("date", "string"), ("varchar(5)", "string"), ("char(4)", "string"),
    ("timestamp",), ("boolean", "date"),
]  # fmt: skip


def values_of(client: MetastoreClient, kind: str) -> list[str]:
    more = [] if client.database.backend.latin1 or kind != "string" else [BEYOND, f"a{BEYOND}"]
    return VALUES[kind] + more


def make_tables(client: MetastoreClient) -> list[str]:
    client.catalog.set_warehouse("file:/warehouse")
    names = []
    for number, kinds in enumerate(TABLES):
        names.append(f"default.r{number}")
        keys = tuple(Column(f"k{i}", kind) for i, kind in enumerate(kinds))
        client.catalog.create_table(TableDefinition("default", f"r{number}", (Column("id", "int"),), keys))
        first = values_of(client, kinds[0])
        others = [values_of(client, kind)[:: 5 if kind == "string" else 2] for kind in kinds[1:]] or [[""]]
        named = {
            client.catalog.get_table(names[-1]).partition_name((one, other)[: len(kinds)])
            for one in first for other in others[0]
        }  # fmt: skip
        client.catalog.add_partitions(names[-1], sorted(named))
    with client.database.transaction() as connection:
        for written, stored in SPELLED.items():
            # A sign and its digits stand in names alone.
            values = [] if "%" in written else [PARTITION_KEY_VALS.c.PART_KEY_VAL]
            for column in (PARTITIONS.c.PART_NAME, *values):
                changed = {column.name: sa.func.replace(column, written, stored)}
                having = column.contains(written, autoescape=True)
                connection.execute(sa.update(column.table).where(having).values(changed))
    return names


@st.composite
def asked(draw: st.DrawFn, kinds: tuple[str, ...], depth: int = 0) -> Any:
    """A condition on the columns of a table."""
    what = draw(st.sampled_from(["=", "=", "<", "in", "between", "null", "and", "and", "or"][: 9 if depth < 2 else 6]))
    if what in ("and", "or"):
        parts = draw(st.lists(asked(kinds, depth + 1), min_size=0 if depth else 1, max_size=3))
        return And(parts) if what == "and" else Or(parts)
    number = draw(st.integers(0, len(kinds) - 1))
    column = draw(st.sampled_from([f"k{number}", f"K{number}"]))
    value = st.sampled_from([v for v in VALUES[kinds[number]] if v != NULL])
    match what:
        case "=":
            return Compare(column, draw(st.sampled_from(["=", "=", "<>"])), draw(value))
        case "<":
            return Compare(column, draw(st.sampled_from(["<", "<=", ">", ">="])), draw(value))
        case "in":
            return In(column, draw(st.lists(value, max_size=4)))
        case "between":
            return Between(column, draw(value), draw(value))
    return IsNull(column)


@st.composite
def where(draw: st.DrawFn, kinds: tuple[str, ...], depth: int = 0) -> exp.Expr:
    """A condition of a statement."""
    what = draw(st.sampled_from(["=", "in", "between", "like", "null", "not", "and", "or"][: 8 if depth < 2 else 5]))
    if what == "not":
        return exp.Not(this=exp.Paren(this=draw(where(kinds, depth + 1))))
    if what in ("and", "or"):
        one, other = (exp.Paren(this=draw(where(kinds, depth + 1))) for _ in range(2))
        return exp.And(this=one, expression=other) if what == "and" else exp.Or(this=one, expression=other)
    number = draw(st.integers(0, len(kinds) - 1))
    column = exp.column(f"k{number}")
    value = st.sampled_from([v for v in VALUES[kinds[number]] if v != NULL]).map(exp.Literal.string)
    match what:
        case "=":
            kind = draw(st.sampled_from([exp.EQ, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ]))
            sides = (column, draw(value)) if draw(st.booleans()) else (draw(value), column)
            return kind(this=sides[0], expression=sides[1])
        case "in":
            return exp.In(this=column, expressions=draw(st.lists(value, min_size=1, max_size=4)))
        case "between":
            return exp.Between(this=column, low=draw(value), high=draw(value))
        case "like":
            return exp.Like(this=column, expression=exp.Literal.string(f"{draw(value).name[:1]}%"))
    return exp.Is(this=column, expression=exp.null())


@pytest.mark.every_database
def test_what_a_condition_means_is_found_whatever_the_names(client: MetastoreClient) -> None:
    names, catalog = make_tables(client), client.catalog
    everything = {name: PartitionSet(catalog.list_partitions(name)) for name in names}

    @settings(max_examples=examples(200), deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data(), number=st.integers(0, len(TABLES) - 1))
    def compare(data: st.DataObject, number: int) -> None:
        name = names[number]
        condition = data.draw(asked(TABLES[number]))
        kept = everything[name].select(catalog.get_table(name), condition)
        assert {p.name for p in catalog.list_partitions(name, condition)} == {p.name for p in kept}

    compare()


def test_a_statement_reads_what_its_where_keeps_of_all_partitions(client: MetastoreClient) -> None:
    names, catalog = make_tables(client), client.catalog
    everything = {name: catalog.list_partitions(name) for name in names}

    @settings(max_examples=examples(200), deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data(), number=st.integers(0, len(TABLES) - 1))
    def compare(data: st.DataObject, number: int) -> None:
        name, kinds = names[number], TABLES[number]
        tree = parse_one(data.draw(where(kinds)).sql("spark"), dialect="spark")
        kept = partition_filter([(f"k{i}", kind) for i, kind in enumerate(kinds)], tree, lambda _column: True)
        found = catalog.list_partitions(name, condition_of(kept), keeps=kept.keeps)
        assert {p.name for p in found} == {p.name for p in everything[name] if kept.keeps(p.values)}

    compare()
