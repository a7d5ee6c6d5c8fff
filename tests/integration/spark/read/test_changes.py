"""Changes of a range of write ids, read back: applied to what was there before they give what is there afterwards."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import ChangesNoLongerAvailableError
from airflow_hive_acid.format.changes import Changes
from airflow_hive_acid.format.jobs import View
from airflow_hive_acid.spark.read.changes import read_changes
from airflow_hive_acid.spark.read.deleted_rows import read_view

if TYPE_CHECKING:
    from collections.abc import Callable

Row = tuple[Any, ...]
GONE = ("delete", "update_before")


def changes(table: Any, first: int, last: int, **more: Any) -> list[Row]:
    """Kind, write id and the row, in the order of write ids."""
    frame = read_changes(table.spark.newSession(), table.snapshot(), Changes(first, last, **more))
    found = [(r["change__kind"], r["change__writeid"], tuple(r)[:-4]) for r in frame.collect()]
    return sorted(found, key=lambda c: (c[1] or 0, c[0], repr(c[2])))


def applied(before: Counter[Row], found: list[Row]) -> Counter[Row]:
    after = Counter(before)
    after.subtract(row for kind, _, row in found if kind in GONE)
    after.update(row for kind, _, row in found if kind not in GONE)
    return Counter({row: n for row, n in after.items() if n})


def a_step(table: Any, rng: random.Random, kind: str) -> None:
    """One transaction of a kind, or none that counts."""
    low, high = sorted(rng.sample(range(40), 2))
    rows = f"select cast(id as int) id, cast(id * {rng.randint(1, 99)} as int) n"
    where = f"id between {low} and {high}"
    match kind:
        case "overwrite":
            table.insert(f"{rows} from range({low}, {high})", overwrite=True)
        case "update":
            table.update(where, n="n + 1")
        case "delete":
            table.delete(where)
        case "aborted":
            table.insert(f"{rows} from range({low}, {high})")
            table.aborted.add(table.high)
        case "several":
            own = table.next_write_id()
            table.insert(f"{rows} from range({low}, {high})", own, 0)
            table.update(where, own, (1, 2), n="n + 1000")
        case "minor":
            table.compact("minor")


@pytest.mark.parametrize("seed", range(int(os.environ.get("HIVE_ACID_CHANGE_PROGRAMS", "1"))))
def test_changes_applied_to_the_old_state_give_the_new_one(acid_table: Callable[..., Any], seed: int) -> None:
    """A random program; between two random places all its changes, over the whole of it the net ones."""
    rng = random.Random(seed)
    table = acid_table("id int, n int")
    table.insert("select cast(id as int) id, cast(id as int) n from range(30)")
    kinds = ["several", "aborted", rng.choice(["update", "delete"]), "minor"]
    rng.shuffle(kinds)
    kinds.insert(rng.randint(1, 3), "overwrite")
    first = rng.randint(0, 2)
    states = {0: Counter[Row](), table.high: Counter(table.rows())}
    for number, kind in enumerate(kinds):
        a_step(table, rng, kind)
        if number == first or kind is kinds[-1]:
            states[table.high] = Counter(table.rows())
    places = sorted(states)
    for old, new, net in ((places[-2], places[-1], False), (0, places[-1], True)):
        found = changes(table, old + 1, new, net=net)
        assert applied(states[old], found) == states[new], (kinds, old, new, net)


def test_updates_are_paired_by_key_and_a_txn_hides_what_it_undoes(acid_table: Callable[..., Any]) -> None:
    table = acid_table("id int, name string")
    table.insert("select * from values (1, 'a'), (2, 'b'), (3, 'c'), (3, 'c') as v(id, name)")
    table.update("id = 1", name="'A'")
    own = table.next_write_id()
    table.insert("select 9, 'x'", own, 0)
    table.delete("id = 9", own, 1)
    table.update("id >= 3", name="'C'")
    table.delete("id = 2")
    assert changes(table, 2, 5) == [
        ("delete", 2, (1, "a")), ("insert", 2, (1, "A")),
        ("delete", 4, (3, "c")), ("delete", 4, (3, "c")), ("insert", 4, (3, "C")), ("insert", 4, (3, "C")),
        ("delete", 5, (2, "b")),
    ]  # fmt: skip
    keyed = changes(table, 2, 5, key=("id",))
    assert [c for c in keyed if c[1] == 2] == [("update_after", 2, (1, "A")), ("update_before", 2, (1, "a"))]
    assert {kind for kind, write_id, _ in keyed if write_id == 4} == {"insert", "delete"}, "the key is there twice"
    assert changes(table, 1, 5, net=True) == [
        ("insert", 2, (1, "A")), ("insert", 4, (3, "C")), ("insert", 4, (3, "C"))
    ]  # fmt: skip
    view = View("v", table.snapshot(), pseudo_columns=True, changes=Changes(5, 5, txns={"5": 77}))
    (row,) = read_view(table.spark.newSession(), view).collect()
    assert (row["change__txnid"], row["row__id"]["writeid"], row["row__is__deleted"]) == (77, 1, True)

    table.compact("minor")
    assert changes(table, 2, 5, key=("id",)) == keyed, "a minor compaction keeps every event"
    table.compact("major")
    with pytest.raises(ChangesNoLongerAvailableError, match=r"write id 2 to 5 .* none so far are still available"):
        changes(table, 2, 5)
    table.insert("select 10, 'y'")
    with pytest.raises(ChangesNoLongerAvailableError, match="those of the write ids 6 to 6 are still available"):
        changes(table, 5, 6)
    assert changes(table, 6, 6) == [("insert", 6, (10, "y"))]
    assert changes(table, 7, 6) == []


def test_changes_of_an_insert_only_table(acid_table: Callable[..., Any]) -> None:
    table = acid_table("id int")

    class InsertOnly(type(table)):  # type: ignore[misc]
        def snapshot(self, own: int | None = None, **more: Any) -> Any:
            return super().snapshot(own, **{"insert_only": True, **more})

    table.__class__ = InsertOnly
    table.insert("select 1")
    table.insert("select 2")
    table.insert("select 3", overwrite=True)
    table.insert("select 4")
    assert changes(table, 2, 4) == [
        ("insert", 2, (2,)), ("delete", 3, (1,)), ("delete", 3, (2,)), ("insert", 3, (3,)), ("insert", 4, (4,)),
    ]  # fmt: skip
    assert changes(table, 2, 4, net=True) == [("delete", 3, (1,)), ("insert", 3, (3,)), ("insert", 4, (4,))]
    table.insert("select 5")
    table.compact("minor")
    with pytest.raises(ChangesNoLongerAvailableError, match="merged rows of the write ids 4 to 5"):
        changes(table, 5, 5)
    assert changes(table, 4, 5) == [("insert", None, (4,)), ("insert", None, (5,))]


@pytest.mark.parametrize(
    "partitioned_by", [pytest.param("", marks=pytest.mark.repeats("a table without partitions")), "p int"]
)
def test_deleted_rows_are_told_with_no_more_columns_than_are_asked_for(
    acid_table: Callable[..., Any], partitioned_by: str
) -> None:
    """By all columns, by a key, and by the row's id alone, for which no row is looked for."""
    table = acid_table("id int, name string", partitioned_by=partitioned_by)
    more = ", cast(id % 2 as int)" if partitioned_by else ""
    table.insert(f"select cast(id as int), concat('n', id){more} from range(8)")  # noqa: S608 - texts of this file
    table.update("id in (1, 2)", name="'A'")
    own = table.next_write_id()
    table.insert(f"select cast(id as int), 'x'{more} from range(100, 102)", own, 0)  # noqa: S608
    table.delete("id = 100", own, 1)
    table.delete("id in (2, 5)")

    for net in (False, True):
        whole = told(table, 2, net, None)
        assert {row["change__kind"] for row in whole} == {"insert", "delete"}
        for columns in (("id",), ()):
            assert told(table, 2, net, columns) == without(whole, columns, net)


