"""What is gathered while statements run, and the OpenLineage datasets and facets that come of it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from jsonschema import Draft202012Validator
from openlineage.client.serde import Serde

from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.hooks.lineage import Collected, namespace_of
from airflow_hive_acid.operators.lineage.openlineage import Place, location, operator_lineage
from airflow_hive_acid.settings import Settings, Source
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.planning.named_tables import touched

FACETS = Path(__file__).parents[4] / "docs" / "facets"
PLACE = Place("hive://metastore:9083", "lake", "postgresql://db:5432/metastore")
SECRET = "do-not-tell-77ab"
TABLES = (
    "CREATE TABLE w.people (id INT COMMENT 'who', name STRING, age INT) STORED AS ORC "
    "TBLPROPERTIES ('transactional'='true'); "
    "CREATE TABLE w.totals (name STRING, people BIGINT) PARTITIONED BY (day STRING) STORED AS ORC "
    "TBLPROPERTIES ('transactional'='true')"
)
VIEW = (
    "CREATE TEMPORARY VIEW given (k INT, name STRING) USING csv "
    f"OPTIONS (path 's3a://k:{SECRET}@Bucket/in/x.csv?t={SECRET}', password '{SECRET}')"
)
TOTALS = (
    "INSERT INTO w.totals PARTITION (day = 'd') SELECT upper(name), count(*) FROM w.people WHERE age > 3 GROUP BY name"
)


@pytest.fixture
def told(engine, events):
    """Runs statements, and tells their lineage as a task would, as plain JSON values."""
    engine.run(TABLES)

    def run(sql, **how):
        events.clear()
        with contextlib.suppress(JobFailedError):
            engine.run(sql, **how)
        return document(sql, gathered(events))

    return run


def gathered(events):
    collected = Collected()
    for event in events:
        collected(event)
    return collected


def document(sql, collected, **how):
    lineage = operator_lineage(PLACE, touched(parse_script(sql)), collected, **how)
    plain = [Serde.to_dict(dataset) for dataset in (*lineage.inputs, *lineage.outputs)]
    return SimpleNamespace(
        inputs={d["name"]: d for d in plain[: len(lineage.inputs)]},
        outputs={d["name"]: d for d in plain[len(lineage.inputs) :]},
        run={key: Serde.to_dict(facet) for key, facet in lineage.run_facets.items()},
        job={key: Serde.to_dict(facet) for key, facet in lineage.job_facets.items()},
        text=json.dumps(
            [plain, [Serde.to_dict(f) for f in (*lineage.run_facets.values(), *lineage.job_facets.values())]]
        ),
    )


def used(facet, column):
    return {
        (f["name"], f["field"], t["type"], t["subtype"])
        for f in facet["fields"][column]["inputFields"]
        for t in f["transformations"]
    }


def test_tables_are_told_with_write_ids_rows_bytes_and_columns(told):
    told("INSERT INTO w.people VALUES (1, 'a', 2)")
    found = told(TOTALS)
    people, totals = found.inputs["w.people"], found.outputs["w.totals"]
    assert people["namespace"] == totals["namespace"] == PLACE.namespace
    assert people["facets"]["version"]["datasetVersion"] == "1"
    fields = people["facets"]["schema"]["fields"]
    assert [(f["name"], f["type"]) for f in fields] == [("id", "int"), ("name", "string"), ("age", "int")]
    assert fields[0]["description"] == "who"
    assert totals["facets"]["version"]["datasetVersion"] == "1"
    assert totals["facets"]["hiveAcid_written"]["rowsInserted"] == 1
    statistics = totals["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (1, 4, 1)
    (link,) = totals["facets"]["symlinks"]["identifiers"]
    assert (link["namespace"], link["type"]) == ("file", "LOCATION")
    assert link["name"].endswith("/w.db/totals")
    assert totals["facets"]["storage"]["fileFormat"] == "orc"
    lineage = totals["facets"]["columnLineage"]
    assert used(lineage, "name") == {("w.people", "name", "DIRECT", "TRANSFORMATION")}
    assert set(lineage["fields"]) == {"name"}
    assert {(f["field"], t["subtype"]) for f in lineage["dataset"] for t in f["transformations"]} == {
        ("age", "FILTER"), ("name", "GROUP_BY"),
    }  # fmt: skip
    (txn,) = found.run["hiveAcid_transactions"]["transactions"]
    assert (txn["state"], txn["writeIds"]) == ("committed", {"w.totals": 1})
    assert txn["snapshot"] == {"w.people": 1, "w.totals": 0}
    assert found.job["sql"]["query"] == TOTALS


def test_what_failed_is_told_by_name_and_what_was_committed_before_with_its_numbers(told, fake):
    """Time line:

    t1  the first statement is committed
    t2  the second one fails in Spark: its txn is aborted
    """
    fake.meanwhile = lambda spec: fake.fail("JobFailedError", "no")  # the next one
    found = told("; ".join(["INSERT INTO w.people VALUES (1, 'a', 2)", TOTALS]))
    assert found.outputs["w.people"]["facets"]["hiveAcid_written"]["writeId"] == 1
    assert "outputStatistics" not in found.outputs["w.totals"].get("outputFacets", {})
    assert "hiveAcid_written" not in found.outputs["w.totals"]["facets"]
    assert "w.people" in found.inputs
    assert [t["state"] for t in found.run["hiveAcid_transactions"]["transactions"]] == ["committed", "aborted"]


def test_a_retry_tells_what_the_earlier_try_has_written(told, fake):
    once = Once(("airflow", "d", "r", "t", "-1"), "1")
    told(TOTALS, once=once)
    jobs = len(fake.specs)
    found = told(TOTALS, once=once)
    assert len(fake.specs) == jobs
    written = found.outputs["w.totals"]["facets"]["hiveAcid_written"]
    assert (written["writeId"], written["rowsInserted"]) == (1, 1)
    statistics = found.outputs["w.totals"]["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics.get("size")) == (1, None)
    assert used(found.outputs["w.totals"]["facets"]["columnLineage"], "name")
    assert found.run["hiveAcid_transactions"]["transactions"][0]["state"] == "committed"


def test_before_anything_runs_names_are_known_from_the_words():
    script = (
        f"{TABLES}; {VIEW}; {TOTALS}; ALTER TABLE w.people RENAME TO w.persons; TRUNCATE TABLE w.old; DROP TABLE w.gone"
    )
    found = document(script, None)
    assert list(found.inputs) == ["w.people"]
    changes = {
        n: d["facets"].get("lifecycleStateChange", {}).get("lifecycleStateChange") for n, d in found.outputs.items()
    }
    assert changes == {
        "w.people": "CREATE", "w.totals": "CREATE", "w.persons": "RENAME", "w.old": "TRUNCATE", "w.gone": "DROP",
    }  # fmt: skip
    renamed = found.outputs["w.persons"]["facets"]["lifecycleStateChange"]["previousIdentifier"]
    assert renamed["name"] == "w.people"
    assert (found.run, found.job) == ({}, {})


def test_files_are_datasets_of_their_own_and_tell_no_secret(told):
    """S6: neither the options of a view nor what a path carries besides the place."""
    script = "; ".join([VIEW, "INSERT INTO w.people (id, name) SELECT k, name FROM given WHERE name <> 'x'"])
    found = told(script)
    files = found.inputs["in/x.csv"]
    assert files["namespace"] == "s3://Bucket"
    assert [f["name"] for f in files["facets"]["schema"]["fields"]] == ["k", "name"]
    lineage = found.outputs["w.people"]["facets"]["columnLineage"]
    assert used(lineage, "id") == {("in/x.csv", "k", "DIRECT", "IDENTITY")}
    assert SECRET not in found.text


def test_an_export_tells_its_files(told, events):
    told("SELECT id, upper(name) AS name FROM w.people")
    result = {"rows": 5, "files": 2, "bytes": 99}
    found = document("SELECT id, name FROM w.people", gathered(events), files="hdfs://nn:8020/out/x", result=result)
    (files,) = found.outputs.values()
    assert (files["namespace"], files["name"]) == ("hdfs://nn:8020", "/out/x")
    assert files["outputFacets"]["outputStatistics"]["rowCount"] == 5
    assert used(files["facets"]["columnLineage"], "name") == {("w.people", "name", "DIRECT", "TRANSFORMATION")}


def test_texts_with_values_are_told_without_them(told, events):
    sql = f"UPDATE w.people SET name = '{SECRET}', age = 42 WHERE id = 7"  # noqa: S608
    told(sql)
    found = document(sql, gathered(events), literals=False)
    assert found.job["sql"]["query"] == "UPDATE w.people SET name = ?, age = ? WHERE id = ?"
    assert SECRET not in found.text


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/a/b", ("file", "/a/b")),
        ("file:/a/b", ("file", "/a/b")),
        ("s3a://key:word@Bucket/a/b/", ("s3://Bucket", "a/b")),
        ("hdfs://nn:8020/a", ("hdfs://nn:8020", "/a")),
        ("abfss://u:p@host/a?sig=x", ("abfss://host", "/a")),
    ],
)
def test_places_are_told_without_credentials(uri, expected):
    assert location(uri) == expected


@pytest.mark.parametrize(
    ("uris", "url", "expected"),
    [
        ("thrift://ms1:9083,thrift://ms2:9083", "postgresql://u:p@db:5432/m", "hive://ms1:9083"),
        ("", "postgresql://u:p@db:5432/m", "hive://db:5432"),
        ("", "mysql://u:p@db/m", "hive://db"),
        ("", "sqlite:////data/m.db", "hive://lake"),
    ],
)
@pytest.mark.setting("hive.metastore.uris")
def test_the_namespace_is_the_address_that_is_known(uris, url, expected):
    connection = SimpleNamespace(conn_id="lake", metastore_url=sa.make_url(url))
    settings = Settings({Source.CONNECTION: {"hive.metastore.uris": uris}})
    assert namespace_of(connection, settings) == expected


def test_our_facets_are_what_their_schemas_say(told):
    found = told("UPDATE w.people SET age = age + 1 WHERE id > 3")
    facets = {
        "HiveAcidTransactionsRunFacet": found.run["hiveAcid_transactions"],
        "HiveAcidWrittenDatasetFacet": found.outputs["w.people"]["facets"]["hiveAcid_written"],
    }
    for name, facet in facets.items():
        schema = json.loads((FACETS / f"{name}-1-0-0.json").read_text())
        assert facet["_schemaURL"] == schema["$id"]
        own = schema["$defs"][name]["allOf"][1]
        Draft202012Validator({**own, "$defs": schema["$defs"], "unevaluatedProperties": True}).validate(facet)
        assert set(facet) - {"_producer", "_schemaURL"} == set(own["properties"])
