"""The random programs of the interop tests and their model, without a Hive."""

from __future__ import annotations

import pytest

from tests.interop.conditions import (
    And,
    Compare,
    IsNull,
    Known,
    Literal,
    Not,
    OneOf,
    Or,
    Plus,
    Record,
    Remainder,
    Suffixed,
)
from tests.interop.programs import (
    STEPS,
    Clean,
    Compact,
    Delete,
    Insert,
    InsertSelect,
    Kind,
    Merge,
    Place,
    Side,
    Update,
    program,
)

COLUMNS = Kind.UNPARTITIONED.columns
IN_DAYS = Kind.PARTITIONED.columns
ALWAYS = Or(IsNull("id"), Not(IsNull("id")))


MONDAY, TUESDAY = Place("day", "mon"), Place("day", "tue")


def row(number: int | None, name: str | None = None, amount: int | None = None, day: str | None = None) -> Record:
    return {"id": number, "name": name, "amount": amount} | ({} if day is None else {"day": day})


def test_a_program_is_the_same_for_the_same_seed() -> None:
    assert program(7) == program(7)
    assert len({program(seed).text() for seed in range(300)}) == 300
    # Written out, because the seed of a failure must give that program in another process too.
    assert program(0).text().splitlines()[:2] == [
        "(id int, name string, amount int)",
        "hive: INSERT INTO t VALUES (6, 'tea', 8), (4, '', 3), (4, 'jam', 9), (8, NULL, 4), (NULL, 'tea', 10), "
        "(8, 'tea', 5), (3, NULL, 8), (8, 'tea', NULL)",
    ]


def test_three_hundred_programs_hold_every_step_by_both_sides_on_every_kind_of_table() -> None:
    programs = [program(seed) for seed in range(300)]
    assert {len(p.steps) for p in programs} == {STEPS}
    found = {(p.kind, side, type(step)) for p in programs for side, step in p.steps}
    steps = (Insert, InsertSelect, Update, Delete, Merge, Compact, Clean)
    assert found == {(kind, side, step) for kind in Kind for side in Side for step in steps}
    overwriting = [s for p in programs for _, s in p.steps if isinstance(s, InsertSelect) and s.overwrite]
    assert {(s.place is None, len(s.columns)) for s in overwriting} == {(True, 3), (True, 4), (False, 4)}


def test_three_hundred_programs_hold_rows_without_a_partition_value_and_every_compaction_of_theirs() -> None:
    programs = [program(seed) for seed in range(300)]
    compactions = [(p.kind, side, step) for p in programs for side, step in p.steps if isinstance(step, Compact)]
    assert {(kind, step.type) for kind, _, step in compactions} == {
        (kind, type) for kind in Kind for type in ("minor", "major", "rebalance")
    } - {(Kind.BUCKETED, "rebalance")}
    of_null = {(side, step.type) for _, side, step in compactions if step.place == Place("hour", None)}
    assert of_null >= {(side, type) for side in Side for type in ("minor", "major")} | {(Side.OURS, "rebalance")}
    assert {step.place for _, side, step in compactions if step.type == "rebalance" and side is Side.HIVE} == {None}


def test_no_program_sets_a_column_by_which_rows_are_placed() -> None:
    for seed in range(300):
        written = program(seed)
        for _, step in written.steps:
            if isinstance(step, Update):
                assert {name for name, _ in step.assignments} <= set(written.kind.changeable)
    assert Kind.BUCKETED.changeable == ("name", "amount")
    assert Kind.PARTITIONED.changeable == ("id", "name", "amount")


@pytest.mark.parametrize(
    ("condition", "known", "of_null"),
    [
        (Compare("amount", "=", 5), True, None),
        (Compare("amount", "<>", 5), False, None),
        (Compare("amount", "<=>", 5), True, False),
        (Compare("amount", "<=>", None), False, True),
        (Compare("amount", "=", None), None, None),
        (Not(Compare("amount", "=", 5)), False, None),
        (OneOf("amount", (4, 5)), True, None),
        (Remainder("amount", 3, 0), False, None),
        (IsNull("amount"), False, True),
        (Known(Compare("amount", "=", 5)), True, False),
        (And(Compare("amount", ">", 1), Compare("id", "=", 9)), False, False),
        (And(Compare("amount", ">", 1), Compare("id", "=", 1)), True, None),
        (Or(Compare("amount", ">", 1), Compare("id", "=", 1)), True, True),
        (Or(Compare("amount", ">", 1), Compare("id", "=", 9)), True, None),
    ],
)
def test_conditions_know_three_truths(condition: Compare, known: bool, of_null: bool | None) -> None:
    assert condition.holds(row(1, "a", 5)) is known
    assert condition.holds(row(1, "a", None)) is of_null


def test_a_row_of_which_the_condition_is_unknown_stays_as_it_is() -> None:
    rows = [row(1, "a", 5), row(2, "b", None), row(3, "c", 6)]
    condition = Compare("amount", ">", 5)
    assert Delete(condition).after(rows) == rows[:2]
    assert Delete(Not(condition)).after(rows) == rows[1:]
    changed = Update((("name", Literal("x", "string")),), condition).after(rows)
    assert changed == [*rows[:2], row(3, "x", 6)]


