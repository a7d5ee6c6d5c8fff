"""What is said when Java or spark-submit is missing or wrong."""

import pytest

from airflow_hive_acid.engine.applications.java import find_spark_submit, parse_java_version, require_java
from airflow_hive_acid.errors import ConfigurationError


def fake_java(folder, output):
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("Error occurred during initialization of VM", None),
    ],
)
def test_major_version_is_read(text, major):
    assert parse_java_version(text) == major


def test_java_on_path_is_found(tmp_path):
    program = fake_java(tmp_path, 'openjdk version "17.0.15"')
    assert require_java({"PATH": str(program.parent)}) == str(program)


def test_java_home_wins_over_path(tmp_path):
    old = fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    new = fake_java(tmp_path / "new", 'openjdk version "21"')
    assert require_java({"PATH": str(old.parent), "JAVA_HOME": str(tmp_path / "new")}) == str(new)


def test_missing_java_is_named_with_its_remedy(tmp_path):
    with pytest.raises(ConfigurationError, match=r"no java on PATH .* apt-get install openjdk-17-jre-headless"):
        require_java({"PATH": str(tmp_path)})


def test_old_java_is_named_with_path_and_version(tmp_path):
    program = fake_java(tmp_path, 'java version "1.8.0_392"')
    with pytest.raises(ConfigurationError, match=f"{program} is Java 8. Spark needs Java 17"):
        require_java({"PATH": str(program.parent)})


def test_wrong_java_home_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=f"JAVA_HOME is {tmp_path}, which has no bin/java"):
        require_java({"JAVA_HOME": str(tmp_path)})


def test_java_that_tells_nothing_is_refused(tmp_path):
    program = fake_java(tmp_path, "no space left on device")
    with pytest.raises(ConfigurationError, match="no space left on device"):
        require_java({"PATH": str(program.parent)})


def test_spark_submit_of_this_environment_comes_first(tmp_path, monkeypatch):
    (tmp_path / "python").touch()
    program = tmp_path / "spark-submit"
    program.touch(mode=0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert find_spark_submit({"PATH": "/usr/bin"}) == str(program)


def test_spark_submit_of_spark_home_is_next(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    (tmp_path / "spark" / "bin").mkdir(parents=True)
    program = tmp_path / "spark" / "bin" / "spark-submit"
    program.touch(mode=0o755)
    assert find_spark_submit({"PATH": "", "SPARK_HOME": str(tmp_path / "spark")}) == str(program)


def test_missing_spark_submit_is_named_with_its_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(ConfigurationError, match="pip install"):
        find_spark_submit({"PATH": str(tmp_path)})
