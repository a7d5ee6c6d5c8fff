"""What users get from a package index: the wheel that is made from the sdist, as ``make dist`` makes it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
JARS = "airflow_hive_acid/jars"
WITHOUT = "HIVE_ACID_BUILD_WITHOUT_ACCELERATOR"
# What a build needs; without the tests' fixtures it takes a second.
_TREE = ("airflow_hive_acid", "dags", "spark_jobs", "accelerator", "scripts")
_FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the package is made of, without the jars."""
    root = tmp_path_factory.mktemp("tree")
    leave = shutil.ignore_patterns("__pycache__", "jars")
    for name in _TREE:
        shutil.copytree(ROOT / name, root / name, ignore=leave)
    for name in _FILES:
        shutil.copy(ROOT / name, root / name)
    return root


@pytest.fixture
def jars(tree: Path) -> Callable[..., dict[str, bytes]]:
    """Puts stand-ins for the jars in place whose properties say what they were made from.

    ``jars(one, **other)`` says something else in one of them, ``jars(one)`` leaves it out.
    """
    spec = importlib.util.spec_from_file_location("build_accelerator", tree / "scripts" / "build_accelerator.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    shutil.rmtree(tree / JARS, ignore_errors=True)

    def make(one: str = "", **other: str) -> dict[str, bytes]:
        script.JARS.mkdir()
        for build in script.BUILDS:
            says = {"version": script._version(), "sources": script._digest(script._sources(build))}
            if build.jar.name == one:
                if not other:
                    continue
                says |= other
            with zipfile.ZipFile(build.jar, "w") as archive:
                archive.writestr(script.PROPERTIES, "".join(f"{name}={value}\n" for name, value in says.items()))
        return {f"{JARS}/{path.name}": path.read_bytes() for path in script.JARS.iterdir()}

    return make


def _build(tree: Path, output: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """An sdist, and a wheel from that sdist; with the build backend of this environment."""
    environment = {name: value for name, value in os.environ.items() if name != WITHOUT} | variables
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), str(tree)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _names(output: Path) -> set[str]:
    (wheel,) = output.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_made_from_the_sdist_has_a_jar_for_each_spark_and_everything_else_that_is_not_python(
    tree: Path, jars: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    made = jars()
    assert {name.rpartition("-")[2] for name in made} == {
        "3.5_2.12.jar", "3.5_2.13.jar", "4.0_2.13.jar", "4.1_2.13.jar", "4.2_2.13.jar", "4.3_2.13.jar",
    }  # fmt: skip
    done = _build(tree, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    names = _names(tmp_path)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert {name: wheel.read(name) for name in names if name.endswith(".jar")} == made
    here = {path.relative_to(tree).as_posix() for path in (tree / "airflow_hive_acid").rglob("*") if path.is_file()}
    here |= {f"airflow_hive_acid/_{path.relative_to(tree).as_posix()}" for path in tree.glob("dags/*.py")}
    here |= {f"airflow_hive_acid/_{path.relative_to(tree).as_posix()}" for path in tree.glob("spark_jobs/*.py")}
    assert here <= names
    must = ("_dags/hive_acid_demo.py", "_spark_jobs/session.py", "plugins/static/app.js", "plugins/static/index.html")
    assert {f"airflow_hive_acid/{name}" for name in must} <= names


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        ({}, "is missing"),
        ({"version": "0.0.0"}, f"is not of version {__version__}"),
        ({"sources": "0" * 64}, "was not built from the sources in accelerator/"),
    ],
)
def test_no_sdist_and_no_wheel_without_a_jar_of_these_sources_for_each_spark(
    tree: Path, jars: Callable[..., dict[str, bytes]], tmp_path: Path, other: dict[str, str], fault: str
) -> None:
    one = "hive-acid-accelerator-4.1_2.13.jar"
    jars(one, **other)
    done = _build(tree, tmp_path)
    assert done.returncode != 0
    assert f"the accelerator jar ({JARS}/{one}) {fault}. Run 'make dist'" in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


def test_who_insists_gets_a_wheel_without_jars(
    tree: Path, jars: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    done = _build(tree, tmp_path, **{WITHOUT: "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert [name for name in _names(tmp_path) if name.endswith(".jar")] == []
    assert "airflow_hive_acid/resources.py" in _names(tmp_path)
