"""The subprocess launcher and its session, against a driver that speaks the spool protocol without Spark."""

import contextlib
import functools
import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from copy import deepcopy
from pathlib import Path

import pytest

from airflow_hive_acid.engine.applications.launcher import SparkSubmitLauncher
from airflow_hive_acid.engine.applications.spool import SpoolSession
from airflow_hive_acid.errors import BadRecordError, ConfigurationError, JobFailedError
from airflow_hive_acid.format.jobs import JobSpec, Select

FAKE = Path(__file__).parent / "fake_driver.py"
CLAIM = "spark.kubernetes.driver.volumes.persistentVolumeClaim.shared"


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    """Makes launchers whose spark-submit is the fake driver and whose private directories are in a known place."""
    program = tmp_path / "spark-submit"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    program.chmod(0o755)
    java = tmp_path / "jre" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))

    def make(**options):
        environment = {"JAVA_HOME": str(tmp_path / "jre"), **options.pop("environment", {})}
        options = {"master": "local[2]", **options}
        return SparkSubmitLauncher(
            program=str(program), log_directory=tmp_path / "logs", environment=environment, **options
        )

    return make


@pytest.fixture
def session(launcher):
    session = launcher().start()
    yield session
    session.close()


def select(query, rows_uri="file:///nowhere", job_id="job-1"):
    return JobSpec(job_id=job_id, step=Select(query, rows_uri))


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_steps_share_one_application(session):
    results = [session.run(select("ok", job_id=f"job-{i}")) for i in range(3)]
    assert [r.job_id for r in results] == ["job-0", "job-1", "job-2"]
    assert session.application_id == "local-1"


def test_second_step_starts_at_once(session):
    session.run(select("ok"))
    started = time.monotonic()
    session.run(select("ok"))
    assert time.monotonic() - started < 0.3


def test_rows_come_back_and_their_file_goes(session):
    uri = session.rows_uri("job-1")
    result = session.run(select("rows 2", uri))
    assert [c.name for c in result.columns] == ["n", "t"]
    assert list(session.read_rows(uri)) == [[0, "x\u2028y"], [1, "x\u2028y"]]
    assert not Path(uri.removeprefix("file://")).exists()


def test_error_of_a_step_keeps_its_class_and_the_session(session):
    with pytest.raises(BadRecordError, match="row 3, column dep_delay"):
        session.run(select("fail BadRecordError f.csv, row 3, column dep_delay"))
    assert session.is_alive
    assert session.run(select("ok")).job_id == "job-1"


def test_error_of_an_unknown_class_is_a_failed_job(session):
    with pytest.raises(JobFailedError, match="AnalysisException: no column"):
        session.run(select("fail AnalysisException no column"))


def test_driver_that_dies_leaves_the_end_of_its_log(session):
    with pytest.raises(JobFailedError, match=r"(?s)code 7 .*OutOfMemoryError.*The whole log: .*\.log"):
        session.run(select("die 7"))
    assert not session.is_alive


def test_driver_killed_by_the_kernel_is_named_by_its_end_not_by_the_broken_connection(session):
    with pytest.raises(JobFailedError, match=r"ended with code -9 .*Connection refused"):
        session.run(select("die-after-answer"))


@pytest.mark.parametrize("query", ["other-job", "unknown-field"])
def test_answer_that_is_not_ours_is_refused(session, query):
    with pytest.raises(JobFailedError, match="job-1"):
        session.run(select(query))


def test_application_that_does_not_start_says_why(launcher):
    session = launcher(environment={"FAKE_START_FAILS": "1"}).start()
    with pytest.raises(JobFailedError, match=r"(?s)code 3 while it started.*no such master"):
        session.run(select("ok"))
    session.close()


def test_application_that_is_never_ready_is_stopped(launcher):
    session = launcher(environment={"FAKE_NEVER_READY": "1"}, start_seconds=0.2).start()
    with pytest.raises(JobFailedError, match="not ready after 0 s and was stopped"):
        session.run(select("ok"))
    assert not session.is_alive
    session.close()


