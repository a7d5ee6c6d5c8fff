"""What a committed statement tells of its files, for those who copy tables (``hive.metastore.dml.events``)."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_WRITE_NOTIFICATION_LOG
from airflow_hive_acid.settings import Settings, Source

W = TXN_WRITE_NOTIFICATION_LOG.c


def written(client):
    """Partition, write id and files of each record, the warehouse left out."""
    with client.database.reading() as connection:
        rows = connection.execute(
            sa.select(W.WNL_TABLE, W.WNL_PARTITION, W.WNL_WRITEID, W.WNL_FILES).order_by(W.WNL_ID)
        )
        return [(t, p, n, [f.partition("/w.db/")[2] for f in files.split("]")]) for t, p, n, files in rows]


@pytest.mark.setting("hive.metastore.dml.events")
def test_a_commit_tells_the_files_of_each_partition_and_no_side_files(engine, fake, warehouse, metastore_url):
    wanted = Settings({Source.CONNECTION: {"hive.metastore.dml.events": "true"}})
    with MetastoreClient(metastore_url, wanted) as client, Engine(client, fake, warehouse) as telling:
        telling.run("INSERT INTO w.t VALUES (1, 'x')")
        fake.partitions = [("a",), ("b",)]
        telling.run("BEGIN; INSERT INTO w.p SELECT 1, 'a'; INSERT INTO w.p PARTITION (k='a') VALUES (2); COMMIT")
        first, second = ("delta_0000001_0000001_0000", "delta_0000001_0000001_0001")
        assert written(client) == [
            ("t", "", 1, [f"t/{first}/bucket_00000###{first}"]),
            ("p", "k=a", 1, [f"p/k=a/{d}/bucket_00000###{d}" for d in (first, second)]),
            ("p", "k=b", 1, [f"p/k=b/{first}/bucket_00000###{first}"]),
        ]
        kinds = [(e.type, e.table) for e in client.events_after(0) if e.table == "p" or e.type == "COMMIT_TXN"]
        assert kinds[-3:] == [("ALLOC_WRITE_ID_EVENT", "p"), ("ADD_PARTITION", "p"), ("COMMIT_TXN", None)]
        added = next(e.message() for e in client.events_after(0) if e.type == "ADD_PARTITION")
        assert sorted(json.loads(text)["1"]["lst"][2:] for text in added["partitionListJson"]) == [["a"], ["b"]]


def test_files_are_not_told_unless_asked_for(engine, client):
    engine.run("INSERT INTO w.t VALUES (1, 'x')")
    assert written(client) == []
