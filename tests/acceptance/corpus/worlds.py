"""The two worlds of the corpus: ACID tables of our engine, and copies of them as Parquet tables of plain Spark."""

# ruff: noqa: S608 - statements put together from names of the corpus

from __future__ import annotations

import datetime as dt
import math
import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.types import FloatType

from airflow_hive_acid.errors import HiveAcidError
from tests.acceptance.corpus.statements import HERE, Statement, in_plain_spark, read, words_of
from tests.acceptance.corpus.tpch_tables import KEYS, refreshed, tables, write

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

SHOP = {"items", "sales", "people", "notes"}
"""The tables of ``tables/shop.sql``."""

_INTERPRETED = ("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled")
"""Plain Spark compiles nothing for its few rows: that would cost more than all the rest."""

Table = tuple[list[str], list[list[Any]]]
"""Names of columns, and rows."""


class Plain:
    """One database of plain Spark. It has a name of its own, so that our engine cannot find its tables by chance."""

    def __init__(self, spark: SparkSession, database: str) -> None:
        self.spark = spark.newSession()
        for key in _INTERPRETED:
            self.spark.conf.set(key, "false")
        self.spark.sql(f"CREATE DATABASE plain_{database}")
        self.spark.sql(f"USE plain_{database}")

    def run(self, statement: Statement) -> Table | None:
        """What plain Spark makes of a statement; the rows of the last one."""
        found = None
        for text in (statement.plain or "").split(";\n"):
            if text.strip():
                found = self.spark.sql(text.strip().removesuffix(";"))
        for table, query in statement.becomes:
            self._becomes(table, query)
        return None if found is None or not found.columns else _plain_table(found)

    def rows(self, table: str) -> Table:
        """Everything in a table or view."""
        return _plain_table(self.spark.sql(f"SELECT * FROM {table}"))

    def tables(self) -> set[str]:
        """Tables and views that there are."""
        return {row.tableName for row in self.spark.sql("SHOW TABLES").collect()}

    def _becomes(self, table: str, query: str) -> None:
        # By way of another table: Spark does not overwrite what it reads. It is not renamed, because the catalog that
        # Spark has without a Hive loses partitions with a blank in their value then.
        self.spark.sql(f"CREATE TABLE next_{table} LIKE {table} USING parquet")
        self.spark.sql(f"INSERT INTO next_{table} {query}")
        self.spark.sql(f"INSERT OVERWRITE TABLE {table} SELECT * FROM next_{table}")
        self.spark.sql(f"DROP TABLE next_{table}")


class Acid:
    """One database of our engine."""

    def __init__(self, engine: Engine, client: MetastoreClient, database: str) -> None:
        self.engine = engine
        self.client = client
        self.database = database
        engine.run(f"CREATE DATABASE {database}")

    def run(self, text: str) -> Table | None:
        """What our engine makes of a text; the rows of the last statement."""
        rows = self.engine.run(text, database=self.database)[-1].rows
        return None if rows is None else ([c.name for c in rows.columns], rows.rows)

    def rows(self, table: str) -> Table:
        """Everything in a table or view."""
        found = self.run(f"SELECT * FROM {table}")
        assert found is not None
        return found

    def compact(self, name: str) -> None:
        """A major compaction of a table, or of each of its partitions."""
        table = self.client.catalog.get_table(f"{self.database}.{name}")
        if not table.partition_columns:
            self.run(f"ALTER TABLE {name} COMPACT 'major' AND WAIT")
            return
        for partition in self.client.catalog.list_partitions(f"{self.database}.{name}"):
            key, value = partition.name.split("=", 1)
            self.run(f"ALTER TABLE {name} PARTITION ({key} = '{value}') COMPACT 'major' AND WAIT")


