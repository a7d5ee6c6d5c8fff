"""ALTER TABLE … COMPACT: what is asked for, what is left alone, what is refused and with which words."""

import pytest

from airflow_hive_acid.engine.outcomes.events import CompactionAsked
from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError, NoSuchObjectError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance import run_initiator
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.database.codes import TxnType


def insert(engine, table, *partitions):
    for partition in partitions or ("",):
        row = "(1)" if partition else "(1, 'a')"
        engine.run(" ".join(("INSERT INTO", table, partition, "VALUES", row)))


@pytest.mark.conformance("C03")
def test_a_second_request_is_not_made_and_the_answer_has_the_first_ones_id_and_state(engine, client):
    def asked(type_):
        return engine.run(f"ALTER TABLE w.t COMPACT '{type_}'")[0].rows.to_dicts()

    place = {"dbname": "w", "tabname": "t", "partname": None, "compactionid": 1}
    assert asked("major") == [{**place, "type": "MAJOR", "state": "initiated", "accepted": True, "reason": None}]
    already = "Compaction is already scheduled with state='{}' and id=1"
    refused = {**place, "type": "MINOR", "accepted": False}
    assert asked("minor") == [{**refused, "state": "initiated", "reason": already.format("initiated")}]
    client.compactions.claim("w")
    assert asked("minor") == [{**refused, "state": "working", "reason": already.format("working")}]
    assert len(client.compactions.show()) == 1


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            "'compactor.spark.driver.extraJavaOptions'='-Dx'",
            "'compactor.spark.driver.extraJavaOptions' cannot be given",
        ),
        ("'compactor.spark.executor.memory'='plenty'", "it must be a size such as 3g"),
        ("'compactor.mapreduce.map.memory.mb'='3g'", "it must be a whole number"),
        ("'compactor.mapred.job.queue.name'='a queue'", "the queue of a compaction is 'a queue'"),
        ("'compactorthreshold.hive.compactor.delta.num.threshold'='few'", "must be a whole number"),
    ],
)
def test_properties_that_no_worker_would_take_are_refused_when_they_are_asked_for(engine, client, properties, words):
    for where in ("w.t", "w.p"):
        with pytest.raises(InvalidArgumentsError, match=words):
            engine.run(f"ALTER TABLE {where} COMPACT 'major' WITH OVERWRITE TBLPROPERTIES ({properties})")
    if "threshold" not in properties:
        engine.run(f"ALTER TABLE w.t SET TBLPROPERTIES ({properties})")
        with pytest.raises(InvalidArgumentsError, match=words):
            engine.run("ALTER TABLE w.t COMPACT 'major'")
    assert client.compactions.show() == []


def test_one_that_waits_tells_how_it_ended_and_waits_for_a_request_that_was_there(engine, client, monkeypatch):
    def serve(_context, worker, **_how):
        request = client.compactions.claim(worker)
        client.compactions.mark_compacted(request)
        return [request]

    monkeypatch.setattr("airflow_hive_acid.engine.definitions.compactions.run_compactions", serve)
    client.compactions.enqueue("w.t")
    (answer,) = engine.run("ALTER TABLE w.t COMPACT 'major' AND WAIT")[0].rows.to_dicts()
    assert (answer["compactionid"], answer["accepted"], answer["state"]) == (1, False, "ready for cleaning")


def test_a_partitioned_table_is_compacted_where_it_needs_it(engine, client, events):
    """As Hive 4.2: the rules choose partitions and type; the request brings the threshold, the pool and its properties.

    The owner's no_auto_compaction keeps the Initiator away, not a person.
    """
    insert(engine, "w.p", *["PARTITION (k='a')"] * 3, "PARTITION (k='b')")
    engine.run("ALTER TABLE w.p SET TBLPROPERTIES ('NO_AUTO_COMPACTION'='true')")
    assert [d.kind for d in run_initiator(client, AnyFilesystem())] == [Kind.SKIPPED, Kind.SKIPPED]
    statement = (
        "ALTER TABLE w.p COMPACT 'minor' POOL 'night' WITH OVERWRITE TBLPROPERTIES "
        "('compactorthreshold.hive.compactor.delta.num.threshold'='2', 'tblprops.orc.compress.size'='8192')"
    )
    rows = engine.run(statement)[0].rows.to_dicts()
    assert [(r["partname"], r["type"], r["compactionid"], r["state"], r["accepted"], r["reason"]) for r in rows] == [
        ("k=a", "MAJOR", 1, "initiated", True, None), ("k=b", None, None, None, False, "no threshold is reached"),
    ]  # fmt: skip
    (request,) = client.compactions.active()
    assert (request.resource.partition, request.type.name, request.pool) == ("k=a", "MAJOR", "night")
    assert request.properties["tblprops.orc.compress.size"] == "8192"
    assert request.initiator_id.endswith("-manual")
    assert [str(event) for event in events if isinstance(event, CompactionAsked)] == [
        "compaction request 1 for w.p partition k=a is queued", "w.p partition k=b: no threshold is reached",
    ]  # fmt: skip
    events.clear()
    engine.run(statement)
    asked = [str(event) for event in events if isinstance(event, CompactionAsked)]
    assert asked[0] == "w.p partition k=a: request 1 for it is initiated"