def test_an_update_computes_everything_from_the_old_row() -> None:
    update = Update((("id", Plus("amount", 1)), ("amount", Plus("id", 1)), ("name", Suffixed("name", "!"))), ALWAYS)
    assert update.after([row(1, "a", 10), row(2, None, None)]) == [row(11, "a!", 2), row(None, None, 3)]


def test_an_insert_select_copies_and_an_overwrite_replaces() -> None:
    rows = [row(1, "a"), row(2, "b")]
    condition = Compare("id", "=", 2)
    assert InsertSelect(COLUMNS, condition, 5).after(rows) == [*rows, row(7, "b")]
    assert InsertSelect(COLUMNS, condition, 0, overwrite=True).after(rows) == [row(2, "b")]
    assert InsertSelect(COLUMNS, Compare("id", "=", 9), 0, overwrite=True).after(rows) == []


def test_an_overwrite_replaces_the_named_partition_or_those_that_get_rows() -> None:
    rows = [row(1, day="mon"), row(2, day="mon"), row(3, day="tue")]
    condition = Compare("id", "=", 1)
    dynamic = InsertSelect(IN_DAYS, condition, 0, overwrite=True)
    assert dynamic.after(rows) == [row(3, day="tue"), row(1, day="mon")]
    static = InsertSelect(IN_DAYS, condition, 0, TUESDAY, overwrite=True)
    assert static.after(rows) == [row(1, day="mon"), row(2, day="mon"), row(1, day="tue")]
    nothing = InsertSelect(IN_DAYS, Compare("id", "=", 9), 0, MONDAY, overwrite=True)
    assert nothing.after(rows) == [row(3, day="tue")]


def merge(*source: Record, columns: tuple[str, ...] = COLUMNS, update_condition: IsNull | None = None) -> Merge:
    changes = (("name", Suffixed("name", "!")),)
    doomed, wanted = Compare("amount", ">", 5), Compare("amount", "<", 3)
    return Merge(columns, source, doomed, changes, wanted, update_condition)


def test_a_merge_deletes_updates_and_inserts() -> None:
    rows = [row(1, "a", 9), row(1, "b", 1), row(2, "c", 9), row(3, "d", None)]
    done = merge(row(1, "one", 1), row(3, "three", 0), row(4, "four", 2), row(5, "five", 7)).after(rows)
    assert done == [row(1, "one!", 1), row(2, "c", 9), row(3, "three!", None), row(4, "four", 2)]


def test_null_joins_nothing_in_a_merge_and_an_unknown_condition_inserts_nothing() -> None:
    rows = [row(None, "a", 9)]
    done = merge(row(None, "new", 1), row(8, "unknown", None)).after(rows)
    assert done == [row(None, "a", 9), row(None, "new", 1)]


def test_a_merge_leaves_a_matched_row_alone_that_no_clause_wants() -> None:
    rows = [row(1, "a", 1), row(2, None, 1)]
    done = merge(row(1, "x", 0), row(2, "y", 0), update_condition=IsNull("name")).after(rows)
    assert done == [row(1, "a", 1), row(2, "y!", 1)]


def test_a_merge_joins_within_a_partition() -> None:
    rows = [row(1, "a", 1, "mon"), row(1, "b", 1, "tue")]
    done = merge(row(1, "x", 1, "tue"), columns=IN_DAYS).after(rows)
    assert done == [row(1, "a", 1, "mon"), row(1, "x!", 1, "tue")]


def test_rows_without_a_partition_value_are_a_partition_of_their_own() -> None:
    rows = [{"id": 1, "name": "a", "amount": 1, "hour": None}, {"id": 2, "name": "b", "amount": 1, "hour": 7}]
    columns = Kind.PARTITIONED_BY_NUMBER.columns
    assert InsertSelect(columns, Compare("id", "=", 1), 0, overwrite=True).after(rows) == [rows[1], rows[0]]
    assert Delete(Compare("hour", "<>", 7)).after(rows) == rows
    assert Merge(columns, (dict(rows[0]),), ALWAYS, (), ALWAYS).after(rows) == [*rows, rows[0]]
    minor = Compact("minor", Place("hour", None)).sql("t")
    assert minor == "ALTER TABLE t PARTITION (hour = '__HIVE_DEFAULT_PARTITION__') COMPACT 'minor'"
    assert Place("hour", 7).sql() == " PARTITION (hour = 7)"


def test_the_remainder_has_the_sign_of_the_dividend() -> None:
    assert Remainder("id", 2, 1).holds(row(-7)) is False
    assert Remainder("id", 2, 1).holds(row(7)) is True


def test_the_text_of_a_program_is_what_is_run() -> None:
    assert (
        Insert((row(1, "a", None, "mon"),), MONDAY).sql("t")
        == "INSERT INTO t PARTITION (day = 'mon') VALUES (1, 'a', NULL)"
    )
    assert (
        Delete(Not(Compare("name", "<=>", None))).sql("t") == "DELETE FROM t WHERE NOT (name <=> cast(NULL as string))"
    )
    assert merge(row(1, None, 2), row(3, "c", 4)).sql("d.t") == (
        "MERGE INTO d.t t USING (SELECT stack(2, 1, cast(NULL as string), 2, 3, 'c', 4) "
        "AS (id, name, amount)) s ON t.id = s.id WHEN MATCHED AND t.amount > 5 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET name = concat(s.name, '!') "
        "WHEN NOT MATCHED AND s.amount < 3 THEN INSERT VALUES (s.id, s.name, s.amount)"
    )