class World:
    """One database in both: TPC-H's tables and those of the shop are made when a statement names them first."""

    def __init__(self, acid: Acid, plain: Plain, files: Path) -> None:
        self.acid, self.plain, self._files = acid, plain, files
        text = (HERE / "tables" / "tpch.sql").read_text()
        found = re.findall(r"^(CREATE TABLE (\w+).*?);$", text, re.MULTILINE | re.DOTALL)
        self._tpch = {name: definition for definition, name in found}
        self._shop = read(HERE / "tables" / "shop.sql")
        self._there: set[str] = set()
        self._compacted: set[str] = set()
        self._answers: dict[str, Table | None] = {}

    def need(self, text: str) -> None:
        """Make the tables that a text names, if they are not there."""
        names = words_of(text)
        for table in sorted(names & set(self._tpch) - self._there):
            self._there.add(table)
            self._make(table)
        for table in sorted(names & SHOP - self._there):
            self._there.add(table)
            for statement in self._shop:
                if table in words_of(statement.text):
                    found = self.compare(statement)
                    assert not found, f"{statement.id}: {found}"

    def need_compacted(self, text: str) -> None:
        """Make the tables that a text names, and compact them, if that has not been done."""
        self.need(text)
        for table in sorted(words_of(text) & self._there - self._compacted):
            self._compacted.add(table)
            self.acid.compact(table)

    def answer(self, query: Statement) -> Table | None:
        """What plain Spark answers; it is asked once."""
        if query.id not in self._answers:
            self._answers[query.id] = self.plain.run(query)
        return self._answers[query.id]

    def compare(self, statement: Statement) -> str:
        """Run a statement in both; what is not the same then, in its rows and in the tables that it names."""
        if statement.file not in ("shop", ""):
            self.need(statement.text)
        try:
            ours = self.acid.run(statement.text)
        except HiveAcidError as error:
            if statement.refused and statement.refused in str(error):
                return ""
            return f"{type(error).__name__}: {error}"
        if statement.refused:
            return "it was not refused"
        expected = self.plain.run(statement)
        if statement.plain is not None and (ours is not None or expected is not None):
            found = differences(ours, expected, ordered=statement.ordered)
            if found:
                return found
        for table in sorted(words_of(statement.text) & self.plain.tables()):
            found = differences(self.acid.rows(table), self.plain.rows(table), ordered=False)
            if found:
                return f"then {table} differs: {found}"
        return ""

    def _make(self, table: str) -> None:
        definition = self._tpch[table]
        self.plain.run(statement_of(definition))
        self.acid.run(definition)
        columns = self.plain.spark.table(table).columns
        source = f"{self._files}/{table}.parquet"
        write((tables() | refreshed())[table], columns, source)
        self.plain.spark.sql(f"INSERT INTO {table} SELECT * FROM parquet.`{source}`")
        self._load(table, columns, source)

    def _load(self, table: str, columns: list[str], source: str) -> None:
        """The same rows by two inserts, the second with mistakes, a MERGE that mends them, and a DELETE."""
        view = f"CREATE OR REPLACE TEMPORARY VIEW arrivals USING parquet OPTIONS (path '{source}')"
        if table not in KEYS:
            self.acid.run(f"{view}; INSERT INTO {table} SELECT * FROM arrivals")
            return
        keys = KEYS[table]
        comment = next(name for name in columns if name.endswith("_comment"))
        spoilt = ", ".join("'spoilt'" if name == comment else name for name in columns)
        too_many = ", ".join(f"-1 - {name}" if name == keys[0] else name for name in columns)
        same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        self.acid.run(
            f"{view};"
            f"INSERT INTO {table} SELECT * FROM arrivals WHERE {keys[0]} % 2 = 0;"
            f"INSERT INTO {table} SELECT {spoilt} FROM arrivals WHERE {keys[0]} % 2 <> 0"
            f"  UNION ALL SELECT {too_many} FROM arrivals WHERE {keys[0]} % 5 = 0;"
            f"MERGE INTO {table} t USING arrivals s ON {same}"
            f"  WHEN MATCHED AND t.{comment} = 'spoilt' THEN UPDATE SET {comment} = s.{comment};"
            f"DELETE FROM {table} WHERE {keys[0]} < 0"
        )


def statement_of(text: str) -> Statement:
    """A statement that is not part of the corpus."""
    return Statement("", "", text, in_plain_spark(text))


def differences(ours: Table | None, plain: Table | None, *, ordered: bool) -> str:
    """What is not the same in two results, as text; empty if nothing is."""
    if ours is None or plain is None:
        return "" if ours is plain else f"rows of ours: {ours}, of plain Spark: {plain}"
    if [name.lower() for name in ours[0]] != [name.lower() for name in plain[0]]:
        return f"columns of ours: {ours[0]}, of plain Spark: {plain[0]}"
    mine, theirs = ([_comparable(row) for row in rows] for rows in (ours[1], plain[1]))
    if not ordered:
        mine, theirs = sorted(mine, key=repr), sorted(theirs, key=repr)
    if mine == theirs:
        return ""
    only_mine = [row for row in mine if row not in theirs][:5]
    only_theirs = [row for row in theirs if row not in mine][:5]
    return (
        f"{len(mine)} rows of ours, {len(theirs)} of plain Spark; only in ours: {only_mine}, only in plain Spark's: "
        f"{only_theirs}" + (", or another order" if ordered else "")
    )


def _plain_table(found: DataFrame) -> Table:
    # A FLOAT would come as the double beside it, with digits that nobody wrote.
    floats = {i for i, field in enumerate(found.schema.fields) if isinstance(field.dataType, FloatType)}
    places = found.toDF(*[f"c{i}" for i in range(len(found.columns))])
    rows = places.selectExpr(
        *[f"string(c{i})" if i in floats else f"c{i}" for i in range(len(found.columns))]
    ).collect()
    return list(found.columns), [
        [_told(float(value) if i in floats and value is not None else value) for i, value in enumerate(row)]
        for row in rows
    ]


def _told(value: Any) -> Any:
    """A value of PySpark as our engine tells it: dates as text, bytes as digits, structs and maps as dictionaries."""
    match value:
        case Row():
            return {name: _told(part) for name, part in value.asDict().items()}
        case dict():
            return {str(_told(key)): _told(part) for key, part in value.items()}
        case list():
            return [_told(part) for part in value]
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
        case dt.datetime():
            text = value.isoformat(" ")
            return text.rstrip("0") if "." in text else text
        case dt.date():
            return value.isoformat()
        case bytes() | bytearray():
            return value.hex().upper()
    return value


def _comparable(value: Any) -> Any:
    """Sums of fractions depend on their order: 10 digits count. Decimals are compared with all of theirs."""
    match value:
        case float():
            return float(f"{value:.10g}")
        case list():
            return [_comparable(part) for part in value]
        case dict():
            return {key: _comparable(part) for key, part in value.items()}
    return value