def test_application_of_another_spark_is_stopped_and_says_which_one_it_is(launcher):
    """The Spark of a cluster, or behind a wrapper, cannot be looked at before it starts."""
    session = launcher(environment={"FAKE_SPARK_VERSION": "4.4.0"}).start()
    with pytest.raises(
        ConfigurationError, match=r"the Spark of the driver is 4\.4\.0; this package runs on 3\.5, 4\.0"
    ):
        session.run(select("ok"))
    assert not session.is_alive
    session.close()


@pytest.fixture
def impatient(monkeypatch):
    """Sessions that wait for a sign of life for half a second, and for a start and an end not much longer."""
    monkeypatch.setattr(
        "airflow_hive_acid.engine.applications.launcher.SpoolSession",
        functools.partial(SpoolSession, silent_seconds=0.5, close_seconds=0.5),
    )


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("outlived", [False, True], ids=["with its program", "alone"])
@pytest.mark.parametrize("when", ["starting", "running", "answered", "closing"])
def test_every_wait_ends_when_the_driver_is_killed(launcher, tmp_path, when, outlived):
    """``kill -9`` of a driver at each point of a session; spark-submit dies with it, or stays and says nothing.

    t1  the session starts, runs a step, runs another, closes; the driver is killed at one of these points
    t2  whoever waits there, and next, hears of it; close() returns, and nothing of the application is left
    """
    environment = {"FAKE_DIES": when} | ({"FAKE_OUTLIVED": "1"} if outlived else {})
    session = launcher(environment=environment, start_seconds=1.5 if when == "starting" else 60).start()
    steps = {"starting": 0, "running": 0, "answered": 1, "closing": 2}[when]
    for _ in range(steps):
        assert session.run(select("ok")).job_id == "job-1"
    if when != "closing":
        why = "no sign of life|not ready after" if outlived else "ended with code -9"
        with pytest.raises(JobFailedError, match=why):
            session.run(select("ok"))
        assert not session.is_alive
    session.close()
    wait_for(lambda: not any(str(tmp_path) in command for command in commands()))
    assert list((tmp_path / "tmp").iterdir()) == []


def commands():
    """The command lines of all processes that run."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield entry.read_text(errors="replace")


@pytest.mark.usefixtures("impatient")
def test_a_long_step_of_a_driver_that_says_it_is_here_is_waited_for(launcher):
    """Three times as long as silence would be borne."""
    session = launcher().start()
    try:
        assert session.run(select("slow 1.5")).job_id == "job-1"
    finally:
        session.close()


def test_cancel_kills_everything_the_driver_started(session, tmp_path):
    """
    t1  a thread runs a step, the driver starts a process of its own
    t2  another thread cancels
    t3  both processes are gone, the step has failed
    """
    failures = []

    def run():
        try:
            session.run(select(f"spawn {tmp_path / 'pid'}"))
        except JobFailedError as error:
            failures.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    child = int((tmp_path / "pid").read_text())
    session.cancel()
    thread.join(20)
    assert failures == ["the Spark application was cancelled while it ran a step"]
    wait_for(lambda: not is_running(child))


@pytest.fixture
def interruptible():
    """SIGINT as in the foreground: a shell makes what it starts in the background deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_stops_the_application(session, tmp_path, interruptible):
    """
    t1  the main thread waits for a step
    t2  SIGINT arrives
    t3  KeyboardInterrupt comes out, the driver is gone
    """
    marker = tmp_path / "pid"

    def interrupt():
        wait_for(lambda: marker.exists() and marker.read_text())
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        session.run(select(f"sleep {marker}"))
    thread.join()
    wait_for(lambda: not is_running(int(marker.read_text())))


def test_close_lets_the_driver_leave_and_removes_its_directory(launcher, tmp_path):
    session = launcher().start()
    session.run(select("ok"))
    session.close()
    session.close()
    assert not session.is_alive
    assert list((tmp_path / "tmp").iterdir()) == []
    assert len(list((tmp_path / "logs").iterdir())) == 1


