"""Streams, the pure part: columns of a stream against those of its table, the budget of deltas, arguments."""

from __future__ import annotations

import inspect

import pytest

from airflow_hive_acid.engine.streams.budget import Budget, Pressure, pressure
from airflow_hive_acid.engine.streams.columns import Reconciled, fits, reconcile
from airflow_hive_acid.errors import InvalidArgumentsError, StreamSchemaError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.streams import SINK, StreamOptions, check_sink, open_question
from airflow_hive_acid.settings import Settings, Source
from airflow_hive_acid.spark.streaming.sink import hive_acid_sink

TABLE = [Column("id", "bigint"), Column("name", "varchar(10)"), Column("price", "decimal(10,2)")]
DAY = [Column("day", "date")]


def columns(text):
    return [Column(*each.split(" ", 1)) for each in text.split("; ")]


def options(**given):
    return StreamOptions("s", "w.t", "q", **given)


def test_columns_are_matched_by_name_and_written_in_the_tables_order_with_partitions_last():
    given = columns("day date; Price decimal(4,1); ID int; name string")
    assert reconcile(options(), TABLE, DAY, given) == Reconciled(("id", "name", "price", "day"))


def test_a_partition_value_of_its_own_takes_the_column_out_of_the_stream():
    given = columns("id int; name string; price decimal(4,1)")
    found = reconcile(options(partition={"DAY": "2026-11-22"}), TABLE, DAY, given)
    assert found.written == ("id", "name", "price")
    with pytest.raises(StreamSchemaError, match=r"column day .* partition column with a value of its own"):
        reconcile(options(partition={"day": "2026-11-22"}), TABLE, DAY, [*given, Column("day", "date")])


NEW = "id bigint; name string; price decimal(10,2); size int"


@pytest.mark.parametrize(
    ("rules", "given", "expected"),
    [
        ({"on_new_column": "add"}, NEW, Reconciled(("id", "name", "price", "size"), (Column("size", "int"),))),
        ({"on_new_column": "ignore"}, NEW, Reconciled(("id", "name", "price"), (), ("size",))),
        (
            {"on_missing_column": "null"},
            "id bigint; price decimal(4,1)",
            Reconciled(("id", "price"), (), (), ("name",), ("name",)),
        ),
        (
            {"on_missing_column": "default"},
            "id bigint; price decimal(4,1)",
            Reconciled(("id", "price"), (), (), ("name",)),
        ),
        ({"on_type_change": "convert"}, "id string; name int; price double", Reconciled(("id", "name", "price"))),
    ],
)
def test_what_a_changed_column_does_is_a_setting(rules, given, expected):
    assert reconcile(options(**rules), TABLE, [], columns(given)) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (NEW, r"column size \(int\) of stream s is not in w.t .*on_new_column='add'"),
        ("id bigint; price int", r"lacks column name of w.t; say on_missing_column='null'"),
        ("id string; name string; price int", r"column id of w.t is bigint, and stream s has string; say on_type"),
        ("id int; ID int; name string; price int", r"two columns id"),
        ("id int; __acid_deleted boolean", r"column __acid_deleted of stream s has a name used internally; rename it"),
    ],
)
def test_without_a_setting_a_changed_column_is_an_error_that_names_it(given, message):
    with pytest.raises(StreamSchemaError, match=message):
        reconcile(options(), TABLE, [], columns(given))


@pytest.mark.parametrize("rule", ["fail", "add", "ignore"])
def test_columns_that_only_decide_need_no_place_in_the_table_whatever_the_rule_is(rule):
    """But one that the table has is written like any other, and one that nothing needs is still new."""
    found = reconcile(options(on_new_column=rule), TABLE, [], columns(f"{NEW}; Op string"), ("op", "size"))
    assert found == Reconciled(("id", "name", "price"), (), ("size", "Op"))
    given = columns("id bigint; name string; price decimal(10,2); op string")
    assert reconcile(options(on_new_column=rule), TABLE, [], given, ("op", "price")).written == ("id", "name", "price")
    added = reconcile(options(on_new_column="add"), TABLE, [], columns(f"{NEW}; op string"), ("op",))
    assert (added.added, added.ignored) == ((Column("size", "int"),), ("op",))
    with pytest.raises(StreamSchemaError, match="column size"):
        reconcile(options(), TABLE, [], columns(f"{NEW}; op string"), ("op",))


