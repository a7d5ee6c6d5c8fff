"""Partitions whose names are no ASCII are found among others, on every database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.rows.reader import read_whole_partitions
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.measures import Measure, read_newest
from airflow_hive_acid.metastore.compaction.model import Resource

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.every_database
NAMES = [f"p={value}" for value in ("ü", "é", "a", "ß", "%2F", "ñandú")]


def test_several_are_found_together(client: MetastoreClient, tmp_path: Path) -> None:
    """MariaDB looks for pairs in a list of its own, where letters of a latin1 column were missed."""
    client.catalog.set_warehouse(tmp_path.as_uri())
    client.catalog.create_database("u")
    for table in ("t", "other"):
        client.catalog.create_table(TableDefinition("u", table, (Column("a", "int"),), (Column("p", "string"),)))
        client.catalog.add_partitions(f"u.{table}", NAMES)
    first, other = client.catalog.get_table("u.t").id, client.catalog.get_table("u.other").id
    wanted = [*((first, name) for name in NAMES), (other, NAMES[0])]
    found = client.database.read(lambda connection: read_whole_partitions(connection, wanted))
    assert sorted(found) == sorted(wanted)
    assert client.catalog.add_partitions("u.t", NAMES) == []


def test_measures_of_several_are_replaced_and_not_added(client: MetastoreClient) -> None:
    places = [Resource("u", "t", name) for name in NAMES]
    for files in (1, 2):
        client.measures.store([(place, Measure(files, 0, 0, 0, 0, 0)) for place in places])
        newest = client.database.read(lambda connection: read_newest(connection, places))
        assert {place: newest[place].measure.files for place in places} == dict.fromkeys(places, files)