def test_close_before_the_start_has_finished_waits_for_nothing(launcher, tmp_path):
    session = launcher(environment={"FAKE_NEVER_READY": "1"}).start()
    started = time.monotonic()
    session.close()
    assert time.monotonic() - started < 5
    assert list((tmp_path / "tmp").iterdir()) == []


def test_driver_that_does_not_leave_is_killed(launcher):
    session = launcher(environment={"FAKE_NEVER_LEAVES": "1"}).start()
    session._close_seconds = 0.2
    session.run(select("ok"))
    session.close()
    assert not session.is_alive


def test_process_that_forgets_its_session_leaves_no_driver(tmp_path, launcher):
    """
    t1  a Python process starts a session and ends without closing it
    t2  its driver is gone
    """
    marker = tmp_path / "pid"
    made = launcher()
    script = (
        "import threading, time, pathlib\n"
        "from airflow_hive_acid.engine.applications.launcher import SparkSubmitLauncher\n"
        "from airflow_hive_acid.format.jobs import JobSpec, Select\n"
        f"s = SparkSubmitLauncher(master='local', program={made.program!r}, environment={dict(made.environment)!r},\n"
        f"                        log_directory=pathlib.Path({str(tmp_path)!r})).start()\n"
        f"spec = JobSpec('j', Select('sleep {marker}', 'file:///x'))\n"
        "threading.Thread(target=s.run, args=(spec,), daemon=True).start()\n"
        f"marker = pathlib.Path({str(marker)!r})\n"
        "while not (marker.exists() and marker.read_text()): time.sleep(0.01)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    wait_for(lambda: not is_running(int(marker.read_text())))


def test_settings_and_secrets_travel_in_a_private_file_not_in_arguments(launcher, tmp_path, monkeypatch):
    monkeypatch.setenv("HIVE_ACID_METASTORE_URL", "postgresql://u:pw@h/db")
    monkeypatch.setenv("AIRFLOW_CONN_X", "secret")
    monkeypatch.setenv("KEPT", "yes")
    monkeypatch.setenv("OTHER", "secret")
    conf = {"spark.hadoop.fs.s3a.secret.key": "s3:cr=t\\ü", "spark.driver.memory": "3g"}
    made = launcher(passed_on=("KEPT",), conf=conf)
    session = made.start()
    private = next((tmp_path / "tmp").iterdir())
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert stat.S_IMODE((private / "spark.properties").stat().st_mode) == 0o600
    session.run(select(f"environment {tmp_path / 'seen'}"))
    session.close()
    seen = json.loads((tmp_path / "seen").read_text())
    assert "s3:cr" not in " ".join(seen["argv"])
    assert "spark.hadoop.fs.s3a.secret.key=s3:cr=t\\\\\\u00fc\n" in seen["properties"]
    assert "spark.driver.memory=3g\n" in seen["properties"]
    assert "HIVE_ACID_METASTORE_URL" not in seen["environment"]
    assert "AIRFLOW_CONN_X" not in seen["environment"]
    assert "OTHER" not in seen["environment"]
    assert seen["environment"]["KEPT"] == "yes"
    assert seen["environment"]["PYSPARK_PYTHON"] == sys.executable
    assert "--py-files" not in seen["argv"]


def test_cluster_gets_the_package_as_py_files(launcher, tmp_path, monkeypatch):
    monkeypatch.setenv("HIVE_ACID_CACHE", str(tmp_path / "cache"))
    session = launcher(master="spark://host:7077").start()
    session.run(select(f"environment {tmp_path / 'seen'}"))
    session.close()
    argv = json.loads((tmp_path / "seen").read_text())["argv"]
    assert argv[argv.index("--master") + 1] == "spark://host:7077"
    assert Path(argv[argv.index("--py-files") + 1]).parent == tmp_path / "cache"


def test_cluster_deploy_mode_wants_a_spool_it_can_reach(launcher, tmp_path):
    with pytest.raises(ConfigurationError, match="spool directory that the cluster can reach"):
        launcher(master="yarn", deploy_mode="cluster").start()


def test_driver_on_kubernetes_gets_the_package_the_settings_and_no_secret(launcher, tmp_path, monkeypatch):
    monkeypatch.setenv("HIVE_ACID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HIVE_ACID_METASTORE_URL", "postgresql://u:hunter2@h/m")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    shared = tmp_path / "shared"
    conf = {
        "spark.kubernetes.container.image": "spark:4",
        "spark.hadoop.fs.s3a.secret.key": "hunter2",
        f"{CLAIM}.mount.path": str(tmp_path),
    }
    started = launcher(master="k8s://https://api:443", deploy_mode="cluster", spool=shared.as_uri(), conf=conf)
    session = started.start()
    session.run(select(f"environment {tmp_path / 'seen'}"))
    session.close()
    seen = json.loads((tmp_path / "seen").read_text())
    argv = seen["argv"]
    options = dict(itertools.pairwise(argv))
    assert (options["--master"], options["--deploy-mode"]) == ("k8s://https://api:443", "cluster")
    assert Path(options["--py-files"]).parent == tmp_path / "cache"
    assert options["--spool"].startswith(f"{shared.as_uri()}/session-")
    assert "hunter2" not in json.dumps([argv, seen["environment"]])
    assert "PYSPARK_DRIVER_PYTHON" not in seen["environment"]
    assert "spark.pyspark.driver.python" not in seen["properties"]
    assert "spark.kubernetes.container.image=spark:4\n" in seen["properties"]
    spool = options["--spool"]
    assert f"spark.kubernetes.file.upload.path={spool}/upload\n" in seen["properties"]
    assert f"spark.kubernetes.driver.pod.name=hive-acid-{spool.rpartition('/')[2]}-driver\n" in seen["properties"]
    assert "spark.hadoop.fs.s3a.secret.key=hunter2\n" in seen["properties"]


def test_a_driver_on_kubernetes_whose_spool_no_pod_can_see_is_refused_before_anything_is_made(launcher, tmp_path):
    shared = tmp_path / "shared"
    options = {"master": "k8s://https://api:443", "deploy_mode": "cluster", "spool": shared.as_uri()}
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.13-4.3.0.jar").touch()
    options["environment"] = {"SPARK_CONF_DIR": str(tmp_path / "conf"), "SPARK_HOME": str(home)}
    with pytest.raises(
        ConfigurationError, match=r"spark\.kubernetes\.container\.image.*in the Spark settings \(conf\)"
    ):
        launcher(**deepcopy(options)).start()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.kubernetes.container.image  spark:4\n")
    with pytest.raises(ConfigurationError, match=r"the spool is file:///.*, which the driver's pod .* cannot see"):
        launcher(**deepcopy(options)).start()
    assert not shared.exists()
    assert list((tmp_path / "tmp").iterdir()) == []
    launcher(**deepcopy(options), conf={f"{CLAIM}.mount.path": str(tmp_path)}).start().close()


@pytest.mark.parametrize("ends", ["killed", "by itself"])
def test_the_pod_of_a_driver_that_is_stopped_is_ended_by_its_name(launcher, tmp_path, monkeypatch, ends):
    """The program stands in for spark-submit twice: asked to submit, and asked to end the pod."""
    started = launcher(
        master="k8s://https://api:443",
        deploy_mode="cluster",
        spool=(tmp_path / "shared").as_uri(),
        conf={f"{CLAIM}.mount.path": str(tmp_path), "spark.kubernetes.namespace": "etl"},
    )
    program = Path(started.program)
    program.write_text(
        program.read_text().replace(
            "exec",
            f'case "$*" in *--kill*) echo "$@" > {tmp_path}/killed; grep -c namespace=etl "$4" >> {tmp_path}/killed; '
            "exit ;; esac\nexec",
        )
    )
    session = started.start()
    session.run(select("ok"))
    (spool,) = (tmp_path / "shared").iterdir()
    if ends == "killed":
        session.cancel()
    session.close()
    if ends == "by itself":
        assert not (tmp_path / "killed").exists()
        return
    told, settings = (tmp_path / "killed").read_text().splitlines()
    assert told.startswith("--master k8s://https://api:443 --properties-file /")
    assert told.endswith(f"--load-spark-defaults --kill etl:hive-acid-{spool.name}-driver")
    assert settings == "1"


def test_an_old_spark_submit_is_named_in_one_line(launcher, tmp_path):
    """Spark 3.5's launcher refuses --load-spark-defaults, and prints the usage of spark-submit after that."""
    start = launcher()
    usage = "\n".join(f"echo '  --option-{i}   what it does' >&2" for i in range(70))
    Path(start.program).write_text(
        f"#!/bin/sh\necho 'Error: Unrecognized option: --load-spark-defaults' >&2\n{usage}\nexit 1\n"
    )
    session = start.start()
    with pytest.raises(JobFailedError) as caught:
        session.wait_ready()
    session.close()
    told = str(caught.value).splitlines()
    assert len(told) == 2
    assert told[1].startswith("this spark-submit is of a Spark older than 4: it does not know --load-spark-defaults")
    assert "SPARK_HOME" in told[1]


def test_spark_3_gets_the_sites_defaults_in_our_file_because_its_spark_submit_would_leave_them_out(launcher, tmp_path):
    home = tmp_path / "spark35"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.12-3.5.9.jar").touch()
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text(
        "# the site's\nspark.executor.cores   3\nspark.driver.memory=9g\nspark.app.tags a,\\\n   b\nother.thing 1\n"
    )
    session = launcher(environment={"SPARK_HOME": str(home)}, accelerator="off").start()
    session.run(select(f"environment {tmp_path / 'seen'}"))
    session.close()
    seen = json.loads((tmp_path / "seen").read_text())
    assert "--load-spark-defaults" not in seen["argv"]
    lines = seen["properties"].splitlines()
    assert "spark.executor.cores=3" in lines
    assert "spark.app.tags=a,b" in lines
    assert "spark.driver.memory=2g" in lines
    assert not any(line.startswith("other.") for line in lines)


def test_shared_spool_gets_a_directory_per_session_that_goes_at_the_end(launcher, tmp_path):
    shared = tmp_path / "shared"
    session = launcher(spool=f"file://{shared}").start()
    session.run(select("ok"))
    assert len(list(shared.iterdir())) == 1
    session.close()
    assert list(shared.iterdir()) == []


def test_the_end_of_a_log_is_what_it_says_and_not_where_that_was(launcher):
    application = launcher().start()
    driver = application._driver
    said = ["ERROR Backend: All masters are unresponsive! Giving up.", "Caused by: java.io.IOException: refused"]
    frames = [f"\tat org.apache.spark.deploy.SparkSubmit$$anon$2.do{i}(SparkSubmit.scala:1171)" for i in range(40)]
    bare = [f"java.base/java.lang.reflect.Constructor.newInstance{i}(Constructor.java:481)" for i in range(40)]
    with driver.log.open("a") as log:
        log.write("\n".join([said[0], *frames, "\t... 12 more", said[1], *bare, "at (three) the end"]) + "\n")
    shown = driver.log_tail().splitlines()
    application.close()
    assert shown[-4:-1] == [f"  | {line}" for line in (*said, "at (three) the end")]


def test_only_the_newest_logs_are_kept(launcher, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for i in range(30):
        (logs / f"spark-20200101T0000{i:02d}-1-x.log").touch()
    launcher().start().close()
    kept = sorted(p.name for p in logs.iterdir())
    assert len(kept) == 20
    assert kept[0] == "spark-20200101T000011-1-x.log"


def test_a_standalone_master_does_not_run_our_driver(launcher, tmp_path):
    """Spark starts Python drivers only on YARN and Kubernetes; spark-submit would say so after the JVM's start."""
    with pytest.raises(ConfigurationError, match=r"spark://h:7077 .*use deploy mode client"):
        launcher(master="spark://h:7077", deploy_mode="cluster", spool=tmp_path.as_uri()).start()
