"""Each state is applied once: runs that die, runs that wake up late, two runs that meet.

The target itself decides. What our record says may be older than the target, when a run died before it could note what
it did, and is never newer.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import MirrorConflictError
from airflow_hive_acid.format.mirrors import MirrorState
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG
from airflow_hive_acid.metastore.schema.mirrors import HIVE_ACID_MIRROR
from airflow_hive_acid.spark.mirrors.delta import DeltaTarget
from airflow_hive_acid.spark.mirrors.iceberg import IcebergTarget
from tests.mirror.conftest import ACID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.mirror.conftest import Mirroring

pytestmark = pytest.mark.mirror
_numbers = itertools.count()


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture(params=["iceberg", "delta"])
def target(request: pytest.FixtureRequest, mirror_home: Path) -> str:
    if request.param == "delta":
        return f"delta:{mirror_home}/once/t{next(_numbers)}"
    number = next(_numbers)
    return f"iceberg:{('ice', 'sq')[number % 2]}.once.t{number}"


@pytest.fixture(params=[["id"], []], ids=["key", "row_ids"])
def key(request: pytest.FixtureRequest) -> list[str]:
    return request.param


@pytest.fixture
def m(mirroring: Mirroring) -> Mirroring:
    """A table with rows of three write ids."""
    mirroring.sql(f"CREATE TABLE t (id int, s string) {ACID}", "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')",
                  "UPDATE t SET s = 'a' WHERE id = 2", "DELETE FROM t WHERE id = 1")  # fmt: skip
    return mirroring


def change(m: Mirroring, id_: int) -> None:
    """One commit that inserts, and one that updates and deletes."""
    m.sql(f"INSERT INTO t VALUES ({id_}, 'new'), ({id_ + 1}, 'new')")
    m.sql(f"UPDATE t SET s = 'changed' WHERE id = {id_}", f"DELETE FROM t WHERE id = {id_ + 1}")
    m.sql(f"UPDATE t SET s = concat(s, '{id_}') WHERE id IN (2, 3)")


def before_once(patch: pytest.MonkeyPatch, of: type, name: str, do: Callable[[], None]) -> None:
    """Do something the next time that a method is called, before it does its work."""
    original = getattr(of, name)

    def first(*arguments: Any, **more: Any) -> Any:
        patch.setattr(of, name, original)
        do()
        return original(*arguments, **more)

    patch.setattr(of, name, first)


def die() -> None:
    raise Killed


def places(target: str, todo: str) -> list[tuple[type, str]]:
    """Where a run is stopped: before it writes, and for Iceberg between its branch and the commit that shows it."""
    if target.startswith("delta"):
        return [(DeltaTarget, "replace" if todo == "bootstrap" else "merge"), (DeltaTarget, "_once")]
    if todo == "bootstrap":
        return [(IcebergTarget, "replace"), (IcebergTarget, "_writer")]
    return [(IcebergTarget, "merge"), (IcebergTarget, "_through_branch"), (IcebergTarget, "_java_map")]


@pytest.mark.parametrize("todo", ["bootstrap", "follow"])
def test_a_run_that_dies_before_its_commit_leaves_the_target_as_it_was(
    m: Mirroring, target: str, todo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ["id"]
    rows: list[tuple[Any, ...]] | None = None
    if todo == "follow":
        m.follow(target, key, "bootstrap")
        rows = m.in_target(target)
        change(m, 10)
    for of, name in places(target, todo):
        before_once(monkeypatch, of, name, die)
        with pytest.raises(Killed):
            m.run(target, key)
        if rows is not None:
            assert m.in_target(target) == rows
    m.follow(target, key, todo)
    if target.startswith("iceberg"):
        m.in_target(target)  # a session knows a table by heart
        refs = m.spark.sql(f"SELECT name FROM {target.partition(':')[2]}.refs").collect()
        assert [row.name for row in refs] == ["main"]


@pytest.mark.parametrize("then", ["v", "s"], ids=["another_name", "the_old_one"])
def test_a_run_that_dies_behind_its_change_of_columns_is_in_no_later_ones_way(
    m: Mirroring, mirror_home: Path, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"iceberg:ice.once.t{next(_numbers)}"
    m.follow(target, ["id"], "bootstrap")
    m.sql("ALTER TABLE t CHANGE s u string")
    before_once(monkeypatch, IcebergTarget, "_refreshed", die)
    with pytest.raises(Killed):
        m.run(target)
    m.sql(f"ALTER TABLE t CHANGE u {then} string", f"INSERT INTO t (id, {then}) VALUES (7, 'later')")
    m.follow(target, todo="bootstrap")


@pytest.mark.parametrize("todo", ["bootstrap", "follow"])
def test_a_run_that_dies_after_its_commit_is_found_in_the_target(
    m: Mirroring, target: str, todo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is older than the target; the next run asks the target, and applies nothing twice."""
    key: list[str] = []
    if todo == "follow":
        m.follow(target, key, "bootstrap")
        change(m, 10)
    before_once(monkeypatch, type(m.client.mirrors), "note_state", die)
    with pytest.raises(Killed):
        m.run(target, key)
    rows, known = m.in_target(target), m.client.mirrors.find("default.t", target)
    report = m.run(target)
    assert (report.todo, report.spark) == ("nothing", True)
    assert m.in_target(target) == rows
    found = m.client.mirrors.find("default.t", target)
    assert (known.sequence, found.sequence) == ((0, 1) if todo == "bootstrap" else (1, 2))
    m.same(target)
    change(m, 20)
    m.follow(target)


