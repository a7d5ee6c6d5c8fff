"""Commands that need no Spark, on each database."""

import json
from pathlib import Path

import pytest
from sqlalchemy import update
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.errors import MetastoreUnavailableError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.setup.schema import HIVE_ACID_LOCK_OBJECT, HIVE_ACID_VERSION, HIVE_ACID_WRITE_SET, TXNS
from airflow_hive_acid.metastore.txns.jobs import JobState


@pytest.fixture
def job(client):
    """A job of an open txn on the table w.t."""
    txn_id = client.open_txn()
    return client.jobs.start(
        job_id="j1", txn_id=txn_id, table="w.t", write_id=1, statement=0, kind="insert", table_location="s3a://w/t",
        staging="s3a://w/t/_tmp_j1",
    )  # fmt: skip


@pytest.fixture
def call(metastore_url):
    return lambda *arguments: CliRunner().invoke(app, ["--metastore-url", metastore_url, *arguments])


@pytest.mark.every_database
def test_what_goes_on_is_shown(call, client):
    with client.begin({"w.t": "insert"}, agent_info="the test") as txn:
        locks = call("show", "locks", "--format", "json")
        table = call("show", "transactions")
    assert [(r["database"], r["table"], r["lock_type"], r["agent_info"]) for r in json.loads(locks.stdout)] == [
        ("w", "t", "SHARED_WRITE", "the test")
    ]
    assert str(txn.txn_id) in table.stdout.splitlines()[2]
    assert table.stdout.endswith("(1 row)\n")
    assert call("show", "compactions", "--format", "json").stdout == "[]\n"


def test_what_is_shown_can_be_chosen(call, client):
    for table in ("w.a", "w.b", "v.c"):
        client.compactions.enqueue(table)
    client.begin({"w.a": "insert", "v.c": "insert"})

    def tables(*arguments):
        done = call("show", *arguments, "--format", "json")
        assert done.exit_code == 0, done.output
        return [row.get("tabname", row.get("table")) for row in json.loads(done.stdout)]

    assert sorted(tables("compactions", "w")) == ["a", "b"]
    assert tables("compactions", "w.b") == ["b"]
    assert tables("compactions", "--order", "tabname desc", "--limit", "2") == ["c", "b"]
    assert tables("compactions", "--state", "initiated", "--type", "major", "v") == ["c"]
    assert tables("compactions", "--state", "succeeded") == []
    assert sorted(tables("locks")) == ["a", "c"]
    assert tables("locks", "v.c") == ["c"]
    assert tables("locks", "v.c", "--partition", "p=1") == []
    csv = call("show", "locks", "v", "--format", "csv").stdout.splitlines()
    assert csv[0].startswith("lockid,database,table,partition,lock_state,blocked_by,lock_type,transaction_id")
    assert len(csv) == 2
    assert call("show", "transactions", "--limit", "0").stdout.endswith("(0 rows)\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["compactions", "--type", "majr"], "did you mean 'major'?"),
        (["compactions", "--order", "nope"], "'nope' is no column of compactions"),
        (["compactions", "--order", "id sideways"], "give a column"),
        (["locks", "w", "--partition", "p=1"], "name its table"),
    ],
)
def test_what_cannot_be_chosen_is_named(call, arguments, text):
    done = call("show", *arguments)
    assert text in str(done.exception)


def test_nothing_about_a_table_that_is_not_there_is_said_to_be_so(call, client):
    """No locks on a misspelt table is no good news; what is left of a dropped one is shown all the same."""
    client.compactions.enqueue("w.gone")
    for verb in (("show", "locks"), ("show", "compactions"), ("cleaning", "explain")):
        done = call(*verb, "w.gone", "--format", "json")
        assert (done.exit_code, "note: there is no table w.gone" in done.stderr) == (0, True), done.output
        assert "note: there is no database nope" in call(*verb, "nope").stderr
        assert "note" not in call(*verb).stderr
    assert len(json.loads(call("show", "compactions", "w.gone", "--format", "json").stdout)) == 1


