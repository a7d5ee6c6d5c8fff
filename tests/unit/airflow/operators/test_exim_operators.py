"""Operators that dump and import tables: the one statement that each runs, whatever it is given."""

import pytest

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.operators.exim import HiveAcidExportTableOperator, HiveAcidImportTableOperator
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.transfers import ExportTable, ImportTable


@pytest.mark.parametrize(("kind", "arguments", "sql"), [
    (HiveAcidExportTableOperator, {"table": "w.t", "location": "/d"}, "EXPORT TABLE `w`.`t` TO '/d'"),
    (HiveAcidExportTableOperator,
     {"table": "t", "location": "/d", "partitions": [{"ds": "a'b", "h": 1}, {"ds": "2"}], "replication": "7"},
     "EXPORT TABLE `default`.`t` PARTITION (`ds` = 'a\\'b', `h` = '1'), PARTITION (`ds` = '2') TO '/d' "
     "FOR REPLICATION('7')"),
    (HiveAcidExportTableOperator, {"table": "w.t", "location": "/d", "replication": "7", "metadata_only": True},
     "EXPORT TABLE `w`.`t` TO '/d' FOR METADATA REPLICATION('7')"),
    (HiveAcidImportTableOperator, {"source": "/d"}, "IMPORT FROM '/d'"),
    (HiveAcidImportTableOperator,
     {"source": "/d", "table": "w.t", "partitions": [{"ds": "1"}], "external": True, "location": "/e"},
     "IMPORT EXTERNAL TABLE `w`.`t` PARTITION (`ds` = '1') FROM '/d' LOCATION '/e'"),
])  # fmt: skip
def test_the_statement(kind, arguments, sql):
    operator = kind(task_id="t", **arguments)
    assert operator.lineage_script() == sql
    statements = parse_script(sql)
    assert [type(s) for s in statements] == [ExportTable if kind is HiveAcidExportTableOperator else ImportTable]


@pytest.mark.parametrize("text", ["x'; DROP TABLE w.kept; --", "`; DROP TABLE w.kept", "\\'; DROP TABLE w.kept"])
@pytest.mark.parametrize(("kind", "arguments"), [
    (HiveAcidExportTableOperator, {"table": "w.t", "location": "{}"}),
    (HiveAcidExportTableOperator, {"table": "w.t", "location": "/d", "replication": "{}"}),
    (HiveAcidExportTableOperator, {"table": "{}", "location": "/d"}),
    (HiveAcidExportTableOperator, {"table": "w.t", "location": "/d", "partitions": [{"ds": "{}"}]}),
    (HiveAcidExportTableOperator, {"table": "w.t", "location": "/d", "partitions": [{"{}": "1"}]}),
    (HiveAcidImportTableOperator, {"source": "{}"}),
    (HiveAcidImportTableOperator, {"source": "/d", "table": "{}"}),
    (HiveAcidImportTableOperator, {"source": "/d", "location": "{}"}),
])  # fmt: skip
def test_hostile_text_is_data_or_refused(kind, arguments, text):
    def filled(value):
        if isinstance(value, list):
            return [{filled(k): filled(v) for k, v in spec.items()} for spec in value]
        return text if value == "{}" else value

    operator = kind(task_id="t", **{name: filled(value) for name, value in arguments.items()})
    try:
        script = operator.lineage_script()
        found = parse_script(script)
    except HiveAcidError:
        return
    assert [type(s) for s in found] == [ExportTable if kind is HiveAcidExportTableOperator else ImportTable]


@pytest.mark.parametrize(("kind", "arguments", "words"), [
    (HiveAcidExportTableOperator, {"table": "t", "location": "/d", "metadata_only": True}, "is for replication"),
    (HiveAcidImportTableOperator, {"source": "/d", "external": True}, "need the table"),
    (HiveAcidImportTableOperator, {"source": "/d", "partitions": [{"ds": "1"}]}, "need the table"),
])  # fmt: skip
def test_arguments_that_cannot_be_meant_are_refused_where_the_dag_is_parsed(kind, arguments, words):
    with pytest.raises(ValueError, match=words):
        kind(task_id="t", **arguments)
