"""Whatever of the provider waits, waits in the triggerer unless it is told otherwise (decision 24)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest
from airflow.sdk import DAG, BaseOperator

import airflow_hive_acid.operators
import airflow_hive_acid.sensors
from airflow_hive_acid.operators.changes import HiveAcidInsertOperator
from airflow_hive_acid.operators.leases import HiveAcidGrabLeaseOperator
from airflow_hive_acid.sensors.locks import HiveAcidLockReleasedSensor


def waiting_classes() -> set[type[BaseOperator]]:
    """All operators and sensors that say whether they defer."""
    found = set()
    for package in (airflow_hive_acid.operators, airflow_hive_acid.sensors):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for _, each in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if issubclass(each, BaseOperator) and "deferrable" in inspect.signature(each.__init__).parameters:
                    found.add(each)
    return found


def test_everything_that_waits_defers_by_default_whatever_airflow_is_configured_to():
    defaults = {
        each.__name__: inspect.signature(each.__init__).parameters["deferrable"].default for each in waiting_classes()
    }
    assert {"HiveAcidOperator", "HiveAcidCompactOperator", "HiveAcidGrabLeaseOperator"} <= defaults.keys()
    assert set(defaults.values()) == {True}


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (HiveAcidInsertOperator, {"table": "db.t", "query": "SELECT 1"}),
        (HiveAcidGrabLeaseOperator, {"objects": "db.t"}),
        (HiveAcidLockReleasedSensor, {"table": "db.t"}),
    ],
)
def test_a_dag_can_have_all_its_tasks_wait_in_their_slots(operator, arguments):
    with DAG("d", schedule=None, default_args={"deferrable": False}):
        task = operator(task_id="t", **arguments)
    assert task.deferrable is False
    assert operator(task_id="t", **arguments).deferrable is True