def test_a_compaction_that_was_asked_for_is_told_in_a_line_and_as_a_row(call, client, warehouse):
    client.catalog.set_warehouse(warehouse)
    create = "CREATE DATABASE w; CREATE TABLE w.p (a INT) PARTITIONED BY (k STRING) STORED AS ORC;"
    done = call("sql", "-e", f"{create} ALTER TABLE w.p ADD PARTITION (k='a'); "
                "ALTER TABLE w.p PARTITION (k='a') COMPACT 'major'", "--format", "json")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "compaction request 1 for w.p partition k=a is queued" in done.stderr
    assert json.loads(done.stdout)[0]["compactionid"] == 1
    again = call("sql", "-e", "ALTER TABLE w.p PARTITION (k='a') COMPACT 'minor'", "--format", "json")
    assert again.exit_code == 0
    assert "w.p partition k=a: Compaction is already scheduled with state='initiated' and id=1" in again.stderr
    alone = call("sql", "-e", "ALTER TABLE w.p COMPACT 'minor'", "--format", "json")
    (row,) = json.loads(alone.stdout)
    assert (row["partname"], row["compactionid"], row["accepted"]) == ("k=a", 1, False)
    assert row["reason"]


@pytest.mark.every_database
@pytest.mark.rule("R14")
def test_script_with_a_key_is_applied_once(call, client, warehouse):
    client.catalog.set_warehouse(warehouse)
    script = "CREATE DATABASE shop; DROP DATABASE shop; CREATE DATABASE shop"
    first = call("sql", "--once", "2026-11-22", "-e", script)
    again = call("sql", "--once", "2026-11-22", "-e", script)
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert "was applied by an earlier try" in again.stderr
    assert call("sql", "--once", "another", "-e", script).exit_code == 1
    assert call("sql", "--once", " ", "-e", script).exit_code == 1


@pytest.mark.parametrize("service", ["initiator", "worker", "cleaner", "reaper", "history-purge"])
def test_maintenance_looks_once(call, service):
    done = call("maintenance", service, "--once")
    assert (done.exit_code, done.stdout) == (0, ""), done.output


@pytest.mark.setting("hive.compactor.worker.threads")
def test_with_no_worker_threads_the_worker_of_the_command_line_compacts_nothing(call, client):
    client.compactions.enqueue("v.a")
    for options in ((), ("--once",)):
        done = call("--set", "hive.compactor.worker.threads=0", "maintenance", "worker", *options)
        assert (done.exit_code, done.stdout) == (0, ""), done.output
        assert "hive.compactor.worker.threads is 0: no compaction is run here" in done.stderr
    assert [request.state.text for request in client.compactions.active()] == ["initiated"]


@pytest.mark.setting("hive.timedout.txn.reaper.start", "hive.timedout.txn.reaper.interval")
def test_the_reaper_waits_before_its_first_look_and_once_does_not(call, monkeypatch):
    waits = []

    class Waiting:
        def wait(self, seconds):
            waits.append(seconds)
            if len(waits) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr("airflow_hive_acid.cli.commands.upkeep.maintenance.threading.Event", Waiting)
    settings = ("--set", "hive.timedout.txn.reaper.start=7s", "--set", "hive.timedout.txn.reaper.interval=9s")
    done = call(*settings, "maintenance", "reaper")
    assert waits == [7, 9]
    assert "reaper: the first look is in 7 s" in done.stderr
    assert "reaper stopped" in done.stderr
    done = call(*settings, "maintenance", "reaper", "--once")
    assert "the first look" not in done.stderr
    assert waits == [7, 9]


def test_schema_is_checked(call):
    done = call("schema", "check")
    assert done.exit_code == 0
    assert "Hive schema 4.1.0, our tables version 11" in done.stderr