def test_a_source_that_was_restored_and_has_grown_past_the_mirror_is_copied_again(m: Mirroring, target: str) -> None:
    """Its write ids are the target's, and of other rows; the record is that of the backup."""
    m.follow(target, [], "bootstrap")
    backup = m.client.mirrors.find("default.t", target)
    change(m, 10)
    m.follow(target)
    lost = MirrorState.parse(m.client.mirrors.find("default.t", target).state).event
    change(m, 20)
    restored = {"HMI_SEQUENCE": backup.sequence, "HMI_WRITEID": backup.write_id, "HMI_STATE": backup.state}
    with m.client.database.transaction() as connection:
        connection.execute(sa.update(HIVE_ACID_MIRROR).values(restored))
        anew = sa.update(NOTIFICATION_LOG).where(NOTIFICATION_LOG.c.EVENT_ID == lost[0])
        connection.execute(anew.values(EVENT_TIME=lost[1] + 3600))
    report = m.follow(target, todo="bootstrap")
    assert "restored from a backup" in report.reason
    change(m, 30)
    m.follow(target)


@pytest.mark.parametrize(("todo", "late"), [("bootstrap", "older"), ("follow", "same"), ("follow", "older")])
def test_a_run_that_wakes_up_late_changes_nothing(
    m: Mirroring, other: Mirroring, target: str, todo: str, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs from the same state, and the later one is the older:

    t1  A looks at the target, and sleeps in front of its commit
    t2                                   B follows the same write ids; older: and those of another commit, too
    t3  A wakes up: its commit is refused
    """
    ids = itertools.count(10, 10)
    m.follow(target, ["id"], "bootstrap")
    change(m, next(ids))

    def meanwhile() -> None:
        other.run(target)
        if late == "older":
            change(other, next(ids))
            other.run(target)

    for of, name in places(target, todo):
        before_once(monkeypatch, of, name, meanwhile)
        # Delta leaves out the commit of a number that is taken; when it is of the very same state, nobody is told.
        is_same = target.startswith("delta") and late == "same"
        refused = pytest.raises(MirrorConflictError, match="nothing of this run is in it")
        with contextlib.nullcontext() if is_same else refused:
            m.run(target, bootstrap=todo == "bootstrap")
        monkeypatch.undo()
        m.run(target)
        m.same(target)
        change(m, next(ids))


def test_states_are_counted_and_name_their_write_ids(m: Mirroring, target: str, key: list[str]) -> None:
    m.follow(target, key, "bootstrap")
    change(m, 10)
    m.follow(target)
    record = m.client.mirrors.find("default.t", target)
    state = MirrorState.parse(record.state)
    assert (record.sequence, state.sequence, record.write_id, state.key) == (2, 2, 7, tuple(key))
    assert state.source.write_ids == "default.t:7:9223372036854775807::"
    if target.startswith("iceberg"):
        place = target.partition(":")[2]
        properties = {row.key: row.value for row in m.spark.sql(f"SHOW TBLPROPERTIES {place}").collect()}
        assert properties["hive-acid.mirror.write-ids"] == state.source.write_ids
        summaries = [row[0] for row in m.spark.sql(f"SELECT summary FROM {place}.snapshots ORDER BY committed_at")
                     .collect()]  # fmt: skip
        assert [s["hive-acid.mirror.sequence"] for s in summaries] == ["1", "2"]
        assert [row[0] for row in m.spark.sql(f"SELECT name FROM {place}.refs").collect()] == ["main"]


def test_two_mirrors_of_a_table_do_not_know_each_other(m: Mirroring, target: str) -> None:
    second = f"{target}_b"
    m.follow(target, ["id"], "bootstrap")
    m.follow(second, [], "bootstrap")
    change(m, 10)
    m.follow(second)
    m.follow(target)


def test_two_first_runs_make_one_copy(
    m: Mirroring, other: Mirroring, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither has found a target; whoever comes second finds that it is there."""
    of = DeltaTarget if target.startswith("delta") else IcebergTarget
    before_once(monkeypatch, of, "replace", lambda: other.run(target, ["id"]))
    refused = pytest.raises(MirrorConflictError, match="nothing of this run is in it")
    with contextlib.nullcontext() if target.startswith("delta") else refused:
        m.run(target, ["id"])
    m.same(target)
    assert m.client.mirrors.find("default.t", target).sequence == 1


def test_an_empty_table_has_an_empty_mirror(mirroring: Mirroring, target: str, key: list[str]) -> None:
    m = mirroring
    m.sql(f"CREATE TABLE t (id int, s string) {ACID}")
    assert m.follow(target, key, "bootstrap").write_id == 0
    # An aborted write id is one that has ended, too.
    with pytest.raises(ZeroDivisionError), m.engine.begin({"default.t": "insert"}):
        raise ZeroDivisionError
    assert m.follow(target).write_id == 1
    m.sql("INSERT INTO t VALUES (1, 'x')")
    assert m.follow(target).inserted == 1


def test_a_write_of_which_nothing_came_is_a_state_all_the_same(m: Mirroring) -> None:
    target = f"iceberg:ice.once.t{next(_numbers)}"
    m.follow(target, ["id"], "bootstrap")
    written = IcebergTarget(m.spark, target.partition(":")[2])
    state = written.look().state
    rows = m.in_target(target)
    written._through_branch(replace(state, sequence=2), lambda _branch: None)
    found = IcebergTarget(m.spark, target.partition(":")[2]).look()
    assert (found.sequence, found.strange) == (2, "")
    assert m.in_target(target) == rows
    m.sql("DELETE FROM t WHERE id = 2")
    m.follow(target)


def test_a_branch_that_another_run_swept_away_is_no_way_around_it(
    m: Mirroring, other: Mirroring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A is about to write to its branch when B begins, sweeps it away, follows, and commits."""
    target = f"iceberg:sq.once.t{next(_numbers)}"
    m.follow(target, ["id"], "bootstrap")
    change(m, 10)
    original = IcebergTarget._summary

    def first(*arguments: Any) -> Any:
        monkeypatch.setattr(IcebergTarget, "_summary", original)
        other.run(target)
        return original(*arguments)

    monkeypatch.setattr(IcebergTarget, "_summary", first)
    with pytest.raises(MirrorConflictError):
        m.run(target)
    m.same(target)
