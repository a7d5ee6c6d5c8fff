"""Statements that somebody who knows Hive or Spark SQL would type: our engine and plain Spark agree on each of them.

``--corpus whole`` runs all of them (``make test-corpus``), without it a few of each kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.metastore import MetastoreClient
from tests.acceptance.corpus.statements import HERE, Statement, read, words_of
from tests.acceptance.corpus.tpch_tables import KEYS
from tests.acceptance.corpus.worlds import SHOP, Acid, Plain, World, differences
from tests.in_process import InProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.corpus]

QUERIES = {path.stem: read(path) for path in sorted((HERE / "queries").glob("*.sql"))}
SCRIPTS = {path.stem: read(path) for path in sorted((HERE / "scripts").glob("*.sql"))}
SMALL_TABLES = {"people", "notes"}
"""Without ``--corpus whole`` a few queries about these tables are run, and the beginning of one script."""
SMALL_SCRIPT, SMALL_STATEMENTS = "merges", 7


def _is_small(query: Statement) -> bool:
    names = words_of(query.text)
    return bool(names & SMALL_TABLES) and not names & (SHOP | set(KEYS)) - SMALL_TABLES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    whole = metafunc.config.getoption("--corpus") == "whole"
    if "query" in metafunc.fixturenames:
        found = [q for file in QUERIES.values() for q in file]
        chosen = found if whole else [q for q in found if _is_small(q)][::6]
        metafunc.parametrize("query", chosen, ids=[q.id for q in chosen])
    if "script" in metafunc.fixturenames:
        scripts = list(SCRIPTS.values()) if whole else [SCRIPTS[SMALL_SCRIPT][:SMALL_STATEMENTS]]
        metafunc.parametrize("script", scripts, ids=[script[0].file for script in scripts])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreClient]:
    """One metastore for the whole corpus."""
    with MetastoreClient(f"sqlite:///{tmp_path_factory.mktemp('corpus') / 'metastore.db'}") as client:
        client.create_schema()
        yield client


@pytest.fixture(scope="module")
def engine(client: MetastoreClient, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One engine, whose jobs run in the Spark session of the tests."""
    launcher = InProcess(spark, tmp_path_factory.mktemp("rows"))
    with Engine(client, launcher, tmp_path_factory.mktemp("warehouse").as_uri()) as engine:
        yield engine


@pytest.fixture(scope="module")
def world(
    client: MetastoreClient, engine: Engine, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> World:
    """The tables that queries are about, in our engine and in plain Spark."""
    return World(Acid(engine, client, "corpus"), Plain(spark, "corpus"), tmp_path_factory.mktemp("tables"))


def test_a_query_gives_what_plain_spark_gives(world: World, query: Statement) -> None:
    world.need(query.text)
    expected = world.answer(query)
    assert query.empty == (expected is None or not expected[1]), "the header should say whether there are rows"
    found = differences(world.acid.run(query.text), expected, ordered=query.ordered)
    assert not found, found


def test_a_query_gives_the_same_after_a_major_compaction(world: World, query: Statement) -> None:
    world.need_compacted(query.text)
    found = differences(world.acid.run(query.text), world.answer(query), ordered=query.ordered)
    assert not found, found


def test_after_each_statement_of_a_script_both_have_the_same_rows(
    client: MetastoreClient,
    engine: Engine,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    script: list[Statement],
) -> None:
    name = script[0].file
    world = World(Acid(engine, client, name), Plain(spark, name), tmp_path_factory.mktemp(name))
    wrong = [f"{statement.name}: {found}" for statement in script if (found := world.compare(statement))]
    assert not wrong, "\n".join(wrong)


def test_the_corpus_has_three_hundred_statements() -> None:
    statements = [s for files in (QUERIES, SCRIPTS) for file in files.values() for s in file]
    assert len(statements) >= 300
    texts = [" ".join(statement.text.split()) for statement in statements]
    assert [text for text in texts if texts.count(text) > 1] == []
