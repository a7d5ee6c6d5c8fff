"""Deleted rows on request, as Hive shows them: by the table's property or by an option in FROM."""

import pytest

from airflow_hive_acid.errors import UnsupportedStatementError

pytestmark = [
    pytest.mark.crossing("deleted rows x ways of asking"),
    pytest.mark.spark,
    pytest.mark.instead("postgresql"),
]


def test_deleted_rows_are_shown_by_property_and_by_option(engine):
    """The rows of Hive's own test fetch_deleted_rows_vector.q: delete a row, update another."""
    engine.run(
        """
        CREATE DATABASE w;
        CREATE TABLE w.t1 (a INT, b VARCHAR(128)) STORED AS ORC TBLPROPERTIES ('transactional'='true');
        INSERT INTO w.t1(a, b) VALUES (1, 'one'), (2, 'two');
        DELETE FROM w.t1 WHERE a = 1;
        INSERT INTO w.t1(a, b) VALUES (3, 'three'), (4, 'four');
        UPDATE w.t1 SET b = 'updated' WHERE a = 3
        """
    )
    shown = "SELECT t1.ROW__IS__DELETED, ROW__ID.writeid, * FROM w.t1('acid.fetch.deleted.rows'='true') ORDER BY a, b"
    every = [
        [True, 2, 1, "one"],
        [False, 1, 2, "two"],
        [True, 4, 3, "three"],
        [False, 4, 3, "updated"],
        [False, 3, 4, "four"],
    ]
    assert engine.query(shown).rows == every
    live = [row for row in every if not row[0]]
    assert engine.query("SELECT ROW__IS__DELETED, ROW__ID.writeid, * FROM w.t1 ORDER BY a, b").rows == live
    both = "SELECT count(*), (SELECT count(*) FROM w.t1('acid.fetch.deleted.rows'='true')) FROM w.t1"
    assert engine.query(both).rows == [[3, 5]]
    engine.run("ALTER TABLE w.t1 SET TBLPROPERTIES ('acid.fetch.deleted.rows'='true')")
    assert engine.query("SELECT * FROM w.t1 ORDER BY a, b").rows == [row[2:] for row in every]
    off = "SELECT * FROM w.t1('acid.fetch.deleted.rows'='false') ORDER BY a, b"
    assert engine.query(off).rows == [row[2:] for row in live]
    # The property is for queries: a deleted row is not changed again.
    assert [r.updated for r in engine.run("UPDATE w.t1 SET b = 'again'")] == [3]
    with pytest.raises(UnsupportedStatementError, match="to 'true' or 'false'"):
        engine.query("SELECT * FROM w.t1('acid.fetch.deleted.rows'='maybe')")
