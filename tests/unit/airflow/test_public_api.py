"""The public API: what faces offer, what the documents use, and what importing them costs."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_hive_acid.faces import HiveAcidDeprecationWarning

ROOT = Path(__file__).parents[3]
LAZY = ("operators", "sensors", "hooks", "triggers", "decorators", "dag_factories", "engine", "spark.streaming")


def script():
    spec = importlib.util.spec_from_file_location("api_docs", ROOT / "scripts" / "api_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FACES = script().FACES


@pytest.mark.parametrize("room", FACES)
def test_every_public_name_can_be_imported(room):
    package = importlib.import_module(f"airflow_hive_acid.{room}")
    assert list(package.__all__) == sorted(package.__all__)
    assert all(getattr(package, name) is not None for name in package.__all__)


#: The door of the metastore, and those of its rooms that have a face.
FACES_OF_THE_METASTORE = sorted(
    ".".join(each.parent.relative_to(ROOT / "airflow_hive_acid").parts)
    for each in (ROOT / "airflow_hive_acid" / "metastore").rglob("__init__.py")
    if "__all__" in each.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("room", [*LAZY, *FACES_OF_THE_METASTORE])
def test_type_checkers_see_the_names_that_programs_get(room):
    package = importlib.import_module(f"airflow_hive_acid.{room}")
    told = {
        alias.name: node.module
        for node in ast.walk(ast.parse(inspect.getsource(package)))
        if isinstance(node, ast.ImportFrom) and node.module.startswith(package.__name__)
        for alias in node.names
        if alias.name in package.__all__
    }
    assert set(told) == set(package.__all__)
    for name, home in told.items():
        assert getattr(package, name) is getattr(importlib.import_module(home), name)


@pytest.mark.parametrize("room", LAZY)
def test_a_name_that_is_not_public_is_said_to_be_missing(room):
    with pytest.raises(AttributeError, match=f"airflow_hive_acid.{room}.*has no attribute 'no_such_name'"):
        _ = importlib.import_module(f"airflow_hive_acid.{room}").no_such_name


@pytest.mark.parametrize("room", ["operators", "sensors", "triggers"])
def test_names_of_before_still_work_and_say_which_to_use(room):
    package = importlib.import_module(f"airflow_hive_acid.{room}")
    assert package._RENAMED
    for before, today in package._RENAMED.items():
        assert before not in package.__all__
        member = getattr(package, today)
        for place in (package, importlib.import_module(member.__module__)):
            with pytest.warns(HiveAcidDeprecationWarning, match=f" is called {today} now") as told:
                assert getattr(place, before) is member
            assert told[0].filename == __file__


def test_a_module_whose_names_have_changed_has_no_others():
    module = importlib.import_module("airflow_hive_acid.operators.worker")
    with pytest.raises(AttributeError, match=r"operators\.worker' has no attribute 'no_such_name'"):
        _ = module.no_such_name


@pytest.mark.parametrize("room", ["operators", "sensors"])
def test_every_public_class_has_the_prefix(room):
    package = importlib.import_module(f"airflow_hive_acid.{room}")
    classes = [name for name in package.__all__ if inspect.isclass(getattr(package, name))]
    assert classes
    assert [name for name in classes if not name.startswith("HiveAcid")] == []


@pytest.mark.parametrize("room", ["operators", "sensors"])
def test_every_operator_and_sensor_is_public(room):
    from airflow.sdk import BaseOperator

    package = importlib.import_module(f"airflow_hive_acid.{room}")
    found = {
        name
        for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        if not each.name.endswith(".base")
        for name, member in vars(importlib.import_module(each.name)).items()
        if inspect.isclass(member) and issubclass(member, BaseOperator) and member.__module__ == each.name
        if not name.startswith("_")
    }
    assert found
    assert found <= set(package.__all__)


def test_the_page_of_the_api_is_made_of_the_docstrings_of_today():
    page = ROOT / "docs" / "reference" / "api.md"
    assert page.read_text(encoding="utf-8") == script().page(), "run scripts/api_docs.py"


_IMPORT = re.compile(r"from (airflow_hive_acid\.[a-z_.]+) import \(?([A-Za-z_, ]+)")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*.py"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documents_and_examples_import_public_names_from_their_faces(page):
    homes = {
        (name, getattr(importlib.import_module(f"airflow_hive_acid.{room}"), name).__module__): room
        for room in LAZY
        for name in importlib.import_module(f"airflow_hive_acid.{room}").__all__
        if hasattr(getattr(importlib.import_module(f"airflow_hive_acid.{room}"), name), "__module__")
    }
    assert ("HiveAcidOperator", "airflow_hive_acid.operators.hive_acid") in homes
    longer = [
        (module, name.strip())
        for module, names in _IMPORT.findall(page.read_text(encoding="utf-8"))
        for name in names.split(",")
        if (name.strip(), module) in homes
    ]
    assert longer == []


@pytest.mark.parametrize("room", LAZY)
def test_a_face_alone_imports_nothing_heavy(room):
    heavy = ("airflow.sdk", "airflow.models", "pyspark", "sqlalchemy", "sqlglot", "fsspec", "openlineage")
    program = (
        f"import sys, airflow_hive_acid.{room} as face; assert face.__all__; "
        f"print([each for each in {heavy} if each in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_dag_file_with_every_operator_and_sensor_loads_no_room_below_the_hooks():
    program = """
import importlib, sys
for room in ("operators", "sensors", "decorators"):
    face = importlib.import_module(f"airflow_hive_acid.{room}")
    assert [getattr(face, name) for name in face.__all__]
rooms = ("metastore", "engine", "sql", "maintenance", "replication", "filesystem", "spark")
loaded = {name.split(".")[1] + "." + name.split(".")[2] for name in sys.modules
          if name.startswith("airflow_hive_acid.") and name.count(".") > 1 and name.split(".")[1] in rooms}
print(sorted(loaded), [name for name in ("pyspark", "pandas", "pyarrow", "sqlglot") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"
