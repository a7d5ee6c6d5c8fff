"""One run of a mirror on the control side: when Spark is started, what the job is told, what is noted."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    ChangesNotCompleteError,
    InvalidArgumentsError,
    JobFailedError,
    MirrorDivergedError,
    MirrorKeyError,
    NoSuchObjectError,
)
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.database.codes import TxnState, TxnType
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG
from airflow_hive_acid.mirrors.listing import COLUMNS, list_mirrors
from airflow_hive_acid.mirrors.runner import verify_mirror

from .conftest import TARGET


def insert(engine, table="w.t", rows="(1, 'x')"):
    engine.run(f"INSERT INTO {table} VALUES {rows}")  # noqa: S608 - our own


def test_spark_is_asked_only_when_there_is_something_to_do(engine, job, run, client):
    insert(engine)
    report = run(key=["A"])
    assert (report.todo, report.write_id, report.key, report.spark) == ("bootstrap", 1, ("a",), True)
    for _ in range(2):
        report = run()
        assert (report.todo, report.reason, report.spark) == (
            "nothing", "the target has everything up to write id 1", False,
        )  # fmt: skip
    assert len(job.asked) == 1
    insert(engine)
    job.told = {"todo": "follow", "reason": "write ids 2 to 2", "inserted": 1}
    report = run()
    assert (report.todo, report.told) == ("follow", "write ids 2 to 2: 1 inserted, 0 updated, 0 deleted")
    assert [asked["sequence"] for asked in job.asked] == [0, 1]
    found = client.mirrors.find("w.t", TARGET)
    assert (found.sequence, found.write_id, found.todo, found.reason) == (2, 2, "follow", "write ids 2 to 2")


def test_the_job_is_told_what_a_reader_sees(engine, job, run, client):
    insert(engine)
    txn = client.begin({"w.t": "insert"})
    insert(engine)
    run(key=["a"])
    (asked,) = job.asked
    source = asked["source"]
    assert asked["function"] == "follow"
    assert (source["table"], source["columns"]) == ("w.t", [["a", "int"], ["b", "string"]])
    # Write id 2 is open, so that 3 does not count yet.
    assert (source["write_id"], source["write_ids"]) == (1, "w.t:1:9223372036854775807::")
    assert (asked["target"], asked["key"], asked["again"], asked["refuse"]) == (TARGET, ["a"], False, False)
    assert run().todo == "nothing"
    txn.abort("no")
    assert run().write_id == 3
    assert job.asked[1]["source"]["write_ids"] == "w.t:3:9223372036854775807::2"


def test_partitions_are_told_by_their_ids(engine, job, run, client):
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a') PARTITION (k='b')")
    insert(engine, "w.p PARTITION (k='a')", "(1)")
    run("w.p")
    first = job.asked[0]
    assert set(first["partition_ids"]) == {"k=a", "k=b"}
    assert first["source"]["newest_partition"] == max(first["partition_ids"].values())
    assert first["altered"] == {"k=a": 1, "k=b": 1}
    assert run("w.p").todo == "nothing"
    # No write id tells of it.
    engine.run("ALTER TABLE w.p DROP PARTITION (k='b')")
    run("w.p")
    assert set(job.asked[1]["partition_ids"]) == {"k=a"}
    # Its rows are of an old write id; that it was renamed is of a new one.
    engine.run("ALTER TABLE w.p PARTITION (k='a') RENAME TO PARTITION (k='c')")
    run("w.p")
    assert job.asked[2]["altered"] == {"k=c": 4}


def test_a_rebalance_that_has_not_committed_is_told_with_the_run_that_sees_it(engine, job, run, client):
    """Told too early, its new ids would be those of the next changes, and not of the rows that are in the target."""
    insert(engine)
    client.compactions.enqueue("w.t", type=CompactionType.REBALANCE)
    request = client.compactions.claim("worker")
    txn_id = client.open_txn(type=TxnType.REBALANCE_COMPACTION)
    client.compactions.update_state(request, highest_write_id=1, txn_id=txn_id)
    client.compactions.mark_compacted(request, txn_id)
    run()
    client.commit_txn(txn_id)
    run()
    assert [asked["source"]["rebalanced"] for asked in job.asked] == [0, request.id]


def test_what_a_run_fails_with_is_noted_until_one_succeeds(engine, job, run, client):
    insert(engine)
    job.fail("MirrorKeyError", "two rows of w.t have the key a = 1")
    with pytest.raises(MirrorKeyError, match="the key a = 1"):
        run(key="a")
    (listed,) = list_mirrors(client)
    assert dict(zip([name for name, _ in COLUMNS], listed.to_row(), strict=True))["error"] == (
        "two rows of w.t have the key a = 1"
    )
    assert listed.behind == 1
    job.meanwhile = None
    run(key="a")
    (listed,) = list_mirrors(client, "w.t")
    assert (listed.mirror.error, listed.behind) == (None, 0)
    insert(engine)
    assert list_mirrors(client)[0].behind == 1
    engine.run("DROP TABLE w.t")
    assert list_mirrors(client)[0].behind is None
    with pytest.raises(NoSuchObjectError):
        run()


def test_the_reader_ends_with_the_run(engine, job, run, client):
    insert(engine)
    run()
    job.fail("JobFailedError", "no")
    with pytest.raises(JobFailedError, match="no"):
        run(bootstrap=True)
    assert [t for t in client.show_transactions() if t.state is TxnState.OPEN] == []


def test_a_new_copy_is_asked_for_in_any_case(engine, job, run):
    insert(engine)
    run()
    run(bootstrap=True)
    assert [asked["again"] for asked in job.asked] == [False, True]
    with pytest.raises(InvalidArgumentsError, match="is to be copied again, or is not"):
        run(bootstrap=True, refuse_bootstrap=True)


def test_what_no_release_of_ours_reads_is_asked_of_the_target(engine, job, run, client):
    insert(engine)
    run()
    client.mirrors.note_state("w.t", TARGET, 7, 1, '{"version": 2}', None)
    assert run().spark
    assert job.asked[-1]["sequence"] == 7


@pytest.mark.parametrize(
    ("log", "is_other"), [("has it", False), ("has another", True), ("ends before", True), ("was purged", False)]
)
def test_a_state_that_nobody_has_noted_here_is_looked_for_in_the_log(engine, job, run, client, log, is_other):
    """A run died before it noted it, or the metastore was restored and has given its write ids again."""
    insert(engine)
    run()
    event_id, time = job.asked[0]["event"]
    assert client.notifications.end(event_id) == (event_id + 1, time)  # behind it, the reader has ended
    insert(engine)
    job.unknown = {"has another": [event_id, time - 60], "ends before": [event_id + 1000, time]}.get(
        log, [event_id, time]
    )
    if log == "was purged":
        with client.database.transaction() as connection:
            connection.execute(sa.delete(NOTIFICATION_LOG).where(NOTIFICATION_LOG.c.EVENT_ID <= event_id))
    run()
    asked, again = job.asked[1:]
    assert (asked["known"], "other_log" in asked) == ([event_id, time], False)
    assert again == {**asked, "other_log": is_other}


def test_without_a_log_a_state_has_no_event(engine, job, run, client, monkeypatch):
    insert(engine)
    monkeypatch.setattr(client.notifications, "enabled", lambda _connection: False)
    run()
    assert (job.asked[0]["event"], job.asked[0]["known"]) == (None, None)


def test_what_cannot_be_mirrored_is_refused_before_spark_is_started(engine, job, run, client):
    engine.run("CREATE TABLE w.plain (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    with pytest.raises(InvalidArgumentsError, match="target 'hudi:x' is none"):
        run(target="hudi:x")
    with pytest.raises(InvalidArgumentsError, match="no table name"):
        run("t")
    with pytest.raises(InvalidArgumentsError, match=r"w\.plain is no ACID table"):
        run("w.plain")
    with pytest.raises(NoSuchObjectError):
        run("w.misspelt")
    assert client.mirrors.list() == []
    with client.begin({"w.t": "insert"}), pytest.raises(ChangesNotCompleteError, match="its write id 1 is open"):
        run()
    assert job.asked == []


def test_a_comparison_is_noted(engine, job, run, client):
    insert(engine)
    run()
    assert verify_mirror(client, engine, "w.t", TARGET).is_equal
    different = [{"partition": "", "source_rows": 2, "target_rows": 1}]
    job.told = {"differ": 1, "different": different, "rows": [2, 1]}
    found = verify_mirror(client, engine, "w.t", TARGET)
    assert (found.is_equal, found.source_rows, found.target_rows, found.write_id) == (False, 2, 1, 1)
    assert found.to_document()["different"] == different
    noted = client.mirrors.find("w.t", TARGET)
    assert (noted.differ, noted.different) == (1, tuple(different))
    job.fail("MirrorDivergedError", "the target holds no mirror")
    with pytest.raises(MirrorDivergedError):
        verify_mirror(client, engine, "w.t", TARGET)
