"""What a Spark service saves: small INSERT tasks with it and without, a large one, and the memory of its driver.

    python benchmarks/service.py [--rounds 3] [--only one,ten,eight,large] [--archive] [--statements 10000]

A task is a process of its own, as Airflow's executors make one: it imports Airflow and the operator, and runs it. What
passes before the operator begins (Python, Airflow, the imports) is shown apart. ``--statements`` has callers of ten
statements each run so many in one service, and prints what its driver's memory is on the way; it runs alone.
``--archive`` runs the one task also with an archive of classes (``hive-acid spark archive``).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HOME = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each task compiles all modules anew
# Airflow reads its configuration while it is imported.
os.environ |= {
    "AIRFLOW_HOME": str(HOME), "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING", "HIVE_ACID_CACHE": str(HOME / "cache"),
}  # fmt: skip

TASK = """
import time
began = time.time()
import json, sys
from types import SimpleNamespace
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
number, sql, service = sys.argv[1:]
task = SimpleNamespace(dag_id="d", run_id="r" + number, task_id="t", map_index=-1, try_number=1, max_tries=0)
ready = time.time()
result = HiveAcidOperator(task_id="t", sql=sql, spark_service=service).execute({"ti": task})
print(json.dumps({"before": ready - began, "task": time.time() - ready, "inserted": result["inserted"]}))
"""
EMPTY = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().stop()\n"
ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
SMALL, LARGE = 1_000, 5_000_000
SERVICE = "bench"


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of a task, or of several.

    :param whole: of the process.
    :param task: from the operator's begin, before it claims anything, to its end, after the commit.
    """

    whole: float
    task: float


def main() -> None:
    """Measure, and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="one,ten,eight,large", help="parts, by name")
    parser.add_argument("--archive", action="store_true", help="one task with an archive of classes, too")
    parser.add_argument("--statements", type=int, default=0, help="so many in one service, and what its memory is")
    arguments = parser.parse_args()
    try:
        prepare(large="large" in arguments.only and not arguments.statements)
        with Service():
            if arguments.statements:
                memory(arguments.statements)
            else:
                measure(arguments.only.split(","), arguments.rounds, archive=arguments.archive)
    finally:
        shutil.rmtree(HOME, ignore_errors=True)


def prepare(*, large: bool) -> None:
    """A metastore, tables, and a source of each size."""
    from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
    from airflow_hive_acid.metastore import MetastoreClient

    url, warehouse = f"sqlite:///{HOME / 'metastore.db'}", (HOME / "warehouse").as_uri()
    extra = {"metastore_url": url, "warehouse": warehouse}
    os.environ["AIRFLOW_CONN_HIVE_ACID_DEFAULT"] = json.dumps({"conn_type": "hive_acid", "extra": extra})
    os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": "local[2]"})
    (HOME / "digits.csv").write_text("\n".join(map(str, range(SMALL))))
    view = f"CREATE TEMPORARY VIEW v (n INT) USING csv OPTIONS (path '{HOME / 'digits.csv'}');"
    small = "INSERT INTO w.small SELECT n, concat('row ', n) FROM v"
    few = f"(SELECT n FROM v WHERE n < {LARGE // SMALL**2}) z"  # noqa: S608 - a number of our own
    million = "INSERT INTO w.many SELECT x.n * 1000 + y.n, concat('row ', y.n) FROM v x CROSS JOIN v y"
    with MetastoreClient(url) as client:
        client.create_schema()
        client.catalog.set_warehouse(warehouse)
        with Engine(client, SparkSubmitLauncher("local[2]"), warehouse) as engine:
            engine.run("CREATE DATABASE w")
            for name in ("t", "large", "small", "many"):
                engine.run(f"CREATE TABLE w.{name} (a INT, b STRING) {ACID}")
            engine.run(f"{view} {small}")
            if large:
                engine.run(f"{view} {million} CROSS JOIN {few}")


class Service:
    """``hive-acid spark serve``, while the block runs."""

    def __enter__(self) -> Service:
        program = Path(sys.executable).parent / "hive-acid"
        command = [str(program), "--spark-master", "local[2]", "spark", "serve", "--name", SERVICE]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while pid_of_driver() is None:
            if self._process.poll() is not None:
                sys.exit("the service did not start")
            time.sleep(0.1)
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(60)


def pid_of_driver() -> int | None:
    """The Python process of the service's driver."""
    from airflow_hive_acid.engine.applications.found_services import find_services

    return next((found.state.pid for found in find_services(None)), None)


def task(number: int, sql: str, service: str, cache: str = "cache") -> Took:
    """One task in a process of its own.

    :param cache: name of the directory of what the package keeps on a machine.
    """
    began = time.monotonic()
    arguments = [sys.executable, "-c", TASK, str(number), sql, service]
    environment = os.environ | {"HIVE_ACID_CACHE": str(HOME / cache)}
    done = subprocess.run(
        arguments, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["inserted"] in (SMALL, LARGE), said
    if service:
        assert "is not used" not in done.stderr, done.stderr
    return Took(time.monotonic() - began, said["task"])


def several(count: int, at_once: int, sql: str, service: str) -> Took:
    """Tasks in processes of their own.

    :return: of all of them; ``task`` is the median of one.
    """
    began = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        taken = list(pool.map(lambda number: task(number, sql, service), numbers(count)))
    return Took(time.monotonic() - began, statistics.median(one.task for one in taken))


_next = [0]


def numbers(count: int) -> list[int]:
    """Numbers of runs that nobody has had."""
    _next[0] += count
    return list(range(_next[0] - count, _next[0]))


def empty_script() -> Took:
    """spark-submit of a script that starts a session and stops it."""
    from airflow_hive_acid.engine.applications.java import find_spark_submit

    script = HOME / "empty.py"
    script.write_text(EMPTY)
    began = time.monotonic()
    command = [str(find_spark_submit(os.environ)), "--master", "local[2]", str(script)]
    # Spark's own script asks the first Python on PATH where Spark is.
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, env=environment)
    return Took(time.monotonic() - began, time.monotonic() - began)


