"""The DAGs in examples/ run as they are, in one Spark application, on a PostgreSQL metastore."""

from __future__ import annotations

import importlib.util
import json
import re
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine.statements.exports import Destination
from airflow_hive_acid.engine.statements.programs import Call
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import AlreadyExistsError, HiveAcidError
from airflow_hive_acid.hooks import shared_spark
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.sql.parsing.builders import insert_statement, update_statement
from airflow_hive_acid.sql.parsing.records import rows_query

if TYPE_CHECKING:
    from airflow.sdk import DAG

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.story("examples/change_rows.py")]

EXAMPLES = Path(__file__).parents[3] / "examples"
HOSTILE = [
    "'; DROP TABLE TXNS;--",
    "x' OR '1'='1",
    '"',
    "`",
    "\\",
    "\\'",
    "\n",
    "%",
    "${env:HOME}",
    "\\u0027",
    "a\0b",
    "*/ --",
]
FAILING = """
from pyspark.sql import functions as F

def main(job, what):
    job.insert("db.v", job.read("db.v").select("id", F.lit("more"), F.lit(None), F.lit(None), F.lit(None), F.lit(None)))
    job.update("db.v", {"t": "raise_error('no')"} if what == "change" else {"t": "t"}, where=None)
    if what == "python":
        raise ValueError("a reason")
    return "done"
"""


@pytest.fixture
def warehouse_on_postgresql(postgresql_testbed, monkeypatch, tmp_path):
    """Connections to a metastore on PostgreSQL and to Spark on this machine; all tasks share one application."""
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__SHARE_SPARK", "True")
    monkeypatch.setenv("EXAMPLE_DATA", str(tmp_path))
    yield postgresql_testbed.client
    shared_spark.close_all()


def example(name) -> DAG:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dag


def results(finished):
    return {i.task_id: i.xcom_pull(task_ids=i.task_id) for i in finished.get_task_instances()}


def looked_up(*queries):
    with HiveAcidHook() as hook, hook.get_engine() as engine:
        return [engine.query(query).rows for query in queries]


def test_examples_change_rows_run_pyspark_and_export(warehouse_on_postgresql, registered, lineage_events, tmp_path):
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices" / "1.csv").write_text("item,price\ncake,5.25\ncoffee,4.00\n")
    finished = registered(example("change_rows")).test()
    assert str(finished.state) == "success"
    told = results(finished)
    assert [told[t]["inserted"] for t in ("rows", "files", "query", "merge")] == [3, 2, 1, 0]
    assert (told["update"]["updated"], told["delete"]["deleted"], told["merge"]["updated"]) == (1, 1, 1)
    (orders,) = looked_up("SELECT id, item, amount, ordered, photo, day FROM shop.orders ORDER BY id")
    assert orders == [
        [2, "coffee", Decimal("4.00"), None, "00FF", "2026-01-01"],
        [3, "it's ${cold}; --", Decimal("6.00"), None, None, "2026-01-02"],
        [4, "cake", Decimal("5.25"), None, None, "2026-01-02"],
    ]

    finished = registered(example("pyspark_jobs")).test()
    assert str(finished.state) == "success"
    told = results(finished)
    assert told["totals"]["returned"] == {"days": 2}
    assert told["correct"]["returned"] == {"corrected": 1}
    assert (told["totals"]["inserted"], told["totals"]["updated"], told["correct"]["deleted"]) == (5, 3, 1)
    items, totals, marks = looked_up(
        "SELECT item FROM shop.orders ORDER BY id",
        "SELECT total, orders, day FROM shop.totals ORDER BY day",
        "SELECT id FROM shop.marks ORDER BY id",
    )
    assert [row[0] for row in items] == ["COFFEE", "IT'S ${COLD}; --", "CAKE"]
    assert totals == [[Decimal("4.00"), 1, "2026-01-01"], [Decimal("21.25"), 2, "2026-01-02"]]
    assert marks == [[2], [3]]

    finished = registered(example("export_files")).test()
    assert str(finished.state) == "success"
    told = results(finished)
    assert (told["orders"]["rows"], told["totals"]["rows"]) == (2, 2)
    assert sorted(entry.name for entry in (tmp_path / "exports").iterdir()) == ["orders", "totals"]
    (part,) = (tmp_path / "exports" / "orders" / "day=2026-01-02").glob("part-*.csv")
    assert sorted(part.read_text().splitlines()) == ["3,IT'S ${COLD}; --", "4,CAKE", "id,item"]
    assert part.stat().st_size == told["orders"]["bytes"]

    _lineage_is_told(lineage_events())
    _the_first_ten_minutes(registered)

    _four_tasks_are_one_transaction(registered)

    with HiveAcidHook() as hook, hook.get_engine() as engine:
        _values_are_values(engine, warehouse_on_postgresql)
        _jobs_that_fail_change_nothing(engine)
        _exports_replace_only_exports(engine, tmp_path)


