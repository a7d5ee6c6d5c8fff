"""How often a sensor looks, if nobody says it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_hive_acid.sensors.commits import HiveAcidTableCommitSensor


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [({}, 5), ({"deferrable": False}, 60), ({"poke_interval": 7}, 7), ({"poke_interval": timedelta(minutes=2)}, 120)],
)
def test_a_sensor_looks_more_often_where_looks_are_shared(arguments: dict[str, Any], seconds: float) -> None:
    assert HiveAcidTableCommitSensor(task_id="s", table="db.t", **arguments).poke_interval == seconds


def test_a_dags_default_arguments_say_how_often_a_sensor_looks() -> None:
    with DAG("d", schedule=None, default_args={"poke_interval": 30}):
        assert HiveAcidTableCommitSensor(task_id="s", table="db.t").poke_interval == 30