def make_archive() -> str:
    """Name of a directory with an archive of Spark's classes."""
    program = Path(sys.executable).parent / "hive-acid"
    environment = os.environ | {"HIVE_ACID_CACHE": str(HOME / "archive")}
    subprocess.run([str(program), "spark", "archive"], check=True, capture_output=True, env=environment)
    return "archive"


def measure(parts: list[str], rounds: int, *, archive: bool) -> None:
    """All variants take turns; a row for each."""
    small, large = "INSERT INTO w.t SELECT * FROM w.small", "INSERT INTO w.large SELECT * FROM w.many"
    both: dict[str, tuple[str, Callable[[str], Took]]] = {
        "one": ("one task, 1,000 rows", lambda service: several(1, 1, small, service)),
        "ten": ("ten tasks, one after the other", lambda service: several(10, 1, small, service)),
        "eight": ("eight tasks at once", lambda service: several(8, 8, small, service)),
        "large": ("one task, 5,000,000 rows", lambda service: several(1, 1, large, service)),
    }
    variants: dict[str, Callable[[], Took]] = {"spark-submit of an empty script": empty_script}
    for part in parts:
        name, run = both[part]
        variants[f"{name}, a Spark of its own"] = lambda run=run: run("")  # type: ignore[misc]
        variants[f"{name}, a service"] = lambda run=run: run(SERVICE)  # type: ignore[misc]
    if archive:
        cache = make_archive()
        task(numbers(1)[0], small, "", cache)  # the first one packs the package
        with_archive = "one task, 1,000 rows, a Spark of its own and an archive of classes"
        variants[with_archive] = lambda: task(numbers(1)[0], small, "", cache)
    task(numbers(1)[0], small, SERVICE)  # the service's first one is cold
    taken: dict[str, list[Took]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, variant in variants.items():
            taken[name].append(variant())
    print(
        f"| {rounds} rounds, median (min) | wall s, all of it | s of a task, from its claim to its end | times faster |"
    )
    print("|---|---|---|---|")
    own: Took | None = None
    for name, times in taken.items():
        whole, inner = ([getattr(one, field) for one in times] for field in ("whole", "task"))
        now = Took(statistics.median(whole), statistics.median(inner))
        ratio = (
            f"{own.whole / now.whole:.1f}, of a task {own.task / now.task:.1f}" if own and "a service" in name else ""
        )
        print(
            f"| {name} | {now.whole:.2f} ({min(whole):.2f}) | {now.task:.2f} ({min(inner):.2f}) | {ratio} |", flush=True
        )
        own = now


def memory(statements: int, callers: int = 4, of_one: int = 10) -> None:
    """Callers come and go; the memory of the driver's Java and Python on the way."""
    from airflow_hive_acid.engine.applications.service import WithService
    from airflow_hive_acid.format.jobs import Column, JobSpec, Select, Source

    class NoOther:
        """A Spark of its own would make the measurement worthless."""

        def start(self, *_: Any) -> Any:
            raise RuntimeError("the service was not used")

    launcher = WithService(NoOther(), SERVICE, None, say=print)
    view = Source("v", "csv", {"path": (HOME / "digits.csv").as_uri()}, (Column("n", "int"),))
    done, lock, began = [0], threading.Lock(), time.monotonic()
    marks = [statements * step // 10 for step in range(11)]
    print("| statements | s | heap in use after a collection, MiB | Java, MiB | Python, MiB |\n|---|---|---|---|---|")

    def work(_: int) -> None:
        session = launcher.start()
        for _ in range(of_one):
            job = str(uuid.uuid4())
            where = session.rows_uri(job)
            session.run(JobSpec(job, Select("SELECT sum(n), count(*) FROM v", where), sources=(view,)))
            list(session.read_rows(where))
            with lock:
                done[0] += 1
        session.close()

    with ThreadPoolExecutor(callers) as pool:
        for low, high in itertools.pairwise(marks):
            if low == 0:
                list(pool.map(work, range(callers)))  # the first statements load classes
                report(0, began)
            list(pool.map(work, range((high - low) // of_one)))
            report(high, began)


def report(statements: int, began: float) -> None:
    """One line."""
    python = pid_of_driver()
    assert python is not None
    with open(f"/proc/{python}/stat") as stat:
        java = int(stat.read().rpartition(")")[2].split()[1])
    jcmd = shutil.which("jcmd") or sys.exit("jcmd, of a JDK, is not on PATH")
    subprocess.run([jcmd, str(java), "GC.run"], check=True, capture_output=True)
    text = subprocess.run([jcmd, str(java), "GC.heap_info"], check=True, capture_output=True, text=True).stdout
    used = sum(int(kib) for kib in re.findall(r"(?:generation|heap) +total \d+K, used (\d+)K", text)) / 1024
    print(
        f"| {statements:,} | {time.monotonic() - began:.0f} | {used:.0f} | {rss(java):.0f} | {rss(python):.0f} |",
        flush=True,
    )


def rss(pid: int) -> float:
    """Resident memory of a process, MiB."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