def _lineage_is_told(events):
    """What OpenLineage's provider has sent: each task's beginning by names, its end with numbers and columns; S6."""
    ended = {e["job"]["name"].partition(".")[2]: e for e in events if e["eventType"] == "COMPLETE"}
    began = {e["job"]["name"].partition(".")[2]: e for e in events if e["eventType"] == "START"}
    assert set(began) == set(ended) == {
        "tables", "rows", "files", "query", "update", "delete", "merge", "totals", "correct", "orders",
    }  # fmt: skip
    assert not [e for e in events if e["eventType"] == "FAIL"]

    def datasets(event, side):
        return {d["name"]: d for d in event[side]}

    query = datasets(ended["query"], "outputs")["shop.orders"]
    assert query["namespace"] == "hive://hive_acid_default"  # the server of the tests has no address but a socket
    assert query["facets"]["dataSource"]["uri"].startswith("postgresql:///metastore_")
    fields = query["facets"]["columnLineage"]["fields"]
    (used,) = fields["amount"]["inputFields"]
    assert (used["name"], used["field"], used["transformations"][0]["subtype"]) == ("shop.prices", "price", "IDENTITY")
    assert query["outputFacets"]["outputStatistics"]["rowCount"] == 1
    assert query["outputFacets"]["outputStatistics"]["size"] > 0
    written = query["facets"]["hiveAcid_written"]
    assert (written["rowsInserted"], query["facets"]["version"]["datasetVersion"]) == (1, str(written["writeId"]))
    assert datasets(ended["query"], "inputs")["shop.prices"]["facets"]["version"]["datasetVersion"] == "1"
    assert datasets(began["query"], "inputs").keys() == {"shop.prices"}
    (files,) = ended["files"]["inputs"]
    assert files["namespace"] == "file"
    assert files["name"].endswith("/prices/*.csv")
    merge = datasets(ended["merge"], "outputs")["shop.orders"]["facets"]["columnLineage"]
    assert {(f["name"], f["field"]) for f in merge["dataset"] if f["transformations"][0]["subtype"] == "JOIN"} == {
        ("shop.orders", "item"), ("shop.prices", "item"),
    }  # fmt: skip
    exported = [o for o in ended["orders"]["outputs"] if o["namespace"] == "file"]
    assert [o["outputFacets"]["outputStatistics"]["rowCount"] for o in exported] == [2]
    assert datasets(ended["totals"], "inputs")
    for name in ended.keys() - {"tables"}:
        (txn,) = ended[name]["run"]["facets"]["hiveAcid_transactions"]["transactions"]
        assert txn["state"] == ("read" if name in ("orders", "totals") else "committed")  # an export writes no table
    assert "cold" not in json.dumps([e["job"]["facets"].get("sql") for e in events])


def _the_first_ten_minutes(registered):
    """The statements of docs/tutorials/getting-started.md, and its DAG: the commit it waits for is there."""
    page = (EXAMPLES.parent / "docs" / "tutorials" / "getting-started.md").read_text()
    tables, insert, query = re.findall(r'hive-acid sql -e "([^"]*)"', page)
    with HiveAcidHook() as hook, hook.get_engine() as engine:
        engine.run(tables.replace("CREATE DATABASE shop;", ""))  # the other examples have made it
        engine.run(insert)
    finished = registered(example("getting_started")).test()
    assert str(finished.state) == "success"
    told = results(finished)
    assert told["visited"]["write_ids"] == [1]
    assert (told["correct"]["updated"], told["sum_up"]["inserted"]) == (3, 2)
    assert looked_up(query) == [[["/cake", 1], ["/tea", 2]]]
    printed = re.search(r"```python\n(.*?)```", page, re.S).group(1)
    assert "".join(printed.split()) in "".join((EXAMPLES / "getting_started.py").read_text().split())


