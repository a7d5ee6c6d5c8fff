"""Which database it is, only its room knows: what scripts/check_sql.py refuses elsewhere, and what backends answer."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from airflow_hive_acid.metastore.database import clock, expressions
from airflow_hive_acid.metastore.database.backends.choice import backend_for
from airflow_hive_acid.metastore.database.urls import normalize_url

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[4]
URLS = ("sqlite:////tmp/metastore.db", "postgresql://u@h/d", "mysql://u@h/d", "mariadb://u@h/d")
TABLE = sa.table("T", sa.column("A"), sa.column("B"))


@functools.cache
def check_sql() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_sql", ROOT / "scripts" / "check_sql.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nobody_outside_the_room_asks_which_database_it_is() -> None:
    paths = sorted((ROOT / "airflow_hive_acid" / "metastore").rglob("*.py"))
    assert len(paths) > 100
    assert [line for path in paths for line in check_sql().questions(path)] == []


@pytest.mark.parametrize(
    "line",
    [
        'if connection.dialect.name == "x": pass',
        'match connection.engine.name:\n    case "mysql": pass',
        "kind = url.get_backend_name()",
        "kind = backend_of(connection).name",
        "kind = database.backend.name",
        "from sqlalchemy.dialects import postgresql",
        "from sqlalchemy.ext.compiler import compiles",
        "from airflow_hive_acid.metastore.database.backends.postgresql import LISTEN",
        "import sqlalchemy.dialects.mysql",
        "import psycopg",
    ],
)
def test_a_question_for_the_name_is_refused_outside_the_room(tmp_path: Path, line: str) -> None:
    verbs, room = tmp_path / "metastore" / "txns", tmp_path / "metastore" / "database"
    for folder in (verbs, room):
        folder.mkdir(parents=True)
        (folder / "module.py").write_text(line + "\n")
    assert len(check_sql().questions(verbs / "module.py")) >= 1
    assert check_sql().questions(room / "module.py") == []


def test_sql_text_stands_in_the_room_of_the_database_alone(tmp_path: Path) -> None:
    verbs, room = tmp_path / "metastore" / "txns", tmp_path / "metastore" / "database"
    for folder in (verbs, room):
        folder.mkdir(parents=True)
        (folder / "module.py").write_text('import sqlalchemy as sa\nONE = sa.text("SELECT 1")\n')
    assert len(check_sql().problems(verbs / "module.py")) == 1
    assert check_sql().problems(room / "module.py") == []


@pytest.mark.parametrize("url", URLS)
def test_each_url_has_the_backend_of_its_database(url: str) -> None:
    name = sa.make_url(url).get_backend_name().replace("mariadb", "mysql")
    assert backend_for(normalize_url(url)).name == name


def test_a_list_of_pairs_of_any_length_has_one_text_on_postgresql() -> None:
    pairs = backend_for(normalize_url(URLS[1])).pairs
    text = str(sa.select(TABLE.c.A).where(pairs.holds(TABLE.c.A, TABLE.c.B)).compile(dialect=postgresql.dialect()))
    assert "unnest" in text
    assert "POSTCOMPILE" not in text
    assert pairs.parameters([('a"b', "c\\d"), ("e", "{f,g}")]) == {
        "firsts": '{"a\\"b","e"}',
        "seconds": '{"c\\\\d","{f,g}"}',
    }


def test_on_mysql_what_is_outdone_is_deleted_by_a_join() -> None:
    """There a subquery may not look at the table that is deleted from."""
    other = TABLE.alias("other")
    for url, dialect, joined in ((URLS[0], sqlite.dialect(), False), (URLS[2], mysql.dialect(), True)):
        statement = backend_for(normalize_url(url)).delete_outdone(TABLE, other.c.A > TABLE.c.A)  # type: ignore[arg-type]
        assert ("EXISTS" not in str(statement.compile(dialect=dialect))) is joined


@pytest.mark.parametrize("dialect", [sqlite.dialect(), postgresql.dialect(), mysql.dialect()], ids=lambda d: d.name)
def test_every_backend_spells_each_expression_that_all_of_them_need(dialect: sa.Dialect) -> None:
    a, b = TABLE.c.A, TABLE.c.B
    everywhere = (
        clock.clock_ms(),
        clock.statement_ms(),
        clock.clock_timestamp(),
        clock.clock_timestamp_before(5),
        expressions.smaller(a, b),
        expressions.bytewise(a),
        expressions.as_double(a),
    )
    for expression in everywhere:
        assert str(sa.select(expression).compile(dialect=dialect)).startswith("SELECT ")


def test_what_only_a_batch_of_one_trip_can_do_is_refused_elsewhere() -> None:
    condition = TABLE.c.A > 1
    for alone in (expressions.halt_if(condition), expressions.within_ranges(TABLE.c.A, "1,3")):
        assert str(sa.select(alone).compile(dialect=postgresql.dialect())).startswith("SELECT ")
        with pytest.raises(sa.exc.CompileError):
            sa.select(alone).compile(dialect=sqlite.dialect())


def test_the_error_of_a_halted_batch_is_known_by_its_sqlstate_and_by_no_other_error() -> None:
    backend = backend_for(normalize_url(URLS[1]))
    assert backend.was_halted(psycopg.errors.DivisionByZero())
    assert not backend.was_halted(psycopg.errors.NumericValueOutOfRange())
    assert not backend.was_halted(ZeroDivisionError("division by zero"))


def test_who_can_send_a_commit_with_a_batch_can_write_with_one_statement_to_several_tables() -> None:
    """Short ways of verbs need both, and ask for the first alone."""
    backends = [backend_for(normalize_url(url)) for url in URLS]
    assert any(backend.one_trip for backend in backends)
    assert all(backend.compound for backend in backends if backend.one_trip)


def test_only_a_database_without_server_has_a_file() -> None:
    files = [backend_for(normalize_url(url)).file(normalize_url(url)) for url in URLS]
    assert files == [Path(URLS[0].removeprefix("sqlite:///")), None, None, None]
