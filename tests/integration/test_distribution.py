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
JAR = "airflow_hive_acid/jars/hive-acid-accelerator.jar"
WITHOUT = "HIVE_ACID_BUILD_WITHOUT_ACCELERATOR"
# What a build needs; without the tests' fixtures it takes a second.
_TREE = ("airflow_hive_acid", "dags", "spark_jobs", "accelerator", "scripts")
_FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the package is made of, with a stand-in for the jar."""
    root = tmp_path_factory.mktemp("tree")
    leave = shutil.ignore_patterns("__pycache__", "jars")
    for name in _TREE:
        shutil.copytree(ROOT / name, root / name, ignore=leave)
    for name in _FILES:
        shutil.copy(ROOT / name, root / name)
    return root


@pytest.fixture
def jar(tree: Path) -> Callable[..., Path]:
    """Puts a jar in place whose properties say what it was made from; ``jar(**other)`` says something else there."""
    spec = importlib.util.spec_from_file_location("build_accelerator", tree / "scripts" / "build_accelerator.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    path = tree / JAR

    def make(**other: str) -> Path:
        says = {"version": script._version(), "sources": script._digest(script._sources()), **other}
        path.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(script.PROPERTIES, "".join(f"{name}={value}\n" for name, value in says.items()))
        return path

    shutil.rmtree(path.parent, ignore_errors=True)
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


def test_the_wheel_made_from_the_sdist_has_the_jar_and_everything_else_that_is_not_python(
    tree: Path, jar: Callable[..., Path], tmp_path: Path
) -> None:
    content = jar().read_bytes()
    done = _build(tree, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    names = _names(tmp_path)
    assert JAR in names
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert wheel.read(JAR) == content
    here = {path.relative_to(tree).as_posix() for path in (tree / "airflow_hive_acid").rglob("*") if path.is_file()}
    here |= {f"airflow_hive_acid/_{path.relative_to(tree).as_posix()}" for path in tree.glob("dags/*.py")}
    here |= {f"airflow_hive_acid/_{path.relative_to(tree).as_posix()}" for path in tree.glob("spark_jobs/*.py")}
    assert here <= names
    must = ("_dags/hive_acid_demo.py", "_spark_jobs/session.py", "plugins/static/app.js", "plugins/static/index.html")
    assert {f"airflow_hive_acid/{name}" for name in must} <= names


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        (None, "is missing"),
        ({"version": "0.0.0"}, f"is not of version {__version__}"),
        ({"sources": "0" * 64}, "was not built from the sources in accelerator/src"),
    ],
)
def test_no_sdist_and_no_wheel_without_the_jar_of_these_sources(
    tree: Path, jar: Callable[..., Path], tmp_path: Path, other: dict[str, str] | None, fault: str
) -> None:
    if other is not None:
        jar(**other)
    done = _build(tree, tmp_path)
    assert done.returncode != 0
    assert f"the accelerator jar ({JAR}) {fault}. Run 'make dist'" in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


def test_who_insists_gets_a_wheel_without_the_jar(tree: Path, jar: Callable[..., Path], tmp_path: Path) -> None:
    done = _build(tree, tmp_path, **{WITHOUT: "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert JAR not in _names(tmp_path)
    assert "airflow_hive_acid/resources.py" in _names(tmp_path)