def _four_tasks_are_one_transaction(registered):
    """Two tables, four Spark jobs of as many tasks, each of which sees what those before it wrote."""
    acid = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    with HiveAcidHook() as hook, hook.get_engine() as engine:
        engine.run(
            f"CREATE DATABASE bank; CREATE TABLE bank.accounts (id INT, amount DECIMAL(10,2), closed BOOLEAN) {acid}"
        )
        engine.run(f"CREATE TABLE bank.journal (id INT, amount DECIMAL(10,2)) PARTITIONED BY (day STRING) {acid}")
        engine.run("INSERT INTO bank.accounts VALUES (1, 100.00, false), (2, 50.00, false)")
    finished = registered(example("transaction_dag")).test()
    assert str(finished.state) == "success"
    told = results(finished)
    committed = told["book.commit"]
    assert (told["book.check"], told["book.close"]["returned"]) == ("151.50 booked", {"booked": 2})
    assert told["report"] == f"txn {committed['txn_id']}: 4 updated, 2 inserted"
    assert {s["txn_id"] for s in committed["statements"]} == {told["book.begin"]["txn_id"]}
    accounts, journal = looked_up(
        "SELECT id, amount, closed FROM bank.accounts ORDER BY id",
        "SELECT id, amount, day FROM bank.journal ORDER BY id",
    )
    assert accounts == [[1, Decimal("101.00"), True], [2, Decimal("50.50"), True]]
    assert journal == [[1, Decimal("101.00"), "2026-01-31"], [2, Decimal("50.50"), "2026-01-31"]]


def _values_are_values(engine, client):
    """Texts that end statements elsewhere, and every type, through rows and literals and back."""
    engine.run(
        "CREATE DATABASE db; CREATE TABLE db.v (id INT, t STRING, amount DECIMAL(38,10), at TIMESTAMP, raw BINARY, "
        "tags ARRAY<STRUCT<a:DECIMAL(5,2),d:DATE>>) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    table = client.catalog.get_table("db.v")
    rows = [{"id": i, "t": text} for i, text in enumerate(HOSTILE)]
    rows.append({
        "id": 99, "t": "\U0001f600", "amount": Decimal("-1234567890123456789012345678.0123456789"), "raw": b"\x00'\xff",
        "at": datetime(2026, 3, 29, 2, 30, 0, 123456, timezone.utc),
        "tags": [{"a": Decimal("1.50"), "d": date(2026, 1, 31)}],
    })  # fmt: skip
    engine.run(insert_statement("db.v", rows_query(rows, table, (), ())))
    for i, text in enumerate(HOSTILE):
        if "\0" not in text and i % 6 == 0:
            engine.run(update_statement("db.v", None, {"t": f"{text}!"}, "t = :old", {"old": text}))
    found = engine.query("SELECT id, t FROM db.v WHERE id < 99 ORDER BY id").rows
    assert found == [[i, f"{t}!" if i % 6 == 0 and "\0" not in t else t] for i, t in enumerate(HOSTILE)]
    (last,) = engine.query("SELECT t, amount, at, raw, tags FROM db.v WHERE id = 99").rows
    assert last == [
        "\U0001f600", Decimal("-1234567890123456789012345678.0123456789"), "2026-03-29 02:30:00.123456", "0027FF",
        [{"a": 1.5, "d": "2026-01-31"}],
    ]  # fmt: skip


def _jobs_that_fail_change_nothing(engine):
    """Time line:

    t1  a job asks for an insert and an update, and fails, or one of them does: nothing has happened
    t2  it succeeds: both have happened, in one txn
    t3  it is tried again, because Airflow knows nothing of t2: the result of t2, nothing twice (R14)
    """
    (before,) = engine.query("SELECT count(*) FROM db.v").rows
    for what, words in (("python", "a reason"), ("change", "no")):
        call = Call("failing.py", {"db.v": "update"}, FAILING, arguments={"what": what})
        with pytest.raises(HiveAcidError, match=words):
            engine.call(call)
    with pytest.raises(HiveAcidError, match=r"db\.v"):
        engine.call(Call("failing.py", {"db.v": "insert"}, FAILING, arguments={"what": "too much"}))
    assert engine.query("SELECT count(*) FROM db.v").rows == [before]
    call = Call("failing.py", {"db.v": "update"}, FAILING, arguments={"what": "nothing"})
    first, second = (engine.call(call, once=Once(("a", "try"))) for _ in range(2))
    assert (first.inserted, first.rows.rows) == (before[0], [['"done"']])
    assert (second.txn_id, second.rows.rows) == (first.txn_id, first.rows.rows)
    assert engine.query("SELECT count(*) FROM db.v").rows == [[2 * before[0]]]


def _exports_replace_only_exports(engine, tmp_path):
    """What a retry finds is its own; what somebody else has put there stays."""
    once = Once(("export", "try"))
    place = Destination(str(tmp_path / "out" / "v"), "json")
    first, second = (engine.export("SELECT id FROM db.v", place, once=once) for _ in range(2))
    assert (first.rows, second) == (26, first)
    with pytest.raises(AlreadyExistsError, match="exists already"):
        engine.export("SELECT id FROM db.v", place)
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["v"]
