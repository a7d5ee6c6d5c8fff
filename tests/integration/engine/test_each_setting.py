"""Settings that no other test changes: with another value, something else is done."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from airflow_hive_acid.cli.session import CliSession
from airflow_hive_acid.dag_factories.replication import _RULE as REPLICATION
from airflow_hive_acid.dag_factories.schedules import timetable
from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.applications.service import WithService
from airflow_hive_acid.engine.streams.service import StreamService
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.engine.transactions.shared import why_it_must_end
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.streams import StreamOptions, open_question
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.hooks.tasks import patience
from airflow_hive_acid.maintenance import run_initiator, run_reaper
from airflow_hive_acid.maintenance.cleaner.readiness import workers_wanted
from airflow_hive_acid.maintenance.measures.health import read_health
from airflow_hive_acid.metastore.protocol.handover import hand_over
from airflow_hive_acid.metastore.records.shared_rules import SharedState, SharedTxn
from airflow_hive_acid.metastore.schema.claims import HIVE_ACID_CLAIM
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, TXN_COMPONENTS, TXNS
from airflow_hive_acid.metastore.schema.streams import HIVE_ACID_STREAM
from airflow_hive_acid.replication.cycles import cycle as cycles
from airflow_hive_acid.replication.dumps import copiers
from airflow_hive_acid.replication.dumps.copies import CopyReport, FileCopy
from airflow_hive_acid.settings import Settings, Source
from airflow_hive_acid.spark.conf import RANGE_BYTES_KEY

pytestmark = pytest.mark.backends("sqlite")

setting = pytest.mark.setting
ONCE = Once(("airflow", "dag", "run", "task", "-1"), life="0")


def given(**values):
    """Settings by key, with ``__`` for a dot."""
    return Settings({Source.CONNECTION: {key.replace("__", "."): str(value) for key, value in values.items()}})


@pytest.fixture
def with_settings(client):
    """Gives the client other settings."""

    def change(**values):
        client.settings = given(**values)
        return client

    return change


@setting("hive.acid.handover.grace")
@pytest.mark.parametrize(("value", "seconds"), [("300s", 300), ("20s", 20)])
def test_a_txn_that_is_handed_over_lives_without_heartbeats_for_the_grace(with_settings, value, seconds):
    client = with_settings(hive__acid__handover__grace=value)
    txn_id = client.open_txn()
    beat = sa.select(TXNS.c.TXN_LAST_HEARTBEAT).where(TXNS.c.TXN_ID == txn_id)
    opened = client.database.read(lambda c: c.scalar(beat))
    hand_over(client, txn_id)
    alive = client.database.read(lambda c: c.scalar(beat))
    assert (alive - opened) / 1000 == pytest.approx(seconds, abs=10)


@setting("hive.acid.lock.defer.after")
def test_a_task_waits_itself_for_as_long_as_the_setting_says():
    assert patience(given(hive__acid__lock__defer__after="77s"), None).seconds == 77
    assert patience(Settings(), {"tried": 3}).seconds == 5


@setting("hive.acid.claim.retention")
def test_claims_are_forgotten_at_the_age_of_the_setting(engine, with_settings):
    engine.run("INSERT INTO w.t VALUES (1, 'a')", once=ONCE)
    client, days = with_settings(), 86_400_000
    client.database.run(
        lambda c: c.execute(sa.update(HIVE_ACID_CLAIM).values(HAC_UPDATED=HIVE_ACID_CLAIM.c.HAC_UPDATED - 10 * days))
    )
    assert run_reaper(client, AnyFilesystem()).purged["claims"] == 0
    with_settings(hive__acid__claim__retention="9d")
    assert run_reaper(client, AnyFilesystem()).purged["claims"] == 1


@setting("hive.acid.shared.txn.max.age", "hive.acid.shared.txn.max.held.bytes")
def test_a_transaction_across_tasks_gets_the_limits_of_the_settings(client, fake, warehouse, engine):
    limits = []
    for number, values in enumerate(
        ({}, {"hive__acid__shared__txn__max__age": "1h", "hive__acid__shared__txn__max__held__bytes": 77})
    ):
        with Engine(client, fake, warehouse, settings=given(**values)) as own:
            begun = own.begin_shared({"w.t": "insert"}, dataclasses.replace(ONCE, life=str(number)))
        limits.append((round((begun.until - begun.begun) / 1000), begun.most_bytes))
    assert limits == [(86_400, None), (3_600, 77)]


@setting("hive.acid.shared.txn.keeper.timeout")
def test_a_keeper_may_be_silent_for_as_long_as_the_setting_says():
    txn = SharedTxn(
        5, ONCE.scope, "airflow", SharedState.OPEN, None, None, {}, {}, {}, None, begun=0, until=10**9,
        most_bytes=None, kept=1_000, now=61_000,
    )  # fmt: skip
    assert why_it_must_end(SimpleNamespace(settings=Settings()), txn) is None
    short = SimpleNamespace(settings=given(hive__acid__shared__txn__keeper__timeout="30s"))
    assert "(60 s; hive.acid.shared.txn.keeper.timeout)" in (why_it_must_end(short, txn) or "")


class _Question:
    """A streaming application that opens its stream, and then is gone."""

    def __init__(self, question):
        self.questions, self.answers = [question, {"ask": "close"}], []

    def next(self):
        return self.questions.pop(0)

    def answer(self, document):
        self.answers.append(document)


@setting("hive.acid.stream.owner.timeout")
def test_a_stream_whose_process_is_silent_is_taken_over_after_the_time_of_the_setting(engine, client):
    client.streams.open("tills", "w.t", "s3://checkpoint", "another", table_id=1, silent_ms=1)
    client.database.run(
        lambda c: c.execute(sa.update(HIVE_ACID_STREAM).values(HSR_BEAT=HIVE_ACID_STREAM.c.HSR_BEAT - 20_000))
    )
    question = open_question(StreamOptions("tills", "w.t", "s3://checkpoint"))
    patient, hasty = _Question(dict(question)), _Question(dict(question))
    StreamService(client, patient, Settings(), "a test").serve()
    assert "another" in str(patient.answers[0])
    StreamService(client, hasty, given(hive__acid__stream__owner__timeout="10s"), "a test").serve()
    assert hasty.answers[0]["is"] == "opened"


@setting("hive.acid.batch.transactions")
@pytest.mark.parametrize(("values", "number"), [({}, 100), ({"hive__acid__batch__transactions": 7}, 7)])
def test_a_batch_opens_as_many_txns_as_the_setting_says(client, fake, warehouse, engine, values, number):
    with Engine(client, fake, warehouse, settings=given(**values)) as own:
        assert own.batch("w.t")._size == number


@setting("hive.txn.retrysnapshot.max.count")
@pytest.mark.parametrize(("most", "requests"), [(0, 1), (2, 3)])
def test_locks_are_asked_for_again_as_often_as_the_setting_says(client, fake, warehouse, engine, most, requests):
    """Each time that they are granted, others have added a partition that is read."""
    asked = []
    with Engine(client, fake, warehouse, settings=given(hive__txn__retrysnapshot__max__count=most)) as own:
        locking = own._context.locking
        plan = locking.plan

        def planned(wanted, *, whole=False):
            asked.append(whole)
            client.catalog.add_partitions("w.p", [f"k={len(asked)}"])
            return plan(wanted, whole=whole)

        locking.plan = planned
        opened = len(client.show_transactions())
        own.run("INSERT INTO w.t SELECT a, k FROM w.p WHERE k <> 'x'")
    assert len(client.show_transactions()) - opened <= requests
    assert len([txn for txn in client.show_transactions() if txn.state.name == "ABORTED"]) == requests - 1


@setting("hive.compactor.worker.pool.timeout")
def test_any_worker_takes_what_has_waited_in_a_pool_for_the_time_of_the_setting(engine, with_settings):
    client = with_settings()
    client.compactions.enqueue("w.t", pool="etl")
    client.database.run(
        lambda c: c.execute(
            sa.update(COMPACTION_QUEUE).values(CQ_ENQUEUE_TIME=COMPACTION_QUEUE.c.CQ_ENQUEUE_TIME - 3_600_000)
        )
    )
    assert workers_wanted(client, 2, {}) == {None: 0}
    with_settings(hive__compactor__worker__pool__timeout="30m")
    assert workers_wanted(client, 2, {}) == {None: 1}


@setting("hive.compactor.cleaner.run.interval")
@pytest.mark.parametrize(("values", "pause"), [((), 5.0), (("--set", "hive.compactor.cleaner.run.interval=9s"), 9.0)])
def test_the_cleaner_of_the_command_line_pauses_for_the_interval(pauses, values, pause):
    assert pauses("cleaner", *values) == pause


@setting("hive.compactor.history.reaper.interval")
@pytest.mark.parametrize(
    ("values", "pause"), [((), 120.0), (("--set", "hive.compactor.history.reaper.interval=9s"), 9.0)]
)
def test_the_purge_of_the_history_pauses_for_the_interval(pauses, values, pause):
    assert pauses("history-purge", *values) == pause


@pytest.fixture
def pauses(metastore_url, monkeypatch):
    """Runs a service until its first pause; returns how long that is."""
    from typer.testing import CliRunner

    from airflow_hive_acid.cli.main import app

    waits = []

    class Waiting:
        def wait(self, seconds):
            waits.append(seconds)
            raise KeyboardInterrupt

    def run(service, *options):
        monkeypatch.setattr("airflow_hive_acid.cli.commands.upkeep.maintenance.threading.Event", Waiting)
        CliRunner().invoke(app, ["--metastore-url", metastore_url, *options, "maintenance", service])
        return waits[-1]

    return run


@setting("hive.acid.repl.interval")
def test_a_policy_is_looked_at_at_the_interval(monkeypatch):
    before = timetable(REPLICATION)
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_ACID_REPL_INTERVAL", "17m")
    assert _seconds(before) == 300
    assert _seconds(timetable(REPLICATION)) == 17 * 60


def _seconds(found):
    from airflow_hive_acid.airflow_versions import interval_of

    return interval_of(found).total_seconds()


@setting("hive.metastore.acidmetrics.table.aborted.txns.threshold")
@pytest.mark.parametrize(("value", "tables"), [(3, 0), (2, 1)])
def test_a_table_with_more_aborted_txns_than_the_setting_has_many(engine, with_settings, value, tables):
    client = with_settings(hive__metastore__acidmetrics__table__aborted__txns__threshold=value)
    for txn_id in client.open_txns(3):
        row = {"TC_TXNID": txn_id, "TC_DATABASE": "w", "TC_TABLE": "t", "TC_OPERATION_TYPE": "i", "TC_WRITEID": txn_id}
        client.database.run(lambda c, row=row: c.execute(sa.insert(TXN_COMPONENTS).values(row)))
        client.abort_txn(txn_id)
    (found,) = [one for one in read_health(client) if one.name == "tables_with_x_aborted_transactions"]
    assert found.value == tables


@setting("hive.txn.acid.metrics.max.cache.size")
@pytest.mark.parametrize(("value", "told"), [(0, 0), (1, 1), (100, 2)])
def test_so_many_tables_with_many_deltas_are_told_as_the_setting_says(engine, with_settings, value, told):
    client = with_settings(
        hive__txn__acid__metrics__max__cache__size=value, hive__txn__acid__metrics__delta__num__threshold=1
    )
    engine.run("INSERT INTO w.t VALUES (1, 'a'); INSERT INTO w.p PARTITION (k='x') VALUES (1)")
    run_initiator(client, AnyFilesystem())
    assert len([one for one in read_health(client) if one.name == "compaction_num_active_deltas"]) == told


@setting("hive.exec.copyfile.maxsize", "hive.exec.copyfile.maxnumfiles", "hive.repl.parallel.copy.tasks")
@pytest.mark.parametrize(
    ("values", "done"),
    [
        ({}, ("process", 8)),
        ({"hive__repl__parallel__copy__tasks": 3}, ("process", 3)),
        ({"hive__exec__copyfile__maxsize": 5}, ("Spark", 2)),
        ({"hive__exec__copyfile__maxsize": 5, "hive__exec__copyfile__maxnumfiles": 2}, ("process", 8)),
    ],
)
def test_large_copies_of_several_files_run_as_a_job(monkeypatch, values, done):
    """Two files of four bytes."""
    files = [FileCopy(f"file:/s/{name}", f"file:/t/{name}", 4) for name in "ab"]
    how = []

    def by_process(source, target, files, *, threads):
        if files:
            how.append(("process", threads))
        return CopyReport(0, 0, 0, 0.0, {})

    def by_spark(site, target, files):
        how.append(("Spark", len(files)))
        return CopyReport(0, 0, 0, 0.0, {})

    monkeypatch.setattr(copiers, "copy_files", by_process)
    monkeypatch.setattr(copiers, "_by_spark", by_spark)
    site = SimpleNamespace(settings=given(**values), run_job=lambda spec: None)
    copiers.copy(site, AnyFilesystem(), AnyFilesystem(), files)
    assert how == [done]


@setting("hive.acid.repl.event.store.timetolive")
@pytest.mark.parametrize(
    ("values", "age"), [({}, 7 * 86_400), ({"hive__acid__repl__event__store__timetolive": "1h"}, 3_600)]
)
def test_events_leave_a_store_at_the_age_of_the_setting(monkeypatch, values, age):
    purged = []
    store = SimpleNamespace(
        copy_from=lambda *_, **__: None, first_event_id=lambda: 1, register=lambda *_: None,
        purge=lambda *, before: purged.append(before),
    )  # fmt: skip
    state = SimpleNamespace(position=5, seen=None, begins_anew=False)
    monkeypatch.setattr(cycles, "PolicyRecord", lambda *_: SimpleNamespace(read=lambda: state))
    monkeypatch.setattr(cycles, "destination_clock", lambda _: lambda: 10**9 * 1000)
    source = SimpleNamespace(client=SimpleNamespace(notifications=SimpleNamespace(current_event_id=lambda: 5)))
    target = SimpleNamespace(client=SimpleNamespace(database=None), settings=given(**values))
    cycles._fill(store, SimpleNamespace(name="nightly"), source, target)
    assert purged == [10**9 - age]


@setting("hive.acid.spark.accelerator", "hive.acid.job.environment")
def test_jobs_get_the_jar_and_the_variables_of_the_settings(metastore_url, monkeypatch):
    """From the command line and from a connection."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    monkeypatch.setenv("AIRFLOW_CONN_PLAIN", _connection(metastore_url))
    extra = '"hive.acid.spark.accelerator": "off", "hive.acid.job.environment": "MY_TOKEN,AWS_*"'
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", _connection(metastore_url, extra))
    chosen = {"hive.acid.spark.accelerator": "off", "hive.acid.job.environment": "MY_TOKEN,AWS_*"}
    launchers = [CliSession(metastore_url).launcher(), HiveAcidHook("plain").get_launcher()]
    others = [CliSession(metastore_url, hive_settings=chosen).launcher(), HiveAcidHook("other").get_launcher()]
    assert [_asked(one) for one in launchers] == [("auto", ())] * 2
    assert [_asked(one) for one in others] == [("off", ("MY_TOKEN", "AWS_*"))] * 2


