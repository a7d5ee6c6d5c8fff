"""The provider's description: valid for Airflow, light, and in step with the package."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import pkgutil
from importlib.metadata import entry_points
from pathlib import Path
from types import GenericAlias

import jsonschema
import pytest

import airflow_hive_acid
from airflow_hive_acid import get_provider_info as module
from airflow_hive_acid import provider_settings
from airflow_hive_acid.get_provider_info import get_provider_info
from airflow_hive_acid.hooks.connection import _DIALECTS, _FIELDS
from airflow_hive_acid.settings import SETTINGS

_LISTED = ("hooks", "operators", "sensors", "triggers")


def test_description_is_valid_under_airflows_schema():
    import airflow

    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_airflow_finds_the_provider_through_its_entry_point():
    (found,) = [e for e in entry_points(group="apache_airflow_provider") if e.dist.name == "airflow-hive-acid"]
    assert found.load()()["package-name"] == "airflow-hive-acid"


def test_airflow_discovers_provider_hook_and_connection_form():
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    assert "airflow-hive-acid" in manager.providers
    try:
        from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime
    except ModuleNotFoundError:  # before Airflow 3.2 there is one manager for all
        hooks = manager.hooks
    else:
        hooks = ProvidersManagerTaskRuntime().hooks
    assert hooks["hive_acid"].hook_name == "Hive ACID"


@pytest.mark.skipif(
    importlib.util.find_spec("airflow.sdk.providers_manager_runtime") is None,
    reason="Airflow takes fields of a connection form from provider information since 3.2",
)
def test_airflow_shows_the_fields_of_the_connection_form():
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    widgets = {name for name in manager.connection_form_widgets if name.startswith("extra__hive_acid__")}
    assert widgets == {f"extra__hive_acid__{name}" for name in _FIELDS}


def test_description_imports_nothing():
    tree = ast.parse(inspect.getsource(module))
    imported = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(n) for n in imported] == [
        "from __future__ import annotations",
        "from typing import Any",
        "from airflow_hive_acid.provider_settings import SETTINGS",
    ]
    imported = [
        n
        for n in ast.walk(ast.parse(inspect.getsource(provider_settings)))
        if isinstance(n, ast.Import | ast.ImportFrom)
    ]
    assert [ast.unparse(n) for n in imported] == ["from __future__ import annotations"]


@pytest.mark.parametrize("room", _LISTED)
def test_every_listed_module_can_be_imported(room):
    for entry in get_provider_info()[room]:
        for name in entry["python-modules"]:
            importlib.import_module(name)


@pytest.mark.parametrize("room", ["operators", "sensors", "triggers"])
def test_every_operator_sensor_and_trigger_is_listed(room):
    from airflow.sdk import BaseOperator
    from airflow.triggers.base import BaseTrigger

    listed = {name for entry in get_provider_info()[room] for name in entry["python-modules"]}
    package = importlib.import_module(f"airflow_hive_acid.{room}")
    for found in pkgutil.iter_modules(package.__path__, f"airflow_hive_acid.{room}."):
        members = vars(importlib.import_module(found.name)).values()
        public = [
            m
            for m in members
            if isinstance(m, type)
            and not isinstance(m, GenericAlias)
            and issubclass(m, BaseOperator | BaseTrigger)
            and not found.name.endswith(".base")
            and m.__module__ == found.name
        ]
        assert bool(public) == (found.name in listed), found.name


def test_form_offers_the_fields_and_dialects_that_the_hook_reads():
    (connection,) = get_provider_info()["connection-types"]
    assert tuple(connection["conn-fields"]) == _FIELDS
    assert tuple(connection["conn-fields"]["dialect"]["schema"]["enum"]) == _DIALECTS


def test_every_setting_is_an_option_as_the_table_has_it():
    options = get_provider_info()["config"]["hive_acid"]["options"]
    by_option = {key.replace(".", "_"): setting for key, setting in SETTINGS.items()}
    assert {name for name in options if name.startswith(("hive_", "metastore_"))} - {"hive_site"} == set(by_option)
    for name, setting in by_option.items():
        assert options[name]["description"].startswith(setting.description), "run scripts/provider_settings.py"
        assert options[name]["example"] == (setting.default or None), "run scripts/provider_settings.py"
        # A default here would win over hive-site.xml.
        assert options[name]["default"] is None


def test_airflow_finds_the_task_decorators():
    from airflow.sdk import task

    assert callable(task.hive_acid_sql)
    assert callable(task.hive_acid_pyspark)


def test_airflows_command_line_lists_what_the_provider_has():
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    found = manager.providers["airflow-hive-acid"].data
    assert "hive_acid" in dict(manager.provider_configs)["airflow-hive-acid"]
    assert {d["name"] for d in found["task-decorators"]} == {"hive_acid_sql", "hive_acid_pyspark"}
    assert "airflow_hive_acid.operators.changes" in found["operators"][0]["python-modules"]


def test_package_itself_imports_neither_airflow_nor_sqlalchemy():
    tree = ast.parse(Path(airflow_hive_acid.__file__).read_text())
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
