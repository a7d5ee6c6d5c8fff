"""Two MERGEs that only insert, at the same time (hive.txn.xlock.mergeinsert)."""

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.settings import Settings, Source

MERGES = {
    "w.t": "MERGE INTO w.t USING w.p s ON t.a = s.a WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.k)",
    "w.p": "MERGE INTO w.p USING w.t s ON p.a = s.a WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)",
}


def unguarded(client, fake, warehouse):
    settings = Settings({Source.REQUEST: {"hive.txn.xlock.mergeinsert": "false"}})
    return Engine(client, fake, warehouse, settings=settings, agent_info="unguarded")


@pytest.mark.parametrize("table", MERGES)
def test_the_second_of_two_inserting_merges_conflicts(engine, other, fake, table):
    """Both would insert the row that both missed.

    t1  A: MERGE begins, its job runs
    t2                              B: the same MERGE, commits
    t3  A: commits: refused
    """
    other.fake.partitions = fake.partitions = [("x",)]
    fake.meanwhile = lambda spec: other.run(MERGES[table]) and None
    with pytest.raises(WriteConflictError, match=table.replace(".", r"[./]")):
        engine.run(MERGES[table])


def test_without_the_guard_both_commit_as_in_hive(engine, client, other, fake, warehouse):
    with unguarded(client, fake, warehouse) as first, unguarded(client, other.fake, warehouse) as second:
        fake.meanwhile = lambda spec: second.run(MERGES["w.t"]) and None
        (result,) = first.run(MERGES["w.t"])
    assert result.write_ids == {"w.t": 1}