@pytest.mark.every_database
def test_schema_of_an_older_version_is_upgraded(call, client):
    with client.database.transaction() as connection:
        HIVE_ACID_LOCK_OBJECT.drop(connection)
        HIVE_ACID_WRITE_SET.drop(connection)
        connection.execute(update(HIVE_ACID_VERSION).values(HAV_VERSION=1))
    done = call("schema", "check")
    assert done.exit_code == 1
    assert "our tables version 1, an older one: run 'hive-acid schema upgrade'" in done.stderr
    done = call("schema", "upgrade")
    assert done.exit_code == 0
    assert "our tables were version 1, are version 11: index HIVE_ACID_LOCK_OBJECT on HIVE_LOCKS" in done.stderr
    done = call("schema", "upgrade")
    assert done.exit_code == 0
    assert "are version 11: nothing to do" in done.stderr
    assert call("schema", "check").exit_code == 0


@pytest.mark.rule("R4")
def test_a_job_is_marked_as_fenced_only_when_a_person_says_that_it_is_dead(metastore_url, client, job):
    def mark(*options, said=""):
        arguments = ["--metastore-url", metastore_url, "maintenance", "mark-fenced", *options]
        return CliRunner().invoke(app, arguments, input=said)

    alive = mark("j1", "--yes")
    assert alive.exit_code == 1
    assert f"txn {job.txn_id} of job j1 is open, and its last heartbeat was" in str(alive.exception)
    assert client.jobs.get("j1").state is JobState.RUNNING
    with client.database.transaction() as connection:
        connection.execute(update(TXNS).values(TXN_LAST_HEARTBEAT=1))
    refused = mark("j1", said="n\n")
    assert refused.exit_code == 1
    assert "These must be dead" in refused.output
    assert "look for one that writes to s3a://w/t/_tmp_j1" in refused.output
    assert client.jobs.get("j1").state is JobState.RUNNING
    assert mark("j1", said="y\n").exit_code == 0
    assert client.jobs.get("j1").state is JobState.FENCED
    assert "Is all of that dead?" not in mark("j1").output
    assert "no job j2 is recorded" in str(mark("j2", "--yes").exception)


def test_a_committed_job_cannot_be_fenced(call, client, job):
    client.commit_txn(job.txn_id)
    assert "is committed; there is nothing to fence" in str(call("maintenance", "mark-fenced", "j1", "--yes").exception)


def test_the_catalog_is_shown(call, client, tmp_path):
    client.catalog.set_warehouse(tmp_path.as_uri())
    client.catalog.create_database("shop")
    for name in ("items", "sales"):
        call("sql", "-e", f"CREATE TABLE shop.{name} (id INT) PARTITIONED BY (day INT)")
    client.catalog.add_partitions("shop.sales", ["day=2", "day=10"])
    assert "shop" in call("show", "databases").stdout
    assert "items" not in call("tables", "shop", "--like", "s*").stdout
    assert "sales" in call("tables", "shop", "--like", "s*").stdout
    assert "(0 rows)" in call("tables", "shop", "--views").stdout
    assert "PARTITIONED BY" in call("describe", "shop.sales", "--create").stdout
    assert "[2]" in call("describe", "shop.sales", "--partition", "day=2", "--formatted").stdout
    assert "day=10" not in call("show", "partitions", "shop.sales", "--where", "day < 5").stdout
    assert "day=2" in call("show", "partitions", "shop.sales", "--where", "day < 5").stdout
    refused = call("show", "partitions", "shop.sales", "--where", "day < 5 LIMIT 1")
    assert "is no condition" in str(refused.exception)
    refused = call("describe", "shop.sales", "--create", "--formatted")
    assert "leave the other options out" in str(refused.exception)


