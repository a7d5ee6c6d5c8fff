"""RENAME TO PARTITION through the engine: names that are not free yet."""

import time
from pathlib import Path

import pytest

from airflow_hive_acid.errors import AlreadyExistsError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.decisions import Kind


def names(client):
    return [p.name for p in client.catalog.list_partitions("w.p")]


def test_a_rename_to_the_name_of_a_dropped_partition_names_the_cleaner_until_that_has_been_there(engine, client):
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a') PARTITION (k='b'); ALTER TABLE w.p DROP PARTITION (k='b')")
    rename = "ALTER TABLE w.p PARTITION (k='a') RENAME TO PARTITION (k='b')"
    with pytest.raises(
        AlreadyExistsError, match=r"partition k=b lie that was dropped.*'hive-acid maintenance cleaner --once'"
    ):
        engine.run(rename)
    assert names(client) == ["k=a"]
    while any(outcome.kind is Kind.WAITING for outcome in run_cleaner(client, AnyFilesystem())):
        time.sleep(0.1)
    engine.run(rename)
    assert names(client) == ["k=b"]
    place = Path(client.catalog.get_table("w.p").location.removeprefix("file:")) / "k=d"
    place.mkdir()
    (place / "file").write_text("somebody's")
    with pytest.raises(AlreadyExistsError, match="files already; move them away"):
        engine.run("ALTER TABLE w.p PARTITION (k='b') RENAME TO PARTITION (k='d')")