@setting("hive.acid.spark.range.bytes")
def test_jobs_are_told_how_many_bytes_are_worth_a_task(metastore_url, monkeypatch):
    """From the command line and from a connection; a Spark setting of the user's counts more."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    monkeypatch.setenv("AIRFLOW_CONN_PLAIN", _connection(metastore_url))
    extra = '"hive.acid.spark.range.bytes": "1000"'
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", _connection(metastore_url, extra))
    chosen = {"hive.acid.spark.range.bytes": "1000"}
    launchers = [CliSession(metastore_url).launcher(), HiveAcidHook("plain").get_launcher()]
    others = [CliSession(metastore_url, hive_settings=chosen).launcher(), HiveAcidHook("other").get_launcher()]
    assert [one.conf.get(RANGE_BYTES_KEY) for one in launchers] == [None] * 2
    assert [one.conf.get(RANGE_BYTES_KEY) for one in others] == ["1000"] * 2
    mine = CliSession(metastore_url, hive_settings=chosen, spark_conf={RANGE_BYTES_KEY: "5"})
    assert mine.launcher().conf[RANGE_BYTES_KEY] == "5"


@setting("hive.acid.spark.service")
def test_statements_go_to_the_service_that_the_setting_names(metastore_url, monkeypatch):
    """From the command line, from a connection, and for one use of it."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    monkeypatch.setenv("AIRFLOW_CONN_PLAIN", _connection(metastore_url))
    extra = '"hive.acid.spark.service": "etl", "warehouse": "/w", "spool": "file:///spool"'
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", _connection(metastore_url, extra))
    assert not isinstance(CliSession(metastore_url).launcher(), WithService)
    assert not isinstance(HiveAcidHook("plain").job_launcher(), WithService)
    cli = CliSession(metastore_url, hive_settings={"hive.acid.spark.service": "etl"}).launcher()
    assert cli.uri.endswith("/services/etl")
    assert HiveAcidHook("other").job_launcher().uri == "file:///spool/services/etl"
    assert HiveAcidHook("other", spark_service="adhoc").job_launcher().uri == "file:///spool/services/adhoc"