def test_a_shell_completes_names(client, metastore_url, tmp_path):
    client.catalog.set_warehouse(tmp_path.as_uri())
    client.catalog.create_database("shop")
    client.catalog.create_table(TableDefinition("shop", "items", (Column("id", "int"),)))

    def completed(words):
        names = ("_HIVE_ACID_COMPLETE", "COMP_WORDS", "COMP_CWORD", "HIVE_ACID_METASTORE_URL")
        values = ("complete_bash", f"hive-acid {words}", str(len(f"{words}x".split())), metastore_url)
        return (
            CliRunner().invoke(app, [], prog_name="hive-acid", env=dict(zip(names, values, strict=True))).stdout.split()
        )

    assert completed("tables sh") == ["shop"]
    assert "shop." in completed("describe ")
    assert completed("describe shop.") == ["shop.items"]
    assert completed("show partitions shop.i") == ["shop.items"]
    assert completed("describe nowhere.") == []


@pytest.mark.parametrize(
    "words",
    [
        "show locks", "show locks w.t", "show transactions", "show compactions", "show waits", "show databases",
        "tables", "describe w.t", "history w.t", "changes w.t --from 1", "lease list", "pin list", "stream show",
        "mirror list",
        "cleaning explain", "cleaning trash", "compaction plan", "compaction metrics", "compaction explain w.t",
        "compaction cancel 1",
    ],
)  # fmt: skip
@pytest.mark.backends("sqlite")
def test_looking_makes_no_metastore_at_a_misspelt_address(tmp_path, words):
    """An empty answer of a metastore that was just made is no good news."""
    path = tmp_path / "misspelt.db"
    done = CliRunner().invoke(app, ["--metastore-url", f"sqlite:///{path}", *words.split()])
    assert isinstance(done.exception, MetastoreUnavailableError), done.output
    assert "misspelt.db refuses the connection (unable to open database file); check path" in str(done.exception)
    assert done.stdout == ""
    assert not path.exists()


def test_completing_a_name_makes_no_metastore(tmp_path):
    environment = {"_HIVE_ACID_COMPLETE": "complete_bash", "COMP_WORDS": "hive-acid tables ", "COMP_CWORD": "2"}
    result = CliRunner().invoke(
        app, [], prog_name="hive-acid", env={**environment, "HIVE_ACID_HOME": str(tmp_path / "none")}
    )
    assert result.stdout.split() == []
    assert not (tmp_path / "none").exists()


def test_the_doctor_names_exports_that_have_not_ended(call, client, tmp_path):
    client.catalog.set_warehouse((tmp_path / "wh").as_uri())
    dumps = tmp_path / "dumps"
    (dumps / "_tmp_export-1234-5678").mkdir(parents=True)  # beside its dump
    (dumps / "in_place").mkdir()  # on an object store
    (dumps / "in_place" / "_BEGUN").write_text("{}")
    (dumps / "whole").mkdir()
    (dumps / "whole" / "_COMPLETE").write_text("{}")
    site = tmp_path / "hive-site.xml"  # a metastore that is shared is asked for Hive's time-out, too
    timeout = client.settings.milliseconds("hive.txn.timeout")
    site.write_text(
        f"<configuration><property><name>hive.txn.timeout</name><value>{timeout}ms</value></property></configuration>"
    )
    doctor = ("--hive-site", str(site), "doctor")
    found = call(*doctor, "--dumps", dumps.as_uri(), "--format", "json")
    assert found.exit_code == 3
    assert sorted(Path(finding["place"]).name for finding in json.loads(found.stdout)) == [
        "_tmp_export-1234-5678", "in_place",
    ]  # fmt: skip
    assert call(*doctor).exit_code == 0


def test_looking_around_makes_no_metastore(tmp_path):
    url = f"sqlite:///{tmp_path}/mistyped.db"
    for command in (["tables"], ["describe", "a.b"], ["show", "databases"], ["show", "partitions", "a.b"]):
        result = CliRunner().invoke(app, ["--metastore-url", url, *command])
        assert "mistyped.db" in str(result.exception)
        assert list(tmp_path.iterdir()) == []
