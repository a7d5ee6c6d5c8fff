"""Statements that are compiled once in a process, and only for one kind of database."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_hive_acid.metastore.database.compiled import CompiledStatements

_STATEMENT = (("SELECT", 1),)


def _key(dialect: sa.Dialect, statement: object = _STATEMENT) -> tuple[object, ...]:
    return (dialect, statement, (), False, False)


def _dialect(version: tuple[int, ...]) -> sa.Dialect:
    dialect = postgresql.dialect()
    dialect.server_version_info = version
    return dialect


def test_what_one_engine_compiled_another_of_its_kind_finds() -> None:
    one, other = _dialect((18, 4)), _dialect((18, 4))
    CompiledStatements()[_key(one)] = "compiled"
    assert CompiledStatements().get(_key(other)) == "compiled"


def test_another_version_or_another_database_compiles_for_itself() -> None:
    CompiledStatements()[_key(_dialect((17, 1)))] = "compiled"
    assert CompiledStatements().get(_key(_dialect((16, 9)))) is None
    assert CompiledStatements().get(_key(sqlite.dialect())) is None
    assert CompiledStatements().get(_key(_dialect((17, 1)), (("SELECT", 2),))) is None


def test_a_second_engine_compiles_nothing_that_the_first_has() -> None:
    statement = sa.select(sa.literal("a statement of this test only").label("x"))
    hits = []
    for _ in range(2):
        engine = sa.create_engine("sqlite://", execution_options={"compiled_cache": CompiledStatements()})
        with engine.connect() as connection:
            result = connection.execute(statement)
            assert result.scalar() == "a statement of this test only"
            hits.append(result.context.cache_hit.name)
        engine.dispose()
    assert hits == ["CACHE_MISS", "CACHE_HIT"]
