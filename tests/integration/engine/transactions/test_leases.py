"""Statements under a lease, and the HiveLease document's SQL."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import LeaseEndedError, SqlSyntaxError
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.schema.leases import HIVE_ACID_LEASE_AUDIT, HIVE_LEASE


@pytest.fixture
def table(engine):
    engine.run("CREATE TABLE w.lt (id int) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    return "w.lt"


def txn_states(client):
    with client.database.reading() as connection:
        return [
            row[0]
            for row in connection.execute(TXNS.select().with_only_columns(TXNS.c.TXN_STATE).order_by(TXNS.c.TXN_ID))
        ]


def take_over(client, spec):
    """The lease ends while a job runs, and somebody else gets it."""
    with client.database.transaction() as connection:
        connection.execute(HIVE_LEASE.update().values(END_UTC=1))


@pytest.mark.every_database
@pytest.mark.rule("R8")
def test_what_is_written_under_a_lease_commits_only_while_it_is_held(engine, fake, client, table):
    lease = client.leases.grab_lease(table, 600, mirror=True)
    engine.run("INSERT INTO w.lt VALUES (1)", lease=lease)
    fake.meanwhile = lambda spec: take_over(client, spec)
    with pytest.raises(LeaseEndedError, match=f"lease {lease.lease_id} on w.lt ended"):
        engine.run("INSERT INTO w.lt VALUES (2)", lease=lease)
    assert txn_states(client)[-2:] == ["c", "a"]
    with pytest.raises(LeaseEndedError):
        engine.begin({table: "insert"}, lease=lease)


@pytest.mark.rule("R6")
def test_ddl_under_a_lease_passes_it(engine, client, table):
    lease = client.leases.grab_lease(table, 600, mirror=True)
    engine.run(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('k'='v'); TRUNCATE TABLE {table}; DROP TABLE {table}", lease=lease
    )
    assert client.leases.confirm_lease(lease)


def test_leases_are_shown_and_dropped_by_force_in_sql(engine, client, table):
    one = client.leases.grab_lease(["w.lt", "w.u/p=1"], 600, user="ann")
    columns = ["user", "lease_id", "db_name", "table_name", "partition_name", "start_utc", "end_utc", "lease_type"]
    (result,) = engine.run("SHOW LEASE")
    assert [c.name for c in result.rows.columns] == columns
    assert [row[:5] + row[7:] for row in result.rows.rows] == [
        ["ann", one.lease_id, "w", "lt", None, "x"],
        ["ann", one.lease_id, "w", "u", "p=1", "x"],
    ]
    assert engine.run("SHOW LEASE w.u PARTITION (p = '1')")[0].rows.rows[0][4] == "p=1"
    assert len(engine.run("DROP FORCE LEASE w.lt COMMENT 'its worker died'")[0].rows.rows) == 1
    assert len(engine.run("DROP FORCE LEASE *")[0].rows.rows) == 1
    assert engine.run("SHOW LEASE *")[0].rows.rows == []
    with client.database.reading() as connection:
        audit = HIVE_ACID_LEASE_AUDIT.c
        found = connection.execute(HIVE_ACID_LEASE_AUDIT.select().with_only_columns(audit.HLA_WHO, audit.HLA_WHY)).all()
    assert [tuple(row) for row in found] == [(client.user, "its worker died"), (client.user, "DROP FORCE LEASE *")]


@pytest.mark.parametrize(
    "text", ["DROP FORCE LEASE", "DROP FORCE", "DROP FORCE TABLE t", "SHOW LEASE * x", "DROP FORCE LEASE t COMMENT ''"]
)
def test_what_is_no_lease_statement_is_refused(engine, text):
    with pytest.raises(SqlSyntaxError):
        engine.run(text)