def test_a_partition_column_is_never_left_out_and_a_key_is_in_both():
    with pytest.raises(StreamSchemaError, match=r"lacks day, by which w\.t is partitioned"):
        reconcile(options(on_missing_column="null"), TABLE, DAY, columns("id int"))
    with pytest.raises(StreamSchemaError, match=r"names hour, and w\.t is partitioned by day"):
        reconcile(options(partition={"hour": "1"}), TABLE, DAY, columns("id int; day date"))
    with pytest.raises(StreamSchemaError, match=r"keys= of stream s names number"):
        reconcile(options(mode="upsert", keys=("number",), on_missing_column="null"), TABLE, [], columns("id int"))


@pytest.mark.parametrize(
    ("given", "wanted", "answer"),
    [
        ("int", "bigint", True), ("bigint", "int", False), ("int", "decimal(10,0)", True),
        ("int", "decimal(9,0)", False),
        ("decimal(5,2)", "decimal(7,3)", True), ("decimal(5,2)", "decimal(5,3)", False), ("float", "double", True),
        ("double", "float", False), ("string", "char(3)", True), ("int", "string", False), ("date", "timestamp", True),
        ("timestamp", "date", False), ("timestamp", "timestamp with local time zone", True), ("void", "int", True),
        ("array<int>", "array<int>", True), ("array<int>", "array<bigint>", False), ("boolean", "int", False),
    ],
)  # fmt: skip
def test_a_type_fits_when_no_value_of_it_can_be_lost(given, wanted, answer):
    assert fits(given, wanted) is answer


def test_pressure_grows_with_the_deltas():
    """50 asks, 200 warns, from 500 to 1000 the pause grows to 5 s, at 1000 the stream stops."""
    budget = Budget.of(Settings({}))
    assert budget == Budget(50, 200, 500, 1000, 5.0, 600.0)
    assert pressure(49, budget) == Pressure(49)
    assert pressure(50, budget) == Pressure(50, asks=True)
    assert pressure(200, budget) == Pressure(200, asks=True, warns=True)
    assert pressure(500, budget) == Pressure(500, asks=True, warns=True, pause=0.01)
    assert pressure(999, budget) == Pressure(999, asks=True, warns=True, pause=5.0)
    assert pressure(1000, budget) == Pressure(1000, asks=True, warns=True, stops=True)


def test_thresholds_can_be_switched_off():
    off = {f"hive.acid.stream.deltas.{name}": "0" for name in ("compact", "warn", "slow", "stop")}
    budget = Budget.of(Settings({Source.REQUEST: off}))
    assert budget.lowest == 0
    assert pressure(10_000, budget) == Pressure(10_000)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "replace"}, "mode must be one of append, upsert"),
        ({"mode": "upsert"}, "goes with keys"),
        ({"keys": ["id"]}, "goes with keys"),
        ({"mode": "upsert", "keys": "id"}, "keys must be a list"),
        ({"latest_by": "at"}, "latest_by goes with"),
        ({"on_new_column": "drop"}, "on_new_column must be one of fail, add, ignore"),
        ({"on_bad_record": "quarantine"}, "goes with quarantine="),
        ({"quarantine": "file:/q"}, "goes with quarantine="),
        ({"mode": "upsert", "keys": ["id"], "partition": {"day": "1"}}, "partition= goes with mode='append'"),
        ({"delete_when": "op = 'd'"}, r"delete_when goes with mode='upsert' and keys=\[…\]; mode='append' has no keys"),
        ({"mode": "upsert", "keys": ["id"], "delete_when": " "}, "delete_when must be a condition .*, not ' '"),
        ({"mode": "upsert", "keys": ["id"], "delete_when": True}, "delete_when must be a condition .*, not True"),
        ({"stream": ""}, "stream must be a name"),
        ({"stream": "a\nb"}, "stream must be a name"),
    ],
)
def test_arguments_of_the_sink_that_do_not_go_together_are_named(given, message):
    with pytest.raises(InvalidArgumentsError, match=message):
        hive_acid_sink("w.t", **{"stream": "s", **given})


def test_a_streams_options_survive_the_way_to_the_other_side():
    given = options(mode="upsert", keys=("id", "day"), on_new_column="add", view="v", application_id="a", deletes=True)
    assert StreamOptions.from_document(open_question(given)) == given
    with pytest.raises(ValueError, match="a stream's options"):
        StreamOptions.from_document({"ask": "open", "stream": "s", "colour": "red"})


def test_what_a_sink_takes_is_written_down_once():
    """Operators check arguments without Spark, by a list; here it is that of the function."""
    given = inspect.signature(hive_acid_sink).parameters
    assert {name: p.default for name, p in given.items() if name not in ("table", "stream")} == SINK
    with pytest.raises(InvalidArgumentsError, match="delete is no argument of a sink; those are mode, keys"):
        check_sink({"delete": "op = 'd'"})