def test_deleted_rows_are_told_alike_where_files_hold_rows_and_deletes_of_several_write_ids(
    acid_table: Callable[..., Any],
) -> None:
    """The base has rows of two write ids, the deletes of two more were merged, and some were never committed."""
    table = acid_table("id int, name string")
    table.insert("select cast(id as int), concat('n', id) from range(20)")
    table.insert("select cast(id as int), concat('n', id) from range(20, 40)")
    table.compact("major")
    table.update("id % 7 = 1", name="'A'")
    table.delete("id % 5 = 2")
    table.compact("minor")
    table.delete("id = 30")
    table.aborted.add(table.high)
    table.delete("id in (8, 31)")  # 8 was updated
    for first, gone in ((3, 14), (5, 2)):
        whole = told(table, first, True, None)
        assert sum(row["change__kind"] == "delete" for row in whole) == gone
        for columns in (("id",), ("name",), ()):
            assert told(table, first, True, columns) == without(whole, columns, True), (first, columns)


def told(table: Any, first: int, net: bool, columns: tuple[str, ...] | None) -> list[dict[str, Any]]:
    wanted = Changes(first, table.high, net=net, told=columns)
    frame = read_changes(table.spark.newSession(), table.snapshot(), wanted)
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=repr)


def without(rows: list[dict[str, Any]], columns: tuple[str, ...], net: bool) -> list[dict[str, Any]]:
    """Deleted rows with nothing but these of their data columns; net with some not by whom they were deleted either."""
    gone = {"id", "name"} - set(columns) | ({"change__writeid"} if net and columns else set())
    found = [
        {name: None if name in gone and row["change__kind"] == "delete" else value for name, value in row.items()}
        for row in rows
    ]
    return sorted(found, key=repr)
