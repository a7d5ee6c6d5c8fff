"""``hive-acid`` as users and scripts call it: a process of its own, standard output, exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "hive-acid"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory of its own, so that nothing of the user's is touched."""
    monkeypatch.setenv("HIVE_ACID_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HIVE_ACID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HIVE_ACID_SPARK_MASTER", "local[2]")
    for name in ("HIVE_ACID_METASTORE_URL", "HIVE_ACID_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def call(*arguments, stdin=None, **environment):
    return subprocess.run(
        [str(PROGRAM), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | environment,
        check=False,
    )


@pytest.fixture
def verb(metastore_url, tmp_path, home):
    """Runs a verb that must end well, on a server."""
    environment = {"HIVE_ACID_METASTORE_URL": metastore_url, "HIVE_ACID_WAREHOUSE": str(tmp_path / "w")}

    def run(*arguments):
        done = call(*arguments, **environment)
        assert done.returncode == 0, (arguments, done.stderr)
        return done

    return run


@pytest.mark.backends("postgresql", "mariadb")  # the demo is the same on SQLite
@pytest.mark.spark
@pytest.mark.story("a script on a server")
def test_script_of_a_file_on_a_server(metastore_url, tmp_path, home):
    """The rows of the last SELECT, and nothing else, go to standard output; the URL comes from the environment."""
    data = tmp_path / "rows.csv"
    data.write_text("id,price\n1,1.50\n2,\n")
    script = tmp_path / "script.sql"
    script.write_text(
        """
        CREATE DATABASE shop;
        CREATE TABLE shop.items (id INT, price DECIMAL(10,2), name STRING) PARTITIONED BY (kind STRING)
          STORED AS ORC TBLPROPERTIES ('transactional'='true');
        CREATE TEMPORARY VIEW v (id INT, price DECIMAL(10,2)) USING csv OPTIONS (path '<data>', header 'true');
        INSERT INTO shop.items PARTITION (kind='a') SELECT id, price, 'naïve' FROM v;
        SELECT 'not the last one';
        UPDATE shop.items SET price = 9 WHERE id = 2 AND kind = 'a';
        SELECT id, price, name, kind FROM shop.items ORDER BY id;
        """.replace("<data>", str(data))
    )
    done = call(
        "--warehouse", str(tmp_path / "w"), "sql", "-f", str(script), "--format", "json",
        HIVE_ACID_METASTORE_URL=metastore_url,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {"id": 1, "price": 1.5, "name": "naïve", "kind": "a"},
        {"id": 2, "price": 9.0, "name": "naïve", "kind": "a"},
    ]
    assert "insert: 2 inserted" in done.stderr
    assert (tmp_path / "w" / "shop.db" / "items" / "kind=a" / "delta_0000001_0000001_0000").is_dir()
    assert not home.exists()


@pytest.mark.instead("postgresql")
def test_each_verb_is_a_process_that_works_on_a_server(verb, tmp_path):
    """No Spark: DDL and what looks at the metastore. Every one that prints rows does so as JSON and as CSV, too."""
    assert "is ready; warehouse file:" in verb("schema", "create").stderr
    made = verb(
        "sql", "--format", "json", "-e",
        "CREATE DATABASE w; CREATE TABLE w.t (id INT) PARTITIONED BY (p INT) STORED AS ORC; "
        "ALTER TABLE w.t ADD PARTITION (p = 1); ALTER TABLE w.t PARTITION (p = 1) COMPACT 'minor'; "
        "SHOW COMPACTIONS w.t",
    )  # fmt: skip
    assert [(row["partname"], row["state"]) for row in json.loads(made.stdout)] == [("p=1", "initiated")]
    locks = json.loads(verb("explain", "--locks", "DELETE FROM w.t WHERE p = 1", "--format", "json").stdout)
    assert [row["Explain"] for row in locks] == ["LOCK INFORMATION:", "w.t -> SHARED_WRITE"]
    assert verb("show", "compactions", "--format", "csv").stdout.startswith("compactionid,")
    site = tmp_path / "hive-site.xml"  # on a server the doctor asks for Hive's time-outs
    site.write_text("<configuration/>")
    assert verb("--hive-site", str(site), "doctor", "--format", "json").stdout == "[]\n"
    assert verb("maintenance", "cleaner", "--once").stdout == ""


@pytest.mark.repeats("the other verbs, which tests/integration/cli calls in its own process")
@pytest.mark.instead("postgresql")
def test_the_other_verbs_are_processes_too(verb, tmp_path):
    assert "nothing to do" in verb("schema", "upgrade").stderr
    assert "Hive schema 4.1.0" in verb("schema", "check").stderr
    verb("sql", "-e", "CREATE DATABASE w; CREATE TABLE w.t (id INT) PARTITIONED BY (p INT) STORED AS ORC")
    verb("sql", "-e", "ALTER TABLE w.t ADD PARTITION (p = 1)")
    explained = verb("explain", "DELETE FROM w.t WHERE p = 1").stdout
    assert "partitions: 1 of 1" in explained
    assert "1 Spark job" in explained
    for what, columns in (("locks", "lockid,"), ("transactions", "txnid,")):
        assert verb("show", what, "--format", "csv").stdout.startswith(columns)
    assert "hive.txn.timeout" in verb("settings", "--format", "csv").stdout


@pytest.mark.spark
@pytest.mark.story("hive-acid demo")
def test_demo_starts_with_nothing_and_leaves_nothing(home, tmp_path, monkeypatch):
    """Its own metastore, whatever the environment says; Spark on this machine."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = call("demo", "--format", "csv", HIVE_ACID_METASTORE_URL="postgresql://nobody@127.0.0.1:1/other")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        "id,name,price,kind\n1,tea,3.85,drink\n2,jam,4.20,food\n4,salt,0.90,food\n5,water,1.00,drink\n"
    )
    assert done.stdout.count(",succeeded,") == 2
    assert "These are the rows that the demo should leave." in done.stderr
    assert not home.exists()
    assert list(tmp_path.glob("hive-acid-demo-*")) == []


@pytest.mark.spark
@pytest.mark.story("an archive of Spark's classes")
def test_a_local_spark_takes_its_classes_from_the_archive(home, tmp_path, monkeypatch):
    """Also beside Java options of the user's own; what it answers is the same without."""
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)  # the tests have an archive of their own there
    loaded = tmp_path / "loaded"
    log = f"spark.driver.extraJavaOptions=-Xlog:class+load:file={loaded}"

    def classes_of_the_archive():
        done = call("--spark-conf", log, "sql", "--format", "csv", "-e", "SELECT 1 + 1 AS n")
        assert (done.returncode, done.stdout) == (0, "n\n2\n"), done.stderr
        lines = loaded.read_text().splitlines()
        return sum("shared objects file (top)" in line for line in lines if "org.apache.spark" in line)

    assert classes_of_the_archive() == 0
    made = call("spark", "archive")
    assert made.returncode == 0, made.stderr
    assert classes_of_the_archive() > 1_000
    assert call("spark", "archive", "--remove").returncode == 0
    assert classes_of_the_archive() == 0


def test_demo_takes_no_directory_with_files_in_it(home, tmp_path):
    (tmp_path / "mine").touch()
    done = call("demo", "--directory", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not empty" in done.stderr


def test_embedded_metastore_is_made_at_the_first_use(home):
    first = call("sql", "-e", "CREATE DATABASE w; SHOW COMPACTIONS", "--format", "csv")
    assert first.returncode == 0, first.stderr
    assert f"sqlite:///{home}/metastore.db is ready; warehouse file:{home}/warehouse" in first.stderr
    assert first.stdout.startswith("compactionid,dbname,tabname,")
    second = call("sql", "-f", "-", "--format", "json", stdin="SHOW TRANSACTIONS;")
    assert (second.returncode, second.stdout) == (0, "[]\n")
    assert "is ready" not in second.stderr
    assert (home / "warehouse" / "w.db").is_dir()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("SELECT a FORM b WHERE", "FORM"),
        pytest.param("SELECT * FROM w.nowhere", "nowhere", marks=pytest.mark.repeats("another error")),
    ],
)
def test_statement_that_cannot_run_is_told_and_ends_with_1(home, script, message):
    done = call("sql", "-e", script)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_command_line_ends_with_2(home):
    done = call("sql", "-e", "SELECT 1", "--format", "xml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "xml" in done.stderr


def test_missing_java_is_named_with_its_remedy(home):
    done = call("sql", "-e", "CREATE DATABASE w; SELECT 1", JAVA_HOME="/nowhere")
    assert done.returncode == 1
    assert "JAVA_HOME is /nowhere" in done.stderr
    assert "apt-get install openjdk-17" in done.stderr
    assert not (home / "warehouse" / "w.db").exists()


def test_unreachable_metastore_is_named_without_its_password(home):
    done = call("--metastore-url", "postgresql://user:secret@127.0.0.1:1/db", "show", "locks")
    assert done.returncode == 1
    assert "127.0.0.1" in done.stderr
    assert "secret" not in done.stderr
