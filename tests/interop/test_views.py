"""Views of both sides: each reads what the other has made, with the same columns and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine

    from .hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]

QUERIES = {
    "plain": ("", "SELECT * FROM t WHERE id > 1"),
    "named": ("(a COMMENT 'first', b)", "SELECT id, price * 2 FROM {db}.t UNION ALL SELECT 9, 1"),
    "unnamed": ("", "SELECT id, upper(name), 1 FROM t"),
    "common": ("", "WITH c AS (SELECT id FROM t) SELECT count(*) AS n, max(c.id) AS highest FROM c"),
    "joined": ("", "SELECT t.*, p.ds FROM t JOIN {db}.p ON t.id = p.id"),
    "nested": ("", "SELECT a, b FROM named WHERE a < 5"),
}


def both(hive: Hive, engine: Engine, text: str) -> list[list[str]]:
    """Rows as text, after both sides have given the same ones."""
    theirs = sorted([str(value) for value in row] for row in hive.run(text))
    ours = sorted([_plain(value) for value in row] for row in engine.query(text).rows)
    assert ours == theirs
    return ours


def _plain(value: Any) -> str:
    return format(value.normalize(), "f") if hasattr(value, "normalize") else str(value)


@pytest.fixture
def tables(hive: Hive, hive_database: str) -> str:
    hive.script(
        f"CREATE TABLE {hive_database}.t (id int, name string, price decimal(10,2)) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true');\n"
        f"INSERT INTO {hive_database}.t VALUES (1, 'a', 1.50), (2, 'b', 2.50), (3, 'c', 4.00);\n"
        f"CREATE TABLE {hive_database}.p (id int) PARTITIONED BY (ds string) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true');\n"
        f"INSERT INTO {hive_database}.p VALUES (1, '2026-01-01'), (3, '2026-01-02')"
    )
    return hive_database


@pytest.mark.parametrize("made_by", ["us", "hive"])
def test_views_of_both_are_read_by_both(hive: Hive, engine: Engine, tables: str, made_by: str) -> None:
    db = tables
    hive.run(f"USE {db}")
    for name, (columns, query) in QUERIES.items():
        text = f"CREATE VIEW {name} {columns} AS {query.format(db=db)}"
        if made_by == "us":
            engine.run(text, database=db)
        else:
            hive.run(text)
    counts = {name: len(both(hive, engine, f"SELECT * FROM {db}.{name}")) for name in QUERIES}
    assert counts == {"plain": 2, "named": 4, "unnamed": 3, "common": 1, "joined": 2, "nested": 3}
    assert both(hive, engine, f"SELECT a FROM {db}.named v WHERE v.b > 4") == [["2"], ["3"]]
    hive.run("USE default")


def test_the_rows_of_a_view_in_the_catalog_are_those_that_hive_writes(hive: Hive, engine: Engine, tables: str) -> None:
    """Columns, formats, texts and properties; of ids and times only that they are there."""
    db = tables
    hive.run(f"USE {db}")
    for name, (columns, query) in QUERIES.items():
        if name == "nested":
            continue
        text = f"{columns} COMMENT 'all' TBLPROPERTIES ('k'='v') AS {query.format(db=db)}"
        hive.run(f"CREATE VIEW {name}_h {text}")
        engine.run(f"CREATE VIEW {name}_o {text}", database=db)
        theirs, ours = ([tuple(row) for row in hive.run(f"DESCRIBE FORMATTED {name}{who}")] for who in ("_h", "_o"))
        told = [[row for row in rows if not _differs(row)] for rows in (theirs, ours)]
        assert told[0] == told[1]
    hive.run("USE default")


def _differs(row: tuple[Any, ...]) -> bool:
    """Times, and the texts: we leave names of columns as they were written."""
    words = ("CreateTime", "transient_lastDdlTime", "Expanded Query")
    return any(str(value).startswith(words) for value in row)


def test_each_side_replaces_alters_and_drops_views_of_the_other(hive: Hive, engine: Engine, tables: str) -> None:
    db = tables
    hive.run(f"CREATE VIEW {db}.theirs AS SELECT id FROM {db}.t")
    engine.run(f"CREATE VIEW {db}.ours AS SELECT id FROM {db}.t")
    engine.run(f"ALTER VIEW {db}.theirs AS SELECT name FROM {db}.t; ALTER VIEW {db}.theirs SET TBLPROPERTIES ('a'='b')")
    hive.run(f"ALTER VIEW {db}.ours AS SELECT price FROM {db}.t")
    assert both(hive, engine, f"SELECT * FROM {db}.theirs") == [["a"], ["b"], ["c"]]
    assert both(hive, engine, f"SELECT * FROM {db}.ours") == [["1.5"], ["2.5"], ["4"]]
    engine.run(f"CREATE OR REPLACE VIEW {db}.theirs AS SELECT max(id) AS top FROM {db}.t")
    hive.run(f"CREATE OR REPLACE VIEW {db}.ours AS SELECT top FROM {db}.theirs")
    assert both(hive, engine, f"SELECT * FROM {db}.ours") == [["3"]]
    with pytest.raises(InvalidArgumentsError, match="reads itself"):
        engine.run(f"ALTER VIEW {db}.theirs AS SELECT top FROM {db}.ours")
    hive.run(f"ALTER VIEW {db}.ours RENAME TO {db}.renamed")
    engine.run(f"ALTER VIEW {db}.renamed RENAME TO {db}.again")
    assert both(hive, engine, f"SELECT * FROM {db}.again") == [["3"]]
    engine.run(f"DROP VIEW {db}.again")
    hive.run(f"DROP VIEW {db}.theirs")
    assert hive.run(f"SHOW VIEWS IN {db}") == []
    assert engine.run(f"SHOW VIEWS IN {db}")[0].rows.rows == []  # type: ignore[union-attr]
