"""Views with a real Spark: what they show, what locks them, and what becomes of them when tables change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import (
    AlreadyExistsError,
    InvalidArgumentsError,
    LockTimeoutError,
    NoSuchObjectError,
    UnsupportedStatementError,
)
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.crossing("views x changed tables"), pytest.mark.spark]

TABLES = """CREATE DATABASE s; USE s;
CREATE TABLE t (id INT, name STRING, price DECIMAL(10,2)) STORED AS ORC;
CREATE TABLE p (id INT) PARTITIONED BY (ds STRING) STORED AS ORC;
INSERT INTO t VALUES (1, 'a', 1.50), (2, 'b', 2.50), (3, 'c', 4.00);
INSERT INTO p VALUES (1, 'x'), (2, 'y');
"""


def rows(engine: Engine, text: str) -> list[list[Any]]:
    found = engine.run(text, database="s")[-1].rows
    assert found is not None
    return found.rows


def described(engine: Engine, view: str) -> list[list[Any]]:
    return rows(engine, f"DESCRIBE {view}")


def test_a_life_of_views(real_engine: Engine, client: MetastoreClient) -> None:
    """One Spark for all: columns and types, stars that stay, replacing, temporary views, and what is refused."""
    engine = real_engine
    engine.run(TABLES)
    engine.run("CREATE VIEW v (a COMMENT 'key', b) COMMENT 'all' AS SELECT id, price * 2 FROM t", database="s")
    assert described(engine, "v") == [["a", "int", "key"], ["b", "decimal(12,2)", ""]]
    assert sorted(map(str, rows(engine, "SELECT a, b FROM v WHERE b > 4")[0])) == ["2", "5.00"]
    engine.run("CREATE VIEW stars AS SELECT *, 1 FROM t; CREATE VIEW joined AS SELECT * FROM t JOIN p USING (id)",
               database="s")  # fmt: skip
    engine.run("ALTER TABLE t ADD COLUMNS (more STRING)", database="s")
    assert [c[0] for c in described(engine, "stars")] == ["id", "name", "price", "_c3"]
    assert len(rows(engine, "SELECT * FROM stars")[0]) == 4
    assert [c[0] for c in described(engine, "joined")] == ["id", "name", "price", "ds"]
    assert [row[3] for row in rows(engine, "SELECT * FROM joined ORDER BY ds")] == ["x", "y"]

    engine.run("CREATE OR REPLACE VIEW v AS SELECT name FROM stars WHERE id < 3", database="s")
    assert rows(engine, "SELECT * FROM v ORDER BY name") == [["a"], ["b"]]
    assert client.catalog.get_table("s.v").property("comment") is None
    for text in ("ALTER VIEW stars AS SELECT * FROM v", "CREATE OR REPLACE VIEW v AS SELECT * FROM v"):
        with pytest.raises(InvalidArgumentsError, match="reads itself"):
            engine.run(text, database="s")
    engine.run("ALTER VIEW v SET TBLPROPERTIES ('x'='y'); ALTER VIEW v AS SELECT id FROM t", database="s")
    assert client.catalog.get_table("s.v").property("x") == "y"

    script = "CREATE TEMPORARY VIEW q (n) AS SELECT id + 1 FROM v; INSERT INTO p SELECT n, 'z' FROM q; "
    script += "SELECT id FROM p WHERE ds = 'z' ORDER BY id"
    assert rows(engine, script) == [[2], [3], [4]]
    engine.run("BEGIN; INSERT INTO t VALUES (9, 'i', 1, 'm'); INSERT INTO p SELECT max(id), 'last' FROM v; COMMIT",
               database="s")  # fmt: skip
    assert rows(engine, "SELECT id FROM p WHERE ds = 'last'") == [[9]]
    with pytest.raises(UnsupportedStatementError, match="temporary view"):
        engine.run("CREATE VIEW w AS SELECT n FROM q", database="s")

    refused = {
        "CREATE VIEW v AS SELECT 1": AlreadyExistsError,
        "CREATE OR REPLACE VIEW t AS SELECT 1": AlreadyExistsError,
        "CREATE VIEW w (a, b) AS SELECT 1": InvalidArgumentsError,
        "CREATE VIEW w AS SELECT id, id FROM t": InvalidArgumentsError,
        "CREATE VIEW w AS SELECT nothing FROM t": InvalidArgumentsError,
        "CREATE VIEW w TBLPROPERTIES ('transactional'='true') AS SELECT 1": InvalidArgumentsError,
        "DROP TABLE v": InvalidArgumentsError,
        "DROP VIEW t": InvalidArgumentsError,
        "DROP VIEW nothing": NoSuchObjectError,
        "ALTER VIEW t AS SELECT 1": InvalidArgumentsError,
        "ALTER TABLE v SET TBLPROPERTIES ('a'='b')": InvalidArgumentsError,
        "ALTER VIEW v UNSET TBLPROPERTIES ('nothing')": InvalidArgumentsError,
        "TRUNCATE TABLE v": InvalidArgumentsError,
    }
    for text, error in refused.items():
        with pytest.raises(error):
            engine.run(text, database="s")
    engine.run("CREATE VIEW IF NOT EXISTS v AS SELECT 1; DROP VIEW IF EXISTS nothing", database="s")
    engine.run("DROP TABLE t", database="s")
    with pytest.raises(NoSuchObjectError, match=r"s\.t") as raised:
        engine.run("SELECT * FROM v", database="s")
    assert "in the text of view s.v" in raised.value.__notes__
    assert client.show_locks() == []


def test_a_view_is_locked_while_it_is_read_and_alone_while_it_changes(
    real_engine: Engine, client: MetastoreClient
) -> None:
    """A reader holds SHARED_READ on view and table; DROP VIEW waits for it."""
    engine = real_engine
    engine.run(TABLES)
    engine.run("CREATE VIEW v AS SELECT id FROM t", database="s")
    assert rows(engine, "EXPLAIN LOCKS SELECT * FROM v")[1:] == [
        ["s.t -> SHARED_READ", "SELECT: hive.txn.read.locks=true"],
        ["s.v -> SHARED_READ", "SELECT of a table without transactions: hive.txn.nonacid.read.locks=true"],
    ]
    reader = LockComponent("s", "v", None, LockType.SHARED_READ, Operation.SELECT)
    held = client.lock([reader])
    for text in ("DROP VIEW v", "CREATE OR REPLACE VIEW v AS SELECT 1", "ALTER VIEW v SET TBLPROPERTIES ('a'='b')"):
        with pytest.raises(LockTimeoutError):
            engine.run(f"SET hive.lock.numretries=0; {text}", database="s")
    assert rows(engine, "SELECT max(id) FROM v") == [[3]]
    client.unlock(held.lock_id)
    engine.run("DROP VIEW v", database="s")


def test_a_view_is_made_once_by_all_tries(real_engine: Engine) -> None:
    real_engine.run(TABLES)
    once = Once(("tests", "views"))
    for _ in range(2):
        real_engine.run("CREATE VIEW v AS SELECT id FROM t; DROP TABLE p", database="s", once=once)
    assert rows(real_engine, "SHOW VIEWS IN s") == [["v"]]