def _connection(url, extra=""):
    more = f", {extra}" if extra else ""
    return f'{{"conn_type": "hive_acid", "extra": {{"metastore_url": "{url}"{more}}}}}'


def _asked(launcher):
    return launcher.accelerator, tuple(launcher.passed_on)


@setting("hive.compactor.initiator.failed.compacts.threshold")
@pytest.mark.parametrize(("value", "kind"), [(1, "GIVEN_UP"), (2, "MAJOR")])
def test_a_table_is_given_up_after_so_many_failures_as_the_setting_says(engine, with_settings, value, kind):
    client = with_settings(
        hive__compactor__initiator__failed__compacts__threshold=value, hive__compactor__delta__num__threshold=1
    )
    engine.run("INSERT INTO w.t VALUES (1, 'a'); INSERT INTO w.t VALUES (2, 'b')")
    client.compactions.enqueue("w.t")
    client.compactions.mark_failed(client.compactions.claim("w"), "a test")
    assert [decision.kind.name for decision in run_initiator(client, AnyFilesystem())] == [kind]


@setting("hive.acid.create.orc.compress")
@pytest.mark.parametrize(("value", "codec"), [("ZLIB", None), ("ZSTD", "ZSTD"), ("SNAPPY", "SNAPPY")])
def test_new_orc_tables_that_say_no_codec_get_that_of_the_setting(client, fake, warehouse, engine, value, codec):
    """The property is in the catalog, where a Hive and later jobs find it; Hive's own default is left out."""
    with Engine(client, fake, warehouse, settings=given(hive__acid__create__orc__compress=value)) as own:
        own.run("CREATE TABLE w.unsaid (a INT) STORED AS ORC")
        own.run("CREATE TABLE w.alike LIKE w.unsaid")
        own.run("CREATE TABLE w.said (a INT) STORED AS ORC TBLPROPERTIES ('ORC.Compress' = 'NONE')")
        own.run("CREATE TABLE w.text (a INT) STORED AS TEXTFILE TBLPROPERTIES ('transactional' = 'false')")
        own.run("CREATE EXTERNAL TABLE w.theirs (a INT) STORED AS ORC")
    tables = {name: client.catalog.get_table(f"w.{name}") for name in ("unsaid", "alike", "said", "text", "theirs")}
    found = {name: table.property("orc.compress") for name, table in tables.items()}
    assert found == {"unsaid": codec, "alike": codec, "said": "NONE", "text": None, "theirs": None}
