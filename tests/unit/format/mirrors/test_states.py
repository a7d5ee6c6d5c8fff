"""What a mirror needs next: decisions on values, written out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.mirrors import (
    ColumnStep,
    MirrorState,
    MirrorTarget,
    SourceTable,
    TargetFormat,
    Todo,
    checked_key,
    column_steps,
    decide,
    key_now,
    made_since,
    may_become,
    next_state,
    partition_digests,
)

SOURCE = SourceTable(
    table="w.t",
    table_id=7,
    columns=(("id", "int"), ("s", "string")),
    partition_columns=(("p", "int"),),
    write_id=5,
    write_ids="w.t:5:9223372036854775807::",
    newest_partition=3,
    partitions="abc",
)
STATE = MirrorState(SOURCE, ("id",), 4)


def decided(key=None, again=False, state=STATE, **changed):
    return decide(state, replace(SOURCE, **changed), key, again=again)


def test_two_runs_of_one_state_need_not_have_seen_the_same_event():
    assert replace(STATE, event=(7, 1)).holds_the_same(replace(STATE, event=(8, 2)))
    assert not STATE.holds_the_same(replace(STATE, sequence=5))


def test_without_a_state_the_table_is_copied_whole():
    found = decide(None, SOURCE, ["id"])
    assert (found.todo, found.reason) == (Todo.BOOTSTRAP, "the target holds nothing yet")


def test_without_news_nothing_is_done():
    found = decided()
    assert (found.todo, found.reason) == (Todo.NOTHING, "the target has everything up to write id 5")
    assert decided(key=["id"]).todo is Todo.NOTHING


def test_what_was_committed_since_is_followed():
    found = decided(write_id=9)
    assert (found.todo, found.first, found.last, found.steps) == (Todo.FOLLOW, 6, 9, ())
    assert found.reason == "write ids 6 to 9"
    assert not found.partitions_changed


@pytest.mark.parametrize(
    ("columns", "follows"),
    [
        ((("id", "int"), ("text", "string")), False),
        ((("id", "bigint"), ("s", "string")), False),
        ((("id", "int"), ("s", "string"), ("more", "int")), True),
    ],
)
def test_an_insert_only_table_whose_columns_were_renamed_or_widened_is_copied_again(columns, follows):
    """Parquet is read by names: a renamed column is NULL in the rows before, and the target would keep their values."""
    before = MirrorState(replace(SOURCE, insert_only=True), (), 4)
    found = decided(state=before, insert_only=True, columns=columns)
    assert found.todo is (Todo.FOLLOW if follows else Todo.BOOTSTRAP)
    assert decided(columns=columns).todo is Todo.FOLLOW


def test_partitions_that_came_or_went_by_no_write_id_are_news():
    found = decided(partitions="def")
    assert (found.todo, found.partitions_changed, found.reason) == (
        Todo.FOLLOW, True, "only the definition has changed",
    )  # fmt: skip
    assert (found.first, found.last) == (6, 5)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"table_id": 8}, "w.t was dropped and made again"),
        ({"table_id": 8, "table": "w.u"}, "the target holds w.t"),
        ({"partition_columns": (("p", "bigint"),)}, "the partition columns have changed"),
        ({"write_id": 4}, "the target has write id 5, and the source knows only 4"),
        ({"moved": "x"}, "a partition was moved to another place, or one lies elsewhere than its name says"),
        ({"insert_only": True}, "the table has become another kind of ACID table"),
        ({"columns": (("id", "string"), ("s", "string"))},
         "the columns have changed from (id int, s string) to (id string, s string), which the target cannot follow in "
         "place"),
        ({"columns": (("id", "int"),)},
         "the columns have changed from (id int, s string) to (id int), which the target cannot follow in place"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_says_so_and_is_copied_again(changed, reason):
    found = decided(**changed)
    assert (found.todo, found.reason) == (Todo.BOOTSTRAP, reason)


def test_a_renamed_table_is_the_same_table():
    assert decided(table="w.u").todo is Todo.NOTHING


def test_another_key_makes_another_copy():
    assert decided(key=["s"]).reason == "the key was id, and is to be s"
    assert decided(key=[]).reason == "the key was id, and is to be ROW__ID"


def test_a_key_whose_columns_got_other_names_is_the_same_key():
    renamed = (("nr", "int"), ("s", "string"))
    assert key_now(STATE, replace(SOURCE, columns=renamed)) == ("nr",)
    assert key_now(STATE, replace(SOURCE, columns=renamed, table_id=8)) == ("id",)
    for key in (None, ["id"], ["nr"]):
        assert decided(key=key, columns=renamed).todo is Todo.FOLLOW
    assert decided(key=["s"], columns=renamed).todo is Todo.BOOTSTRAP


def test_rebalancing_matters_only_to_rows_known_by_their_ids():
    assert decided(rebalanced=12).todo is Todo.NOTHING
    found = decided(state=MirrorState(SOURCE, (), 4), rebalanced=12)
    assert (found.todo, found.reason) == (Todo.BOOTSTRAP, "a rebalancing compaction has given the rows other ids")


def test_somebody_may_ask_for_a_new_copy():
    assert decided(again=True).reason == "it was asked for"


def test_a_source_with_another_log_is_copied_whole_whatever_its_write_ids_say():
    for write_id in (5, 9):
        found = decide(STATE, replace(SOURCE, write_id=write_id), None, other_log=True)
        assert (found.todo, found.reason) == (
            Todo.BOOTSTRAP,
            "the source is another metastore than it was at write id 5, or was restored from a backup",
        )


def test_a_state_survives_its_text():
    assert MirrorState.parse(STATE.to_text()) == STATE
    with_event = replace(STATE, event=(71, 1_700_000_000))
    assert MirrorState.parse(with_event.to_text()) == with_event
    assert next_state(SOURCE, ["id"], 3, (71, 1_700_000_000)) == with_event
    assert next_state(SOURCE, ["id"], 4) == MirrorState(SOURCE, ("id",), 5)


@pytest.mark.parametrize("text", ["", "x", "{}", "[]", "null", '{"version": 2}', STATE.to_text()[:-1],
                                  STATE.to_text().replace('"table_id":7,', "")])  # fmt: skip
def test_what_somebody_else_wrote_is_no_state(text):
    with pytest.raises(InvalidArgumentsError, match="is no state of a mirror that this release reads"):
        MirrorState.parse(text)


BEFORE = (("a", "int"), ("b", "varchar(5)"), ("c", "decimal(5,2)"))


@pytest.mark.parametrize(
    ("after", "steps"),
    [
        (BEFORE, ()),
        ((("a", "integer"), ("b", "VARCHAR(5)"), ("c", "decimal(5, 2)")), ()),
        ((*BEFORE, ("d", "date")), (ColumnStep("d", "date"),)),
        ((("x", "int"), *BEFORE[1:]), (ColumnStep("x", "int", "a"),)),
        ((("a", "bigint"), *BEFORE[1:]), (ColumnStep("a", "bigint", "a", True),)),
        ((("x", "bigint"), ("b", "string"), ("c", "decimal(9,2)")),
         (ColumnStep("x", "bigint", "a", True), ColumnStep("b", "string", "b", True),
          ColumnStep("c", "decimal(9,2)", "c", True))),
        # Not in place: other scales, smaller types, texts of numbers, a lost column, names that change places.
        ((("a", "int"), ("b", "varchar(5)"), ("c", "decimal(9,3)")), None),
        ((("a", "smallint"), *BEFORE[1:]), None),
        ((("a", "string"), *BEFORE[1:]), None),
        ((("a", "double"), *BEFORE[1:]), None),
        ((("a", "int"), ("b", "char(9)"), BEFORE[2]), None),
        (BEFORE[:2], None),
        ((("b", "int"), ("a", "varchar(5)"), BEFORE[2]), None),
        ((("x", "int"), *BEFORE[1:], ("a", "int")), None),
    ],
)  # fmt: skip
def test_columns_follow_by_their_position(after, steps):
    assert column_steps(BEFORE, after) == steps


@pytest.mark.parametrize(
    ("there", "after", "may"),
    [
        ("ab", "ab", True),
        ("ab", "cd", True),
        ("cb", "cd", True),  # a run died after the first step
        ("cd", "cd", True),
        ("ab", "abn", True),
        ("abn", "abn", True),
        ("cb", "eb", False),  # it died, and then the column was renamed once more
        ("cb", "ab", False),  # or got its name back
        ("ax", "xy", False),  # x is b, which was called so for a while
        ("abn", "nb", False),  # n was added, and went, and a is called so now
        ("abn", "abm", False),
        ("abz", "ab", False),
    ],
)
def test_what_a_run_that_died_has_made_is_not_taken_for_another_column(there, after, may):
    state, now = [(name, "int") for name in "ab"], [(name, "int") for name in after]
    assert may_become(there, column_steps(state, now), after) is may


def test_steps_say_what_they_are():
    added, renamed = ColumnStep("d", "date"), ColumnStep("x", "int", "a")
    assert (added.is_added, added.is_renamed) == (True, False)
    assert (renamed.is_added, renamed.is_renamed) == (False, True)


@pytest.mark.parametrize(
    ("text", "format", "place"),
    [
        ("iceberg:ice.db.t", TargetFormat.ICEBERG, "ice.db.t"),
        ("iceberg:ice.a.b.c.t_1", TargetFormat.ICEBERG, "ice.a.b.c.t_1"),
        ("delta:/a/b/", TargetFormat.DELTA, "/a/b"),
        ("delta:s3a://bucket/a b", TargetFormat.DELTA, "s3a://bucket/a b"),
        ("delta:file:/a", TargetFormat.DELTA, "file:/a"),
    ],
)
def test_targets_are_read(text, format, place):
    found = MirrorTarget.parse(text)
    assert (found.format, found.place) == (format, place)
    assert MirrorTarget.parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    ["", "x", "hudi:a.b.c", "iceberg:", "iceberg:t", "iceberg:db.t", "iceberg:a.b.c;drop", "iceberg:a.b.`c`",
     "iceberg:a.b.c d", "iceberg:a..c", "delta:", "delta:/", "delta:a", "delta:/a/../b", "delta:/a`b", "delta:/a\nb",
     "delta:/a*", "delta:://x", "delta:s3a://", "delta:/" + "x" * 1001, "iceberg:" + "a." * 20 + "b", None, 7],
)  # fmt: skip
def test_what_is_no_target_is_refused(text):
    with pytest.raises(InvalidArgumentsError, match="target"):
        MirrorTarget.parse(text)


def test_keys_are_lists_of_different_names():
    assert checked_key(None) is None
    assert checked_key("ID") == ("id",)
    assert checked_key([" A", "b"]) == ("a", "b")
    assert checked_key([]) == ()
    for wrong in (["a", "A"], [""], [1], 7, {"a": 1}):
        with pytest.raises(InvalidArgumentsError, match="key"):
            checked_key(wrong)


def test_digests_of_partitions_tell_what_is_there_and_what_lies_elsewhere():
    at_home = [(1, "p=1", "file:/w/t/p=1"), (4, "p=2", "file:/w/t/p=2/")]
    newest, digest, moved = partition_digests(at_home, "file:/w/t")
    assert (newest, moved) == (4, "")
    assert partition_digests(at_home[::-1], "file:/w/t/") == (newest, digest, moved)
    assert partition_digests(at_home[:1], "file:/w/t")[1] != digest
    assert partition_digests([at_home[0], (5, "p=2", "file:/w/t/p=2")], "file:/w/t")[1] != digest
    away = partition_digests([at_home[0], (4, "p=2", "file:/elsewhere")], "file:/w/t")
    assert (away[1] == digest, away[2] != "") == (True, True)
    assert partition_digests([], "file:/w/t") == (0, "", "")


def test_partitions_that_others_may_have_replaced_are_told_by_their_ids_and_by_who_altered_them_last():
    """Two partitions swap their names: neither id is new, and no write id has written a row."""
    ids = {"p=1": 11, "p=2": 12, "p=3": 13}
    newest, digest, _ = partition_digests([(id_, name, "file:/w/t/" + name) for name, id_ in ids.items()], "file:/w/t")
    before = replace(SOURCE, write_id=5, newest_partition=newest, partitions=digest)
    written = dict.fromkeys(ids, 5)
    assert made_since(before, ids, written) == set()
    # What is only written is followed by its write ids, also when others are made.
    assert made_since(before, {**ids, "p=4": 14}, {**written, "p=1": 6, "p=4": 7}) == {"p=4"}
    swapped = {"p=1": 12, "p=2": 11, "p=3": 13}
    assert made_since(before, swapped, {**written, "p=1": 8, "p=2": 7}) == {"p=1", "p=2"}
    assert made_since(before, swapped, {"p=3": 5}) == {"p=1", "p=2"}
    assert made_since(before, {"p=2": 11, "p=3": 13}, {"p=2": 6, "p=3": 5}) == {"p=2"}
    assert made_since(before, {"p=2": 12, "p=3": 13}, written) == set()
