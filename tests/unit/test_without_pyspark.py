"""A scheduler, an API server or a triggerer has no PySpark; a worker without any Spark is told what it lacks."""

from __future__ import annotations

import subprocess
import sys
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling import build

from airflow_hive_acid.engine.applications.java import find_spark_submit
from airflow_hive_acid.errors import ConfigurationError

ROOT = Path(__file__).parents[2]

#: Makes a process in which neither PySpark nor Airflow's Spark provider can be imported.
HIDDEN = """
import importlib, pkgutil, sys

class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        # Airflow itself looks for providers by their entry points, of which this environment has one.
        if name.split(".")[0] in ("pyspark", "py4j") or name.startswith("airflow.providers.apache.spark.hooks"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden)
"""


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HIDDEN + program], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    """What pip reads of the package, made from pyproject.toml by the build backend."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        folder = tmp_path_factory.mktemp("metadata")
        name = build.prepare_metadata_for_build_wheel(str(folder))
    return Parser().parsestr((folder / name / "METADATA").read_text(encoding="utf-8"))


def test_the_package_alone_brings_neither_pyspark_nor_what_would_bring_it(metadata):
    core = [each for each in metadata.get_all("Requires-Dist") if "extra ==" not in each]
    assert any(each.startswith("apache-airflow") for each in core)
    assert [each for each in core if "spark" in each] == []


def test_the_extra_spark_brings_pyspark_and_the_provider_of_spark_connections(metadata):
    asked = {each.partition(";")[0].strip() for each in metadata.get_all("Requires-Dist") if "extra == 'spark'" in each}
    assert asked == {"apache-airflow-providers-apache-spark>=6.3", "pyspark<4.4,>=3.5"}


def test_everything_but_the_data_plane_is_imported_without_pyspark():
    """Every module, and every public name of every face."""
    done = _run("""
import airflow_hive_acid
found = pkgutil.walk_packages(airflow_hive_acid.__path__, "airflow_hive_acid.", onerror=print)
data_plane = ("airflow_hive_acid.spark.", "airflow_hive_acid.hooks.spark_submit", "airflow_hive_acid._spark_jobs.")
names = [module.name for module in found if not module.name.startswith(data_plane)]
faces = [importlib.import_module(name) for name in names]
public = [getattr(face, name) for face in faces for name in getattr(face, "__all__", [])]
print(len(names) > 250, len(public) > 80, "pyspark" in sys.modules)
""")
    assert (done.stdout.strip(), done.stderr) == ("True True False", "")


def test_the_command_line_says_what_it_can_without_pyspark():
    done = _run("""
from airflow_hive_acid.cli.main import main
sys.argv = ["hive-acid", "--help"]
main()
""")
    assert done.returncode == 0, done.stderr
    assert "maintenance" in done.stdout


def test_a_worker_without_spark_is_told_the_extra_and_spark_home(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(ConfigurationError) as caught:
        find_spark_submit({"PATH": str(tmp_path)})
    assert "there is no Spark here" in str(caught.value)
    assert 'pip install "airflow-hive-acid[spark]"' in str(caught.value)
    assert "SPARK_HOME" in str(caught.value)


def test_a_worker_without_airflows_spark_provider_is_told_how_to_get_it():
    done = _run("""
from airflow_hive_acid.hooks.spark_launcher import _submit_hook
try:
    _submit_hook()
except Exception as error:
    print(type(error).__name__, error)
""")
    assert done.stdout.startswith("ConfigurationError Airflow's Spark provider is not installed"), done.stderr
    assert "pip install apache-airflow-providers-apache-spark" in done.stdout
    assert "airflow-hive-acid[spark]" in done.stdout
