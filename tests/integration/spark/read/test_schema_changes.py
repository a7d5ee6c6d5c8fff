"""Files that were written before the columns of their table changed, read and compacted with the jar and without.

A compaction changes no row, whatever became of the columns between the writes: a table that is compacted now and then
and its twin that never is hold the same rows under the same ids, after each step of a random program.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from airflow_hive_acid.format.changes import Changes
from airflow_hive_acid.format.jobs import Assignment, Column, MergeClause
from airflow_hive_acid.spark.accelerator import SESSION_KEY
from airflow_hive_acid.spark.read.changes import read_changes
from airflow_hive_acid.spark.read.reader import read_snapshot
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.crossing("changed columns x readers"), pytest.mark.spark]

WAYS = ("auto", "off")
#: What a type may become, one after the other.
CHAINS = (
    ("tinyint", "smallint", "int", "bigint", "decimal(20,2)", "string"),
    ("int", "double", "string"),
    ("float", "double"),
    ("decimal(5,2)", "decimal(9,3)", "decimal(22,4)", "string"),
    ("char(3)", "char(6)", "varchar(8)", "string"),
    ("varchar(3)", "varchar(6)", "string"),
    ("date", "string"),
    ("timestamp", "string"),
    ("boolean", "string"),
    ("array<int>",),
    ("struct<x:int,y:string>",),
)


def read(spark: SparkSession, table: Any, way: str, *, row_ids: bool = False) -> DataFrame:
    session = spark.newSession()
    session.conf.set(SESSION_KEY, way)
    return read_snapshot(session, table.snapshot(), row_ids)


def texts(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("names", [("_col0", "_col1", "_col2"), ("a", "b", "c")])
def test_columns_without_names_are_found_by_their_place_whichever_are_asked_for(
    spark: SparkSession, acid_table: Callable[..., Any], names: tuple[str, ...], way: str
) -> None:
    """orc-core resolves files all of whose columns are called like this by position, also where some are left out."""
    table = acid_table("_col0 int, _col1 string, _col2 string")
    table.insert("select 1, 'x', 'y' union all select 2, 'u', 'v'")
    table.columns = tuple(Column(name, kind) for name, kind in zip(names, ("int", "string", "string"), strict=True))
    table.insert("select 3, 'p', 'q'")
    table.delete(f"{names[2]} = 'v'")
    for _ in range(2):
        frame = read(spark, table, way)
        assert [sorted(row[0] for row in frame.select(name).collect()) for name in names] == [
            [1, 3], ["p", "x"], ["q", "y"],
        ]  # fmt: skip
        assert [row[0] for row in frame.where(F.col(names[2]) == "y").select(names[1]).collect()] == ["x"]
        assert frame.count() == 2
        table.compact("major")


@pytest.mark.parametrize("way", WAYS)
def test_rows_were_deleted_when_the_name_of_a_column_was_that_of_another_type(
    spark: SparkSession, acid_table: Callable[..., Any], way: str
) -> None:
    """Delete events have the columns of their time, all NULL; orc-core reads no date as an int, NULL or not."""
    table = acid_table("d date, s string")
    table.insert("select date'2024-01-01', 'x' union all select date'2024-01-02', 'y'")
    table.delete("s = 'x'")
    table.columns = (Column("was", "date"), Column("s", "string"), Column("d", "int"))
    table.insert("select date'2024-01-03', 'z', 3")
    table.delete("d = 3")
    _by(table, way)
    expected = texts(read(spark, table, way))
    assert expected == ["Row(was=datetime.date(2024, 1, 2), s='y', d=None)"]
    session = spark.newSession()
    session.conf.set(SESSION_KEY, way)
    told = read_changes(session, table.snapshot(), Changes(2, 4)).select("s", "d", "change__kind")
    assert sorted(map(tuple, told.collect()), key=str) == [
        ("x", None, "delete"), ("z", 3, "delete"), ("z", 3, "insert"),
    ]  # fmt: skip
    for kind in ("minor", "major"):
        table.compact(kind)
        assert texts(read(spark, table, way)) == expected


@pytest.mark.parametrize("seed", range(examples(8)))
def test_a_compaction_changes_no_row_whatever_became_of_the_columns(
    spark: SparkSession, acid_table: Callable[..., Any], seed: int
) -> None:
    dice = random.Random(seed)
    program = Program(dice, partitioned=seed % 3 == 1)
    tables = [acid_table(program.declared(), "k int" if program.partitioned else "") for _ in range(2)]
    for number in range(14):
        step = program.next(number)
        if step is None:
            _compact(dice, tables[0])
            program.said.append("compact")
        else:
            way = dice.choice(WAYS)
            for table in tables:
                _by(table, way)
                table.columns = program.columns()
                step(table)
        said = "\n".join(program.said)
        expected = texts(read(spark, tables[1], "off", row_ids=True))
        for way in WAYS:
            assert texts(read(spark, tables[0], way, row_ids=True)) == expected, f"{way}, seed {seed}:\n{said}"
        _look(spark, tables[0], dice, f"seed {seed}:\n{said}")


def _look(spark: SparkSession, table: Any, dice: random.Random, said: str) -> None:
    """Ask for one column, and for the rows of one of its values."""
    rows = read(spark, table, "off").collect()
    column = dice.choice([c.name for c in table.columns])
    for way in WAYS:
        frame = read(spark, table, way)
        assert frame.count() == len(rows), f"{way}, {said}"
        assert sorted(repr(row[0]) for row in frame.select(column).collect()) == sorted(
            repr(row[column]) for row in rows
        ), f"{way}, {column}, {said}"
        if rows and not any(c.name == column and "<" in c.type for c in table.columns):
            value = dice.choice(rows)[column]
            kind = frame.schema[column].dataType
            found = frame.where(F.col(column).eqNullSafe(F.lit(value).cast(kind))).count()
            assert found == sum(row[column] == value for row in rows), f"{way}, {column} = {value!r}, {said}"


def _compact(dice: random.Random, table: Any) -> None:
    _by(table, dice.choice(WAYS))
    for partition in list(table.partitions) or [""]:
        table.compact(dice.choice(("minor", "major")), partition)


def _by(table: Any, way: str) -> None:
    """From now on the jobs of a table run with the jar, or without it."""
    run = type(table).run
    table.run = lambda step, views=(), sources=(), **conf: run(
        table, step, views, sources, **conf, **{SESSION_KEY: way}
    )


@dataclass
class Kept:
    """A column of the program, and how far its type has come."""

    name: str
    chain: tuple[str, ...]
    at: int = 0

    @property
    def type(self) -> str:
        return self.chain[self.at]


@dataclass
class Program:
    """Steps that keep the rules of Hive for the columns of ACID tables."""

    dice: random.Random
    partitioned: bool
    said: list[str] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    made: int = 0

    def __post_init__(self) -> None:
        self.kept = [Kept("id", ("int", "bigint"))]
        for _ in range(3):
            self._add()
        self.said.append(self.declared())

    def declared(self) -> str:
        return ", ".join(f"{c.name} {c.type}" for c in self.kept)

    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(c.name, c.type) for c in self.kept)

    def next(self, number: int) -> Callable[[Any], Any] | None:
        """A step on a table; None for a compaction."""
        chosen = "insert" if number == 0 else self.dice.choice(
            ("insert", "insert", "update", "delete", "merge", "change", "change", "change", "compact", "compact")
        )  # fmt: skip
        if chosen == "compact":
            return None
        if chosen == "change":
            for _ in range(self.dice.randint(1, 3)):
                self.dice.choice((self._add, self._rename, self._rename, self._widen, self._widen))()
            self.said.append(f"now {self.declared()}")
            return lambda table: None
        step: Callable[[Any], Any] = getattr(self, f"_{chosen}")()
        return step

    def _add(self) -> None:
        self.kept.append(Kept(self._name(), self.dice.choice(CHAINS)))

    def _rename(self) -> None:
        """To a new name, or to one that another column had once."""
        taken = {c.name for c in self.kept}
        free = [n for n in (f"c{i}" for i in range(self.made)) if n not in taken]
        self.dice.choice(self.kept).name = self.dice.choice(free) if free and self.dice.random() < 0.5 else self._name()

    def _widen(self) -> None:
        column = self.dice.choice(self.kept)
        column.at = min(column.at + self.dice.randint(1, 2), len(column.chain) - 1)

    def _name(self) -> str:
        self.made += 1
        return f"c{self.made - 1}"

    def _insert(self) -> Callable[[Any], Any]:
        rows = [self._row(i) for i in range(self.dice.randint(1, 6))]
        query = " union all ".join(f"select {', '.join(row)}" for row in rows)
        self.said.append(query)
        return lambda table: table.insert(query)

    def _row(self, i: int) -> list[str]:
        values = [self._value(c.type) for c in self.kept]
        return [*values, str(i % 2)] if self.partitioned else values

    def _update(self) -> Callable[[Any], Any]:
        column, where = self.dice.choice(self.kept), self._where()
        value = self._value(column.type)
        self.said.append(f"update {column.name} = {value} where {where}")
        name = column.name
        return lambda table: table.update(where, **{name: value})

    def _delete(self) -> Callable[[Any], Any]:
        where = self._where()
        self.said.append(f"delete where {where}")
        return lambda table: table.delete(where)

    def _merge(self) -> Callable[[Any], Any]:
        column, key = self.dice.choice(self.kept), self.kept[0].name
        value, number = self._value(column.type), self.dice.randint(0, 30)
        fields = ", ".join(f"{v} as v{i}" for i, v in enumerate(self._row(1)))
        source = f"select {number} as n, {fields}"
        names = [c.name for c in self.kept] + (["k"] if self.partitioned else [])
        new = tuple(Assignment(n, f"s.v{i}") for i, n in enumerate(names))
        clauses = (
            MergeClause("update", True, None, (Assignment(column.name, value),)),
            MergeClause("insert", False, None, new),
        )
        self.said.append(f"merge {source} on {key}: {column.name} = {value}")
        return lambda table: table.merge(source, f"t.{key} = s.n", *clauses)

    def _where(self) -> str:
        return f"pmod(coalesce({self.kept[0].name}, 7), {self.dice.randint(2, 4)}) = {self.dice.randint(0, 1)}"

    def _value(self, kind: str) -> str:
        """A constant of a type."""
        if self.dice.random() < 0.2:
            return "null"
        n = self.dice.randint(0, 30)
        return {
            "float": f"cast({n} / 4 as float)",
            "double": f"cast({n} / 3 as double)",
            "boolean": str(n % 2 == 0).lower(),
            "date": f"date_add(date'1899-12-30', {n * 700})",
            "string": f"'t{n}'",
            "timestamp": f"timestamp_micros({n} * 115226300411522)",
            "array<int>": f"array({n}, null)",
            "struct<x:int,y:string>": f"named_struct('x', {n}, 'y', 'y{n}')",
        }.get(kind) or (f"'{'abc'[: 1 + n % 3]}'" if "char" in kind else f"cast({n} as {kind})")
