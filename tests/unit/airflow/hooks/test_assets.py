"""Assets of tables and partitions: one URI for one object, and the commits that a run was scheduled for."""

from __future__ import annotations

from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from airflow.sdk import Asset, BaseOperator

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.hooks import assets
from airflow_hive_acid.hooks.assets import check_uri, commits, table_asset, tell_commits
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.settings import Settings, Source
from airflow_hive_acid.triggers.commits import HiveAcidCommitTrigger, watched_table


@pytest.mark.parametrize(
    ("arguments", "name", "uri"),
    [
        (("Sales.ORDERS",), "hive_acid_default/sales.orders", "hiveacid://hive_acid_default/sales/orders"),
        (("s.o", "c", "Day=A/hour=b%2Fc"), "c/s.o/day=A/hour=b%2Fc", "hiveacid://c/s/o/day=A/hour=b%252Fc"),
        (("s.o", "c", "k=ä b"), "c/s.o/k=ä b", "hiveacid://c/s/o/k=%C3%A4%20b"),
        (("s.o", "a/b"), "a/b/s.o", "hiveacid://a%2Fb/s/o"),
    ],
)
def test_same_object_has_one_uri_which_airflow_leaves_as_it_is(arguments, name, uri):
    asset = table_asset(*arguments)
    assert (asset.name, asset.uri) == (name, uri)
    assert Asset(name="x", uri=uri).uri == uri


def test_uri_in_other_words_is_the_same():
    assert check_uri(urlsplit("hiveacid://c/Sales/ORDERS/Day=A%2fb/")).geturl() == "hiveacid://c/sales/orders/day=A%2Fb"


@pytest.mark.parametrize(
    "uri",
    [
        "hiveacid://c/only_a_database",
        "hiveacid:///db/t",
        "hiveacid://c/db//k=a",
        "hiveacid://c/db/t/no_partition",
        "hiveacid://c/db/t?x=1",
        "hiveacid://c/db/t%0a",
    ],
)
def test_uri_that_names_no_table_or_partition_is_refused(uri):
    with pytest.raises(ValueError, match="connection id"):
        Asset(name="x", uri=uri)


def test_watched_table_is_the_same_asset_with_a_watcher():
    asset = watched_table("Sales.Orders", "c", partition="Day=A", operations=["update", "delete"])
    assert (asset.name, asset.uri) == ("c/sales.orders/day=A", "hiveacid://c/sales/orders/day=A")
    (watcher,) = asset.watchers
    assert isinstance(watcher.trigger, HiveAcidCommitTrigger)
    assert watcher.trigger.serialize()[1] == {
        "table": "Sales.Orders", "partition": "Day=A", "operations": ["delete", "update"], "hive_acid_conn_id": "c",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"table": "orders"}, "write database.table"),
        ({"table": "s.o", "partition": "nonsense"}, "column=value"),
        ({"table": "s.o", "operations": ["upsert"]}, "'upsert' is no operation; there are insert, "),
    ],
)
def test_what_cannot_be_watched_is_refused_where_the_dag_is_written(arguments, says):
    with pytest.raises(InvalidArgumentsError, match=says):
        watched_table(**arguments)


def told(**payload):
    values = {"kind": "commit", "conn_id": "c", "table": "s.o", "time": 5, **payload}
    return SimpleNamespace(extra={"from_trigger": True, "payload": values})


def test_run_gets_each_commit_once_in_order():
    events = {
        "a": [
            told(txn_id=7, event_id=9, time=8),
            told(txn_id=5, event_id=4),
            told(txn_id=5, event_id=4, redelivered=1),
        ],
        "b": [told(txn_id=5, table="s.p", event_id=4), told(txn_id=None, event_id=3), told(kind="gap", event_id=6)],
        "c": [SimpleNamespace(extra=None), SimpleNamespace(extra={"kind": "compaction"})],
    }
    found = [(c["kind"], c["table"], c.get("txn_id"), c["event_id"]) for c in commits(events)]
    assert found == [
        ("commit", "s.o", None, 3), ("commit", "s.o", 5, 4), ("commit", "s.p", 5, 4), ("gap", "s.o", None, 6),
        ("commit", "s.o", 7, 9),
    ]  # fmt: skip
    assert "redelivered" not in commits(events)[1]


def test_run_gets_each_run_of_write_ids_that_a_replica_has_got_with_one_commit():
    def run(first, last, **rest):
        changes = {"table": "s.o", "from_write_id": first, "to_write_id": last}
        return told(txn_id=5, event_id=4, write_id=last, changes=changes, **rest)

    found = commits({"a": [run(2, 3), run(5, 5)], "b": [run(2, 3, redelivered=True)]})
    assert [c["changes"]["to_write_id"] for c in found] == [3, 5]


class Told(dict):
    """``outlet_events`` of a task; aliases are told apart by name, for in Airflow 3.1 they have no hash."""

    def __getitem__(self, alias):
        told = self.setdefault(alias.name, SimpleNamespace(events=[]))
        told.add = lambda asset, extra: told.events.append((asset.uri, extra))
        return told


@pytest.mark.backends("sqlite")
@pytest.mark.setting("hive.acid.commit.events")
def test_operators_tell_the_same_as_watchers_if_that_is_their_part(metastore_url, warehouse):
    for source, number in (("watcher", 0), ("operators", 1)):
        settings = Settings({Source.CONNECTION: {"hive.acid.commit.events": source}})
        with MetastoreClient(metastore_url, settings) as client:
            if source == "watcher":
                client.create_schema()
                client.catalog.set_warehouse(warehouse)
                client.catalog.create_database("db")
                client.catalog.create_table(
                    TableDefinition("db", "t", (Column("id", "int"),), properties={"transactional": "true"})
                )
            with client.begin({"db.t": "insert"}) as txn:
                pass
            task, events = BaseOperator(task_id="t", outlets=[table_asset("db.x")]), Told()
            hook = SimpleNamespace(settings=settings, get_conn=lambda client=client: client, hive_acid_conn_id="c")
            document = {"statements": [{"txn_id": None}, {"txn_id": txn.txn_id}, {"txn_id": txn.txn_id}]}
            assert tell_commits(task, {"outlet_events": events}, hook, document) == number
            assert tell_commits(task, {}, hook, {"statements": [{"txn_id": None}]}) == 0
    assert task.outlets == [table_asset("db.x"), assets.COMMITS]
    ((uri, extra),) = events[assets.COMMITS].events
    assert uri == "hiveacid://c/db/t"
    payload = extra["payload"]
    assert (payload["table"], payload["txn_id"], payload["write_id"]) == ("db.t", txn.txn_id, 2)
    assert (payload["operations"], payload["partitions"], payload["redelivered"]) == (["insert"], [], False)
    assert commits({"a": [SimpleNamespace(extra=extra)]}) == [payload]
