"""The zip that goes to a cluster."""

import subprocess
import sys
import zipfile

from airflow_hive_acid.engine.applications.package_zip import cluster_package


def test_package_is_built_once_and_holds_what_a_job_imports(tmp_path):
    first = cluster_package(tmp_path)
    before = first.stat().st_mtime_ns
    assert cluster_package(tmp_path) == first
    assert first.stat().st_mtime_ns == before
    names = set(zipfile.ZipFile(first).namelist())
    assert {
        "airflow_hive_acid/__init__.py", "airflow_hive_acid/errors.py", "airflow_hive_acid/format/jobs/specs.py",
    } <= names  # fmt: skip
    assert not any("metastore" in n or "engine" in n for n in names)


def test_package_is_enough_to_read_a_job_spec(tmp_path):
    """The interpreter sees the zip and the standard library, nothing else."""
    code = (
        f"import sys; sys.path.insert(0, {str(cluster_package(tmp_path))!r})\n"
        "from airflow_hive_acid.format import jobs\n"
        "assert '.zip/' in jobs.__file__, jobs.__file__"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