@pytest.mark.conformance("C31")
@pytest.mark.parametrize(
    ("statement", "error", "words"),
    [
        ("ALTER TABLE w.p PARTITION (k='x') COMPACT 'major'", NoSuchObjectError, "there is no partition k=x of w.p"),
        ("ALTER TABLE w.t PARTITION (k='x') COMPACT 'major'", InvalidArgumentsError, "w.t has no partitions"),
        ("ALTER TABLE w.p PARTITION (j='x') COMPACT 'major'", InvalidArgumentsError, "j"),
        ("ALTER TABLE w.b COMPACT 'rebalance'", InvalidArgumentsError, "w.b cannot be rebalanced: only full ACID"),
        ("ALTER TABLE w.i COMPACT 'rebalance'", InvalidArgumentsError, "w.i cannot be rebalanced: only full ACID"),
        ("ALTER TABLE w.p CONCATENATE", InvalidArgumentsError, "w.p is partitioned; name the partition to concatenate"),
        ("ALTER TABLE w.e COMPACT 'major'", InvalidArgumentsError, "w.e is not transactional; there is nothing"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_queued(engine, client, statement, error, words):
    engine.run(
        "CREATE TABLE w.b (a INT) CLUSTERED BY (a) INTO 2 BUCKETS STORED AS ORC;"
        "CREATE TABLE w.i (a INT) TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only');"
        "CREATE TABLE w.e (a INT) STORED AS TEXTFILE TBLPROPERTIES ('transactional'='false')"
    )
    with pytest.raises(error, match=words):
        engine.run(statement)
    assert client.compactions.show() == []


def test_waiting_ends_with_the_request_and_says_how(engine, client, fake):
    insert(engine, "w.t")
    insert(engine, "w.t")
    fake.fail("JobFailedError", "the disk is full")
    with pytest.raises(JobFailedError, match=r"compaction 1 of w\.t failed: .*the disk is full"):
        engine.run("ALTER TABLE w.t COMPACT 'major' AND WAIT")


@pytest.mark.conformance("C09")
def test_a_success_by_hand_lets_the_initiator_try_again(engine, client):
    """Two failures in a row: given up. A person asks, that succeeds, and the next write counts again."""
    engine.run("ALTER TABLE w.t SET TBLPROPERTIES ('compactorthreshold.hive.compactor.delta.num.threshold'='1')")

    def write():
        insert(engine, "w.t")
        insert(engine, "w.t")

    def serve(*, fails):
        request = client.compactions.claim("w")
        txn = client.open_txn(type=TxnType.COMPACTION)
        client.compactions.update_state(request, highest_write_id=0, txn_id=txn)
        if fails:
            client.compactions.mark_failed(client.compactions.get(request.id), "a test")
            client.abort_txn(txn)
        else:
            client.compactions.mark_compacted(request)
            client.commit_txn(txn)
            client.compactions.mark_cleaned(client.compactions.get(request.id))

    write()
    for _ in range(2):
        assert run_initiator(client, AnyFilesystem())[0].enqueued
        serve(fails=True)
    assert [d.kind for d in run_initiator(client, AnyFilesystem())] == [Kind.GIVEN_UP]
    engine.run("ALTER TABLE w.t COMPACT 'major'")
    serve(fails=False)
    write()
    assert run_initiator(client, AnyFilesystem())[0].enqueued
