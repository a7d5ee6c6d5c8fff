"""A class of Java is asked for once, by its whole name."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest

from airflow_hive_acid.spark.java_names import JavaNames, java_names


class View:
    """Like Py4J's view of a JVM: what it is asked for, it answers with."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> str:
        self.asked.append(name)
        return f"<{name}>"


def test_a_class_is_one_call_and_a_package_none() -> None:
    view = View()
    hadoop = java_names(SimpleNamespace(_jvm=view)).org.apache.hadoop  # type: ignore[arg-type]
    assert view.asked == []
    assert hadoop.fs.Path == "<org.apache.hadoop.fs.Path>"
    assert getattr(hadoop.util, "Shell$") == "<org.apache.hadoop.util.Shell$>"
    assert view.asked == ["org.apache.hadoop.fs.Path", "org.apache.hadoop.util.Shell$"]


def test_what_python_asks_of_any_object_is_no_name_of_java() -> None:
    view = View()
    names = JavaNames(view)
    with pytest.raises(AttributeError, match="__fspath__"):
        names.__fspath__  # noqa: B018 - asking is the test
    assert copy.copy(names).java.util.UUID == "<java.util.UUID>"
    assert view.asked == ["java.util.UUID"]
