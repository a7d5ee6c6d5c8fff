"""CREATE TEMPORARY TABLE with a real Spark: it is there for its script, hides a table of its name, and goes with it."""

# ruff: noqa: S608 - statements put together from names of the tests

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import (
    AlreadyExistsError,
    BadRecordError,
    HiveAcidError,
    InvalidArgumentsError,
    NoSuchObjectError,
    UnsupportedStatementError,
)
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance import run_reaper
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.crossing("temporary tables x statements"), pytest.mark.spark]

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def rows(engine: Engine, script: str) -> list[list[Any]]:
    found = engine.run(script)[-1].rows
    assert found is not None
    return sorted(([str(v) if v is not None else None for v in row] for row in found.rows), key=str)


def staged(warehouse: str) -> list[str]:
    """Staging of temporary tables that lies in the warehouse; a plain file that fences a job is none."""
    root = Path(warehouse.removeprefix("file://"))
    return [path.name for path in root.rglob("_tmp_*") if path.is_dir()] if root.exists() else []


@pytest.mark.instead("postgresql")
def test_a_temporary_table_lives_in_its_script_and_hides_a_table_of_its_name(
    real_engine: Engine, client: MetastoreClient, warehouse: str
) -> None:
    engine = real_engine
    engine.run(f"CREATE TABLE t (id INT, name STRING) {ACID}; INSERT INTO t VALUES (1, 'real')")
    script = """
        CREATE TEMPORARY TABLE t (id BIGINT, name VARCHAR(10), at DATE) STORED AS ORC;
        INSERT INTO t VALUES (1, 'a', DATE '2024-05-01'), (2, 'b', NULL);
        INSERT INTO t (name, id) SELECT upper(name), id + 10 FROM t;
        INSERT INTO TABLE t BY NAME SELECT 99 AS id;
        CREATE TEMPORARY TABLE IF NOT EXISTS t (other INT);
        CREATE TEMPORARY TABLE counted AS SELECT name, count(*) AS n FROM t GROUP BY name;
    """
    assert rows(engine, script + "SELECT * FROM t") == [
        ["1", "a", "2024-05-01"], ["11", "A", None], ["12", "B", None], ["2", "b", None], ["99", None, None],
    ]  # fmt: skip
    assert rows(engine, script + "SELECT count(*), sum(n) FROM counted") == [["5", "5"]]
    # It reads what it overwrites; the real one can be filled from it and is there again when it is dropped.
    assert rows(engine, script + "INSERT OVERWRITE TABLE t SELECT * FROM t WHERE id > 11; SELECT id FROM t") == [
        ["12"], ["99"],
    ]  # fmt: skip
    assert rows(engine, script + "TRUNCATE TABLE t; SELECT * FROM t") == []
    assert rows(engine, script + "DROP TABLE t; SELECT name FROM t") == [["real"]]
    engine.run(f"CREATE TABLE u (id BIGINT, name STRING) {ACID};" + script + "INSERT INTO u SELECT id, name FROM t; "
               "BEGIN; DELETE FROM u WHERE id IN (SELECT id FROM t WHERE name = 'a'); COMMIT")  # fmt: skip
    assert rows(engine, "SELECT id FROM u") == [["11"], ["12"], ["2"], ["99"]]
    assert rows(engine, "SELECT * FROM t") == [["1", "real"]]
    assert rows(engine, "CREATE TEMPORARY TABLE l LIKE u; SELECT * FROM l") == []
    with pytest.raises(NoSuchObjectError):
        engine.run("SELECT * FROM counted")
    assert staged(warehouse) == []
    assert client.show_transactions() == []
    assert sorted(client.catalog.list_tables("default")) == ["t", "u"]


REFUSED = {
    "UPDATE m SET id = 2": UnsupportedStatementError,
    "DELETE FROM m": UnsupportedStatementError,
    "MERGE INTO m USING t ON m.id = t.id WHEN MATCHED THEN DELETE": UnsupportedStatementError,
    "ALTER TABLE m ADD COLUMNS (b INT)": UnsupportedStatementError,
    "FROM t INSERT INTO m SELECT id": UnsupportedStatementError,
    "INSERT INTO m PARTITION (k = 1) SELECT 1": UnsupportedStatementError,
    "BEGIN; INSERT INTO m VALUES (1); COMMIT": UnsupportedStatementError,
    "BEGIN; CREATE TEMPORARY TABLE n (id INT); COMMIT": UnsupportedStatementError,
    "CREATE TEMPORARY TABLE m (id INT)": AlreadyExistsError,
    "CREATE OR REPLACE TEMPORARY TABLE m (id INT)": UnsupportedStatementError,
    "CREATE TEMPORARY TABLE n (id INT) LOCATION '/somewhere'": UnsupportedStatementError,
    "CREATE TEMPORARY TABLE n (id INT) PARTITIONED BY (k INT)": UnsupportedStatementError,
    "CREATE TEMPORARY TABLE n (id INT NOT NULL)": UnsupportedStatementError,
    "CREATE VIEW v AS SELECT * FROM m": UnsupportedStatementError,
    "INSERT INTO m SELECT 1, 2": InvalidArgumentsError,
    "INSERT INTO m (nothing) SELECT 1": InvalidArgumentsError,
    "INSERT INTO m SELECT 'no number'": HiveAcidError,
    "CREATE TEMPORARY TABLE n (c CHAR(2), v VARCHAR(2)); INSERT INTO n VALUES ('a ', 'a'), ('', 'abc')": BadRecordError,
}


def test_what_fails_leaves_nothing_of_it(real_engine: Engine, client: MetastoreClient, warehouse: str) -> None:
    real_engine.run(f"CREATE TABLE t (id INT) {ACID}; INSERT INTO t VALUES (1)")
    for text, kind in REFUSED.items():
        with pytest.raises(kind):
            real_engine.run("CREATE TEMPORARY TABLE m (id INT); INSERT INTO m VALUES (1);" + text)
        assert staged(warehouse) == [], text
    assert [row for row in client.show_transactions() if row.state.value == "o"] == []


@pytest.mark.every_database
def test_a_second_try_has_its_temporary_tables_again(real_engine: Engine) -> None:
    real_engine.run(f"CREATE TABLE t (id INT) {ACID}")
    script = "CREATE TEMPORARY TABLE m AS SELECT 7 AS id; INSERT INTO t SELECT id FROM m; SELECT count(*) FROM m"
    for _ in range(2):
        results = real_engine.run(script, once=Once(("tests", "temporary"), "1"))
        assert results[-1].rows is not None
        assert results[-1].rows.rows == [[1]]
    assert rows(real_engine, "SELECT * FROM t") == [["7"]]


@pytest.mark.every_database
def test_staging_of_a_driver_that_died_goes_with_its_txn(
    real_engine: Engine, client: MetastoreClient, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def dies(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        # A dead process ends nothing: neither its txn nor its files.
        patch.setattr(type(client), "abort_txn", lambda *_, **__: None)
        patch.setattr("airflow_hive_acid.engine.statements.temporary.TemporaryTables._forget", dies)
        patch.setattr("airflow_hive_acid.maintenance.warehouse.ddl_files.WarehouseFiles._give_up", lambda *_: None)
        with pytest.raises(Killed):
            real_engine.run("CREATE TEMPORARY TABLE m AS SELECT 7 AS id; SELECT * FROM m")
    real_engine._context.views.clear()
    assert len(staged(warehouse)) == 1
    with client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1))
    report = run_reaper(client, AnyFilesystem())
    assert not report.problems
    assert staged(warehouse) == []
